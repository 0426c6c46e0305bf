//! Explains errors of the service to the user: what happened, which credential is affected, and what to do next.

use std::time::Duration;

use service_api::{
    errors::{ErrorBody, ErrorCode, Reason},
    ids::ConnectionId,
    scope::Scopes,
    workspaces::PERSONAL,
};
use service_client::{Error, Refusal, Trouble};

use crate::{
    context::DEFAULT_PROFILE,
    duration::format_duration,
    failure::{Failure, FailureCode},
    origin::Origin,
    table::strip_control,
    token_variable::{TOKEN_VARIABLE, UNSET_TOKEN_HINT},
    workspace_selection::{SelectionSource, WorkspaceSelection},
};

/// What the user can do without MCP tokens that work.
const MCP_LOGIN_HINT: &str = "service mcp login";

/// What a call was made with.
pub(crate) struct CallContext<'a> {
    pub(crate) origin: &'a Origin,
    /// The name of the credential.
    pub(crate) source: &'static str,
    pub(crate) workspace: &'a WorkspaceSelection,
}

/// The profile has no session at the service.
pub(crate) fn not_signed_in(profile: &str, origin: &Origin) -> Failure {
    let command = match profile {
        DEFAULT_PROFILE => "service login".to_owned(),
        // Every name that a shell would not leave as it is gets no command to paste.
        name if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) => {
            format!("service login --profile {name}")
        }
        _ => "service login, with the same --profile".to_owned(),
    };
    let text = format!("Not signed in to {origin} (profile {}).", strip_control(profile));
    Failure::new(FailureCode::NotSignedIn, text)
        .hint(command)
        .hint("In CI: set SERVICE_TOKEN")
        .with("apiUrl", origin.as_str())
}

/// The action needs a recent sign-in, and there is no terminal to ask for one.
/// `needs_passkey`: a code is not enough.
pub(crate) fn reauthentication_required(needs_passkey: bool) -> Failure {
    let (text, command) = if needs_passkey {
        ("This needs a sign-in with your passkey from the last 15 minutes.", "service login --force --method browser")
    } else {
        ("This needs a sign-in from the last 15 minutes.", "service login --force")
    };
    Failure::new(FailureCode::ReauthenticationRequired, text).hint(command)
}

/// There are no MCP tokens for this service on this computer.
pub(crate) fn no_mcp_tokens(origin: &Origin) -> Failure {
    Failure::new(FailureCode::NotSignedIn, "No MCP tokens on this computer.")
        .hint(MCP_LOGIN_HINT)
        .with("apiUrl", origin.as_str())
}

/// The MCP tokens were revoked or have expired.
pub(crate) fn mcp_tokens_ended(reason: Option<Reason>) -> Failure {
    let next = match reason {
        Some(Reason::UserDisabled) => "Contact the operator of the service",
        _ => MCP_LOGIN_HINT,
    };
    Failure::new(FailureCode::SessionEnded, format!("Your MCP tokens no longer work{}.", reason_suffix(reason)))
        .hint(next)
        .with("reason", reason.map(Reason::as_str))
}

/// Explains why a message of an MCP client failed. `granted` are the scopes of the MCP tokens.
pub(crate) fn explain_mcp(origin: &Origin, error: &Error, granted: Scopes) -> Failure {
    let Some(refusal) = error.refusal() else { return explain_unreachable(origin, error) };
    let failure = match refusal.body.error {
        ErrorCode::InvalidToken | ErrorCode::MissingToken => mcp_tokens_ended(refusal.reason()),
        ErrorCode::InsufficientScope => missing_mcp_scope(refusal, granted),
        _ => explain_refusal(refusal),
    };
    with_request(failure, refusal)
}

/// Names the scope that is missing, and the command that creates tokens with it and with the present ones.
fn missing_mcp_scope(refusal: &Refusal, granted: Scopes) -> Failure {
    let required = Scopes::parse(refusal.scope.as_deref().unwrap_or_default());
    let missing = required.without(granted);
    let text = format!("This needs the {missing} scope. Your MCP tokens have: {granted}.");
    Failure::new(FailureCode::MissingScope, text)
        .hint(format!("service mcp login --scope \"{}\"", granted.union(required)))
        .with("requiredScope", missing.to_string())
        .with("grantedScopes", granted.words().collect::<Vec<_>>())
}

pub(crate) fn session_ended(reason: Option<Reason>) -> Failure {
    let next = match reason {
        Some(Reason::UserDisabled) => "Contact the operator of the service",
        _ => "service login",
    };
    let failure = Failure::new(FailureCode::SessionEnded, format!("Your session has ended{}.", reason_suffix(reason)))
        .hint(next)
        .with("reason", reason.map(Reason::as_str));
    match reason {
        Some(Reason::Superseded | Reason::Replayed) => failure.hint("Then review your sessions: service session list"),
        _ => failure,
    }
}

/// The user has to sign in through their company. The session works again then.
pub(crate) fn sso_again(origin: &Origin, connection_id: Option<ConnectionId>) -> Failure {
    let page = sign_in_page(origin, connection_id);
    Failure::new(FailureCode::SessionEnded, "Your company requires you to sign in again.")
        .hint(format!("Open {page} in a browser and sign in, then repeat the command"))
        .with("reason", Reason::SsoAgain.as_str())
        .with("signInUrl", page)
}

/// The page on which a user signs in through their company.
fn sign_in_page(origin: &Origin, connection_id: Option<ConnectionId>) -> String {
    match connection_id {
        Some(id) => format!("{}/sso/start?connection={id}", origin.as_str()),
        None => format!("{}/sign-in", origin.as_str()),
    }
}

/// Why a session has ended, in parentheses.
const fn reason_suffix(reason: Option<Reason>) -> &'static str {
    match reason {
        Some(Reason::Idle) => " (unused for too long)",
        Some(Reason::Expired) => " (expired)",
        Some(Reason::RevokedByUser) => " (signed out elsewhere)",
        Some(Reason::RevokedByAdmin) => " (revoked by an operator)",
        Some(Reason::Leaked) => " (one of its tokens was reported leaked)",
        Some(Reason::UserDisabled) => " (your account is disabled)",
        Some(Reason::Superseded | Reason::Replayed) => " (its refresh token was used twice)",
        Some(Reason::SsoRequired) => " (your company requires single sign-on)",
        Some(Reason::SsoAgain) => " (your company requires you to sign in again)",
        Some(Reason::SsoSignedOut) => " (your company signed you out)",
        _ => "",
    }
}

pub(crate) fn workspace_not_found(id: &str) -> Failure {
    let text = format!("Workspace {} not found, or you don't have access.", strip_control(id));
    Failure::new(FailureCode::NotFound, text).hint("service workspace list")
}

/// Explains why a call with a credential failed. `granted` are the scopes of the credential, if they are known.
pub(crate) fn explain_call(call: &CallContext<'_>, error: &Error, granted: Option<Scopes>) -> Failure {
    let Some(refusal) = error.refusal() else { return explain_unreachable(call.origin, error) };
    let is_token = call.source == TOKEN_VARIABLE;
    let failure = match refusal.body.error {
        ErrorCode::InvalidToken | ErrorCode::MissingToken if is_token => token_rejected(call.origin, refusal),
        ErrorCode::InvalidToken | ErrorCode::MissingToken => session_ended(refusal.reason()),
        ErrorCode::InsufficientScope => missing_scope(call, refusal, granted),
        ErrorCode::InsufficientUserAuthentication => reauthentication_required(refusal.needs_passkey()),
        ErrorCode::WorkspaceMismatch => workspace_mismatch(call),
        ErrorCode::NotFound if explicit_workspace(call).is_some() => {
            let (id, setting) = explicit_workspace(call).unwrap_or_default();
            let text = format!("Workspace {id} (from {setting}) not found, or you don't have access.");
            Failure::new(FailureCode::NotFound, text).hint("service workspace list")
        }
        ErrorCode::Forbidden if refusal.needs_account_passkey() => {
            explain_refusal(refusal).hint("service account require-passkey")
        }
        ErrorCode::Forbidden if is_token => {
            let text = "A CLI token can't do this. Use your own session.";
            Failure::new(FailureCode::Forbidden, text).hint("unset SERVICE_TOKEN")
        }
        _ => explain_refusal(refusal),
    };
    with_request(failure.with("source", call.source), refusal)
}

fn workspace_mismatch(call: &CallContext<'_>) -> Failure {
    let id = call.workspace.id.as_deref();
    let (space, option) = match id {
        Some(PERSONAL) => ("your personal space", "--personal".to_owned()),
        Some(id) => (id, format!("--workspace-id {id}")),
        None => ("this workspace", "--workspace-id <id>".to_owned()),
    };
    let text = format!("{} doesn't have access to {space}.", credential_name(call));
    Failure::new(FailureCode::WorkspaceForbidden, text)
        .hint(format!("Create a token for it: env -u SERVICE_TOKEN service token create {option}"))
}

/// The credential of a call, as the subject of a sentence.
fn credential_name(call: &CallContext<'_>) -> &'static str {
    if call.source == TOKEN_VARIABLE { TOKEN_VARIABLE } else { "Your session" }
}

/// The workspace that the user named for this command, and with which setting. If something was not found, it may be this.
fn explicit_workspace(call: &CallContext<'_>) -> Option<(String, &'static str)> {
    let id = call.workspace.id.as_deref().filter(|id| *id != PERSONAL)?;
    match call.workspace.source {
        SelectionSource::Flag => Some((strip_control(id), "--workspace-id")),
        SelectionSource::Environment => Some((strip_control(id), "SERVICE_WORKSPACE_ID")),
        _ => None,
    }
}

/// Explains why a call without a credential failed.
pub(crate) fn explain_error(origin: &Origin, error: &Error) -> Failure {
    match error.refusal() {
        Some(refusal) => with_request(explain_refusal(refusal), refusal),
        None => explain_unreachable(origin, error),
    }
}

/// Explains an error response that was not parsed.
pub(crate) fn explain_raw(origin: &Origin, status: u16, body: &[u8]) -> Failure {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) => {
            let refusal = Refusal { status, body, retry_after: None, scope: None };
            with_request(explain_refusal(&refusal), &refusal)
        }
        Err(_) => explain_unreachable(origin, &Error::Unexpected(status)),
    }
}

/// Adds the status and the request ID to the JSON error.
fn with_request(failure: Failure, refusal: &Refusal) -> Failure {
    failure.with("status", refusal.status).with("requestId", refusal.body.request_id.as_str())
}

fn explain_refusal(refusal: &Refusal) -> Failure {
    let description = refusal.body.error_description.as_str();
    match refusal.status {
        403 => Failure::new(FailureCode::Forbidden, description),
        404 => Failure::new(FailureCode::NotFound, description),
        409 | 412 => Failure::new(FailureCode::Conflict, description),
        400 | 413 | 415 | 422 => {
            let fields = refusal.body.details.as_ref().and_then(|details| details.get("fields")).cloned();
            Failure::new(FailureCode::InvalidInput, description).with("fields", fields)
        }
        429 => rate_limited(refusal, "Too many requests."),
        500.. => {
            server_unavailable(refusal.status, Some(&refusal.body.request_id)).with("retryAfter", refusal.retry_after)
        }
        _ => Failure::new(FailureCode::RequestFailed, description),
    }
}

/// Explains a 429: `what` happened too often, and how long to wait.
pub(crate) fn rate_limited(refusal: &Refusal, what: &str) -> Failure {
    let when = match refusal.retry_after {
        Some(seconds) => format!(" Try again in {}.", format_duration(Duration::from_secs(seconds))),
        None => " Try again later.".to_owned(),
    };
    let failure = Failure::new(FailureCode::RateLimited, format!("{what}{when}"));
    with_request(failure.with("retryAfter", refusal.retry_after), refusal)
}

fn server_unavailable(status: u16, request_id: Option<&str>) -> Failure {
    let request = request_id.map(|id| format!(", request {id}")).unwrap_or_default();
    let text = format!("The service had a problem ({status}{request}). Try again shortly.");
    Failure::new(FailureCode::ServerUnavailable, text)
}

/// Explains a call that the service did not answer. It never blames the credential: only an answer can reject a token.
fn explain_unreachable(origin: &Origin, error: &Error) -> Failure {
    let host = origin.host();
    match error {
        Error::Unexpected(status @ 500..) => server_unavailable(*status, None).with("status", *status),
        Error::Unreachable(Trouble::Tls) => {
            Failure::new(FailureCode::Tls, format!("The TLS certificate of {host} isn't trusted."))
                .hint("Behind a corporate proxy: set SSL_CERT_FILE")
        }
        Error::Unreachable(Trouble::TimedOut) => {
            Failure::new(FailureCode::Timeout, format!("{host} didn't respond in time."))
        }
        Error::Unreachable(cause) => {
            let why = match cause {
                Trouble::NameNotFound => "host not found",
                Trouble::NotListening => "connection refused",
                _ => "connection lost",
            };
            Failure::new(FailureCode::Offline, format!("Can't reach {host} ({why})."))
                .hint("Check your connection, VPN or SERVICE_API_URL")
        }
        _ => unexpected_response(origin),
    }
}

/// The response is not one that the service sends.
pub(crate) fn unexpected_response(origin: &Origin) -> Failure {
    let text = format!("Unexpected response from {}. It may not be the service.", origin.host());
    Failure::new(FailureCode::RequestFailed, text).hint("Check SERVICE_API_URL")
}

fn token_rejected(origin: &Origin, refusal: &Refusal) -> Failure {
    let reason = refusal.reason();
    let failure = match reason {
        Some(Reason::Expired) => Failure::new(FailureCode::TokenExpired, "The token in SERVICE_TOKEN has expired.")
            .hint("Create a new one: env -u SERVICE_TOKEN service token create --workspace-id <id>"),
        Some(Reason::SsoAgain) => {
            let text = "The token in SERVICE_TOKEN waits until you sign in with your company again.";
            let page = sign_in_page(origin, refusal.connection_id());
            Failure::new(FailureCode::TokenExpired, text)
                .hint(format!("Open {page} in a browser and sign in. The token works again then"))
                .with("signInUrl", page)
        }
        Some(_) => Failure::new(FailureCode::TokenRevoked, "The token in SERVICE_TOKEN was revoked.")
            .hint("Replace it where it is set, for example in a CI secret or your shell profile"),
        None => Failure::new(FailureCode::TokenInvalid, "The token in SERVICE_TOKEN isn't valid for this server.")
            .hint("Check SERVICE_API_URL, and where the token is set"),
    };
    failure.with("reason", reason.map(Reason::as_str))
}

/// Names the missing scope. For a token it does not suggest to sign in again, because that would not help.
fn missing_scope(call: &CallContext<'_>, refusal: &Refusal, granted: Option<Scopes>) -> Failure {
    let scope = refusal.scope.as_deref().unwrap_or("another");
    let name = credential_name(call);
    let words: Option<Vec<_>> = granted.map(|granted| granted.words().collect());
    let text = match &words {
        Some(words) => format!("This needs the {scope} scope. {name} has: {}.", words.join(", ")),
        None => format!("This needs the {scope} scope. {name} doesn't have it."),
    };
    let failure =
        Failure::new(FailureCode::MissingScope, text).with("requiredScope", scope).with("grantedScopes", words);
    match call.source {
        TOKEN_VARIABLE => failure.hint(UNSET_TOKEN_HINT),
        _ => failure.hint("service login --force"),
    }
}
