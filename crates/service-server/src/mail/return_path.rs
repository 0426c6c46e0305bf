//! The return path of a mail: the address that mail systems send a bounce to. It says which mail bounced, under a MAC, so that
//! only a system that handled the mail can report a bounce of it.
//!
//! `bounces+TOKEN@mail.service.example`, where TOKEN is 27 bytes in base32: the root key, when the mail was sent, a keyed
//! digest of its address, and the MAC of these. It has 44 characters, and any case, because mail systems may change the case.

use data_encoding::BASE32_NOPAD;
use lettre::Address as MailAddress;
use service_rules::Timestamp;
use subtle::ConstantTimeEq as _;

use crate::crypto::root_keys::{Purpose, RootKeys};

const NAME_BYTES: usize = 12;
const MAC_BYTES: usize = 10;

/// A keyed digest of an email address.
pub type AddressName = [u8; NAME_BYTES];

/// What a return path says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnPath {
    /// Of the address that the mail was sent to.
    pub name: AddressName,
    pub sent_at: Timestamp,
}

impl ReturnPath {
    /// Writes the return path, which begins with the local part of `bounce_to`.
    pub fn write(&self, root_keys: &RootKeys, bounce_to: &MailAddress) -> anyhow::Result<MailAddress> {
        let sent_at = u32::try_from(self.sent_at.as_second())?.to_be_bytes();
        let mac = root_keys.mac(Purpose::ReturnPath, &[&sent_at, &self.name]);
        let token = [&[mac.key_id][..], &sent_at, &self.name, &mac.bytes[..MAC_BYTES]].concat();
        let token = BASE32_NOPAD.encode(&token).to_ascii_lowercase();
        Ok(MailAddress::new(format!("{}+{token}", bounce_to.user()), bounce_to.domain())?)
    }

    /// Reads a return path. `None`: this installation did not write it.
    #[must_use]
    pub fn read(root_keys: &RootKeys, bounce_to: &MailAddress, recipient: &str) -> Option<Self> {
        let (local_part, domain) = recipient.rsplit_once('@')?;
        let (user, token) = local_part.rsplit_once('+')?;
        let is_ours = user.eq_ignore_ascii_case(bounce_to.user()) && domain.eq_ignore_ascii_case(bounce_to.domain());
        let bytes = BASE32_NOPAD.decode(token.to_ascii_uppercase().as_bytes()).ok().filter(|_| is_ours)?;
        let (&[key_id], rest) = bytes.split_first_chunk()?;
        let (sent_at, rest) = rest.split_first_chunk()?;
        let (name, mac) = rest.split_first_chunk()?;
        let expected = root_keys.mac_under(key_id, Purpose::ReturnPath, &[sent_at, name])?;
        let is_genuine = bool::from(mac.ct_eq(&expected[..MAC_BYTES]));
        let sent_at = Timestamp::from_second(u32::from_be_bytes(*sent_at).into()).ok()?;
        is_genuine.then_some(Self { name: *name, sent_at })
    }
}

/// Returns the keyed digest of an address, as [`service_rules::email::Address`] writes it. It stays the same while a root key
/// is replaced.
#[must_use]
pub fn name_of(root_keys: &RootKeys, address: &str) -> AddressName {
    let mac = root_keys.name(Purpose::MailAddress, &[address.as_bytes()]);
    mac.first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::crypto::root_keys::RootKey;

    fn root_keys(ids: &[u8]) -> RootKeys {
        let keys: Vec<_> = ids.iter().map(|&id| RootKey { id, bytes: Zeroizing::new([id; 32]) }).collect();
        RootKeys::new(&keys).unwrap()
    }

    fn return_path(root_keys: &RootKeys) -> ReturnPath {
        ReturnPath { name: name_of(root_keys, "ann@acme.test"), sent_at: "2027-01-15T12:00:00Z".parse().unwrap() }
    }

    #[test]
    fn a_return_path_says_what_was_written_in_any_case() {
        let (keys, bounce_to) = (root_keys(&[1]), "a.longest-bounce_to@mail.service.example".parse().unwrap());
        let path = return_path(&keys);
        let written = path.write(&keys, &bounce_to).unwrap().to_string();
        assert_eq!(written.split('@').next().unwrap().len(), 64, "{written}");
        assert_eq!(ReturnPath::read(&keys, &bounce_to, &written), Some(path));
        assert_eq!(ReturnPath::read(&keys, &bounce_to, &written.to_uppercase()), Some(path));
        assert_eq!(ReturnPath::read(&root_keys(&[2, 1]), &bounce_to, &written), Some(path), "a root key was added");
        assert_eq!(name_of(&root_keys(&[2, 1]), "ann@acme.test"), path.name);
    }

    #[test]
    fn a_changed_return_path_says_nothing() {
        let (keys, bounce_to) = (root_keys(&[1]), "bounces@mail.service.example".parse().unwrap());
        let written = return_path(&keys).write(&keys, &bounce_to).unwrap().to_string();
        let refused = |recipient: &str| assert_eq!(ReturnPath::read(&keys, &bounce_to, recipient), None, "{recipient}");
        let token = "bounces+".len().."bounces+".len() + 44;
        for place in token {
            let mut changed = written.clone().into_bytes();
            changed[place] = if changed[place] == b'a' { b'b' } else { b'a' };
            refused(&String::from_utf8(changed).unwrap());
        }
        refused(&written.replace("bounces+", "others+"));
        refused(&written.replace("mail.service", "mail.acme"));
        refused("bounces@mail.service.example");
        refused("bounces+@mail.service.example");
        refused("");
        assert_eq!(ReturnPath::read(&root_keys(&[2]), &bounce_to, &written), None, "the root key was removed");
    }
}
