//! An error on its way out, and the errors that concern no flow: what cannot be read, and what goes wrong on our side.
//! What each flow's errors become is in the modules below.

pub mod api;
pub mod contents;
pub mod oauth;
pub mod pages;
pub mod sso;
pub mod support;

use std::fmt;

use axum::{
    Json,
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use service_api::{
    errors::{ErrorBody, ErrorCode, ErrorCode::*},
    ids::ConnectionId,
};

use self::pages::PageProblem;
use crate::database;

pub(crate) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// An error on its way out; the edge renders it, because only the edge knows the request's id.
#[derive(Clone, Debug)]
pub struct ApiError {
    code: ErrorCode,
    description: String,
    details: Option<Value>,
    headers: Vec<(HeaderName, String)>,
    /// What a page says instead of the description.
    problem: Option<Box<PageProblem>>,
    /// What really happened, for the log only.
    cause: Option<String>,
}

/// An error that no flow decides: the node is busy, slow, fenced or broken, or it does not read the request's head.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum EdgeError {
    #[error("The service is busy. Try again in a moment.")]
    Busy,
    #[error("The service didn't respond in time. Try again in a moment.")]
    TooSlow,
    /// The database looks restored from a backup, or this node has not compared it yet.
    #[error("The service is being restored. Try again later.")]
    Fenced,
    #[error("The service failed. Report the request_id to its operator.")]
    Defect,
    #[error("The headers are too large. Send at most 16 kB in total.")]
    HeadTooLarge,
    #[error("The URL is too long. Send at most 8 kB.")]
    UriTooLong,
}

/// A field of a body that the endpoint does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// The name, if it can be repeated.
    pub name: Option<String>,
    /// The fields that the endpoint knows, if it knows any.
    pub known: Option<String>,
}

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "The body has the unknown field {name}.")?,
            None => f.write_str("The body has an unknown field.")?,
        }
        self.known.iter().try_for_each(|known| write!(f, " Known fields: {known}."))
    }
}

/// The service cannot parse the request.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MalformedRequest {
    #[error("{0}")]
    Body(String),
    #[error("{0}")]
    Query(String),
    /// A required field of the body is missing.
    #[error("The field {0} is missing.")]
    MissingField(String),
    #[error("{0}")]
    UnknownField(UnknownField),
    /// The media type that the endpoint takes.
    #[error("This Content-Type isn't supported. Send {0}.")]
    MediaType(&'static str),
    /// The largest size that the endpoint takes, in bytes.
    #[error("The body is too large. Send at most {0} bytes.")]
    TooLarge(usize),
}

pub(crate) fn error(code: ErrorCode, description: impl Into<String>) -> ApiError {
    ApiError { code, description: description.into(), details: None, headers: Vec::new(), problem: None, cause: None }
}

impl ApiError {
    pub(crate) fn with(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// This error with another sentence.
    pub(crate) fn saying(mut self, text: String) -> Self {
        self.description = text;
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(crate) fn headers(&self) -> impl Iterator<Item = (&HeaderName, HeaderValue)> {
        self.headers.iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(value).ok()?)))
    }

    /// On a page, the error reads like this.
    pub(crate) fn on_page(mut self, problem: PageProblem) -> Self {
        self.problem = Some(Box::new(problem));
        self
    }

    pub(crate) fn problem(&self) -> Option<&PageProblem> {
        self.problem.as_deref()
    }

    pub(crate) const fn code(&self) -> ErrorCode {
        self.code
    }

    /// What happened and what to do next, in a sentence or two.
    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    pub(crate) fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Which field is wrong, for programs.
    pub(crate) fn with_fields(mut self, field: &str, message: &str) -> Self {
        self.details = Some(json!({ "fields": { field: message } }));
        self
    }

    /// How many seconds old a sign-in may be, for programs.
    pub(crate) fn with_max_age(mut self, seconds: i64) -> Self {
        self.details = Some(json!({ "maxAge": seconds }));
        self
    }

    /// How the user has to sign in, for programs.
    pub(crate) fn with_sign_in_method(mut self, method: &str) -> Self {
        self.details.get_or_insert_with(|| json!({}))["signInMethod"] = method.into();
        self
    }

    /// What the workspace requires, and the account of the user does not, for programs.
    pub(crate) fn with_workspace_requirement(mut self, what: &str) -> Self {
        self.details = Some(json!({ "workspaceRequires": what }));
        self
    }

    /// The connection through which the user has to sign in, for programs.
    pub(crate) fn with_connection(mut self, id: ConnectionId) -> Self {
        if let Some(details) = &mut self.details {
            details["connectionId"] = id.to_string().into();
        }
        self
    }

    pub(crate) fn because(mut self, reason: &str) -> Self {
        self.details = Some(json!({ "reason": reason }));
        self
    }
}

impl From<EdgeError> for ApiError {
    fn from(refused: EdgeError) -> Self {
        let text = refused.to_string();
        let later = |text| error(TemporarilyUnavailable, text).with(header::RETRY_AFTER, "1");
        match refused {
            EdgeError::Busy | EdgeError::Fenced => later(text).on_page(PageProblem::Refused),
            EdgeError::TooSlow => later(text),
            EdgeError::Defect => error(ServerError, text),
            EdgeError::HeadTooLarge => error(HeadersTooLarge, text),
            EdgeError::UriTooLong => error(UriTooLong, text),
        }
    }
}

impl From<MalformedRequest> for ApiError {
    fn from(malformed: MalformedRequest) -> Self {
        let text = malformed.to_string();
        match malformed {
            MalformedRequest::Body(_) | MalformedRequest::Query(_) => error(InvalidRequest, text),
            MalformedRequest::MissingField(name) => error(ValidationFailed, text).with_fields(&name, "is missing"),
            MalformedRequest::UnknownField(UnknownField { name, .. }) => {
                name.iter().fold(error(InvalidRequest, text), |error, name| error.with_fields(name, "is unknown"))
            }
            MalformedRequest::MediaType(_) => error(UnsupportedMediaType, text),
            MalformedRequest::TooLarge(_) => error(PayloadTooLarge, text).with(header::CONNECTION, "close"),
        }
    }
}

#[must_use]
pub fn not_found() -> ApiError {
    error(NotFound, "This path doesn't exist. The API reference is at /docs.")
}

#[must_use]
pub fn method_not_allowed() -> ApiError {
    error(MethodNotAllowed, "This path doesn't support this method. The Allow header lists those it supports.")
}

impl From<database::Error> for ApiError {
    fn from(error: database::Error) -> Self {
        anyhow::Error::from(error).into()
    }
}

/// A database that is not available leaves an unknown outcome, and a retry may succeed. Anything else is a defect.
///
/// Only an error that holds a [`database::Error`] itself is recognized: the error of a flow has to be mapped by its own
/// variants.
impl From<anyhow::Error> for ApiError {
    fn from(broken: anyhow::Error) -> Self {
        let refused = match broken.downcast_ref::<database::Error>() {
            Some(database::Error::Unavailable(_)) => EdgeError::TooSlow,
            _ => EdgeError::Defect,
        };
        Self { cause: Some(format!("{broken:#}")), ..refused.into() }
    }
}

impl ApiError {
    pub(crate) fn render(self, request_id: &str) -> Response {
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
