//! What each refusal of a flow looks like from outside: status, code and words.

use axum::http::{HeaderName, header};
use service_api::errors::{ErrorCode::*, Reason};
use service_rules::{bearer, cli_tokens::Invalid, clients, credential::NotSignedIn, limits::Limited, otp, space};

use crate::{
    cursor,
    failure::Failure,
    flows,
    http::error::{ApiError, error},
};

/// A token request whose grant type leads nowhere.
pub enum GrantTypeRefusal {
    Missing,
    Unsupported,
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
            challenge(error(MissingToken, text), &format!("{metadata}, scope=\"read\""))
        }
        bearer::Refusal::Malformed => {
            error(InvalidRequest, "The Authorization header cannot be read; send one bearer token, once.")
        }
        bearer::Refusal::Invalid => {
            challenge(error(InvalidToken, "The access token is not valid here; get a new one."), &invalid)
        }
        bearer::Refusal::Expired => {
            let text = "The access token has expired; use the refresh token to get a new one.";
            challenge(error(InvalidToken, text), &invalid).because("expired")
        }
        bearer::Refusal::Ended(reason) => {
            let text = match reason {
                Reason::Expired => "The token has expired; make a new one, or sign in again.",
                _ => "The token was ended before its time; make a new one, or sign in again.",
            };
            challenge(error(InvalidToken, text), &invalid).because(reason.as_str())
        }
        bearer::Refusal::LacksScope(needed) => {
            let scope = needed.as_str();
            let text = format!("The access token lacks the scope {scope}; sign in again and ask for it.");
            let why = format!("error=\"insufficient_scope\", scope=\"{scope}\", {metadata}");
            challenge(error(InsufficientScope, text), &why)
        }
    }
}

impl From<space::Refusal> for ApiError {
    fn from(refusal: space::Refusal) -> Self {
        match refusal {
            space::Refusal::NotFound => error(NotFound, "There is no such workspace, or you are not in it."),
            space::Refusal::Mismatch => error(
                WorkspaceMismatch,
                "This token is bound to another space; leave workspaceId out, or use another token.",
            ),
            space::Refusal::Forbidden => {
                error(Forbidden, "Your role in this workspace does not allow this; ask one of its owners.")
            }
        }
    }
}

impl From<Limited> for ApiError {
    fn from(limited: Limited) -> Self {
        let Limited { policy, quota, window_seconds, retry_after } = limited;
        error(RateLimited, format!("Too many requests; try again in {retry_after} seconds."))
            .with(header::RETRY_AFTER, retry_after.to_string())
            .with(HeaderName::from_static("ratelimit-policy"), format!("\"{policy}\";q={quota};w={window_seconds}"))
            .with(HeaderName::from_static("ratelimit"), format!("\"{policy}\";r=0;t={retry_after}"))
    }
}

fn no_such_scope() -> ApiError {
    error(InvalidScope, "None of the scopes exist; ask for read, write, projects:read and the like.")
}

fn not_an_address() -> ApiError {
    error(InvalidRequest, "The field email is not an e-mail address that mail can be sent to.")
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
                error(InvalidClient, text).with(header::WWW_AUTHENTICATE, "Basic realm=\"service\"")
            }
            clients::Refusal::Limited(limited) => limited.into(),
            clients::Refusal::NotThisGrant => error(UnauthorizedClient, "This client may not use this grant type."),
        }
    }
}

impl From<GrantTypeRefusal> for ApiError {
    fn from(refusal: GrantTypeRefusal) -> Self {
        match refusal {
            GrantTypeRefusal::Missing => error(InvalidRequest, "The parameter grant_type is missing."),
            GrantTypeRefusal::Unsupported => error(UnsupportedGrantType, "This grant type is not supported."),
        }
    }
}

impl From<flows::exchange_otp::Refusal> for ApiError {
    fn from(refusal: flows::exchange_otp::Refusal) -> Self {
        use flows::exchange_otp::Refusal;
        match refusal {
            Refusal::Client(refusal) => refusal.into(),
            Refusal::Unusable(what) => unusable(what),
            Refusal::Scope => no_such_scope(),
            Refusal::Target => error(InvalidTarget, "This resource is not served here; leave it out."),
            Refusal::Workspace => {
                let text = "There is no such workspace, or you are not in it; the code still works without it.";
                error(InvalidRequest, text)
            }
            Refusal::Code(otp::Refusal::NotAccepted) => {
                error(InvalidGrant, "The code is wrong, expired or used up; check it, or ask for a new one.")
            }
            Refusal::Code(otp::Refusal::Limited(limited)) => limited.into(),
        }
    }
}

impl From<cursor::Foreign> for ApiError {
    fn from(_: cursor::Foreign) -> Self {
        error(InvalidRequest, "The cursor is not one that this list gave out; begin again without it.")
    }
}

impl From<NotSignedIn> for ApiError {
    fn from(_: NotSignedIn) -> Self {
        error(
            Forbidden,
            "Only somebody who signed in with one of our own clients can do this; use such an access token.",
        )
    }
}

/// Refusals about tokens for automation; some are about the token that was sent, and challenge as that does.
#[must_use]
pub fn cli_tokens(failure: Failure<flows::cli_tokens::Refusal>, base_url: &str) -> ApiError {
    use flows::cli_tokens::Refusal;
    let refusal = match failure {
        Failure::Refused(refusal) => refusal,
        Failure::Broken(broken) => return broken.into(),
    };
    match refusal {
        Refusal::Invalid(invalid) => invalid.into(),
        Refusal::Scope => no_such_scope(),
        Refusal::Bearer(refusal) => bearer(refusal, base_url),
        Refusal::Workspace => space::Refusal::NotFound.into(),
        Refusal::Limited(limited) => limited.into(),
        Refusal::TooMany => error(Conflict, "You have 100 live tokens; revoke one that you do not use first."),
        Refusal::AlreadyMade => {
            error(Conflict, "This Idempotency-Key has made a token; its secret was shown once and cannot be again.")
        }
        Refusal::NotFound => error(NotFound, "There is no such token of yours; see GET /v1/cli/tokens."),
        Refusal::Dead => error(Conflict, "This token does not work any more; make a new one instead."),
        Refusal::NotSignedIn => NotSignedIn.into(),
    }
}

/// Refusals about the MCP pair.
#[must_use]
pub fn mcp_tokens(failure: Failure<flows::mcp_tokens::Refusal>, base_url: &str) -> ApiError {
    use flows::mcp_tokens::Refusal;
    let refusal = match failure {
        Failure::Refused(refusal) => refusal,
        Failure::Broken(broken) => return broken.into(),
    };
    match refusal {
        Refusal::NotOurs => {
            let text = "Only the platform's own clients get this pair; others connect by OAuth discovery.";
            error(Forbidden, text)
        }
        Refusal::Scope => no_such_scope(),
        Refusal::Bearer(refusal) => bearer(refusal, base_url),
        Refusal::Invalid(invalid) => invalid.into(),
        Refusal::Workspace => space::Refusal::NotFound.into(),
        Refusal::Limited(limited) => limited.into(),
    }
}

impl From<Invalid> for ApiError {
    fn from(Invalid { field, message }: Invalid) -> Self {
        error(ValidationFailed, format!("The field {field} {message}.")).with_fields(field, &message)
    }
}

impl From<flows::token_leaks::Refusal> for ApiError {
    fn from(refusal: flows::token_leaks::Refusal) -> Self {
        match refusal {
            flows::token_leaks::Refusal::Invalid(invalid) => invalid.into(),
            flows::token_leaks::Refusal::Limited(limited) => limited.into(),
        }
    }
}

/// What a holder of a dead refresh token is told to do.
fn dead_session(reason: Option<Reason>) -> ApiError {
    let text = match reason {
        None => "The refresh token is not valid for this client; sign in again.",
        Some(Reason::Expired) => "The session has reached its end; sign in again.",
        Some(Reason::Idle) => "The session was not used for too long; sign in again.",
        Some(Reason::Superseded | Reason::Replayed) => {
            "An old refresh token came back, so the session was ended to protect its user; sign in again."
        }
        Some(Reason::RevokedByUser) => "The session was signed out; sign in again.",
        Some(Reason::RevokedByAdmin) => "The session was ended by an operator; sign in again.",
        Some(Reason::Leaked) => "A token of the session was reported as leaked, so it was ended; sign in again.",
        Some(Reason::WorkspaceRemoved) => "The session is for a workspace that you are no longer in; sign in again.",
        Some(Reason::UserDisabled) => "The account is disabled; ask its operator.",
    };
    let refused = error(InvalidGrant, text);
    match reason {
        Some(reason) => refused.because(reason.as_str()),
        None => refused,
    }
}

pub(super) fn unusable(what: &str) -> ApiError {
    error(InvalidRequest, format!("The parameter {what}."))
}

impl From<flows::refresh::Refusal> for ApiError {
    fn from(refusal: flows::refresh::Refusal) -> Self {
        use flows::refresh::Refusal;
        match refusal {
            Refusal::Client(refusal) => refusal.into(),
            Refusal::Unusable(what) => unusable(what),
            Refusal::Scope => {
                let text = "A refresh cannot have more scopes than the sign-in; leave scope out, or sign in again.";
                error(InvalidScope, text)
            }
            Refusal::Target => error(InvalidTarget, "The session is for another resource; leave resource out."),
            Refusal::Token(reason) => dead_session(reason),
        }
    }
}

impl From<flows::revoke::Refusal> for ApiError {
    fn from(refusal: flows::revoke::Refusal) -> Self {
        use flows::revoke::Refusal;
        match refusal {
            Refusal::Client(refusal) => refusal.into(),
            Refusal::Unusable(what) => unusable(what),
            Refusal::OtherClient => {
                error(InvalidGrant, "The token was issued to another client, which can give it back.")
            }
        }
    }
}

impl From<flows::introspect::Refusal> for ApiError {
    fn from(refusal: flows::introspect::Refusal) -> Self {
        match refusal {
            flows::introspect::Refusal::Client(refusal) => refusal.into(),
            flows::introspect::Refusal::Unusable(what) => unusable(what),
        }
    }
}

impl From<flows::sessions::NoSuchSession> for ApiError {
    fn from(_: flows::sessions::NoSuchSession) -> Self {
        error(NotFound, "There is no such session of yours; see GET /v1/sessions.")
    }
}
