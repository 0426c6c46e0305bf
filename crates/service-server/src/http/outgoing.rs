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
    http::errors::{ApiError, EdgeError},
    node_limits::network_places::{Holder, PlacePermit},
};

/// Smaller responses fit into the buffers of a connection and take no places.
const MIN_COUNTED_BYTES: u64 = 64 * 1024;
/// The size of the pieces that are passed to the connection. The next piece follows when the client has read this one.
const PIECE_BYTES: usize = 16 * 1024;
/// The number of bytes for one place.
const BYTES_PER_PLACE: u64 = 1024;

/// Takes places for a large response until it is written; 503 if there are none.
pub async fn take_places(app: &App, holder: Holder, response: Response) -> Response {
    match response.body().size_hint().exact() {
        Some(bytes) if bytes > MIN_COUNTED_BYTES => Box::pin(count(app, holder, response, bytes)).await,
        _ => response,
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
