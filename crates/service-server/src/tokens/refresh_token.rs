//! Refresh tokens: derived from keys, never stored, and recognized however old they are.
//!
//! A token contains its grant, the root key it was derived from, its generation, and a MAC over these and the grant's
//! salt. An attacker with the database lacks the key; one with the key lacks the salt.

use service_api::{
    ids::{GrantId, Id as _},
    token::{McpRefresh, PresentedToken, Refresh, Token, TokenKind},
};
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::crypto::root_keys::{Purpose, RootKeys};

/// Derives a grant's token of this generation; `None`: this node lacks the root key.
#[must_use]
pub fn derive<K: TokenKind>(
    root_keys: &RootKeys,
    key_id: u8,
    grant: GrantId,
    salt: &[u8],
    generation: i32,
) -> Option<Token<K>> {
    let id = *grant.uuid().as_bytes();
    let mac = mac(root_keys, key_id, &TokenFields { kind: K::PREFIX, grant, generation }, salt)?;
    Some(Token::from_body(&[&id[..], &[key_id], &generation.to_be_bytes(), &mac].concat()))
}

/// The fields of a well-formed refresh token. Its MAC is not verified yet.
pub struct UnverifiedToken {
    /// The prefix of its kind. The MAC covers it, so a token of one kind is not valid as another.
    kind: &'static str,
    pub grant_id: GrantId,
    pub key_id: u8,
    pub generation: i32,
    mac: [u8; 32],
}

impl UnverifiedToken {
    /// Parses a token of kind `K`; `None`: it is of another kind, or its checksum is wrong.
    #[must_use]
    pub fn read<K: TokenKind>(text: &PresentedToken) -> Option<Self> {
        let body: [u8; Refresh::BODY] = Token::<K>::parse(text.expose())?.body()?;
        let (id, rest) = body.split_first_chunk::<16>()?;
        let (key_id, rest) = rest.split_first()?;
        let (generation, mac) = rest.split_first_chunk::<4>()?;
        Some(Self {
            kind: K::PREFIX,
            grant_id: Uuid::from_bytes(*id).into(),
            key_id: *key_id,
            generation: i32::from_be_bytes(*generation),
            mac: mac.try_into().ok()?,
        })
    }

    /// Parses a refresh token of either kind.
    #[must_use]
    pub fn read_any(text: &PresentedToken) -> Option<Self> {
        Self::read::<Refresh>(text).or_else(|| Self::read::<McpRefresh>(text))
    }

    /// Verifies the MAC; `None`: this node lacks the root key that the token names.
    #[must_use]
    pub fn is_genuine(&self, root_keys: &RootKeys, salt: &[u8]) -> Option<bool> {
        let numbered = TokenFields { kind: self.kind, grant: self.grant_id, generation: self.generation };
        let known = mac(root_keys, self.key_id, &numbered, salt)?;
        Some(self.mac.ct_eq(&known).into())
    }
}

/// The fields of a token that its MAC covers.
struct TokenFields {
    kind: &'static str,
    grant: GrantId,
    generation: i32,
}

fn mac(root_keys: &RootKeys, key_id: u8, token: &TokenFields, salt: &[u8]) -> Option<[u8; 32]> {
    let (id, generation) = (token.grant.uuid(), token.generation.to_be_bytes());
    let mut parts = vec![salt, id.as_bytes(), &generation];
    // An attacker can compute the checksum for another prefix, but not the MAC.
    if token.kind != Refresh::PREFIX {
        parts.push(token.kind.as_bytes());
    }
    root_keys.mac_under(key_id, Purpose::RefreshToken, &parts)
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use service_api::token::RefreshToken;

    use super::*;
    use crate::crypto::root_keys::RootKey;

    #[test]
    fn a_token_is_recognised_by_salt_grant_key_and_number() {
        let root = |id| RootKey { id, bytes: Zeroizing::new([id; 32]) };
        let root_keys = RootKeys::new(&[root(2), root(1)]).unwrap();
        let grant: GrantId = Uuid::from_u128(7).into();
        let text = |token: RefreshToken| PresentedToken::new(token.expose().to_owned());
        let token =
            UnverifiedToken::read::<Refresh>(&text(derive::<Refresh>(&root_keys, 1, grant, b"salt", 3).unwrap()))
                .unwrap();
        assert_eq!((token.grant_id, token.key_id, token.generation), (grant, 1, 3));
        assert_eq!(token.is_genuine(&root_keys, b"salt"), Some(true));
        assert_eq!(token.is_genuine(&root_keys, b"pepper"), Some(false));
        let altered = |change: fn(UnverifiedToken) -> UnverifiedToken| {
            let token =
                UnverifiedToken::read::<Refresh>(&text(derive::<Refresh>(&root_keys, 1, grant, b"salt", 3).unwrap()))
                    .unwrap();
            change(token).is_genuine(&root_keys, b"salt")
        };
        assert_eq!(altered(|token| UnverifiedToken { generation: 4, ..token }), Some(false));
        assert_eq!(altered(|token| UnverifiedToken { key_id: 2, ..token }), Some(false));
        assert_eq!(altered(|token| UnverifiedToken { grant_id: Uuid::from_u128(8).into(), ..token }), Some(false));
        assert_eq!(altered(|token| UnverifiedToken { key_id: 3, ..token }), None);
        let as_mcp = Token::<McpRefresh>::from_body(
            &derive::<Refresh>(&root_keys, 1, grant, b"salt", 3).unwrap().body::<{ Refresh::BODY }>().unwrap(),
        );
        let as_mcp = UnverifiedToken::read_any(&PresentedToken::new(as_mcp.expose().to_owned())).unwrap();
        assert_eq!(as_mcp.is_genuine(&root_keys, b"salt"), Some(false));
        assert!(derive::<Refresh>(&root_keys, 9, grant, b"salt", 3).is_none());
    }
}
