//! Which client may ask for tokens, and by which grant.

use service_api::oauth::{OTP_GRANT, REFRESH_GRANT};
use subtle::ConstantTimeEq as _;

/// The ways to obtain tokens that this service knows by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantType {
    Otp,
    RefreshToken,
    /// Only for clients that can keep a secret and act for themselves, of which there are none yet.
    ClientCredentials,
}

impl GrantType {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            OTP_GRANT => Some(Self::Otp),
            REFRESH_GRANT => Some(Self::RefreshToken),
            "client_credentials" => Some(Self::ClientCredentials),
            _ => None,
        }
    }
}

/// SHA-256 of a client's secret, which is random enough for that.
pub type SecretDigest = [u8; 32];

/// A client as it was found.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column that an operator sets by itself")]
pub struct Client {
    pub id: String,
    pub name: String,
    /// Ours: may sign people in by code.
    pub first_party: bool,
    /// May be handed the result of a sign-in by code; the MCP pair is made elsewhere.
    pub may_use_otp: bool,
    /// May ask what any token is worth.
    pub may_introspect: bool,
    /// `None`: it cannot keep a secret, and has none.
    pub secret: Option<SecretDigest>,
    pub disabled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such client, a disabled one, or one that authenticates in a way it was not registered for.
    NotThisClient,
    /// This client may not use this grant.
    NotThisGrant,
}

/// Whether this is the client it says it is: one with a secret proves it, one without sends none.
pub fn authenticate<'a>(client: Option<&'a Client>, sent: Option<&SecretDigest>) -> Result<&'a Client, Refusal> {
    let client = client.filter(|client| !client.disabled).ok_or(Refusal::NotThisClient)?;
    let proved = match (&client.secret, sent) {
        (None, None) => true,
        (Some(secret), Some(sent)) => secret.ct_eq(sent).into(),
        (None, Some(_)) | (Some(_), None) => false,
    };
    if proved { Ok(client) } else { Err(Refusal::NotThisClient) }
}

/// Whether this client may use this grant. A refresh token is bound to its client already.
pub fn judge<'a>(
    client: Option<&'a Client>,
    sent: Option<&SecretDigest>,
    grant_type: GrantType,
) -> Result<&'a Client, Refusal> {
    let client = authenticate(client, sent)?;
    match grant_type {
        GrantType::Otp if client.first_party && client.may_use_otp => Ok(client),
        GrantType::RefreshToken => Ok(client),
        GrantType::Otp | GrantType::ClientCredentials => Err(Refusal::NotThisGrant),
    }
}

/// Whether this client may ask what a token is worth: it proved itself by a secret, and was made for it.
pub fn judge_introspection<'a>(client: Option<&'a Client>, sent: Option<&SecretDigest>) -> Result<&'a Client, Refusal> {
    let client = authenticate(client, sent)?;
    if client.secret.is_some() && client.may_introspect { Ok(client) } else { Err(Refusal::NotThisClient) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: SecretDigest = [1; 32];
    const WRONG: SecretDigest = [2; 32];

    fn client() -> Client {
        Client {
            id: "service-cli".into(),
            name: "Service command line".into(),
            first_party: true,
            may_use_otp: true,
            may_introspect: false,
            secret: None,
            disabled: false,
        }
    }

    fn reports() -> Client {
        Client { secret: Some(RIGHT), may_introspect: true, first_party: false, ..client() }
    }

    #[track_caller]
    fn check(client: &Client, grant_type: GrantType, expected: Result<(), Refusal>) {
        assert_eq!(judge(Some(client), None, grant_type).map(|_| ()), expected);
    }

    #[test]
    fn only_first_party_clients_sign_people_in_by_code() {
        check(&client(), GrantType::Otp, Ok(()));
        check(&Client { first_party: false, ..client() }, GrantType::Otp, Err(Refusal::NotThisGrant));
        check(&Client { may_use_otp: false, ..client() }, GrantType::Otp, Err(Refusal::NotThisGrant));
    }

    #[test]
    fn a_client_with_a_secret_proves_it_and_one_without_sends_none() {
        let refused = Err(Refusal::NotThisClient);
        let check = |client: Option<&Client>, sent: Option<&SecretDigest>, expected| {
            assert_eq!(authenticate(client, sent).map(|_| ()), expected);
        };
        check(Some(&client()), None, Ok(()));
        check(Some(&client()), Some(&RIGHT), refused);
        check(Some(&reports()), Some(&RIGHT), Ok(()));
        check(Some(&reports()), Some(&WRONG), refused);
        check(Some(&reports()), None, refused);
        check(Some(&Client { disabled: true, ..client() }), None, refused);
        check(Some(&Client { disabled: true, ..reports() }), Some(&RIGHT), refused);
        check(None, None, refused);
        check(None, Some(&RIGHT), refused);
    }

    #[test]
    fn only_a_client_that_was_made_for_it_introspects() {
        let refused = Some(Refusal::NotThisClient);
        assert_eq!(judge_introspection(Some(&reports()), Some(&RIGHT)).err(), None);
        assert_eq!(judge_introspection(Some(&reports()), None).err(), refused);
        assert_eq!(
            judge_introspection(Some(&Client { may_introspect: false, ..reports() }), Some(&RIGHT)).err(),
            refused
        );
        assert_eq!(judge_introspection(Some(&Client { may_introspect: true, ..client() }), None).err(), refused);
    }

    #[test]
    fn no_public_client_has_credentials_of_its_own() {
        check(&client(), GrantType::ClientCredentials, Err(Refusal::NotThisGrant));
        check(&client(), GrantType::RefreshToken, Ok(()));
    }
}
