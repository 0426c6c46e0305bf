//! Which client may ask for tokens, and by which grant.

use service_api::oauth::{CODE_GRANT, OTP_GRANT, REFRESH_GRANT};
use subtle::ConstantTimeEq as _;

use crate::limits::Limited;

/// The ways to obtain tokens that this service knows by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantType {
    AuthorizationCode,
    Otp,
    RefreshToken,
    /// Only for clients that can keep a secret and act for themselves, of which there are none yet.
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

/// SHA-256 of a client's secret, which is random enough for that.
pub type SecretDigest = [u8; 32];

/// How a client came to be, which decides how far it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ours.
    FirstParty,
    /// Made by an operator, who knows whose it is.
    Registered,
    /// Registered itself: it can be anybody.
    Dynamic,
    /// Described by a document at the address that is its name.
    Document,
}

/// How a client proves itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// It cannot keep a secret, and has none.
    None,
    Secret(SecretDigest),
    /// By signing with a key whose public half we have.
    PrivateKey,
}

/// By what a client proved itself in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    Nothing,
    Secret(SecretDigest),
    /// A signature by the client's own key, which has been verified.
    PrivateKey,
    /// Something that proves nothing.
    Worthless,
}

/// A client as it was found.
#[derive(Clone, Debug)]
pub struct Client {
    pub id: String,
    pub name: String,
    pub kind: Kind,
    /// May be handed the result of a sign-in by code; the MCP pair is made elsewhere.
    pub may_use_otp: bool,
    /// May ask what any token is worth.
    pub may_introspect: bool,
    pub authentication: Authentication,
    /// Where answers to it may go; none: it asks for no access by browser.
    pub redirect_uris: Vec<String>,
    pub disabled: bool,
}

impl Client {
    /// What its tokens are for unless it says otherwise: clients that we never met come for MCP.
    #[must_use]
    pub const fn is_for_mcp(&self) -> bool {
        matches!(self.kind, Kind::Dynamic | Kind::Document)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such client, a disabled one, or one that authenticates in a way it was not registered for.
    NotThisClient,
    /// This client may not use this grant.
    NotThisGrant,
    /// Too many wrong secrets for this client.
    Limited(Limited),
}

/// Whether this is the client it says it is: it proves itself in the one way it was registered for.
pub fn authenticate<'a>(client: Option<&'a Client>, proof: &Proof) -> Result<&'a Client, Refusal> {
    let client = client.filter(|client| !client.disabled).ok_or(Refusal::NotThisClient)?;
    let proved = match (&client.authentication, proof) {
        (Authentication::None, Proof::Nothing) | (Authentication::PrivateKey, Proof::PrivateKey) => true,
        (Authentication::Secret(secret), Proof::Secret(sent)) => secret.ct_eq(sent).into(),
        _ => false,
    };
    if proved { Ok(client) } else { Err(Refusal::NotThisClient) }
}

/// Whether this client may use this grant. A refresh token is bound to its client already.
pub fn judge<'a>(client: Option<&'a Client>, proof: &Proof, grant_type: GrantType) -> Result<&'a Client, Refusal> {
    let client = authenticate(client, proof)?;
    match grant_type {
        GrantType::Otp if client.kind == Kind::FirstParty && client.may_use_otp => Ok(client),
        GrantType::AuthorizationCode if !client.redirect_uris.is_empty() => Ok(client),
        GrantType::RefreshToken => Ok(client),
        GrantType::AuthorizationCode | GrantType::Otp | GrantType::ClientCredentials => Err(Refusal::NotThisGrant),
    }
}

/// Whether this client may ask what a token is worth: it proved itself, and was made for it.
pub fn judge_introspection<'a>(client: Option<&'a Client>, proof: &Proof) -> Result<&'a Client, Refusal> {
    let client = authenticate(client, proof)?;
    let proved = client.authentication != Authentication::None;
    if proved && client.may_introspect { Ok(client) } else { Err(Refusal::NotThisClient) }
}

/// A client for the tests of this crate.
#[cfg(test)]
pub(crate) fn sample(kind: Kind) -> Client {
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
        sample(Kind::FirstParty)
    }

    fn reports() -> Client {
        Client {
            authentication: Authentication::Secret([1; 32]),
            may_introspect: true,
            kind: Kind::Registered,
            ..client()
        }
    }

    #[track_caller]
    fn check(client: &Client, grant_type: GrantType, expected: Result<(), Refusal>) {
        assert_eq!(judge(Some(client), &Proof::Nothing, grant_type).map(|_| ()), expected);
    }

    #[test]
    fn only_first_party_clients_sign_people_in_by_code() {
        check(&client(), GrantType::Otp, Ok(()));
        for kind in [Kind::Registered, Kind::Dynamic, Kind::Document] {
            check(&sample(kind), GrantType::Otp, Err(Refusal::NotThisGrant));
        }
        check(&Client { may_use_otp: false, ..client() }, GrantType::Otp, Err(Refusal::NotThisGrant));
    }

    #[test]
    fn a_client_proves_itself_in_the_one_way_it_was_registered_for() {
        let signing = Client { authentication: Authentication::PrivateKey, ..reports() };
        let all = [Proof::Nothing, RIGHT, WRONG, Proof::PrivateKey, Proof::Worthless];
        for (client, right) in [(client(), &all[0]), (reports(), &all[1]), (signing, &all[3])] {
            for proof in &all {
                let expected = if proof == right { Ok(()) } else { Err(Refusal::NotThisClient) };
                assert_eq!(authenticate(Some(&client), proof).map(|_| ()), expected, "{client:?} {proof:?}");
            }
            let disabled = Client { disabled: true, ..client };
            assert_eq!(authenticate(Some(&disabled), right).map(|_| ()), Err(Refusal::NotThisClient));
        }
        assert_eq!(authenticate(None, &Proof::Nothing).map(|_| ()), Err(Refusal::NotThisClient));
    }

    #[test]
    fn only_a_client_that_was_made_for_it_introspects() {
        let refused = Some(Refusal::NotThisClient);
        assert_eq!(judge_introspection(Some(&reports()), &RIGHT).err(), None);
        assert_eq!(judge_introspection(Some(&reports()), &Proof::Nothing).err(), refused);
        assert_eq!(judge_introspection(Some(&Client { may_introspect: false, ..reports() }), &RIGHT).err(), refused);
        let public = Client { may_introspect: true, ..client() };
        assert_eq!(judge_introspection(Some(&public), &Proof::Nothing).err(), refused);
    }

    #[test]
    fn no_public_client_has_credentials_of_its_own() {
        check(&client(), GrantType::ClientCredentials, Err(Refusal::NotThisGrant));
        check(&client(), GrantType::RefreshToken, Ok(()));
        check(&client(), GrantType::AuthorizationCode, Ok(()));
        let without = Client { redirect_uris: Vec::new(), ..client() };
        check(&without, GrantType::AuthorizationCode, Err(Refusal::NotThisGrant));
    }
}
