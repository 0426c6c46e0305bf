//! A ZIP file as a response, which is written while it is sent.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use hyper::body::Frame;
use service_api::account_exports::ZipFile;

use crate::{
    flows::account::export::{DownloadBody, Pieces},
    http::operation::Reply,
};

/// Marks a response that takes longer than others to write: it is made while the client reads it, and has a deadline of its own.
#[derive(Clone, Copy, Debug)]
pub struct LongResponse;

/// A ZIP file that a browser saves.
pub struct Download(Response);

impl Download {
    #[must_use]
    pub fn new(body: DownloadBody) -> Self {
        let name = format!("account-data-{}.zip", body.created_at.strftime("%Y-%m-%d"));
        let mut response = zip(Body::new(PiecesBody(body.pieces)));
        if let Ok(disposition) = HeaderValue::try_from(format!("attachment; filename=\"{name}\"")) {
            response.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
        }
        response.extensions_mut().insert(LongResponse);
        Self(response)
    }

    /// The response to a `HEAD`.
    #[must_use]
    pub fn empty() -> Self {
        Self(zip(Body::empty()))
    }

    /// The response of a page.
    #[must_use]
    pub fn into_page(self) -> Response {
        self.0
    }
}

fn zip(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    // nginx would read ahead of a slow client, and keep the rest in a file.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    response
}

impl Reply<ZipFile> for Download {
    fn into_response(mut self, status: StatusCode) -> Response {
        *self.0.status_mut() = status;
        self.0
    }
}

/// The pieces of a file as a body. An error ends the connection, so that the client does not take the file for complete.
struct PiecesBody(Pieces);

impl HttpBody for PiecesBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_next(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
