//! An error on its way out, and the errors that concern no flow: what cannot be read, and what goes wrong on our side.
//! What each flow's refusals look like is in `refusals.rs`.

use axum::{
    Json,
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use service_api::errors::{ErrorBody, ErrorCode, ErrorCode::*};

use crate::{database, failure::Failure};

/// An error on its way out; the edge renders it, because only the edge knows the request's id.
#[derive(Clone, Debug)]
pub struct ApiError {
    code: ErrorCode,
    description: String,
    details: Option<Value>,
    headers: Vec<(HeaderName, String)>,
    /// What really happened, for the log and nobody else.
    cause: Option<String>,
}

/// What goes wrong before any flow has begun, or in spite of it.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    Full,
    TooSlow,
    Defect,
    HeadTooLarge,
    UriTooLong,
}

/// A request that cannot be read.
#[derive(Clone, Debug)]
pub enum Unreadable {
    Body(String),
    Query(String),
    MediaType(&'static str),
    TooLarge(usize),
}

pub(super) fn error(code: ErrorCode, description: impl Into<String>) -> ApiError {
    ApiError { code, description: description.into(), details: None, headers: Vec::new(), cause: None }
}

impl ApiError {
    pub(super) fn with(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(super) fn description(&self) -> &str {
        &self.description
    }

    pub(super) fn headers(&self) -> impl Iterator<Item = (&HeaderName, HeaderValue)> {
        self.headers.iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(value).ok()?)))
    }

    pub(super) fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Which field is wrong, for programs.
    pub(super) fn with_fields(mut self, field: &str, message: &str) -> Self {
        self.details = Some(json!({ "fields": { field: message } }));
        self
    }

    pub(super) fn because(mut self, reason: &str) -> Self {
        self.details = Some(json!({ "reason": reason }));
        self
    }
}

impl From<Trouble> for ApiError {
    fn from(trouble: Trouble) -> Self {
        let later = |text: &str| error(TemporarilyUnavailable, text).with(header::RETRY_AFTER, "1");
        match trouble {
            Trouble::Full => later("The service is busy; try again in a moment."),
            Trouble::TooSlow => later("The service could not answer in time; try again in a moment."),
            Trouble::Defect => error(ServerError, "The service failed; report the request_id to its operator."),
            Trouble::HeadTooLarge => error(HeadersTooLarge, "Send at most 100 headers, 16 kB together."),
            Trouble::UriTooLong => error(UriTooLong, "The address is too long; send at most 8 kB."),
        }
    }
}

impl From<Unreadable> for ApiError {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Body(what) | Unreadable::Query(what) => error(InvalidRequest, what),
            Unreadable::MediaType(expected) => {
                let text = format!("The body's Content-Type is not understood; send {expected}.");
                error(UnsupportedMediaType, text)
            }
            Unreadable::TooLarge(limit) => {
                let text = format!("The body is too large; send at most {limit} bytes.");
                error(PayloadTooLarge, text).with(header::CONNECTION, "close")
            }
        }
    }
}

pub async fn not_found() -> ApiError {
    error(NotFound, "There is nothing at this address.")
}

pub async fn method_not_allowed() -> ApiError {
    error(MethodNotAllowed, "This address does not take this method; the Allow header lists those it takes.")
}

impl<R> From<Failure<R>> for ApiError
where
    Self: From<R>,
{
    fn from(failure: Failure<R>) -> Self {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Broken(broken) => broken.into(),
        }
    }
}

/// Trouble with the database has an unknown outcome and may pass; anything else is a defect of ours.
impl From<anyhow::Error> for ApiError {
    fn from(broken: anyhow::Error) -> Self {
        let trouble = match broken.downcast_ref::<database::Error>() {
            Some(database::Error::Unavailable(_)) => Trouble::TooSlow,
            _ => Trouble::Defect,
        };
        Self { cause: Some(format!("{broken:#}")), ..trouble.into() }
    }
}

impl ApiError {
    pub(super) fn render(self, request_id: &str) -> Response {
        let status = self.status();
        let body = ErrorBody {
            error: self.code,
            error_description: self.description,
            request_id: request_id.to_owned(),
            details: self.details,
        };
        let mut response = (status, Json(body)).into_response();
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(self);
        response
    }
}

impl From<ApiError> for Response {
    fn from(error: ApiError) -> Self {
        error.into_response()
    }
}
