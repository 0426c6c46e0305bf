//! What each refusal looks like from outside. Every error the service answers with is on this page.

use axum::{
    Json,
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use service_api::errors::{ErrorBody, ErrorCode, ErrorCode::*};
use service_rules::{bearer, clients, limits::Limited, otp, space};

use crate::{database, failure::Failure, flows};

/// An error on its way out; the edge renders it, because only the edge knows the request's id.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
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

/// A token request whose grant type leads nowhere.
pub enum GrantTypeRefusal {
    Missing,
    Unsupported,
}

fn error(status: u16, code: ErrorCode, description: impl Into<String>) -> ApiError {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    ApiError { status, code, description: description.into(), details: None, headers: Vec::new(), cause: None }
}

impl ApiError {
    fn with(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    fn because(mut self, reason: &str) -> Self {
        self.details = Some(json!({ "reason": reason }));
        self
    }
}

impl From<Trouble> for ApiError {
    fn from(trouble: Trouble) -> Self {
        let later = |text: &str| error(503, TemporarilyUnavailable, text).with(header::RETRY_AFTER, "1");
        match trouble {
            Trouble::Full => later("The service is busy; try again in a moment."),
            Trouble::TooSlow => later("The service could not answer in time; try again in a moment."),
            Trouble::Defect => error(500, ServerError, "The service failed; report the request_id to its operator."),
            Trouble::HeadTooLarge => error(431, HeadersTooLarge, "Send at most 100 headers, 16 kB together."),
            Trouble::UriTooLong => error(414, UriTooLong, "The address is too long; send at most 8 kB."),
        }
    }
}

impl From<Unreadable> for ApiError {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Body(what) | Unreadable::Query(what) => error(400, InvalidRequest, what),
            Unreadable::MediaType(expected) => {
                let text = format!("The body's Content-Type is not understood; send {expected}.");
                error(415, UnsupportedMediaType, text)
            }
            Unreadable::TooLarge(limit) => {
                let text = format!("The body is too large; send at most {limit} bytes.");
                error(413, PayloadTooLarge, text).with(header::CONNECTION, "close")
            }
        }
    }
}

/// A refused bearer token; the challenge says where to get a better one (RFC 6750, RFC 9728).
#[must_use]
pub fn bearer(refusal: bearer::Refusal, base_url: &str) -> ApiError {
    let metadata = format!("resource_metadata=\"{base_url}/.well-known/oauth-protected-resource\"");
    let challenge = |error: ApiError, text: &str| error.with(header::WWW_AUTHENTICATE, format!("Bearer {text}"));
    let invalid = format!("error=\"invalid_token\", {metadata}, scope=\"read\"");
    match refusal {
        bearer::Refusal::Missing => {
            let text = "No access token was sent; send one as `Authorization: Bearer <token>`.";
            challenge(error(401, MissingToken, text), &format!("{metadata}, scope=\"read\""))
        }
        bearer::Refusal::Malformed => {
            error(400, InvalidRequest, "The Authorization header cannot be read; send one bearer token, once.")
        }
        bearer::Refusal::Invalid => {
            challenge(error(401, InvalidToken, "The access token is not valid here; get a new one."), &invalid)
        }
        bearer::Refusal::Expired => {
            let text = "The access token has expired; use the refresh token to get a new one.";
            challenge(error(401, InvalidToken, text), &invalid).because("expired")
        }
        bearer::Refusal::LacksScope(needed) => {
            let scope = needed.as_str();
            let text = format!("The access token lacks the scope {scope}; sign in again and ask for it.");
            let why = format!("error=\"insufficient_scope\", scope=\"{scope}\", {metadata}");
            challenge(error(403, InsufficientScope, text), &why)
        }
    }
}

impl From<space::Refusal> for ApiError {
    fn from(refusal: space::Refusal) -> Self {
        match refusal {
            space::Refusal::NotFound => error(404, NotFound, "There is no such workspace, or you are not in it."),
            space::Refusal::Forbidden => {
                error(403, Forbidden, "Your role in this workspace does not allow this; ask one of its owners.")
            }
        }
    }
}

impl From<Limited> for ApiError {
    fn from(limited: Limited) -> Self {
        let Limited { policy, quota, window_seconds, retry_after } = limited;
        error(429, RateLimited, format!("Too many requests; try again in {retry_after} seconds."))
            .with(header::RETRY_AFTER, retry_after.to_string())
            .with(HeaderName::from_static("ratelimit-policy"), format!("\"{policy}\";q={quota};w={window_seconds}"))
            .with(HeaderName::from_static("ratelimit"), format!("\"{policy}\";r=0;t={retry_after}"))
    }
}

fn not_an_address() -> ApiError {
    error(400, InvalidRequest, "The field email is not an e-mail address that mail can be sent to.")
}

impl From<flows::login_options::Refusal> for ApiError {
    fn from(refusal: flows::login_options::Refusal) -> Self {
        match refusal {
            flows::login_options::Refusal::NotAnAddress => not_an_address(),
            flows::login_options::Refusal::Limited(limited) => limited.into(),
        }
    }
}

impl From<flows::request_otp::Refusal> for ApiError {
    fn from(refusal: flows::request_otp::Refusal) -> Self {
        match refusal {
            flows::request_otp::Refusal::NotAnAddress => not_an_address(),
            flows::request_otp::Refusal::Client(refusal) => refusal.into(),
            flows::request_otp::Refusal::Limited(limited) => limited.into(),
        }
    }
}

impl From<clients::Refusal> for ApiError {
    fn from(refusal: clients::Refusal) -> Self {
        match refusal {
            clients::Refusal::NotThisClient => {
                let text = "The client is unknown, disabled, or authenticates in a way it is not registered for.";
                error(401, InvalidClient, text).with(header::WWW_AUTHENTICATE, "Basic realm=\"service\"")
            }
            clients::Refusal::NotThisGrant => {
                error(400, UnauthorizedClient, "This client may not use this grant type.")
            }
        }
    }
}

impl From<GrantTypeRefusal> for ApiError {
    fn from(refusal: GrantTypeRefusal) -> Self {
        match refusal {
            GrantTypeRefusal::Missing => error(400, InvalidRequest, "The parameter grant_type is missing."),
            GrantTypeRefusal::Unsupported => error(400, UnsupportedGrantType, "This grant type is not supported."),
        }
    }
}

impl From<flows::exchange_otp::Refusal> for ApiError {
    fn from(refusal: flows::exchange_otp::Refusal) -> Self {
        use flows::exchange_otp::Refusal;
        match refusal {
            Refusal::Client(refusal) => refusal.into(),
            Refusal::Unusable(what) => error(400, InvalidRequest, format!("The parameter {what}.")),
            Refusal::Scope => {
                error(400, InvalidScope, "None of the scopes exist; ask for read, write, projects:read and the like.")
            }
            Refusal::Target => error(400, InvalidTarget, "This resource is not served here; leave it out."),
            Refusal::Workspace => {
                let text = "There is no such workspace, or you are not in it; the code still works without it.";
                error(400, InvalidRequest, text)
            }
            Refusal::Code(otp::Refusal::NotAccepted) => {
                error(400, InvalidGrant, "The code is wrong, expired or used up; check it, or ask for a new one.")
            }
            Refusal::Code(otp::Refusal::Limited(limited)) => limited.into(),
        }
    }
}

impl From<flows::projects::ForeignCursor> for ApiError {
    fn from(_: flows::projects::ForeignCursor) -> Self {
        error(400, InvalidRequest, "The cursor is not one that this list gave out; begin again without it.")
    }
}

pub async fn not_found() -> ApiError {
    error(404, NotFound, "There is nothing at this address.")
}

pub async fn method_not_allowed() -> ApiError {
    error(405, MethodNotAllowed, "This address does not take this method; the Allow header lists those it takes.")
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
        let body = ErrorBody {
            error: self.code,
            error_description: self.description,
            request_id: request_id.to_owned(),
            details: self.details,
        };
        let mut response = (self.status, Json(body)).into_response();
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
