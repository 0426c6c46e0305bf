//! Which client may ask for tokens, and by which grant.

use service_api::oauth::OTP_GRANT;

/// The ways to obtain tokens that this service knows by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantType {
    Otp,
    /// Only for clients that can keep a secret, of which there are none yet.
    ClientCredentials,
}

impl GrantType {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            OTP_GRANT => Some(Self::Otp),
            "client_credentials" => Some(Self::ClientCredentials),
            _ => None,
        }
    }
}

/// A client as it was found.
#[derive(Clone, Debug)]
pub struct Client {
    pub id: String,
    pub name: String,
    /// Ours: may sign people in by code.
    pub first_party: bool,
    /// May be handed the result of a sign-in by code; the MCP pair is made elsewhere.
    pub may_use_otp: bool,
    pub disabled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such client, a disabled one, or one that authenticates in a way it was not registered for.
    NotThisClient,
    /// This client may not use this grant.
    NotThisGrant,
}

/// Every client so far is public: one that sends a secret is not the one that was registered.
pub fn judge(client: Option<&Client>, sent_secret: bool, grant_type: GrantType) -> Result<&Client, Refusal> {
    let client = client.filter(|client| !client.disabled && !sent_secret).ok_or(Refusal::NotThisClient)?;
    match grant_type {
        GrantType::Otp if client.first_party && client.may_use_otp => Ok(client),
        GrantType::Otp | GrantType::ClientCredentials => Err(Refusal::NotThisGrant),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        Client {
            id: "service-cli".into(),
            name: "Service command line".into(),
            first_party: true,
            may_use_otp: true,
            disabled: false,
        }
    }

    fn check(client: Option<&Client>, sent_secret: bool, grant_type: GrantType, expected: Result<(), Refusal>) {
        assert_eq!(judge(client, sent_secret, grant_type).map(|_| ()), expected);
    }

    #[test]
    fn only_first_party_clients_sign_people_in_by_code() {
        check(Some(&client()), false, GrantType::Otp, Ok(()));
        check(Some(&Client { first_party: false, ..client() }), false, GrantType::Otp, Err(Refusal::NotThisGrant));
        check(Some(&Client { may_use_otp: false, ..client() }), false, GrantType::Otp, Err(Refusal::NotThisGrant));
    }

    #[test]
    fn unknown_disabled_and_disguised_clients_are_refused() {
        check(None, false, GrantType::Otp, Err(Refusal::NotThisClient));
        check(Some(&Client { disabled: true, ..client() }), false, GrantType::Otp, Err(Refusal::NotThisClient));
        check(Some(&client()), true, GrantType::Otp, Err(Refusal::NotThisClient));
    }

    #[test]
    fn no_public_client_has_credentials_of_its_own() {
        check(Some(&client()), false, GrantType::ClientCredentials, Err(Refusal::NotThisGrant));
    }
}
