//! Ids: TypeIDs, a kind and 26 characters of a UUIDv7. Each kind has its own type, so one can never pass for another.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

/// What every id has in common; [`crate::ids`] lists them all.
pub trait Id: Copy + From<Uuid> + fmt::Display + FromStr<Err = NotAnId> {
    const KIND: &'static str;
    fn uuid(self) -> Uuid;
}

/// The text is not an id of the kind that was asked for. It says nothing more, so it can be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnId;

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an id of this kind")
    }
}

impl std::error::Error for NotAnId {}

/// What ids of a kind look like, as a regular expression.
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
                write!(f, "{}_{}", $kind, Suffix::of(self.0).as_str())
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
                serializer.collect_str(self)
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

id!(/// A person who can sign in.
    UserId = "user");
id!(/// A workspace that people share.
    WorkspaceId = "wsp");
id!(/// Somebody who was invited into a workspace.
    InvitationId = "inv");
id!(/// A project in a workspace or in someone's personal space.
    ProjectId = "proj");
id!(/// A one-time code that was asked for.
    OtpId = "otp");
id!(/// One sign-in: every token that descends from it dies with it.
    GrantId = "grant");
id!(/// A client that somebody registered.
    ClientId = "client");
id!(/// A browser that somebody signs in with.
    BrowserSessionId = "sess");
id!(/// A sign-in that is under way in a browser.
    FlowId = "flow");
id!(/// A token that somebody made for automation.
    CliTokenId = "clit");
id!(/// One access token, as its `jti` names it.
    AccessTokenId = "at");
id!(/// Something that happened and was recorded.
    EventId = "evt");
id!(/// Something that ended before its time.
    RevocationId = "rev");
id!(/// A mail in the outbox.
    MailId = "mail");
id!(/// One request, as logs and errors name it.
    RequestId = "req");

/// Writes an id of a kind that only its prefix names.
#[must_use]
pub fn write(prefix: &str, id: Uuid) -> String {
    format!("{prefix}_{}", Suffix::of(id).as_str())
}

/// Reads what [`write`] wrote with the same prefix.
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
