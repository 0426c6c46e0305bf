//! Responses of the OAuth endpoints: which error code and which sentence each error of their flows becomes.

use axum::http::header;
use service_api::errors::{ErrorCode::*, PASSKEY_METHOD, Reason};
use service_rules::{clients::ClientAuthError, registration::RegistrationError};

use crate::{
    flows::{
        clients::client_auth::ClientProofError,
        oauth::{
            consents::ConsentsError,
            introspect::IntrospectError,
            register_client::RegisterClientError,
            revoke::RevokeTokenError,
            token_error::{InvalidGrant, InvalidScope, InvalidTokenRequest, TokenError},
        },
        sso::backchannel_logout::LogoutError,
    },
    http::errors::{
        ApiError,
        api::{invalid_otp, unknown_scopes},
        error,
    },
};

impl From<ClientAuthError> for ApiError {
    fn from(refusal: ClientAuthError) -> Self {
        match refusal {
            ClientAuthError::InvalidClient => {
                let text = "Client authentication failed. Check the client ID, its secret or key, and how it is sent.";
                error(InvalidClient, text).with(header::WWW_AUTHENTICATE, "Basic realm=\"service\"")
            }
            ClientAuthError::UnauthorizedClient => error(UnauthorizedClient, "This client can't use this grant type."),
        }
    }
}

impl From<ClientProofError> for ApiError {
    fn from(failure: ClientProofError) -> Self {
        match failure {
            ClientProofError::Limited(limited) => limited.into(),
            ClientProofError::Database(error) => error.into(),
            ClientProofError::Defect(error) => error.into(),
        }
    }
}

pub(in crate::http) fn missing_parameter(name: &str) -> ApiError {
    error(InvalidRequest, format!("The parameter {name} is missing."))
}

impl From<TokenError> for ApiError {
    fn from(failure: TokenError) -> Self {
        match failure {
            TokenError::InvalidRequest(refusal) => refusal.into(),
            TokenError::InvalidClient => ClientAuthError::InvalidClient.into(),
            TokenError::UnauthorizedClient => ClientAuthError::UnauthorizedClient.into(),
            TokenError::InvalidGrant(refusal) => refusal.into(),
            TokenError::UnsupportedGrantType => error(UnsupportedGrantType, "This grant type isn't supported."),
            TokenError::InvalidScope(InvalidScope::Unknown(_)) => unknown_scopes(),
            TokenError::InvalidScope(InvalidScope::Exceeded(_)) => {
                let text = "A refresh can't request more scopes than the sign-in. Leave scope out, or sign in again.";
                error(InvalidScope, text)
            }
            TokenError::InvalidTarget { expected } => error(
                InvalidTarget,
                format!("The tokens are for {expected}. Send that as resource, or leave resource out."),
            ),
            TokenError::Limited(limited) => limited.into(),
            TokenError::Database(error) => error.into(),
            TokenError::Defect(error) => error.into(),
        }
    }
}

impl From<InvalidTokenRequest> for ApiError {
    fn from(refusal: InvalidTokenRequest) -> Self {
        match refusal {
            InvalidTokenRequest::MissingParameter(name) => missing_parameter(name),
            InvalidTokenRequest::MalformedWorkspaceId => {
                error(InvalidRequest, "The parameter workspace_id must be a workspace ID.")
            }
            InvalidTokenRequest::NotAMember => {
                let text = "Workspace not found, or you don't have access. The code is still valid: retry without \
                            workspace_id.";
                error(InvalidRequest, text)
            }
            InvalidTokenRequest::OtherWorkspace => {
                let text = "A refresh can't change the workspace. Leave workspace_id out, or sign in again.";
                error(InvalidRequest, text)
            }
        }
    }
}

impl From<InvalidGrant> for ApiError {
    fn from(refusal: InvalidGrant) -> Self {
        match refusal {
            InvalidGrant::OneTimeCode => invalid_otp(),
            InvalidGrant::SsoRequired => {
                let text = "Your company requires single sign-on. Sign in with your company in a browser: \
                            POST /v1/login-options lists the address.";
                error(InvalidGrant, text).because(Reason::SsoRequired.as_str())
            }
            InvalidGrant::AccountClosed => {
                let text = "This account was closed, and will be erased. To keep it, sign in with a browser, \
                            or use the link in the email about it.";
                error(InvalidGrant, text).because(Reason::UserDisabled.as_str())
            }
            InvalidGrant::PasskeyRequired => {
                let text = "This account requires a passkey, so a code does not sign in. Sign in with a browser: \
                            send the user to /oauth/authorize.";
                error(InvalidGrant, text).with_sign_in_method(PASSKEY_METHOD)
            }
            InvalidGrant::AuthorizationCode => {
                error(InvalidGrant, "The code is invalid for this client. Send the user to /oauth/authorize again.")
            }
            InvalidGrant::RefreshToken(reason) => invalid_refresh_token(reason),
            InvalidGrant::SsoAgain(connection_id) => {
                let refused = invalid_refresh_token(Some(Reason::SsoAgain));
                match connection_id {
                    Some(id) => refused.with_connection(id),
                    None => refused,
                }
            }
        }
    }
}

fn invalid_refresh_token(reason: Option<Reason>) -> ApiError {
    let text = match reason {
        None => "The refresh token is invalid for this client. Sign in again.",
        Some(Reason::Expired) => "The session has expired. Sign in again.",
        Some(Reason::Idle) => "The session expired because it was not used. Sign in again.",
        Some(Reason::Superseded | Reason::Replayed) => {
            "An old refresh token was used again, so the session was revoked to protect the account. Sign in again."
        }
        Some(Reason::RevokedByUser) => "The session was signed out. Sign in again.",
        Some(Reason::RevokedByAdmin) => "The session was revoked by an operator. Sign in again.",
        Some(Reason::Leaked) => "A token of the session was reported as leaked, so it was revoked. Sign in again.",
        Some(Reason::WorkspaceRemoved) => "You're no longer a member of the session's workspace. Sign in again.",
        Some(Reason::UserDisabled) => {
            "The account is closed or disabled. Sign in with a browser: if you closed it, you can keep it there. \
             Otherwise contact the operator."
        }
        Some(Reason::ClientDisabled) => "An operator disabled this app. Contact the operator.",
        Some(Reason::WrongAudience) => "The refresh token is for another resource. Sign in again.",
        Some(Reason::SsoRequired) => "Your company requires single sign-on. Sign in with your company.",
        Some(Reason::SsoAgain) => {
            "Your company requires you to sign in again. Sign in with your company in a browser, then try again."
        }
        Some(Reason::SsoSignedOut) => "Your company signed you out. Sign in with your company again.",
    };
    let refused = error(InvalidGrant, text);
    match reason {
        Some(reason) => refused.because(reason.as_str()),
        None => refused,
    }
}

impl From<RevokeTokenError> for ApiError {
    fn from(failure: RevokeTokenError) -> Self {
        match failure {
            RevokeTokenError::Client(refusal) => refusal.into(),
            RevokeTokenError::Proof(failure) => failure.into(),
            RevokeTokenError::MissingParameter(name) => missing_parameter(name),
            RevokeTokenError::OtherClient => {
                error(InvalidGrant, "The token was issued to another client. Only that client can revoke it.")
            }
            RevokeTokenError::Database(error) => error.into(),
            RevokeTokenError::Defect(error) => error.into(),
        }
    }
}

impl From<IntrospectError> for ApiError {
    fn from(failure: IntrospectError) -> Self {
        match failure {
            IntrospectError::Client(refusal) => refusal.into(),
            IntrospectError::Proof(failure) => failure.into(),
            IntrospectError::MissingParameter(name) => missing_parameter(name),
            IntrospectError::Database(error) => error.into(),
            IntrospectError::Defect(error) => error.into(),
        }
    }
}

impl From<LogoutError> for ApiError {
    fn from(failure: LogoutError) -> Self {
        let refused = |text: String| error(InvalidRequest, text);
        match failure {
            LogoutError::UnknownConnection => {
                refused("Unknown connection. Copy the back-channel logout URI from the connection again.".into())
            }
            LogoutError::Issuer(why) => refused(why.to_string()),
            LogoutError::Token(why) => refused(format!("The logout token was refused: {why}. No session was revoked.")),
            LogoutError::NoSubject => {
                refused("The logout token names no subject. Configure the provider to send sub.".into())
            }
            LogoutError::Replayed => refused("This logout token was received before. Send a new one.".into()),
            LogoutError::Limited(limited) => limited.into(),
            LogoutError::Database(error) => error.into(),
            LogoutError::Defect(error) => error.into(),
        }
    }
}

impl From<RegisterClientError> for ApiError {
    fn from(failure: RegisterClientError) -> Self {
        match failure {
            RegisterClientError::Metadata(RegistrationError::RedirectUri(text)) => error(InvalidRedirectUri, text),
            RegisterClientError::Metadata(RegistrationError::Metadata(text)) => error(InvalidClientMetadata, text),
            RegisterClientError::BlockedHost => {
                error(InvalidRedirectUri, "An operator has blocked the host of this redirect URI.")
            }
            RegisterClientError::Limited(limited) => limited.into(),
            RegisterClientError::Database(error) => error.into(),
            RegisterClientError::Defect(error) => error.into(),
        }
    }
}

impl From<ConsentsError> for ApiError {
    fn from(failure: ConsentsError) -> Self {
        match failure {
            ConsentsError::NotFound => error(NotFound, "Consent not found. List your consents with GET /v1/consents."),
            ConsentsError::InvalidCursor(refusal) => refusal.into(),
            ConsentsError::Database(error) => error.into(),
            ConsentsError::Defect(error) => error.into(),
        }
    }
}
