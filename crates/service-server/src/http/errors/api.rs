//! Responses of the API: which error code and which sentence each error of a flow becomes.

use axum::http::header;
use service_api::{
    endpoints,
    errors::{ErrorCode::*, PASSKEY_METHOD, Reason},
    scope::Scopes,
};
use service_rules::{
    bearer::BearerError, cli_tokens::FieldError, credential::UserSessionRequired, email::InvalidAddress, lifetimes,
    limits::Limited, resources::Resource, space::SpaceError, step_up::StepUp,
};

use crate::{
    flows::{
        account::{
            address_change::AddressChangeError,
            deletion::{DeletionError, WorkspacesOfLeaver},
            export::ExportError,
            passkey_requirement::PasskeyRequirementError,
            profile::ProfileError,
            secure::SecureError,
        },
        audit::events::AuditQueryError,
        authenticate::AuthenticateError,
        passkeys::PasskeyChangeError,
        rate_limit::RateLimitError,
        sessions::SessionError,
        sign_in::{login_options::LoginOptionsError, request_otp::RequestOtpError},
        tokens::{cli_tokens::CliTokenError, leaks::LeakReportError, mcp_tokens::McpTokenError},
        workspaces::enter_space::EnterSpaceError,
    },
    http::errors::{ApiError, EdgeError, RATE_LIMIT, RATE_LIMIT_POLICY, error, pages::PageProblem},
    pagination::InvalidCursor,
};

/// When a client whose user has another download under way should try again.
const EXPORT_RETRY_SECONDS: u32 = 60;

/// The response of the API to a refused bearer token.
#[must_use]
pub fn bearer(refusal: BearerError, base_url: &str) -> ApiError {
    bearer_at(Resource::Api, refusal, base_url, Scopes::NONE)
}

/// The response of a resource to a refused bearer token. The challenge says where to get another one (RFC 6750, RFC 9728).
///
/// If the token lacks a scope, the challenge also names the scopes that the token has and the client should keep: some
/// clients replace the scopes that they ask for by those of the challenge.
#[must_use]
pub fn bearer_at(resource: Resource, refusal: BearerError, base_url: &str, held: Scopes) -> ApiError {
    // Some MCP clients never ask for more scopes than they were first told. Their users can narrow the access when they
    // consent, and cannot widen it later.
    let (document, first) = match resource {
        Resource::Api => (endpoints::API_METADATA.path(), Scopes::READ),
        Resource::Mcp => (endpoints::MCP_METADATA.path(), Scopes::READ_WRITE),
    };
    let metadata = format!("resource_metadata=\"{base_url}{document}\"");
    let challenge = |error: ApiError, text: &str| error.with(header::WWW_AUTHENTICATE, format!("Bearer {text}"));
    let invalid = format!("error=\"invalid_token\", {metadata}, scope=\"{first}\"");
    match refusal {
        BearerError::Missing => {
            let text = "No access token was sent. Send one as `Authorization: Bearer <token>`.";
            challenge(error(MissingToken, text), &format!("{metadata}, scope=\"{first}\""))
        }
        BearerError::Malformed => {
            error(InvalidRequest, "The Authorization header is malformed. Send exactly one bearer token.")
        }
        BearerError::Invalid => challenge(error(InvalidToken, "The access token is invalid. Get a new one."), &invalid),
        BearerError::WrongAudience => {
            let path = resource.path();
            let text = format!(
                "The access token is for another resource. Sign in again, and send `resource={base_url}{path}` with the \
                 authorization request."
            );
            challenge(error(InvalidToken, text), &invalid).because(Reason::WrongAudience.as_str())
        }
        BearerError::Expired => {
            let text = "The access token has expired. Use the refresh token to get a new one.";
            challenge(error(InvalidToken, text), &invalid).because("expired")
        }
        BearerError::Revoked(reason) => {
            let text = match reason {
                Reason::Expired => "The token has expired. Create a new one, or sign in again.",
                _ => "The token was revoked. Create a new one, or sign in again.",
            };
            challenge(error(InvalidToken, text), &invalid).because(reason.as_str())
        }
        BearerError::SsoAgain(connection_id) => {
            let text = "The token waits for your sign-in. Sign in with your company in a browser, then try again.";
            let waiting = challenge(error(InvalidToken, text), &invalid).because(Reason::SsoAgain.as_str());
            connection_id.into_iter().fold(waiting, ApiError::with_connection)
        }
        BearerError::InsufficientScope(needed) => {
            let missing = needed.narrowest();
            let text = format!("The access token lacks the scope {missing}. Sign in again and request it.");
            let scopes = held.union(Scopes::parse(missing));
            let why = format!("error=\"insufficient_scope\", scope=\"{scopes}\", {metadata}");
            challenge(error(InsufficientScope, text), &why)
        }
        BearerError::SignInTooOld(step_up) => sign_in_too_old(step_up),
    }
}

/// The response of the API to a caller that is not authenticated.
#[must_use]
pub fn authenticate(failure: AuthenticateError, base_url: &str) -> ApiError {
    authenticate_at(Resource::Api, failure, base_url)
}

/// The response of a resource to a caller that is not authenticated.
#[must_use]
pub fn authenticate_at(resource: Resource, failure: AuthenticateError, base_url: &str) -> ApiError {
    match failure {
        AuthenticateError::Bearer(refusal) => bearer_at(resource, refusal, base_url, Scopes::NONE),
        AuthenticateError::Database(error) => error.into(),
        AuthenticateError::Defect(error) => error.into(),
    }
}

/// The action needs a more recent sign-in (RFC 9470). Not 401, on which clients discard their tokens.
pub(crate) fn sign_in_too_old(step_up: StepUp) -> ApiError {
    let age = lifetimes::RECENT_SIGN_IN;
    let text = match step_up {
        StepUp::AnySignIn => {
            format!("This needs a sign-in within the last {} minutes. Sign in again, then retry.", age / 60)
        }
        StepUp::NoCode => format!(
            "This needs a sign-in with your passkey within the last {} minutes. Sign in again in a browser, then retry.",
            age / 60
        ),
    };
    let refusal = error(InsufficientUserAuthentication, text)
        .with(header::WWW_AUTHENTICATE, format!("Bearer error=\"insufficient_user_authentication\", max_age={age}"))
        .with_max_age(age);
    match step_up {
        StepUp::AnySignIn => refusal,
        StepUp::NoCode => refusal.with_sign_in_method(PASSKEY_METHOD),
    }
}

impl From<SpaceError> for ApiError {
    fn from(refusal: SpaceError) -> Self {
        match refusal {
            SpaceError::NotFound => error(NotFound, "Workspace not found, or you don't have access."),
            SpaceError::Mismatch => error(
                WorkspaceMismatch,
                "This token is for another workspace. Leave `workspaceId` out, or use another token.",
            ),
            SpaceError::Forbidden => {
                error(Forbidden, "Your role in this workspace doesn't allow this. Ask one of its owners.")
            }
            SpaceError::PasskeyRequired => error(
                Forbidden,
                "This workspace requires a passkey from its members. Add a passkey to your account and require it to sign in, on the \
                 account page under Security.",
            )
            .with_workspace_requirement(PASSKEY_METHOD)
            .on_page(PageProblem::KeptOut),
        }
    }
}

impl From<EnterSpaceError> for ApiError {
    fn from(refusal: EnterSpaceError) -> Self {
        match refusal {
            EnterSpaceError::Space(refusal) => refusal.into(),
            EnterSpaceError::Database(broken) => broken.into(),
            EnterSpaceError::Defect(broken) => broken.into(),
        }
    }
}

impl From<Limited> for ApiError {
    fn from(limited: Limited) -> Self {
        let Limited { policy, quota, window_seconds, retry_after } = limited;
        let unit = if retry_after == 1 { "second" } else { "seconds" };
        error(RateLimited, format!("Too many requests. Try again in {retry_after} {unit}."))
            .with(header::RETRY_AFTER, retry_after.to_string())
            .with(RATE_LIMIT_POLICY, format!("\"{policy}\";q={quota};w={window_seconds}"))
            .with(RATE_LIMIT, format!("\"{policy}\";r=0;t={retry_after}"))
    }
}

impl From<RateLimitError> for ApiError {
    fn from(failure: RateLimitError) -> Self {
        match failure {
            RateLimitError::Limited(limited) => limited.into(),
            RateLimitError::Database(error) => error.into(),
            RateLimitError::Defect(error) => error.into(),
        }
    }
}

pub(crate) fn unknown_scopes() -> ApiError {
    error(InvalidScope, "Unknown scopes. Request read, write, or narrower ones such as projects:read.")
}

fn scopes_differ() -> ApiError {
    error(InvalidRequest, "The fields scope and scopes differ. Send one of them.")
}

pub(crate) fn invalid_otp() -> ApiError {
    error(InvalidGrant, "The code is wrong, expired or used up. Check it or request a new one.")
}

impl From<InvalidAddress> for ApiError {
    fn from(_: InvalidAddress) -> Self {
        error(InvalidRequest, "The field email must be a valid email address.")
    }
}

impl From<LoginOptionsError> for ApiError {
    fn from(failure: LoginOptionsError) -> Self {
        match failure {
            LoginOptionsError::InvalidAddress(refusal) => refusal.into(),
            LoginOptionsError::Limited(limited) => limited.into(),
            LoginOptionsError::Database(error) => error.into(),
            LoginOptionsError::Defect(error) => error.into(),
        }
    }
}

impl From<RequestOtpError> for ApiError {
    fn from(failure: RequestOtpError) -> Self {
        match failure {
            RequestOtpError::InvalidAddress(refusal) => refusal.into(),
            RequestOtpError::Client(refusal) => refusal.into(),
            RequestOtpError::Limited(limited) => limited.into(),
            RequestOtpError::Database(error) => error.into(),
            RequestOtpError::Defect(error) => error.into(),
        }
    }
}

impl From<InvalidCursor> for ApiError {
    fn from(_: InvalidCursor) -> Self {
        error(InvalidRequest, "Invalid cursor. Start again without it.")
    }
}

impl From<AuditQueryError> for ApiError {
    fn from(refusal: AuditQueryError) -> Self {
        match refusal {
            AuditQueryError::InvalidCursor(refusal) => refusal.into(),
            AuditQueryError::Database(broken) => broken.into(),
            AuditQueryError::Defect(broken) => broken.into(),
        }
    }
}

impl From<UserSessionRequired> for ApiError {
    fn from(_: UserSessionRequired) -> Self {
        error(Forbidden, "Requires a user session from a first-party app. Sign in with one, and use its access token.")
    }
}

/// The response to a refused request about CLI tokens. Some errors are about the bearer token, and have its challenge.
#[must_use]
pub fn cli_tokens(failure: CliTokenError, base_url: &str) -> ApiError {
    match failure {
        CliTokenError::InvalidField(refusal) => refusal.into(),
        CliTokenError::ScopesDiffer => scopes_differ(),
        CliTokenError::UnknownScopes(_) => unknown_scopes(),
        CliTokenError::Bearer(refusal) => bearer(refusal, base_url),
        CliTokenError::Space(refusal) => refusal.into(),
        CliTokenError::Limited(limited) => limited.into(),
        CliTokenError::TooMany => error(Conflict, "You have 100 valid tokens. Revoke one that you don't use."),
        CliTokenError::AlreadyCreated => error(
            Conflict,
            "This Idempotency-Key already created a token, whose secret can't be shown again. Use a new key.",
        ),
        CliTokenError::NotFound => error(NotFound, "Token not found. List your tokens with GET /v1/cli/tokens."),
        CliTokenError::Inactive => error(Conflict, "This token is no longer valid. Create a new one."),
        CliTokenError::UserSessionRequired(refusal) => refusal.into(),
        CliTokenError::InvalidCursor(refusal) => refusal.into(),
        CliTokenError::Database(error) => error.into(),
        CliTokenError::Defect(error) => error.into(),
    }
}

/// The response to a refused request for MCP tokens. Some errors are about the bearer token, and have its challenge.
#[must_use]
pub fn mcp_tokens(failure: McpTokenError, base_url: &str) -> ApiError {
    match failure {
        McpTokenError::NotFirstParty => {
            error(Forbidden, "Requires a first-party app. Other apps connect through OAuth discovery.")
        }
        McpTokenError::ScopesDiffer => scopes_differ(),
        McpTokenError::UnknownScopes(_) => unknown_scopes(),
        McpTokenError::Bearer(refusal) => bearer(refusal, base_url),
        McpTokenError::InvalidField(refusal) => refusal.into(),
        McpTokenError::Space(refusal) => refusal.into(),
        McpTokenError::Limited(limited) => limited.into(),
        McpTokenError::Database(error) => error.into(),
        McpTokenError::Defect(error) => error.into(),
    }
}

/// The response to an account that was not secured. One error is about the bearer token, and has its challenge.
#[must_use]
pub fn secure_account(failure: SecureError, base_url: &str) -> ApiError {
    match failure {
        SecureError::SessionEnded => bearer(BearerError::Invalid, base_url),
        SecureError::Database(error) => error.into(),
        SecureError::Defect(error) => error.into(),
    }
}

/// The response to an export that was not started or downloaded. One error is about the bearer token, and has its challenge.
#[must_use]
pub fn account_export(failure: ExportError, base_url: &str) -> ApiError {
    match failure {
        ExportError::NotFound => {
            error(NotFound, "Export not found. It may have expired, or another session started it. Start a new one.")
        }
        ExportError::SessionEnded => bearer(BearerError::Invalid, base_url),
        ExportError::Bearer(refusal) => bearer(refusal, base_url),
        ExportError::Limited(limited) => {
            let hours = limited.retry_after.div_ceil(3_600);
            let wait = if hours == 1 { "1 hour".to_owned() } else { format!("{hours} hours") };
            let text = format!(
                "You can export your data up to {} times in 24 hours. Download an export that you have started, or try again in {wait}.",
                limited.quota,
            );
            ApiError::from(limited).saying(text)
        }
        ExportError::Running => {
            error(RateLimited, "Another download of your data is running. Wait until it ends, then try again.")
                .with(header::RETRY_AFTER, EXPORT_RETRY_SECONDS.to_string())
        }
        ExportError::DownloadedTooOften => {
            error(Conflict, "This export has reached its download limit. Start a new one.")
        }
        ExportError::Busy => EdgeError::Busy.into(),
        ExportError::Database(error) => error.into(),
        ExportError::Defect(error) => error.into(),
    }
}

/// The response to a requirement of a passkey that was not changed. One error is about the bearer token, and has its challenge.
#[must_use]
pub fn passkey_requirement(failure: PasskeyRequirementError, base_url: &str) -> ApiError {
    match failure {
        PasskeyRequirementError::SessionEnded => bearer(BearerError::Invalid, base_url),
        PasskeyRequirementError::NoneCounts => {
            error(Conflict, "Add a passkey on the account page first. Your first one counts once it is 7 days old.")
        }
        PasskeyRequirementError::SsoRequired => error(
            Conflict,
            "Your company requires single sign-on, so passkeys don't sign you in and can't be required.",
        ),
        PasskeyRequirementError::Limited(limited) => limited.into(),
        PasskeyRequirementError::Database(error) => error.into(),
        PasskeyRequirementError::Defect(error) => error.into(),
    }
}

/// The response to a change of the address that was not requested, read or stopped. One error is about the bearer token, and has its
/// challenge.
#[must_use]
pub fn address_change(failure: AddressChangeError, base_url: &str) -> ApiError {
    match failure {
        AddressChangeError::SessionEnded => bearer(BearerError::Invalid, base_url),
        AddressChangeError::InvalidAddress(_) => {
            FieldError { field: "email", message: "is not a valid email address".into() }.into()
        }
        AddressChangeError::Same => {
            FieldError { field: "email", message: "is the address of the account".into() }.into()
        }
        AddressChangeError::SsoRequired(domain) => {
            let text = format!(
                "Single sign-on is required in {domain}, so this address can't be changed here. Ask your administrator."
            );
            error(Conflict, text)
        }
        AddressChangeError::NotRequested => {
            error(NotFound, "No change of the address is requested. Request one with POST.")
        }
        AddressChangeError::Limited(limited) => limited.into(),
        AddressChangeError::Database(error) => error.into(),
        AddressChangeError::Defect(error) => error.into(),
    }
}

/// The response to an account that was not closed. One error is about the bearer token, and has its challenge.
#[must_use]
pub fn account_deletion(failure: DeletionError, base_url: &str) -> ApiError {
    match failure {
        DeletionError::SessionEnded => bearer(BearerError::Invalid, base_url),
        DeletionError::Needed(workspaces) => error(Conflict, describe_needed(&workspaces)),
        DeletionError::Limited(limited) => limited.into(),
        DeletionError::Database(error) => error.into(),
        DeletionError::Defect(error) => error.into(),
    }
}

/// What has to be done about the workspaces of a user before the account can be closed.
#[must_use]
pub fn describe_needed(workspaces: &WorkspacesOfLeaver) -> String {
    let mut sentences = Vec::new();
    if !workspaces.without_owner.is_empty() {
        let names = workspaces.without_owner.join(", ");
        sentences.push(format!(
            "These workspaces would be left without an owner: {names}. Make another member an owner, or delete the workspaces."
        ));
    }
    if !workspaces.without_break_glass.is_empty() {
        let names = workspaces.without_break_glass.join(", ");
        sentences.push(format!(
            "These workspaces would be left without a break-glass owner: {names}. Add another break-glass owner first."
        ));
    }
    sentences.join(" ")
}

/// The response to a refused change of a passkey. One error is about the bearer token, and has its challenge.
#[must_use]
pub fn passkeys(failure: PasskeyChangeError, base_url: &str) -> ApiError {
    match failure {
        PasskeyChangeError::NotFound => error(NotFound, "Passkey not found. List yours with GET /v1/account/passkeys."),
        PasskeyChangeError::SessionEnded => bearer(BearerError::Invalid, base_url),
        PasskeyChangeError::Name(refusal) => FieldError { field: "name", message: refusal.message() }.into(),
        PasskeyChangeError::Database(error) => error.into(),
        PasskeyChangeError::Defect(error) => error.into(),
    }
}

/// The response to an account that was not read or renamed. One error is about the bearer token, and has its challenge.
#[must_use]
pub fn profile(failure: ProfileError, base_url: &str) -> ApiError {
    match failure {
        ProfileError::SessionEnded => bearer(BearerError::Invalid, base_url),
        ProfileError::Name(refusal) => FieldError { field: "name", message: refusal.message() }.into(),
        ProfileError::Limited(limited) => limited.into(),
        ProfileError::Database(error) => error.into(),
        ProfileError::Defect(error) => error.into(),
    }
}

impl From<FieldError> for ApiError {
    fn from(FieldError { field, message }: FieldError) -> Self {
        error(ValidationFailed, format!("The field {field} {message}.")).with_fields(field, &message)
    }
}

impl From<LeakReportError> for ApiError {
    fn from(failure: LeakReportError) -> Self {
        match failure {
            LeakReportError::InvalidField(refusal) => refusal.into(),
            LeakReportError::Limited(limited) => limited.into(),
            LeakReportError::Database(error) => error.into(),
            LeakReportError::Defect(error) => error.into(),
        }
    }
}

impl From<SessionError> for ApiError {
    fn from(refusal: SessionError) -> Self {
        match refusal {
            SessionError::NotFound => error(NotFound, "Session not found. List yours with GET /v1/sessions."),
            SessionError::InvalidCursor(refusal) => refusal.into(),
            SessionError::Database(broken) => broken.into(),
            SessionError::Defect(broken) => broken.into(),
        }
    }
}
