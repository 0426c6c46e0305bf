//! The chain of seals over the audit events: what a seal says, and how it is authenticated.
//!
//! Writers of events know nothing of it. Whoever seals looks at transactions that have ended, whose events can become
//! neither more nor fewer, and writes down how many there are and their digest, under a MAC whose key is not in the
//! database and which covers the seal before. So a row that is changed, deleted, added or moved afterwards no longer
//! fits its seal, and a seal that is changed, deleted or moved no longer fits the chain.

use std::sync::Mutex;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::civil::Date;
use service_rules::Timestamp;
use subtle::ConstantTimeEq as _;

use crate::{
    digest::sha256,
    vault::{Mac, Purpose, Vault},
};

/// Transactions from one number up to, and without, another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transactions {
    /// The database that numbers them.
    pub numbering: i64,
    pub from: i64,
    pub to: i64,
}

/// What transactions wrote: how many events, from when to when, and the digest of them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    pub events: i32,
    pub span: Option<(Timestamp, Timestamp)>,
    pub digest: Vec<u8>,
}

/// One link of the chain.
#[derive(Clone, Debug)]
pub struct Seal {
    /// From 1, without a gap.
    pub number: i64,
    pub month: Date,
    /// It covers nothing: it says that the month is no longer kept.
    pub dropped: bool,
    pub range: Transactions,
    pub contents: Contents,
    pub sealed_at: Timestamp,
    pub key_id: u8,
    pub mac: Vec<u8>,
    /// The digest of this link and of all before it, so that a later one proves them too.
    pub link: Vec<u8>,
}

/// The end of the chain as a node last saw it.
pub type Seen = Mutex<Option<Seal>>;

/// What a new seal is to say.
pub struct Draft {
    pub month: Date,
    pub dropped: bool,
    pub range: Transactions,
    pub contents: Contents,
}

/// What is wrong with a link.
#[derive(Debug, PartialEq, Eq)]
pub enum Broken {
    /// It is not the one that follows.
    Missing,
    /// It, or the one before it, is not what was written.
    Changed,
    /// It was made under this root key, which is not configured; a later link can prove it.
    UnknownKey(u8),
}

impl Seal {
    /// Adds a link behind `last`.
    #[must_use]
    pub fn make(vault: &Vault, last: Option<&Self>, draft: Draft, now: Timestamp) -> Self {
        // As exactly as the database keeps it.
        let sealed_at = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        let Draft { month, dropped, range, contents } = draft;
        let number = last.map_or(0, |last| last.number) + 1;
        let (key_id, mac, link) = (vault.key_in_use(), Vec::new(), Vec::new());
        let mut seal = Self { number, month, dropped, range, contents, sealed_at, key_id, mac, link };
        let parts = seal.parts(last);
        let Mac { key_id, bytes } = vault.mac(Purpose::AuditSeal, &slices(&parts));
        (seal.key_id, seal.mac) = (key_id, bytes.to_vec());
        seal.link = seal.digest(last);
        seal
    }

    /// Whether this is the link that was added behind `last`.
    pub fn check(&self, vault: &Vault, last: Option<&Self>) -> Result<(), Broken> {
        if self.number != last.map_or(0, |last| last.number) + 1 {
            return Err(Broken::Missing);
        }
        if self.link != self.digest(last) {
            return Err(Broken::Changed);
        }
        let parts = self.parts(last);
        let known = vault.mac_under(self.key_id, Purpose::AuditSeal, &slices(&parts));
        let known = known.ok_or(Broken::UnknownKey(self.key_id))?;
        if bool::from(known.ct_eq(&self.mac)) { Ok(()) } else { Err(Broken::Changed) }
    }

    /// A name for this link and everything before it, to be kept where the database is not.
    #[must_use]
    pub fn anchor(&self) -> String {
        let link = self.link.get(..16).unwrap_or_default();
        format!("{}:{}", self.number, BASE64_URL_SAFE_NO_PAD.encode(link))
    }

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
    use crate::vault::RootKey;

    fn vault(ids: &[u8]) -> Vault {
        let root = |&id: &u8| RootKey { id, bytes: Zeroizing::new([id; 32]) };
        Vault::new(&ids.iter().map(root).collect::<Vec<_>>()).unwrap()
    }

    fn chain(vault: &Vault) -> Vec<Seal> {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        (0..3).fold(Vec::new(), |mut chain: Vec<Seal>, place| {
            let range = Transactions { numbering: 7, from: place * 10, to: place * 10 + 10 };
            let contents = Contents { events: 2, span: Some((now, now)), digest: vec![9; 32] };
            let draft = Draft { month: jiff::civil::date(2027, 1, 1), dropped: false, range, contents };
            let seal = Seal::make(vault, chain.last(), draft, now);
            chain.push(seal);
            chain
        })
    }

    #[test]
    fn a_link_fits_behind_its_own_predecessor_only() {
        let vault = vault(&[1]);
        let chain = chain(&vault);
        assert_eq!(chain[0].check(&vault, None), Ok(()));
        assert_eq!(chain[1].check(&vault, Some(&chain[0])), Ok(()));
        assert_eq!(chain[2].check(&vault, Some(&chain[1])), Ok(()));
        assert_eq!(chain[2].check(&vault, Some(&chain[0])), Err(Broken::Missing));
        assert_eq!(chain[1].check(&vault, None), Err(Broken::Missing));
        let renumbered = Seal { number: 2, ..chain[2].clone() };
        assert_eq!(renumbered.check(&vault, Some(&chain[0])), Err(Broken::Changed));
    }

    #[test]
    fn nothing_in_a_link_can_be_changed() {
        let vault = vault(&[1]);
        let chain = chain(&vault);
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
            assert_eq!(seal.check(&vault, Some(&chain[0])), Err(Broken::Changed), "{place}");
        }
    }

    #[test]
    fn an_old_root_key_still_proves_and_a_lost_one_is_named() {
        let old = chain(&vault(&[1]));
        assert_eq!(old[1].check(&vault(&[2, 1]), Some(&old[0])), Ok(()));
        assert_eq!(old[1].check(&vault(&[2]), Some(&old[0])), Err(Broken::UnknownKey(1)));
    }
}
