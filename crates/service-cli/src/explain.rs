//! What a refusal means for whoever typed the command: which credential is to blame, and what to do.

use service_api::{
    errors::{ErrorCode, Reason},
    scope::Scopes,
    workspaces::PERSONAL,
};
use service_client::{Error, Refusal, Trouble};

use crate::{
    chosen::{Chooser, Chosen},
    failure::{Code, Failure},
    origin::Origin,
    table::clean,
    token_variable::TOKEN_VARIABLE,
};

/// What a call was made with, as far as it can be to blame.
pub(crate) struct Used<'a> {
    pub(crate) origin: &'a Origin,
    /// What to call the credential.
    pub(crate) source: &'static str,
    pub(crate) workspace: &'a Chosen,
}

pub(crate) fn not_signed_in(origin: &Origin) -> Failure {
    Failure::new(Code::NotSignedIn, "Not signed in.")
        .next("service login")
        .next("in CI: set SERVICE_TOKEN")
        .with("apiUrl", origin.as_str())
}

pub(crate) fn ended(reason: Option<Reason>) -> Failure {
    let why = match reason {
        Some(Reason::Idle | Reason::Expired) => " (not used for too long)",
        Some(Reason::RevokedByUser) => " (signed out elsewhere)",
        Some(Reason::UserDisabled) => " (the account is disabled)",
        Some(Reason::Superseded | Reason::Replayed) => " (its token was used twice; look at: service session list)",
        _ => "",
    };
    Failure::new(Code::SessionEnded, format!("Your session has ended{why}."))
        .next("service login")
        .with("reason", reason.map(Reason::as_str))
}

/// What a call with a credential failed of.
pub(crate) fn refused(used: &Used<'_>, error: &Error, granted: Option<Scopes>) -> Failure {
    let Some(refusal) = error.refusal() else { return unanswered(used.origin, error) };
    let by_token = used.source == TOKEN_VARIABLE;
    let failure = match refusal.body.error {
        ErrorCode::InvalidToken | ErrorCode::MissingToken if by_token => dead_token(refusal),
        ErrorCode::InvalidToken | ErrorCode::MissingToken => ended(refusal.reason()),
        ErrorCode::InsufficientScope => missing_scope(used, refusal, granted),
        ErrorCode::WorkspaceMismatch => {
            let wanted = used.workspace.id.as_deref().unwrap_or("that workspace");
            let which = if wanted == PERSONAL { "--personal".to_owned() } else { format!("--workspace-id {wanted}") };
            Failure::new(Code::WorkspaceForbidden, format!("{} does not work in {wanted}.", used.source))
                .next(format!("make one there: env -u SERVICE_TOKEN service token create {which}"))
        }
        ErrorCode::NotFound if named_workspace(used).is_some() => {
            let (id, by) = named_workspace(used).unwrap_or_default();
            Failure::new(Code::NotFound, format!("No workspace {id} (from {by}) that you can use."))
                .next("service workspace list")
        }
        ErrorCode::Forbidden if by_token => {
            let text = "A token for automation may not do this. Use your own sign-in.";
            Failure::new(Code::Forbidden, text).next("unset SERVICE_TOKEN")
        }
        _ => plain(refusal),
    };
    named(failure.with("source", used.source), refusal)
}

/// The workspace that somebody named for this command, and how: it is what was not found, where nothing else was named.
fn named_workspace(used: &Used<'_>) -> Option<(String, &'static str)> {
    let id = used.workspace.id.as_deref().filter(|id| *id != PERSONAL)?;
    match used.workspace.by {
        Chooser::Flag => Some((clean(id), "--workspace-id")),
        Chooser::Environment => Some((clean(id), "SERVICE_WORKSPACE_ID")),
        _ => None,
    }
}

/// What a call without a credential failed of.
pub(crate) fn refused_at(origin: &Origin, error: &Error) -> Failure {
    match error.refusal() {
        Some(refusal) => named(plain(refusal), refusal),
        None => unanswered(origin, error),
    }
}

fn named(failure: Failure, refusal: &Refusal) -> Failure {
    failure.with("status", refusal.status).with("requestId", refusal.body.request_id.as_str())
}

fn plain(refusal: &Refusal) -> Failure {
    let said = refusal.body.error_description.as_str();
    match refusal.status {
        403 => Failure::new(Code::Forbidden, said),
        404 => Failure::new(Code::NotFound, said),
        409 | 412 => Failure::new(Code::Conflict, said),
        400 | 413 | 415 | 422 => {
            let fields = refusal.body.details.as_ref().and_then(|details| details.get("fields")).cloned();
            Failure::new(Code::InvalidInput, said).with("fields", fields)
        }
        429 => too_many(refusal, "Too many requests."),
        500.. => unavailable(refusal.status, Some(&refusal.body.request_id)),
        _ => Failure::new(Code::RequestFailed, said),
    }
}

pub(crate) fn too_many(refusal: &Refusal, what: &str) -> Failure {
    let when = match refusal.retry_after {
        Some(1) => " Try again in 1 second.".to_owned(),
        Some(seconds) => format!(" Try again in {seconds} seconds."),
        None => " Try again later.".to_owned(),
    };
    named(Failure::new(Code::RateLimited, format!("{what}{when}")).with("retryAfter", refusal.retry_after), refusal)
}

fn unavailable(status: u16, request_id: Option<&str>) -> Failure {
    let request = request_id.map(|id| format!(", request {id}")).unwrap_or_default();
    Failure::new(Code::ServerUnavailable, format!("The service had a problem ({status}{request}). Try again shortly."))
}

/// Only an answer can say that a token is bad; silence says nothing about it.
fn unanswered(origin: &Origin, error: &Error) -> Failure {
    let host = origin.host();
    match error {
        Error::Unexpected(status @ 500..) => unavailable(*status, None).with("status", *status),
        Error::Unreachable(Trouble::Tls) => {
            Failure::new(Code::Tls, format!("The certificate of {host} is not trusted here."))
                .next("behind a company's proxy: set SSL_CERT_FILE")
        }
        Error::Unreachable(Trouble::TimedOut) => Failure::new(Code::Timeout, format!("{host} did not answer in time.")),
        Error::Unreachable(trouble) => Failure::new(Code::Offline, format!("Could not reach {host}: {trouble}."))
            .next("check your connection, VPN or SERVICE_API_URL"),
        _ => Failure::new(Code::RequestFailed, format!("What answered at {host} is not the service."))
            .next("check SERVICE_API_URL"),
    }
}

fn dead_token(refusal: &Refusal) -> Failure {
    let reason = refusal.reason();
    let failure = match reason {
        Some(Reason::Expired) => Failure::new(Code::TokenExpired, "The token in SERVICE_TOKEN has expired.")
            .next("make a new one: service token create --workspace-id <id>"),
        Some(_) => Failure::new(Code::TokenRevoked, "The token in SERVICE_TOKEN was revoked.")
            .next("replace it where it is set: a CI secret, a shell profile"),
        None => Failure::new(Code::TokenInvalid, "The token in SERVICE_TOKEN is not one of this service.")
            .next("check SERVICE_API_URL, and where the token is set"),
    };
    failure.with("reason", reason.map(Reason::as_str))
}

/// Signing in again does not help a token, so that is not said.
fn missing_scope(used: &Used<'_>, refusal: &Refusal, granted: Option<Scopes>) -> Failure {
    let scope = refusal.scope.as_deref().unwrap_or("another");
    let source = used.source;
    let who = if source == TOKEN_VARIABLE { TOKEN_VARIABLE } else { "Your sign-in" };
    let words: Option<Vec<_>> = granted.map(|granted| granted.words().collect());
    let text = match &words {
        Some(words) => format!("This needs the {scope} scope. {who} has: {}.", words.join(", ")),
        None => format!("This needs the {scope} scope, which {who} does not have."),
    };
    let failure = Failure::new(Code::MissingScope, text).with("requiredScope", scope).with("grantedScopes", words);
    match source {
        TOKEN_VARIABLE => failure.next("use your own sign-in: unset SERVICE_TOKEN"),
        _ => failure.next("service login --force"),
    }
}
