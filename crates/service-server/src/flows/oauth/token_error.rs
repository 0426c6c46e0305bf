//! Why the token endpoint issues no tokens, by the error codes of RFC 6749 section 5.2 and RFC 8707.

use service_api::{errors::Reason, ids::ConnectionId};
use service_rules::{
    clients::ClientAuthError,
    limits::Limited,
    otp::OtpError,
    scopes::{ScopeExceeded, UnknownScopes},
};

use crate::{
    database,
    flows::{clients::client_auth::ClientProofError, sign_in::verify_otp::VerifyOtpError},
};

/// Why a token request is refused. All grants of the token endpoint share this type.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("invalid_request: {0}")]
    InvalidRequest(InvalidTokenRequest),
    #[error("invalid_client")]
    InvalidClient,
    #[error("invalid_grant: {0}")]
    InvalidGrant(InvalidGrant),
    #[error("unauthorized_client")]
    UnauthorizedClient,
    #[error("unsupported_grant_type")]
    UnsupportedGrantType,
    #[error("invalid_scope: {0}")]
    InvalidScope(InvalidScope),
    /// The request names another resource than the one that the tokens would be for.
    #[error("invalid_target: the tokens are for {expected}")]
    InvalidTarget { expected: String },
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Why a token request is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTokenRequest {
    #[error("{0} is missing")]
    MissingParameter(&'static str),
    #[error("workspace_id is malformed")]
    MalformedWorkspaceId,
    /// A one-time code is right, but its user is not a member of the requested workspace.
    #[error("the user is not a member of the requested workspace")]
    NotAMember,
    /// A refresh cannot change the workspace of its session.
    #[error("workspace_id is not that of the session")]
    OtherWorkspace,
}

/// Which credential of a token request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGrant {
    /// The caller is not told why.
    #[error("the one-time code is not accepted")]
    OneTimeCode,
    /// Single sign-on is required in the domain of the code's address.
    #[error("single sign-on is required")]
    SsoRequired,
    /// The code is right, but its user closed the account.
    #[error("the user closed the account, which will be erased")]
    AccountClosed,
    /// The code is right, but its user requires a passkey.
    #[error("the user requires a passkey")]
    PasskeyRequired,
    /// The caller is not told why.
    #[error("the authorization code is not accepted")]
    AuthorizationCode,
    /// The caller is told why if the token is genuine.
    #[error("the refresh token is not accepted: {}", .0.map_or("not genuine", Reason::as_str))]
    RefreshToken(Option<Reason>),
    /// The session waits until its user signs in through this connection.
    #[error("the user has to sign in through their company")]
    SsoAgain(Option<ConnectionId>),
}

/// Why the requested scopes are not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScope {
    #[error(transparent)]
    Unknown(#[from] UnknownScopes),
    #[error(transparent)]
    Exceeded(#[from] ScopeExceeded),
}

impl From<InvalidTokenRequest> for TokenError {
    fn from(error: InvalidTokenRequest) -> Self {
        Self::InvalidRequest(error)
    }
}

impl From<InvalidGrant> for TokenError {
    fn from(error: InvalidGrant) -> Self {
        Self::InvalidGrant(error)
    }
}

impl From<UnknownScopes> for TokenError {
    fn from(error: UnknownScopes) -> Self {
        Self::InvalidScope(error.into())
    }
}

impl From<ScopeExceeded> for TokenError {
    fn from(error: ScopeExceeded) -> Self {
        Self::InvalidScope(error.into())
    }
}

impl From<ClientAuthError> for TokenError {
    fn from(error: ClientAuthError) -> Self {
        match error {
            ClientAuthError::InvalidClient => Self::InvalidClient,
            ClientAuthError::UnauthorizedClient => Self::UnauthorizedClient,
        }
    }
}

impl From<ClientProofError> for TokenError {
    fn from(error: ClientProofError) -> Self {
        match error {
            ClientProofError::Limited(limited) => Self::Limited(limited),
            ClientProofError::Database(error) => Self::Database(error),
            ClientProofError::Defect(error) => Self::Defect(error),
        }
    }
}

impl From<OtpError> for TokenError {
    fn from(error: OtpError) -> Self {
        match error {
            OtpError::NotAccepted => Self::InvalidGrant(InvalidGrant::OneTimeCode),
            OtpError::Limited(limited) => Self::Limited(limited),
        }
    }
}

impl From<VerifyOtpError> for TokenError {
    fn from(error: VerifyOtpError) -> Self {
        match error {
            VerifyOtpError::Code(error) => error.into(),
            VerifyOtpError::NotAMember => Self::InvalidRequest(InvalidTokenRequest::NotAMember),
            VerifyOtpError::SsoRequired => Self::InvalidGrant(InvalidGrant::SsoRequired),
            VerifyOtpError::Closed(_) => Self::InvalidGrant(InvalidGrant::AccountClosed),
            VerifyOtpError::PasskeyRequired => Self::InvalidGrant(InvalidGrant::PasskeyRequired),
            VerifyOtpError::Database(error) => Self::Database(error),
            VerifyOtpError::Defect(error) => Self::Defect(error),
        }
    }
}
