//! Refresh tokens: derived, never stored, and recognised for ever.
//!
//! A token says which grant it is of, under which root key it was derived, its number, and a MAC of these with the
//! grant's salt. Whoever has the database lacks the key, whoever has the key lacks the salt.

use service_api::{
    ids::{GrantId, Id as _},
    token::{McpRefresh, PresentedToken, Refresh, Token, TokenKind},
};
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::vault::{Purpose, Vault};

/// A grant's token of this generation; `None` if this node lacks the root key.
#[must_use]
pub fn derive<K: TokenKind>(
    vault: &Vault,
    key_id: u8,
    grant: GrantId,
    salt: &[u8],
    generation: i32,
) -> Option<Token<K>> {
    let id = *grant.uuid().as_bytes();
    let mac = mac(vault, key_id, grant, salt, generation)?;
    Some(Token::from_body(&[&id[..], &[key_id], &generation.to_be_bytes(), &mac].concat()))
}

/// What a text that has the form of a refresh token says; nobody has checked its MAC yet.
pub struct UnverifiedToken {
    pub grant_id: GrantId,
    pub key_id: u8,
    pub generation: i32,
    mac: [u8; 32],
}

impl UnverifiedToken {
    /// `None`: another kind of secret, or a wrong checksum.
    #[must_use]
    pub fn read<K: TokenKind>(text: &PresentedToken) -> Option<Self> {
        let body: [u8; Refresh::BODY] = Token::<K>::parse(text.expose())?.body()?;
        let (id, rest) = body.split_first_chunk::<16>()?;
        let (key_id, rest) = rest.split_first()?;
        let (generation, mac) = rest.split_first_chunk::<4>()?;
        Some(Self {
            grant_id: Uuid::from_bytes(*id).into(),
            key_id: *key_id,
            generation: i32::from_be_bytes(*generation),
            mac: mac.try_into().ok()?,
        })
    }

    /// The same for a refresh token of either kind.
    #[must_use]
    pub fn read_any(text: &PresentedToken) -> Option<Self> {
        Self::read::<Refresh>(text).or_else(|| Self::read::<McpRefresh>(text))
    }

    /// Whether the MAC is ours; `None` if this node lacks the root key that it names.
    #[must_use]
    pub fn is_genuine(&self, vault: &Vault, salt: &[u8]) -> Option<bool> {
        let known = mac(vault, self.key_id, self.grant_id, salt, self.generation)?;
        Some(self.mac.ct_eq(&known).into())
    }
}

fn mac(vault: &Vault, key_id: u8, grant: GrantId, salt: &[u8], generation: i32) -> Option<[u8; 32]> {
    vault.mac_under(key_id, Purpose::RefreshToken, &[salt, grant.uuid().as_bytes(), &generation.to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use service_api::token::RefreshToken;

    use super::*;
    use crate::vault::RootKey;

    #[test]
    fn a_token_is_recognised_by_salt_grant_key_and_number() {
        let root = |id| RootKey { id, bytes: Zeroizing::new([id; 32]) };
        let vault = Vault::new(&[root(2), root(1)]).unwrap();
        let grant: GrantId = Uuid::from_u128(7).into();
        let text = |token: RefreshToken| PresentedToken::new(token.expose().to_owned());
        let token =
            UnverifiedToken::read::<Refresh>(&text(derive::<Refresh>(&vault, 1, grant, b"salt", 3).unwrap())).unwrap();
        assert_eq!((token.grant_id, token.key_id, token.generation), (grant, 1, 3));
        assert_eq!(token.is_genuine(&vault, b"salt"), Some(true));
        assert_eq!(token.is_genuine(&vault, b"pepper"), Some(false));
        let altered = |change: fn(UnverifiedToken) -> UnverifiedToken| {
            let token =
                UnverifiedToken::read::<Refresh>(&text(derive::<Refresh>(&vault, 1, grant, b"salt", 3).unwrap()))
                    .unwrap();
            change(token).is_genuine(&vault, b"salt")
        };
        assert_eq!(altered(|token| UnverifiedToken { generation: 4, ..token }), Some(false));
        assert_eq!(altered(|token| UnverifiedToken { key_id: 2, ..token }), Some(false));
        assert_eq!(altered(|token| UnverifiedToken { grant_id: Uuid::from_u128(8).into(), ..token }), Some(false));
        assert_eq!(altered(|token| UnverifiedToken { key_id: 3, ..token }), None);
        assert!(derive::<Refresh>(&vault, 9, grant, b"salt", 3).is_none());
    }
}
