//! Pages of lists and the cursors between them: opaque, and authenticated, so that a forged one never reaches a query.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use service_api::page::Page;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::vault::{Purpose, Vault};

const MAC_LENGTH: usize = 16;

/// The cursor is not one that this list gave out.
#[derive(Debug)]
pub struct Foreign;

/// A list (what is listed, and whose), page by page.
pub struct List<'a> {
    pub vault: &'a Vault,
    pub of: &'a [&'a [u8]],
    pub limit: u16,
}

impl List<'_> {
    /// Where the page begins that a cursor leads to.
    pub fn behind(&self, cursor: Option<&str>) -> Result<Option<Uuid>, Foreign> {
        cursor.map(|text| read(self.vault, self.of, text).ok_or(Foreign)).transpose()
    }

    /// How many rows to ask for: one more than is shown tells whether there is a next page.
    #[must_use]
    pub fn rows(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    /// The page, from as many rows.
    pub fn page<T>(&self, mut data: Vec<T>, id: impl Fn(&T) -> Uuid) -> Page<T> {
        let more = data.len() > usize::from(self.limit);
        data.truncate(self.limit.into());
        let next_cursor = data.last().filter(|_| more).map(|last| write(self.vault, self.of, id(last)));
        Page { data, next_cursor }
    }
}

/// A cursor behind `last` in the list `list` (what is listed, and whose).
fn write(vault: &Vault, list: &[&[u8]], last: Uuid) -> String {
    let key = vault.mac(Purpose::Cursor, &[]).key_id;
    let mac = mac(vault, key, list, last).unwrap_or_default();
    BASE64_URL_SAFE_NO_PAD.encode([&[key][..], last.as_bytes(), &mac].concat())
}

/// Reads what [`write`] wrote for the same list; anything else is `None`.
fn read(vault: &Vault, list: &[&[u8]], text: &str) -> Option<Uuid> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let (key, rest) = bytes.split_first()?;
    let (last, sent) = rest.split_first_chunk::<16>()?;
    let last = Uuid::from_bytes(*last);
    let known = mac(vault, *key, list, last)?;
    bool::from(sent.ct_eq(&known)).then_some(last)
}

fn mac(vault: &Vault, key: u8, list: &[&[u8]], last: Uuid) -> Option<[u8; MAC_LENGTH]> {
    let mut parts = vec![&last.as_bytes()[..]];
    parts.extend_from_slice(list);
    let mac = vault.mac_under(key, Purpose::Cursor, &parts)?;
    mac.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::vault::RootKey;

    #[test]
    fn a_cursor_works_in_its_own_list_only() {
        let vault = Vault::new(&[RootKey { id: 1, bytes: Zeroizing::new([1; 32]) }]).unwrap();
        let last = Uuid::from_u128(7);
        let cursor = write(&vault, &[b"projects", b"ann"], last);
        assert_eq!(read(&vault, &[b"projects", b"ann"], &cursor), Some(last));
        assert_eq!(read(&vault, &[b"projects", b"bob"], &cursor), None);
        assert_eq!(read(&vault, &[b"packs", b"ann"], &cursor), None);
        for text in
            ["", "x", "'; drop table projects; --", &cursor[1..], &cursor.replace('A', "B"), &format!("{cursor}A")]
        {
            assert_eq!(read(&vault, &[b"projects", b"ann"], text), None, "{text}");
        }
    }
}
