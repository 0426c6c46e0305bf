//! IDs in the TypeID format: a prefix and 26 characters of a UUIDv7. Each kind of ID has its own type.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use crate::shard::Shard;

/// An ID. The types of this module implement it.
pub trait Id: Copy + From<Uuid> + fmt::Display + FromStr<Err = NotAnId> {
    /// The prefix.
    const KIND: &'static str;
    fn uuid(self) -> Uuid;

    /// The shard in which the row of this ID is, or the row of its owner; see [`shard`](crate::shard).
    fn shard(self) -> Shard {
        Shard::of_id(self.uuid())
    }
}

/// The text is not an ID of the requested kind. The error does not contain the text, so it can be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnId;

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an id of this kind")
    }
}

impl std::error::Error for NotAnId {}

/// The regular expression of the IDs of a kind.
#[must_use]
pub fn pattern(kind: &str) -> String {
    format!("^{kind}_[0-7][0-9a-hjkmnp-tv-z]{{25}}$")
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident = $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl Id for $name {
            const KIND: &'static str = $kind;
            fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!($kind, "_"))?;
                f.write_str(Suffix::of(self.0).as_str())
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;
            fn from_str(text: &str) -> Result<Self, NotAnId> {
                let suffix = text.strip_prefix(concat!($kind, "_")).ok_or(NotAnId)?;
                Suffix::read(suffix).map(Self).ok_or(NotAnId)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&write($kind, self.0))
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": pattern($kind) })
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <std::borrow::Cow<'de, str>>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

id!(/// A user.
    UserId = "user");
id!(/// A workspace.
    WorkspaceId = "wsp");
id!(/// An invitation to a workspace.
    InvitationId = "inv");
id!(/// A workspace's connection to an identity provider.
    ConnectionId = "conn");
id!(/// An issuer that a workspace trusts.
    IssuerId = "iss");
id!(/// A project.
    ProjectId = "proj");
id!(/// A one-time code that was requested.
    OtpId = "otp");
id!(/// A session. Revoking it revokes every token that was issued for it.
    GrantId = "grant");
id!(/// A client that registered itself.
    ClientId = "client");
id!(/// A tool of the operator that calls the support listener.
    SupportClientId = "supc");
id!(/// The consent of a user for a client.
    ConsentId = "consent");
id!(
    /// The ID of a confirmation that an MCP client waits for.
    ConfirmationId = "conf");
id!(/// The session of a browser.
    BrowserSessionId = "sess");
id!(/// A sign-in in progress in a browser.
    FlowId = "flow");
id!(/// A passkey of a user.
    PasskeyId = "passkey");
id!(/// The recovery codes of a user that were created together.
    RecoveryCodesId = "codes");
id!(/// A change of the email address of a user.
    AddressChangeId = "addrchg");
id!(/// An export of an account.
    ExportId = "export");
id!(/// A CLI token.
    CliTokenId = "clit");
id!(/// An access token: its `jti` claim.
    AccessTokenId = "at");
id!(/// An audit event.
    EventId = "evt");
id!(/// A revocation.
    RevocationId = "rev");
id!(/// An email in the outbox.
    MailId = "mail");
id!(/// A request, in logs and error responses.
    RequestId = "req");

/// Formats an ID with this prefix.
#[must_use]
pub fn write(prefix: &str, id: Uuid) -> String {
    [prefix, "_", Suffix::of(id).as_str()].concat()
}

/// Parses an ID with this prefix.
#[must_use]
pub fn read(prefix: &str, text: &str) -> Option<Uuid> {
    Suffix::read(text.strip_prefix(prefix)?.strip_prefix('_')?)
}

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// 128 bits as 26 characters of Crockford's base32, as the TypeID format has it.
struct Suffix([u8; 26]);

impl Suffix {
    fn of(uuid: Uuid) -> Self {
        let mut bits = uuid.as_u128();
        let mut text = [b'0'; 26];
        for place in text.iter_mut().rev() {
            *place = ALPHABET[(bits & 31) as usize];
            bits >>= 5;
        }
        Self(text)
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// One id has one spelling: lower case only, and the two bits that 26 characters have too many are zero.
    fn read(text: &str) -> Option<Uuid> {
        if text.len() != 26 || text.as_bytes()[0] > b'7' {
            return None;
        }
        let bits = text.bytes().try_fold(0_u128, |bits, character| {
            let value = ALPHABET.iter().position(|&known| known == character)?;
            Some(bits << 5 | value as u128)
        })?;
        Some(Uuid::from_u128(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_kind_and_26_characters() {
        let id = UserId::from(Uuid::from_u128(0x0188_bac7_4afa_78aa_bc3b_bd1e_ef28_d881));
        assert_eq!(id.to_string(), "user_01h2xcejqtf2nbrexx3vqjhp41");
        assert_eq!("user_01h2xcejqtf2nbrexx3vqjhp41".parse(), Ok(id));
    }

    #[test]
    fn an_id_has_one_spelling_and_one_kind() {
        for wrong in [
            "wsp_01h2xcejqtf2nbrexx3vqjhp41",
            "user_01H2XCEJQTF2NBREXX3VQJHP41",
            "user_81h2xcejqtf2nbrexx3vqjhp41",
            "user_01h2xcejqtf2nbrexx3vqjhp4",
            "user_01h2xcejqtf2nbrexx3vqjhp411",
            "user_01h2xcejqtf2nbrexx3vqjhpil",
            "user_01h2xcejqtf2nbrexx3vqjhp4é",
            "user01h2xcejqtf2nbrexx3vqjhp41",
            "",
        ] {
            assert_eq!(wrong.parse::<UserId>(), Err(NotAnId), "{wrong}");
        }
    }

    #[test]
    fn every_bit_survives_a_round_trip() {
        for shift in 0..128 {
            let id = GrantId::from(Uuid::from_u128(1 << shift));
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }
}
