//! Root keys, which are not in the database: sealing of stored values, and message authentication.
//!
//! Every key is derived by HKDF from a root key of the configuration. There may be several root keys: the first is the
//! current one, and the others still open what they sealed. So a root key can be replaced without losing data.

use anyhow::{Context as _, anyhow};
use aws_lc_rs::{aead, hkdf, hmac};
use zeroize::Zeroizing;

use crate::crypto::random;

/// The purpose of a MAC. The same input under another purpose gives another MAC.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    OtpCode,
    LimitKey,
    Cursor,
    RefreshToken,
    AuditSeal,
    FormToken,
    SigningKey,
    RootKeyCheck,
    DeviceAddress,
    SsoNonce,
    SsoVerifier,
    MailAddress,
    ReturnPath,
    PasskeyChallenge,
    KeepAccount,
    AddressLink,
}

const PURPOSES: &[(Purpose, &[u8])] = &[
    (Purpose::OtpCode, b"mac otp code"),
    (Purpose::LimitKey, b"mac limit key"),
    (Purpose::Cursor, b"mac cursor"),
    (Purpose::RefreshToken, b"mac refresh token"),
    (Purpose::AuditSeal, b"mac audit seal"),
    (Purpose::FormToken, b"mac form token"),
    (Purpose::SigningKey, b"mac signing key"),
    (Purpose::RootKeyCheck, b"mac root key check"),
    (Purpose::DeviceAddress, b"mac device address"),
    (Purpose::SsoNonce, b"mac sso nonce"),
    (Purpose::SsoVerifier, b"mac sso verifier"),
    (Purpose::MailAddress, b"mac mail address"),
    (Purpose::ReturnPath, b"mac return path"),
    (Purpose::PasskeyChallenge, b"mac passkey challenge"),
    (Purpose::KeepAccount, b"mac keep account"),
    (Purpose::AddressLink, b"mac address link"),
];

pub const ROOT_KEY_LENGTH: usize = 32;
const NONCE_LENGTH: usize = aead::NONCE_LEN;

/// A root key as configured.
#[derive(Clone)]
pub struct RootKey {
    pub id: u8,
    pub bytes: Zeroizing<[u8; ROOT_KEY_LENGTH]>,
}

/// The root keys of a node.
pub struct RootKeys {
    /// Never empty. The first key is the current one.
    keys: Vec<DerivedKeys>,
}

/// A root key and the keys derived from it.
struct DerivedKeys {
    id: u8,
    root: hkdf::Prk,
    macs: Vec<hmac::Key>,
}

/// A MAC and the root key it was computed under.
pub struct Mac {
    pub key_id: u8,
    pub bytes: [u8; 32],
}

impl RootKeys {
    pub fn new(roots: &[RootKey]) -> anyhow::Result<Self> {
        let keys = roots.iter().map(DerivedKeys::new).collect::<anyhow::Result<Vec<_>>>()?;
        if keys.is_empty() { Err(anyhow!("no root key is configured")) } else { Ok(Self { keys }) }
    }

    /// Encrypts `plain` for one place (table, column, row). It cannot be opened in another place.
    ///
    /// A key is derived for each place, so random nonces cannot collide under one key.
    pub fn seal(&self, place: &str, plain: &[u8]) -> anyhow::Result<Vec<u8>> {
        let key = &self.keys[0];
        let nonce = random::bytes::<NONCE_LENGTH>()?;
        let mut text = plain.to_vec();
        key.sealing(place)?
            .seal_in_place_append_tag(aead::Nonce::assume_unique_for_key(nonce), aead::Aad::from(place), &mut text)
            .context("could not seal")?;
        Ok([&[key.id][..], &nonce, &text].concat())
    }

    /// Decrypts what [`RootKeys::seal`] encrypted for this place.
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

    /// Returns the id of the current root key.
    #[must_use]
    pub fn key_in_use(&self) -> u8 {
        self.keys[0].id
    }

    /// Returns the ids of the older root keys, which only open what they sealed.
    pub fn older_keys(&self) -> impl Iterator<Item = u8> {
        self.keys.iter().skip(1).map(|key| key.id)
    }

    /// Computes the MAC of `parts` under the current root key.
    #[must_use]
    pub fn mac(&self, purpose: Purpose, parts: &[&[u8]]) -> Mac {
        Mac { key_id: self.keys[0].id, bytes: self.keys[0].mac(purpose, parts) }
    }

    /// Computes the MAC of `parts` under the root key `key_id`; `None`: it is not configured.
    #[must_use]
    pub fn mac_under(&self, key_id: u8, purpose: Purpose, parts: &[&[u8]]) -> Option<[u8; 32]> {
        self.key(key_id).map(|key| key.mac(purpose, parts))
    }

    /// Computes the MACs of `parts` under all root keys, to find rows that were written under any of them.
    #[must_use]
    pub fn macs(&self, purpose: Purpose, parts: &[&[u8]]) -> Vec<[u8; 32]> {
        self.keys.iter().map(|key| key.mac(purpose, parts)).collect()
    }

    /// Returns a pseudonym for `parts` that stays the same while a root key is replaced, whatever the order of the
    /// keys. It is computed under the root key with the lowest id.
    #[must_use]
    pub fn name(&self, purpose: Purpose, parts: &[&[u8]]) -> [u8; 32] {
        let naming = self.keys.iter().min_by_key(|key| key.id).unwrap_or(&self.keys[0]);
        naming.mac(purpose, parts)
    }

    /// Returns the check value of each root key by its id. Two nodes with equal keys have equal check values.
    #[must_use]
    pub fn check_values(&self) -> Vec<(u8, [u8; 32])> {
        self.keys.iter().map(|key| (key.id, key.mac(Purpose::RootKeyCheck, &[]))).collect()
    }

    fn key(&self, id: u8) -> Option<&DerivedKeys> {
        self.keys.iter().find(|key| key.id == id)
    }
}

impl DerivedKeys {
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

    /// Each part is preceded by its length, so that different lists of parts never give the same input.
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

    fn root_keys(ids: &[u8]) -> RootKeys {
        let root = |&id: &u8| RootKey { id, bytes: Zeroizing::new([id; 32]) };
        RootKeys::new(&ids.iter().map(root).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_in_its_place_only() {
        let sealed = root_keys(&[1]).seal("outbox.sealed/a", b"hello").unwrap();
        assert_eq!(root_keys(&[1]).open("outbox.sealed/a", &sealed).unwrap().as_slice(), b"hello");
        assert!(root_keys(&[1]).open("outbox.sealed/b", &sealed).is_err());
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(root_keys(&[1]).open("outbox.sealed/a", &changed).is_err(), "byte {place}");
        }
    }

    #[test]
    fn an_old_root_key_still_opens_and_no_longer_seals() {
        let old = root_keys(&[1]).seal("p", b"hello").unwrap();
        let both = root_keys(&[2, 1]);
        assert_eq!(both.open("p", &old).unwrap().as_slice(), b"hello");
        assert_eq!(both.seal("p", b"x").unwrap()[0], 2);
        assert!(root_keys(&[2]).open("p", &old).unwrap_err().to_string().contains("root key 1"));
    }

    #[test]
    fn names_stay_the_same_in_every_step_of_replacing_a_root_key_rv_35() {
        let name = |ids: &[u8]| root_keys(ids).name(Purpose::LimitKey, &[b"otp-address", b"ann@acme.test"]);
        let before = name(&[1]);
        assert_eq!(name(&[1, 2]), before, "added behind");
        assert_eq!(name(&[2, 1]), before, "put in front");
        assert_ne!(name(&[2]), before, "removed");
        assert_eq!(name(&[2, 3]), name(&[2]));
    }

    #[test]
    fn a_mac_depends_on_purpose_key_and_where_the_parts_end() {
        let root_keys = root_keys(&[1, 2]);
        let mac = root_keys.mac(Purpose::OtpCode, &[b"ab", b"c"]).bytes;
        assert_eq!(root_keys.mac_under(1, Purpose::OtpCode, &[b"ab", b"c"]), Some(mac));
        assert_ne!(root_keys.mac(Purpose::OtpCode, &[b"a", b"bc"]).bytes, mac);
        assert_ne!(root_keys.mac(Purpose::Cursor, &[b"ab", b"c"]).bytes, mac);
        assert_ne!(root_keys.mac_under(2, Purpose::OtpCode, &[b"ab", b"c"]), Some(mac));
        assert_eq!(root_keys.mac_under(3, Purpose::OtpCode, &[]), None);
    }
}
