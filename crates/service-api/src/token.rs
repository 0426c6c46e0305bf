//! Secrets, with a type for each kind. They are never printed.
//!
//! A token is `<prefix><base62 body><6 characters of base62 CRC-32>`, so that a scanner can recognize a leaked token offline
//! and a mistyped token costs no query. Prefixes never change.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;
use zeroize::{Zeroize as _, Zeroizing};

use crate::{base62, ids::CliTokenId, shard::Shard};

/// The number of characters of the checksum at the end of every token.
pub const CHECKSUM_LENGTH: usize = base62::length(4);

/// A secret of kind `K` whose format has been checked. It may be expired or unknown.
///
/// `Debug` hides the value and there is no `Display`; [`expose`](Self::expose) returns it.
pub struct Token<K> {
    text: Zeroizing<String>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Token<K> {
    fn clone(&self) -> Self {
        Self { text: self.text.clone(), kind: PhantomData }
    }
}

/// A kind of token.
pub trait TokenKind {
    const PREFIX: &'static str;
    /// The number of bytes of the body.
    const BODY: usize;
}

/// A refresh token: grant id, key version, generation, MAC.
pub enum Refresh {}

impl TokenKind for Refresh {
    const PREFIX: &'static str = "svc_rt_";
    const BODY: usize = 16 + 1 + 4 + 32;
}

pub type RefreshToken = Token<Refresh>;

/// A refresh token of MCP tokens, which is accepted at `/v1/mcp/tokens/refresh` only.
pub enum McpRefresh {}

impl TokenKind for McpRefresh {
    const PREFIX: &'static str = "svc_mrt_";
    const BODY: usize = Refresh::BODY;
}

/// A CLI token: its id and 256 random bits.
pub enum Cli {}

impl TokenKind for Cli {
    const PREFIX: &'static str = "svc_cli_";
    const BODY: usize = 16 + 32;
}

pub type CliToken = Token<Cli>;

impl CliToken {
    /// The id that precedes the secret in the token.
    #[must_use]
    pub fn id(&self) -> Option<CliTokenId> {
        let body: [u8; Cli::BODY] = self.body()?;
        Some(Uuid::from_bytes(*body.first_chunk()?).into())
    }
}

/// The secret of a confidential client: 256 random bits.
pub enum Client {}

impl TokenKind for Client {
    const PREFIX: &'static str = "svc_cs_";
    const BODY: usize = 32;
}

/// An authorization code: 256 bits, of which 12 are the shard of its user and the others are random.
pub enum AuthorizationCode {}

impl TokenKind for AuthorizationCode {
    const PREFIX: &'static str = "svc_ac_";
    const BODY: usize = 32;
}

/// The session cookie of a browser: 256 bits, of which 12 are the shard of the session and the others are random.
pub enum BrowserSession {}

impl TokenKind for BrowserSession {
    const PREFIX: &'static str = "svc_ses_";
    const BODY: usize = 32;
}

/// A device secret, which identifies a browser or command that signed in before: 256 random bits. It grants no access; it has
/// its own rate limits for requesting codes.
pub enum Device {}

impl TokenKind for Device {
    const PREFIX: &'static str = "svc_dev_";
    const BODY: usize = 32;
}

pub type DeviceSecret = Token<Device>;

/// The secret in the link of a mail about a new sign-in: 256 bits, of which 12 are the shard of the user and the others are
/// random. It revokes that sign-in once and authenticates no user.
pub enum SignInReport {}

impl TokenKind for SignInReport {
    const PREFIX: &'static str = "svc_sir_";
    const BODY: usize = 32;
}

/// The secret in the link that keeps an account which its user closed: a MAC of 256 bits, of which 12 are replaced by the shard of
/// the user. It opens the account again once and authenticates no user.
pub enum KeepAccount {}

impl TokenKind for KeepAccount {
    const PREFIX: &'static str = "svc_kac_";
    const BODY: usize = 32;
}

/// The secret in a link that confirms or stops a change of an email address: a MAC of 256 bits, of which 12 are replaced by the shard
/// of the user. It authenticates no user.
pub enum AddressLink {}

impl TokenKind for AddressLink {
    const PREFIX: &'static str = "svc_adl_";
    const BODY: usize = 32;
}

/// A kind of token whose body begins with the shard of its row.
pub trait InShard: TokenKind {}

impl InShard for AuthorizationCode {}

impl InShard for SignInReport {}

impl InShard for KeepAccount {}

impl InShard for AddressLink {}

impl InShard for BrowserSession {}

impl<K: InShard> Token<K> {
    /// Encodes 32 random bytes, of which the first two take up the shard.
    #[must_use]
    pub fn in_shard(shard: Shard, mut random: [u8; 32]) -> Self {
        [random[0], random[1]] = shard.write_into([random[0], random[1]]);
        let token = Self::from_body(&random);
        random.zeroize();
        token
    }

    /// The shard of its row.
    #[must_use]
    pub fn shard(&self) -> Shard {
        let body = Zeroizing::new(self.body::<32>().unwrap_or_default());
        Shard::of_bytes([body[0], body[1]])
    }
}

/// The number of characters of a token of this kind.
#[must_use]
pub const fn written_length<K: TokenKind>() -> usize {
    K::PREFIX.len() + base62::length(K::BODY) + CHECKSUM_LENGTH
}

impl<K: TokenKind> Token<K> {
    /// Encodes a body as a token.
    #[must_use]
    pub fn from_body(body: &[u8]) -> Self {
        let mut text = format!("{}{}", K::PREFIX, base62::encode(body));
        let checksum = crc32fast::hash(text.as_bytes());
        text.push_str(&base62::encode(&checksum.to_be_bytes()));
        Self { text: Zeroizing::new(text), kind: PhantomData }
    }

    /// Parses a token: `None` unless prefix, length, alphabet and checksum are those of this kind.
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

    /// The last four characters, by which users tell their tokens apart. They belong to the checksum.
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
    /// A signed access token (RFC 9068), opaque to clients.
    AccessToken,
    "AccessToken(…)"
);
secret_text!(
    /// A one-time code or an authorization code, as a client sends it.
    OtpCode,
    "OtpCode(…)"
);
secret_text!(
    /// A token as a client sends it. Neither its kind nor its format has been checked.
    PresentedToken,
    "PresentedToken(…)"
);
secret_text!(
    /// The code verifier of PKCE (RFC 7636).
    CodeVerifier,
    "CodeVerifier(…)"
);
secret_text!(
    /// A signed client assertion (RFC 7523).
    ClientAssertion,
    "ClientAssertion(…)"
);
secret_text!(
    /// The secret of a confidential client, as it sends it.
    ClientSecret,
    "ClientSecret(…)"
);
secret_text!(
    /// The client secret that an identity provider gave to the service.
    ProviderSecret,
    "ProviderSecret(…)"
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
        assert_eq!(format!("{:?}", ProviderSecret::new("hunter2".into())), "ProviderSecret(…)");
        assert_eq!(format!("{:?}", PresentedToken::new("svc_rt_1".into())), "PresentedToken(…)");
    }
}
