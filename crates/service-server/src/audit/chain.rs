//! The chain of seals over the audit events: what a seal contains, and how it is authenticated.
//!
//! Code that writes events does not know about seals. The sealing task reads the events of transactions that have
//! ended, so that their number can no longer change. It stores their number and their digest under a MAC, which also
//! covers the previous seal. The MAC's key is not in the database. So an event that is changed, deleted, added or moved
//! no longer matches its seal, and a seal that is changed, deleted or moved no longer matches the chain.

use std::sync::Mutex;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::civil::Date;
use service_rules::Timestamp;
use subtle::ConstantTimeEq as _;

use crate::crypto::{
    digest::sha256,
    root_keys::{Mac, Purpose, RootKeys},
};

/// A half-open range of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transactions {
    /// The database whose transaction numbers these are.
    pub numbering: i64,
    pub from: i64,
    pub to: i64,
}

/// A summary of events: their number, the times of the first and the last, and their digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSummary {
    pub events: i32,
    pub span: Option<(Timestamp, Timestamp)>,
    pub digest: Vec<u8>,
}

/// A seal: one link of the chain.
#[derive(Clone, Debug)]
pub struct Seal {
    /// Counts from 1 without gaps.
    pub number: i64,
    pub month: Date,
    /// The seal covers no events: it records that the month was dropped.
    pub dropped: bool,
    pub range: Transactions,
    pub contents: EventSummary,
    pub sealed_at: Timestamp,
    pub key_id: u8,
    pub mac: Vec<u8>,
    /// The digest of this link and of all before it, so that a later link also proves the earlier ones.
    pub link: Vec<u8>,
}

/// The last seal that a node has seen.
pub type LastSeenSeal = Mutex<Option<Seal>>;

/// The content of a new seal.
pub struct SealDraft {
    pub month: Date,
    pub dropped: bool,
    pub range: Transactions,
    pub contents: EventSummary,
}

/// What is wrong with a link.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenLink {
    #[error("its number is not the next one")]
    Missing,
    #[error("it or the link before it was changed")]
    Changed,
    /// Its MAC was computed under this root key, which is not configured. A later link can prove it.
    #[error("its MAC was computed under root key {0}, which is not configured")]
    UnknownKey(u8),
}

impl Seal {
    /// Creates the link after `last`.
    #[must_use]
    pub fn make(root_keys: &RootKeys, last: Option<&Self>, draft: SealDraft, now: Timestamp) -> Self {
        // In microseconds, the precision of the database.
        let sealed_at = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        let SealDraft { month, dropped, range, contents } = draft;
        let number = last.map_or(0, |last| last.number) + 1;
        let (key_id, mac, link) = (root_keys.key_in_use(), Vec::new(), Vec::new());
        let mut seal = Self { number, month, dropped, range, contents, sealed_at, key_id, mac, link };
        let parts = seal.parts(last);
        let Mac { key_id, bytes } = root_keys.mac(Purpose::AuditSeal, &slices(&parts));
        (seal.key_id, seal.mac) = (key_id, bytes.to_vec());
        seal.link = seal.digest(last);
        seal
    }

    /// Checks that this is the link that was added after `last`.
    pub fn check(&self, root_keys: &RootKeys, last: Option<&Self>) -> Result<(), BrokenLink> {
        if self.number != last.map_or(0, |last| last.number) + 1 {
            return Err(BrokenLink::Missing);
        }
        if self.link != self.digest(last) {
            return Err(BrokenLink::Changed);
        }
        let parts = self.parts(last);
        let known = root_keys.mac_under(self.key_id, Purpose::AuditSeal, &slices(&parts));
        let known = known.ok_or(BrokenLink::UnknownKey(self.key_id))?;
        if bool::from(known.ct_eq(&self.mac)) { Ok(()) } else { Err(BrokenLink::Changed) }
    }

    /// Names this link and everything before it. An operator notes it outside of the database.
    #[must_use]
    pub fn anchor(&self) -> String {
        let link = self.link.get(..16).unwrap_or_default();
        format!("{}:{}", self.number, BASE64_URL_SAFE_NO_PAD.encode(link))
    }

    /// Returns what the MAC covers.
    fn parts(&self, last: Option<&Self>) -> Vec<Vec<u8>> {
        let number = |number: i64| number.to_be_bytes().to_vec();
        let moment = |at: Timestamp| number(at.as_microsecond());
        vec![
            last.map(|last| last.link.clone()).unwrap_or_default(),
            number(self.number),
            self.month.to_string().into_bytes(),
            vec![u8::from(self.dropped)],
            number(self.range.numbering),
            number(self.range.from),
            number(self.range.to),
            number(self.contents.events.into()),
            self.contents.span.map(|(first, _)| moment(first)).unwrap_or_default(),
            self.contents.span.map(|(_, last)| moment(last)).unwrap_or_default(),
            self.contents.digest.clone(),
            moment(self.sealed_at),
            vec![self.key_id],
        ]
    }

    fn digest(&self, last: Option<&Self>) -> Vec<u8> {
        let mut all = Vec::new();
        for part in self.parts(last).iter().chain([&self.mac]) {
            all.extend((part.len() as u64).to_be_bytes());
            all.extend(part);
        }
        sha256(&all).to_vec()
    }
}

fn slices(parts: &[Vec<u8>]) -> Vec<&[u8]> {
    parts.iter().map(Vec::as_slice).collect()
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::crypto::root_keys::RootKey;

    fn root_keys(ids: &[u8]) -> RootKeys {
        let root = |&id: &u8| RootKey { id, bytes: Zeroizing::new([id; 32]) };
        RootKeys::new(&ids.iter().map(root).collect::<Vec<_>>()).unwrap()
    }

    fn chain(root_keys: &RootKeys) -> Vec<Seal> {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        (0..3).fold(Vec::new(), |mut chain: Vec<Seal>, place| {
            let range = Transactions { numbering: 7, from: place * 10, to: place * 10 + 10 };
            let contents = EventSummary { events: 2, span: Some((now, now)), digest: vec![9; 32] };
            let draft = SealDraft { month: jiff::civil::date(2027, 1, 1), dropped: false, range, contents };
            let seal = Seal::make(root_keys, chain.last(), draft, now);
            chain.push(seal);
            chain
        })
    }

    #[test]
    fn a_link_fits_behind_its_own_predecessor_only() {
        let root_keys = root_keys(&[1]);
        let chain = chain(&root_keys);
        assert_eq!(chain[0].check(&root_keys, None), Ok(()));
        assert_eq!(chain[1].check(&root_keys, Some(&chain[0])), Ok(()));
        assert_eq!(chain[2].check(&root_keys, Some(&chain[1])), Ok(()));
        assert_eq!(chain[2].check(&root_keys, Some(&chain[0])), Err(BrokenLink::Missing));
        assert_eq!(chain[1].check(&root_keys, None), Err(BrokenLink::Missing));
        let renumbered = Seal { number: 2, ..chain[2].clone() };
        assert_eq!(renumbered.check(&root_keys, Some(&chain[0])), Err(BrokenLink::Changed));
    }

    #[test]
    fn nothing_in_a_link_can_be_changed() {
        let root_keys = root_keys(&[1]);
        let chain = chain(&root_keys);
        let changes: [fn(&mut Seal); 12] = [
            |seal| seal.month = jiff::civil::date(2027, 2, 1),
            |seal| seal.dropped = true,
            |seal| seal.range.numbering += 1,
            |seal| seal.range.from += 1,
            |seal| seal.range.to += 1,
            |seal| seal.contents.events -= 1,
            |seal| seal.contents.digest[0] ^= 1,
            |seal| seal.sealed_at = Timestamp::from_second(1).unwrap(),
            |seal| seal.mac[0] ^= 1,
            |seal| seal.link[0] ^= 1,
            |seal| seal.contents.span = None,
            |seal| seal.key_id = 2,
        ];
        for (place, change) in changes.iter().enumerate() {
            let mut seal = chain[1].clone();
            change(&mut seal);
            assert_eq!(seal.check(&root_keys, Some(&chain[0])), Err(BrokenLink::Changed), "{place}");
        }
    }

    #[test]
    fn an_old_root_key_still_proves_and_a_lost_one_is_named() {
        let old = chain(&root_keys(&[1]));
        assert_eq!(old[1].check(&root_keys(&[2, 1]), Some(&old[0])), Ok(()));
        assert_eq!(old[1].check(&root_keys(&[2]), Some(&old[0])), Err(BrokenLink::UnknownKey(1)));
    }
}
