//! Keys that are not in the database, and what is done with them: sealing what is kept, and authenticating.
//!
//! Every key is derived (HKDF) from a root key of the configuration. There may be several root keys: the first is used,
//! the others still open what they sealed, so that a root key can be replaced without losing anything.

use anyhow::{Context as _, anyhow};
use aws_lc_rs::{aead, hkdf, hmac};
use zeroize::Zeroizing;

use crate::mint;

/// What a MAC is for: the same input under another purpose gives another MAC.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    OtpCode,
    LimitKey,
    Cursor,
    RefreshToken,
    AuditSeal,
    FormToken,
}

const PURPOSES: [(Purpose, &[u8]); 6] = [
    (Purpose::OtpCode, b"mac otp code"),
    (Purpose::LimitKey, b"mac limit key"),
    (Purpose::Cursor, b"mac cursor"),
    (Purpose::RefreshToken, b"mac refresh token"),
    (Purpose::AuditSeal, b"mac audit seal"),
    (Purpose::FormToken, b"mac form token"),
];

pub const ROOT_KEY_LENGTH: usize = 32;
const NONCE_LENGTH: usize = aead::NONCE_LEN;

/// A root key as configured: which one it is, and its bytes.
#[derive(Clone)]
pub struct RootKey {
    pub id: u8,
    pub bytes: Zeroizing<[u8; ROOT_KEY_LENGTH]>,
}

pub struct Vault {
    /// Never empty; the first is the one in use.
    keys: Vec<Key>,
}

struct Key {
    id: u8,
    root: hkdf::Prk,
    macs: Vec<hmac::Key>,
}

/// A MAC and the root key it was made under.
pub struct Mac {
    pub key_id: u8,
    pub bytes: [u8; 32],
}

impl Vault {
    pub fn new(roots: &[RootKey]) -> anyhow::Result<Self> {
        let keys = roots.iter().map(Key::new).collect::<anyhow::Result<Vec<_>>>()?;
        if keys.is_empty() { Err(anyhow!("no root key is configured")) } else { Ok(Self { keys }) }
    }

    /// Encrypts `plain` for one place (table, column, row): moved elsewhere, it does not open.
    ///
    /// Every place has a key of its own, so that random nonces never meet.
    pub fn seal(&self, place: &str, plain: &[u8]) -> anyhow::Result<Vec<u8>> {
        let key = &self.keys[0];
        let nonce = mint::bytes::<NONCE_LENGTH>()?;
        let mut text = plain.to_vec();
        key.sealing(place)?
            .seal_in_place_append_tag(aead::Nonce::assume_unique_for_key(nonce), aead::Aad::from(place), &mut text)
            .context("could not seal")?;
        Ok([&[key.id][..], &nonce, &text].concat())
    }

    pub fn open(&self, place: &str, sealed: &[u8]) -> anyhow::Result<Zeroizing<Vec<u8>>> {
        let (id, rest) = sealed.split_first().context("nothing is sealed here")?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_LENGTH>().context("too short to be sealed")?;
        let key = self.key(*id).with_context(|| format!("sealed under root key {id}, which is not configured"))?;
        let mut text = Zeroizing::new(text.to_vec());
        let length = key
            .sealing(place)?
            .open_in_place(aead::Nonce::assume_unique_for_key(*nonce), aead::Aad::from(place), &mut text)
            .map_err(|_| anyhow!("the sealed value in {place} was changed, moved or sealed under another root key"))?
            .len();
        text.truncate(length);
        Ok(text)
    }

    /// The id of the root key that new things are made under.
    #[must_use]
    pub fn key_in_use(&self) -> u8 {
        self.keys[0].id
    }

    /// Authenticates `parts` under the root key in use.
    #[must_use]
    pub fn mac(&self, purpose: Purpose, parts: &[&[u8]]) -> Mac {
        Mac { key_id: self.keys[0].id, bytes: self.keys[0].mac(purpose, parts) }
    }

    /// The same under the root key `key_id`; `None` if there is none such.
    #[must_use]
    pub fn mac_under(&self, key_id: u8, purpose: Purpose, parts: &[&[u8]]) -> Option<[u8; 32]> {
        self.key(key_id).map(|key| key.mac(purpose, parts))
    }

    /// A name for `parts` that does not change when a new root key is put in front of the others.
    #[must_use]
    pub fn name(&self, purpose: Purpose, parts: &[&[u8]]) -> [u8; 32] {
        self.keys[self.keys.len() - 1].mac(purpose, parts)
    }

    fn key(&self, id: u8) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }
}

impl Key {
    fn new(root: &RootKey) -> anyhow::Result<Self> {
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"service root key").extract(&root.bytes[..]);
        let derive = |info: &[u8]| -> anyhow::Result<hmac::Key> {
            let mut bytes = Zeroizing::new([0; 32]);
            prk.expand(&[info], hkdf::HKDF_SHA256)
                .and_then(|okm| okm.fill(&mut bytes[..]))
                .map_err(|_| anyhow!("could not derive a key"))?;
            Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes[..]))
        };
        let macs = PURPOSES.iter().map(|(_, info)| derive(info)).collect::<anyhow::Result<_>>()?;
        Ok(Self { id: root.id, root: prk, macs })
    }

    fn sealing(&self, place: &str) -> anyhow::Result<aead::LessSafeKey> {
        let info = [b"seal ", place.as_bytes()];
        let okm = self.root.expand(&info, &aead::AES_256_GCM).map_err(|_| anyhow!("could not derive a key"))?;
        Ok(aead::LessSafeKey::new(aead::UnboundKey::from(okm)))
    }

    /// Each part goes in behind its length, so that no two lists of parts run together.
    fn mac(&self, purpose: Purpose, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.macs[purpose as usize]);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.sign().as_ref());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(ids: &[u8]) -> Vault {
        let root = |&id: &u8| RootKey { id, bytes: Zeroizing::new([id; 32]) };
        Vault::new(&ids.iter().map(root).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_in_its_place_only() {
        let sealed = vault(&[1]).seal("outbox.sealed/a", b"hello").unwrap();
        assert_eq!(vault(&[1]).open("outbox.sealed/a", &sealed).unwrap().as_slice(), b"hello");
        assert!(vault(&[1]).open("outbox.sealed/b", &sealed).is_err());
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(vault(&[1]).open("outbox.sealed/a", &changed).is_err(), "byte {place}");
        }
    }

    #[test]
    fn an_old_root_key_still_opens_and_no_longer_seals() {
        let old = vault(&[1]).seal("p", b"hello").unwrap();
        let both = vault(&[2, 1]);
        assert_eq!(both.open("p", &old).unwrap().as_slice(), b"hello");
        assert_eq!(both.seal("p", b"x").unwrap()[0], 2);
        assert!(vault(&[2]).open("p", &old).unwrap_err().to_string().contains("root key 1"));
    }

    #[test]
    fn a_mac_depends_on_purpose_key_and_where_the_parts_end() {
        let vault = vault(&[1, 2]);
        let mac = vault.mac(Purpose::OtpCode, &[b"ab", b"c"]).bytes;
        assert_eq!(vault.mac_under(1, Purpose::OtpCode, &[b"ab", b"c"]), Some(mac));
        assert_ne!(vault.mac(Purpose::OtpCode, &[b"a", b"bc"]).bytes, mac);
        assert_ne!(vault.mac(Purpose::Cursor, &[b"ab", b"c"]).bytes, mac);
        assert_ne!(vault.mac_under(2, Purpose::OtpCode, &[b"ab", b"c"]), Some(mac));
        assert_eq!(vault.mac_under(3, Purpose::OtpCode, &[]), None);
    }
}
