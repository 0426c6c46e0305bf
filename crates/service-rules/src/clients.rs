//! Client authentication, and which client may use which grant (RFC 6749 sections 2.3 and 5.2).

use service_api::oauth::{CODE_GRANT, OTP_GRANT, REFRESH_GRANT};
use subtle::ConstantTimeEq as _;

/// The grant types that this service knows by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantType {
    AuthorizationCode,
    Otp,
    RefreshToken,
    /// For clients that act for themselves. No client may use it yet.
    ClientCredentials,
}

impl GrantType {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            CODE_GRANT => Some(Self::AuthorizationCode),
            OTP_GRANT => Some(Self::Otp),
            REFRESH_GRANT => Some(Self::RefreshToken),
            "client_credentials" => Some(Self::ClientCredentials),
            _ => None,
        }
    }
}

/// The SHA-256 of a client's secret. The secret is random and long, so no slow hash is needed.
pub type SecretDigest = [u8; 32];

/// How a client was registered, which decides how far it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A client of this service itself.
    FirstParty,
    /// Registered by an operator, who has verified it.
    Registered,
    /// Registered itself: it is not verified.
    Dynamic,
    /// Described by a metadata document at the URL that is its id.
    Document,
}

/// How a client authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// It is a public client: it cannot keep a secret, and has none.
    None,
    Secret(SecretDigest),
    /// It signs with a private key. The public key is stored.
    PrivateKey,
}

/// The client authentication that a request contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    Nothing,
    Secret(SecretDigest),
    /// A signature by the client's key, which has been verified.
    PrivateKey,
    /// Something that does not authenticate the client.
    Invalid,
}

/// A stored client.
#[derive(Clone, Debug)]
pub struct Client {
    pub id: String,
    pub name: String,
    pub kind: ClientKind,
    /// May use the OTP grant.
    pub may_use_otp: bool,
    /// May introspect tokens.
    pub may_introspect: bool,
    pub authentication: Authentication,
    /// Where authorization responses may go. Empty: the client cannot use the authorization endpoint.
    pub redirect_uris: Vec<String>,
    pub disabled: bool,
}

impl Client {
    /// Whether its tokens are for MCP unless it names another resource. Clients that no operator registered come for MCP.
    #[must_use]
    pub const fn is_for_mcp(&self) -> bool {
        matches!(self.kind, ClientKind::Dynamic | ClientKind::Document)
    }
}

/// Why a client may not do what it asks for (RFC 6749 section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientAuthError {
    /// The client is unknown or disabled, or did not authenticate in the way it is registered for.
    #[error("invalid_client")]
    InvalidClient,
    /// The client may not use this grant.
    #[error("unauthorized_client")]
    UnauthorizedClient,
}

/// Authenticates a client: its proof must be of the one kind that it is registered for.
///
/// # Errors
/// [`ClientAuthError::InvalidClient`].
pub fn authenticate<'a>(client: Option<&'a Client>, proof: &Proof) -> Result<&'a Client, ClientAuthError> {
    let client = client.filter(|client| !client.disabled).ok_or(ClientAuthError::InvalidClient)?;
    let proved = match (&client.authentication, proof) {
        (Authentication::None, Proof::Nothing) | (Authentication::PrivateKey, Proof::PrivateKey) => true,
        (Authentication::Secret(secret), Proof::Secret(sent)) => secret.ct_eq(sent).into(),
        _ => false,
    };
    if proved { Ok(client) } else { Err(ClientAuthError::InvalidClient) }
}

/// Authenticates a client and decides whether it may use this grant. A refresh token is bound to its client already.
///
/// # Errors
/// [`ClientAuthError::InvalidClient`] or [`ClientAuthError::UnauthorizedClient`].
pub fn judge<'a>(
    client: Option<&'a Client>,
    proof: &Proof,
    grant_type: GrantType,
) -> Result<&'a Client, ClientAuthError> {
    let client = authenticate(client, proof)?;
    match grant_type {
        GrantType::Otp if client.kind == ClientKind::FirstParty && client.may_use_otp => Ok(client),
        GrantType::AuthorizationCode if !client.redirect_uris.is_empty() => Ok(client),
        GrantType::RefreshToken => Ok(client),
        GrantType::AuthorizationCode | GrantType::Otp | GrantType::ClientCredentials => {
            Err(ClientAuthError::UnauthorizedClient)
        }
    }
}

/// Authenticates a client and decides whether it may introspect tokens. A public client never may.
///
/// # Errors
/// [`ClientAuthError::InvalidClient`].
pub fn judge_introspection<'a>(client: Option<&'a Client>, proof: &Proof) -> Result<&'a Client, ClientAuthError> {
    let client = authenticate(client, proof)?;
    let proved = client.authentication != Authentication::None;
    if proved && client.may_introspect { Ok(client) } else { Err(ClientAuthError::InvalidClient) }
}

/// A client for the tests of this crate.
#[cfg(test)]
pub(crate) fn sample(kind: ClientKind) -> Client {
    Client {
        id: "service-cli".into(),
        name: "Service command line".into(),
        kind,
        may_use_otp: true,
        may_introspect: false,
        authentication: Authentication::None,
        redirect_uris: vec!["https://app.test/cb".into()],
        disabled: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: Proof = Proof::Secret([1; 32]);
    const WRONG: Proof = Proof::Secret([2; 32]);

    fn client() -> Client {
        sample(ClientKind::FirstParty)
    }

    fn reports() -> Client {
        Client {
            authentication: Authentication::Secret([1; 32]),
            may_introspect: true,
            kind: ClientKind::Registered,
            ..client()
        }
    }

    #[track_caller]
    fn check(client: &Client, grant_type: GrantType, expected: Result<(), ClientAuthError>) {
        assert_eq!(judge(Some(client), &Proof::Nothing, grant_type).map(|_| ()), expected);
    }

    #[test]
    fn only_first_party_clients_sign_people_in_by_code() {
        check(&client(), GrantType::Otp, Ok(()));
        for kind in [ClientKind::Registered, ClientKind::Dynamic, ClientKind::Document] {
            check(&sample(kind), GrantType::Otp, Err(ClientAuthError::UnauthorizedClient));
        }
        check(&Client { may_use_otp: false, ..client() }, GrantType::Otp, Err(ClientAuthError::UnauthorizedClient));
    }

    #[test]
    fn a_client_proves_itself_in_the_one_way_it_was_registered_for() {
        let signing = Client { authentication: Authentication::PrivateKey, ..reports() };
        let all = [Proof::Nothing, RIGHT, WRONG, Proof::PrivateKey, Proof::Invalid];
        for (client, right) in [(client(), &all[0]), (reports(), &all[1]), (signing, &all[3])] {
            for proof in &all {
                let expected = if proof == right { Ok(()) } else { Err(ClientAuthError::InvalidClient) };
                assert_eq!(authenticate(Some(&client), proof).map(|_| ()), expected, "{client:?} {proof:?}");
            }
            let disabled = Client { disabled: true, ..client };
            assert_eq!(authenticate(Some(&disabled), right).map(|_| ()), Err(ClientAuthError::InvalidClient));
        }
        assert_eq!(authenticate(None, &Proof::Nothing).map(|_| ()), Err(ClientAuthError::InvalidClient));
    }

    #[test]
    fn only_a_client_that_was_made_for_it_introspects() {
        let refused = Some(ClientAuthError::InvalidClient);
        assert_eq!(judge_introspection(Some(&reports()), &RIGHT).err(), None);
        assert_eq!(judge_introspection(Some(&reports()), &Proof::Nothing).err(), refused);
        assert_eq!(judge_introspection(Some(&Client { may_introspect: false, ..reports() }), &RIGHT).err(), refused);
        let public = Client { may_introspect: true, ..client() };
        assert_eq!(judge_introspection(Some(&public), &Proof::Nothing).err(), refused);
    }

    #[test]
    fn no_public_client_has_credentials_of_its_own() {
        check(&client(), GrantType::ClientCredentials, Err(ClientAuthError::UnauthorizedClient));
        check(&client(), GrantType::RefreshToken, Ok(()));
        check(&client(), GrantType::AuthorizationCode, Ok(()));
        let without = Client { redirect_uris: Vec::new(), ..client() };
        check(&without, GrantType::AuthorizationCode, Err(ClientAuthError::UnauthorizedClient));
    }
}
