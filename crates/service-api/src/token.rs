//! Secrets by kind. They can be sent and compared by digest, and can never be printed.
//!
//! A token is `<prefix><base62 body><6 characters of base62 CRC-32>`: a scanner can recognise a leaked one offline,
//! and a typing error costs no query. Prefixes never change.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::{base62, ids::CliTokenId};

/// Characters of the checksum at the end of every token.
pub const CHECKSUM_LENGTH: usize = base62::length(4);

/// A secret of kind `K`, whose form has been checked and whose validity has not.
///
/// `Debug` hides the value and there is no `Display`; reading it takes a visible [`expose`](Self::expose).
pub struct Token<K> {
    text: Zeroizing<String>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Token<K> {
    fn clone(&self) -> Self {
        Self { text: self.text.clone(), kind: PhantomData }
    }
}

/// What a token opens.
pub trait TokenKind {
    const PREFIX: &'static str;
    /// How many bytes the body carries.
    const BODY: usize;
}

/// Buys the next pair of tokens: grant id, key version, generation, MAC.
pub enum Refresh {}

impl TokenKind for Refresh {
    const PREFIX: &'static str = "svc_rt_";
    const BODY: usize = 16 + 1 + 4 + 32;
}

pub type RefreshToken = Token<Refresh>;

/// The same for the MCP pair, which has a door of its own.
pub enum McpRefresh {}

impl TokenKind for McpRefresh {
    const PREFIX: &'static str = "svc_mrt_";
    const BODY: usize = Refresh::BODY;
}

/// Opens the API for automation: its id, and 256 random bits.
pub enum Cli {}

impl TokenKind for Cli {
    const PREFIX: &'static str = "svc_cli_";
    const BODY: usize = 16 + 32;
}

pub type CliToken = Token<Cli>;

impl CliToken {
    /// The id that the token carries in front of its secret.
    #[must_use]
    pub fn id(&self) -> Option<CliTokenId> {
        let body: [u8; Cli::BODY] = self.body()?;
        Some(Uuid::from_bytes(*body.first_chunk()?).into())
    }
}

/// What a client that can keep a secret proves itself with.
pub enum Client {}

impl TokenKind for Client {
    const PREFIX: &'static str = "svc_cs_";
    const BODY: usize = 32;
}

/// What a client exchanges for its first pair of tokens: 256 random bits.
pub enum AuthorizationCode {}

impl TokenKind for AuthorizationCode {
    const PREFIX: &'static str = "svc_ac_";
    const BODY: usize = 32;
}

/// The cookie of a browser: 256 random bits.
pub enum Session {}

impl TokenKind for Session {
    const PREFIX: &'static str = "svc_ses_";
    const BODY: usize = 32;
}

/// How many characters a token of this kind has.
#[must_use]
pub const fn written_length<K: TokenKind>() -> usize {
    K::PREFIX.len() + base62::length(K::BODY) + CHECKSUM_LENGTH
}

impl<K: TokenKind> Token<K> {
    /// Writes a body out as a token.
    #[must_use]
    pub fn from_body(body: &[u8]) -> Self {
        let mut text = format!("{}{}", K::PREFIX, base62::encode(body));
        let checksum = crc32fast::hash(text.as_bytes());
        text.push_str(&base62::encode(&checksum.to_be_bytes()));
        Self { text: Zeroizing::new(text), kind: PhantomData }
    }

    /// Accepts `text` if prefix, length, alphabet and checksum are those of this kind.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let body = text.strip_prefix(K::PREFIX)?;
        if text.len() != written_length::<K>() || !body.is_ascii() {
            return None;
        }
        let (counted, checksum) = text.split_at(text.len() - CHECKSUM_LENGTH);
        let known = base62::decode::<4>(checksum).map(u32::from_be_bytes) == Some(crc32fast::hash(counted.as_bytes()));
        known.then(|| Self { text: Zeroizing::new(text.to_owned()), kind: PhantomData })
    }

    /// The bytes between prefix and checksum; `N` is the kind's [`TokenKind::BODY`].
    #[must_use]
    pub fn body<const N: usize>(&self) -> Option<[u8; N]> {
        base62::decode(&self.text[K::PREFIX.len()..self.text.len() - CHECKSUM_LENGTH])
    }

    /// The secret itself. Every call is a place where it could leak.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// So much of it that people can tell theirs apart: the last four characters, which are of the checksum.
    #[must_use]
    pub fn hint(&self) -> String {
        format!("…{}", &self.text[self.text.len() - 4..])
    }
}

impl<K: TokenKind> fmt::Debug for Token<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", K::PREFIX)
    }
}

impl<K: TokenKind> Serialize for Token<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }
}

impl<K: TokenKind> JsonSchema for Token<K> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Token".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": format!("^{}", K::PREFIX) })
    }
}

impl<'de, K: TokenKind> Deserialize<'de> for Token<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        Self::parse(&text).ok_or_else(|| de::Error::custom("not a token of this kind"))
    }
}

macro_rules! secret_text {
    ($(#[$doc:meta])* $name:ident, $shown:literal) => {
        $(#[$doc])*
        #[derive(Clone, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Zeroizing<String>);

        impl $name {
            #[must_use]
            pub fn new(text: String) -> Self {
                Self(Zeroizing::new(text))
            }

            /// The secret itself. Every call is a place where it could leak.
            #[must_use]
            pub fn expose(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($shown)
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
                json_schema!({ "type": "string" })
            }
        }
    };
}

secret_text!(
    /// A signed access token (RFC 9068), opaque to everybody but the service.
    AccessToken,
    "AccessToken(…)"
);
secret_text!(
    /// A one-time code as it was typed or mailed, or an authorization code as it was sent.
    OtpCode,
    "OtpCode(…)"
);
secret_text!(
    /// A token as somebody sent it: of what kind, and whether it is one at all, nobody has looked at yet.
    PresentedToken,
    "PresentedToken(…)"
);
secret_text!(
    /// What a client announced a code by (RFC 7636).
    CodeVerifier,
    "CodeVerifier(…)"
);
secret_text!(
    /// What a client signed to prove itself (RFC 7523).
    ClientAssertion,
    "ClientAssertion(…)"
);
secret_text!(
    /// The password of a confidential client.
    ClientSecret,
    "ClientSecret(…)"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> RefreshToken {
        RefreshToken::from_body(&[7; Refresh::BODY])
    }

    #[test]
    fn a_token_survives_a_round_trip() {
        let text = sample().expose().to_owned();
        assert!(text.starts_with("svc_rt_"));
        assert_eq!(RefreshToken::parse(&text).and_then(|token| token.body()), Some([7; Refresh::BODY]));
    }

    #[test]
    fn one_changed_character_is_noticed() {
        let text = sample().expose().to_owned();
        for place in "svc_rt_".len()..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[place] = if changed[place] == b'a' { b'b' } else { b'a' };
            assert!(RefreshToken::parse(&String::from_utf8(changed).unwrap()).is_none(), "at {place}");
        }
    }

    #[test]
    fn a_token_cut_or_lengthened_is_none() {
        let text = sample().expose().to_owned();
        assert!(RefreshToken::parse(&text[..text.len() - 1]).is_none());
        assert!(RefreshToken::parse(&format!("{text}0")).is_none());
        assert!(RefreshToken::parse(&text.replace("svc_rt_", "svc_cli_")).is_none());
        assert!(RefreshToken::parse("svc_rt_é").is_none());
    }

    #[test]
    fn secrets_are_never_printed_lg_03() {
        assert_eq!(format!("{:?}", sample()), "svc_rt_…");
        assert_eq!(format!("{:?}", AccessToken::new("eyJ".into())), "AccessToken(…)");
        assert_eq!(format!("{:?}", OtpCode::new("12345678".into())), "OtpCode(…)");
        assert_eq!(format!("{:?}", ClientSecret::new("hunter2".into())), "ClientSecret(…)");
        assert_eq!(format!("{:?}", PresentedToken::new("svc_rt_1".into())), "PresentedToken(…)");
    }
}
