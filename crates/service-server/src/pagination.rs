//! Pages of lists and their cursors. A cursor is opaque and carries a MAC, so a forged one never reaches a query.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use service_api::page::Page;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::crypto::root_keys::{Purpose, RootKeys};

const CURSOR_MAC_BYTES: usize = 16;

/// The cursor was not issued for this list.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the cursor is not one that this list issued")]
pub struct InvalidCursor;

/// The page of a list that a request asks for.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    pub limit: u16,
    /// Where the page begins; `None`: at the beginning of the list.
    pub cursor: Option<&'a str>,
}

impl PageRequest<'_> {
    /// The first page, with up to `limit` entries.
    #[must_use]
    pub const fn first(limit: u16) -> Self {
        Self { limit, cursor: None }
    }
}

/// A list and the page of it that is requested.
pub struct List<'a> {
    pub root_keys: &'a RootKeys,
    pub of: &'a [&'a [u8]],
    pub limit: u16,
}

impl List<'_> {
    /// Returns the position after which the page begins.
    pub fn behind(&self, cursor: Option<&str>) -> Result<Option<Uuid>, InvalidCursor> {
        cursor.map(|text| read(self.root_keys, self.of, text).ok_or(InvalidCursor)).transpose()
    }

    /// Returns how many rows to read: one more than the page has, which tells whether there is a next page.
    #[must_use]
    pub fn rows(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    /// Builds the page from the rows that were read.
    pub fn page<T>(&self, data: Vec<T>, id: impl Fn(&T) -> Uuid) -> Page<T> {
        self.page_of(data, false, id)
    }

    /// Builds the page from rows of which some may have been left out because of their size.
    pub fn page_of<T>(&self, mut data: Vec<T>, cut: bool, id: impl Fn(&T) -> Uuid) -> Page<T> {
        let more = cut || data.len() > usize::from(self.limit);
        data.truncate(self.limit.into());
        let next_cursor = data.last().filter(|_| more).map(|last| write(self.root_keys, self.of, id(last)));
        Page { data, next_cursor }
    }
}

/// Writes a cursor for the position after `last`. `list` names the list and its owner.
fn write(root_keys: &RootKeys, list: &[&[u8]], last: Uuid) -> String {
    let key = root_keys.mac(Purpose::Cursor, &[]).key_id;
    let mac = mac(root_keys, key, list, last).unwrap_or_default();
    BASE64_URL_SAFE_NO_PAD.encode([&[key][..], last.as_bytes(), &mac].concat())
}

/// Reads a cursor that [`write`] wrote for the same list; `None`: it is not one.
fn read(root_keys: &RootKeys, list: &[&[u8]], text: &str) -> Option<Uuid> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let (key, rest) = bytes.split_first()?;
    let (last, sent) = rest.split_first_chunk::<16>()?;
    let last = Uuid::from_bytes(*last);
    let known = mac(root_keys, *key, list, last)?;
    bool::from(sent.ct_eq(&known)).then_some(last)
}

fn mac(root_keys: &RootKeys, key: u8, list: &[&[u8]], last: Uuid) -> Option<[u8; CURSOR_MAC_BYTES]> {
    let mut parts = vec![&last.as_bytes()[..]];
    parts.extend_from_slice(list);
    let mac = root_keys.mac_under(key, Purpose::Cursor, &parts)?;
    mac.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::crypto::root_keys::RootKey;

    #[test]
    fn a_cursor_works_in_its_own_list_only() {
        let root_keys = RootKeys::new(&[RootKey { id: 1, bytes: Zeroizing::new([1; 32]) }]).unwrap();
        let last = Uuid::from_u128(7);
        let cursor = write(&root_keys, &[b"projects", b"ann"], last);
        assert_eq!(read(&root_keys, &[b"projects", b"ann"], &cursor), Some(last));
        assert_eq!(read(&root_keys, &[b"projects", b"bob"], &cursor), None);
        assert_eq!(read(&root_keys, &[b"packs", b"ann"], &cursor), None);
        for text in
            ["", "x", "'; drop table projects; --", &cursor[1..], &cursor.replace('A', "B"), &format!("{cursor}A")]
        {
            assert_eq!(read(&root_keys, &[b"projects", b"ann"], text), None, "{text}");
        }
    }
}
