//! Large responses take places until the client has read them.
//!
//! A request releases its slot when its response is complete. A large response then stays in memory until the client
//! has read it, so it takes places of its own.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody, to_bytes},
    response::Response,
};
use hyper::body::{Frame, SizeHint};

use crate::{
    app::App,
    http::{
        download::LongResponse,
        errors::{ApiError, EdgeError},
    },
    node_limits::network_places::{Holder, PlacePermit},
};

/// Smaller responses fit into the buffers of a connection and take no places.
const MIN_COUNTED_BYTES: u64 = 64 * 1024;
/// The size of the pieces that are passed to the connection. The next piece follows when the client has read this one.
const PIECE_BYTES: usize = 16 * 1024;
/// The number of bytes for one place.
const BYTES_PER_PLACE: u64 = 1024;
/// The places of a response that is made while the client reads it: for the pieces that wait, and the page that is compressed.
const LONG_RESPONSE_PLACES: usize = 1024;

/// Takes places for a large response until it is written; 503 if there are none.
pub async fn take_places(app: &App, holder: Holder, response: Response) -> Response {
    match response.body().size_hint().exact() {
        Some(bytes) if bytes > MIN_COUNTED_BYTES => Box::pin(count(app, holder, response, bytes)).await,
        None if response.extensions().get::<LongResponse>().is_some() => hold(app, holder, response),
        _ => response,
    }
}

/// Takes places for what is in memory of a response that is made while the client reads it.
fn hold(app: &App, holder: Holder, response: Response) -> Response {
    match app.outgoing.take(holder, LONG_RESPONSE_PLACES) {
        Some(place) => response.map(|body| Body::new(HeldBody { body, _place: place })),
        None => ApiError::from(EdgeError::Busy).into(),
    }
}

/// A body that holds places until it ends.
struct HeldBody {
    body: Body,
    _place: PlacePermit,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }
}

async fn count(app: &App, holder: Holder, response: Response, bytes: u64) -> Response {
    let weight = usize::try_from(bytes.div_ceil(BYTES_PER_PLACE)).unwrap_or(usize::MAX);
    let Some(place) = app.outgoing.take(holder, weight) else { return ApiError::from(EdgeError::Busy).into() };
    let (parts, body) = response.into_parts();
    match to_bytes(body, usize::MAX).await {
        Ok(bytes) => Response::from_parts(parts, Body::new(CountedBody { bytes, place: Some(place) })),
        Err(_) => ApiError::from(EdgeError::Defect).into(),
    }
}

/// A body that is sent in pieces, and releases its places with the last one.
struct CountedBody {
    bytes: Bytes,
    place: Option<PlacePermit>,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.bytes.is_empty() {
            self.place = None;
            return Poll::Ready(None);
        }
        let length = self.bytes.len().min(PIECE_BYTES);
        let piece = self.bytes.split_to(length);
        if self.bytes.is_empty() {
            self.place = None;
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}
