//! Why a provider cannot be used, in words for the owner of the connection.

use std::fmt;

use crate::net::outbound::FetchError;

/// What is requested from a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderRequest {
    Discovery,
    Keys,
    Token,
    UserInfo,
}

impl ProviderRequest {
    /// The label of metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Discovery => "discovery",
            Self::Keys => "keys",
            Self::Token => "token",
            Self::UserInfo => "userinfo",
        }
    }
}

impl fmt::Display for ProviderRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discovery => "The provider's discovery document",
            Self::Keys => "The provider's key set",
            Self::Token => "The provider's token endpoint",
            Self::UserInfo => "The provider's userinfo endpoint",
        })
    }
}

/// Why a provider, or a token of it, cannot be used. The text tells the owner of the connection what happened and what to
/// do next. It contains nothing secret, and nothing that the provider sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerError {
    #[error(
        "The issuer must be an https URL without query and fragment, such as https://login.acme.example. Correct it."
    )]
    InvalidIssuer,
    #[error("{request} {}", fetch_sentence(*.why))]
    Request { request: ProviderRequest, why: FetchError },
    #[error("{request} isn't valid: {problem}. Check the provider's configuration.")]
    InvalidResponse { request: ProviderRequest, problem: &'static str },
    #[error("The discovery document names another issuer. Copy the issuer from the provider, character by character.")]
    IssuerMismatch,
    #[error("The discovery document has no valid {0}. It must be an https URL with a public address.")]
    InvalidEndpoint(&'static str),
    #[error(
        "The key set has no key that can be used. Use RSA keys of 2048 to 4096 bits, P-256, P-384 or Ed25519 keys."
    )]
    NoUsableKeys,
    #[error(
        "The provider refused the client ID, or the client secret or key. Check them, and how the client authenticates."
    )]
    ClientRefused,
    #[error(
        "The provider's discovery document doesn't list private_key_jwt with ES256. Turn it on there, or use a client secret."
    )]
    NoClientKeys,
    #[error("The provider refused the authorization code. Sign in again.")]
    CodeRefused,
    #[error("The provider refused the token request. Check the client's redirect URI and grant types at the provider.")]
    TokenRefused,
    #[error("The provider sent a token that isn't a signed JWT. Check the provider's configuration.")]
    MalformedToken,
    #[error(
        "The provider signed a token with an algorithm that this issuer isn't allowed. Allow it, or change it there."
    )]
    Algorithm,
    #[error("Tokens of this issuer aren't accepted for this. Delete the connection, and create it again.")]
    Purpose,
    #[error("The token is signed with a key that isn't in the provider's key set. Try again in a minute.")]
    UnknownKey,
    #[error("The signature of the token is wrong. Sign in again.")]
    Signature,
    #[error("The userinfo response is about another user. Sign in again.")]
    OtherSubject,
    #[error("Too many requests are waiting for this provider. Try again in a minute.")]
    Busy,
    #[error("The client assertion couldn't be signed. Contact the operator of this service.")]
    Signing,
}

impl IssuerError {
    /// Whether the provider or the way to it fails, so that the same request may succeed later. Otherwise it is a refusal.
    #[must_use]
    pub const fn is_outage(self) -> bool {
        match self {
            Self::Busy | Self::Signing => true,
            Self::Request { why, .. } => matches!(
                why,
                FetchError::NoAddress
                    | FetchError::Unreachable
                    | FetchError::Untrusted
                    | FetchError::TooSlow
                    | FetchError::HostBusy
                    | FetchError::UserBusy
                    | FetchError::Busy
                    | FetchError::NotHttp
                    | FetchError::Status(429 | 500..=599)
            ),
            _ => false,
        }
    }

    /// Whether this belongs into the health of the issuer. What a single user or a forged token causes does not.
    #[must_use]
    pub const fn concerns_owner(self) -> bool {
        match self {
            Self::InvalidIssuer
            | Self::Request { .. }
            | Self::InvalidResponse { .. }
            | Self::IssuerMismatch
            | Self::InvalidEndpoint(_)
            | Self::NoUsableKeys
            | Self::NoClientKeys
            | Self::ClientRefused
            | Self::TokenRefused => true,
            Self::CodeRefused
            | Self::MalformedToken
            | Self::Algorithm
            | Self::Purpose
            | Self::UnknownKey
            | Self::Signature
            | Self::OtherSubject
            | Self::Busy
            | Self::Signing => false,
        }
    }

    /// The label of metrics.
    #[must_use]
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::Request { why: FetchError::TooSlow, .. } => "timeout",
            Self::Request { why: FetchError::NotPublic | FetchError::Insecure, .. } => "forbidden_address",
            Self::Busy => "busy",
            Self::ClientRefused | Self::CodeRefused | Self::TokenRefused => "refused",
            _ if self.is_outage() => "unavailable",
            _ => "invalid",
        }
    }
}

/// The rest of a sentence that begins with the name of what was requested.
fn fetch_sentence(why: FetchError) -> String {
    let text = match why {
        FetchError::Insecure => "isn't at an https URL. Use https at the provider.",
        FetchError::NoAddress => "is at a host that has no address. Check the issuer for typing errors.",
        FetchError::NotPublic => {
            "is at an address that isn't public. Ask the operator of this service to allow the issuer (sso.allowed_issuers)."
        }
        FetchError::Unreachable => "can't be reached. Check that the provider is running and open to the internet.",
        FetchError::Untrusted => "has a certificate that isn't trusted. Install a valid certificate at the provider.",
        FetchError::Redirected => "answers with a redirect. Copy the issuer from the provider, character by character.",
        FetchError::Status(status) => {
            return format!("answers with status {status}. Check the issuer, and the log of the provider.");
        }
        FetchError::MediaType => "doesn't answer with JSON. Check the issuer for typing errors.",
        FetchError::NotHttp => "closed the connection. Try again, and check the log of the provider.",
        FetchError::TooLarge => "is too large. Remove keys or settings there that aren't used.",
        FetchError::TooSlow => "doesn't answer in time. Check that the provider is running and open to the internet.",
        FetchError::UserBusy | FetchError::HostBusy | FetchError::Busy => "is busy. Try again in a minute.",
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_happened_and_what_to_do_next() {
        let request = ProviderRequest::Keys;
        let slow = IssuerError::Request { request, why: FetchError::TooSlow };
        assert_eq!(
            slow.to_string(),
            "The provider's key set doesn't answer in time. Check that the provider is running and open to the internet."
        );
        assert!(slow.is_outage() && slow.concerns_owner());
        let unavailable = IssuerError::Request { request, why: FetchError::Status(503) };
        let missing = IssuerError::Request { request, why: FetchError::Status(404) };
        assert!(unavailable.is_outage() && !missing.is_outage());
        assert!(!IssuerError::Signature.is_outage() && !IssuerError::Signature.concerns_owner());
    }
}
