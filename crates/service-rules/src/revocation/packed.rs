//! Revocations of grants and CLI tokens in little memory: nearly all revocations are of these two kinds.
//!
//! Both are revoked with all their tokens, whenever those were issued, so each takes 20 bytes: its id, its reason, and
//! the minute in which it is forgotten. They are kept in the order in which they arrived, which is nearly the order in
//! which they are forgotten. One that is overtaken is kept a little longer than necessary.

use std::{
    collections::{VecDeque, hash_map::RandomState},
    hash::BuildHasher as _,
};

use hashbrown::HashTable;
use service_api::{errors::Reason, ids::Id as _};

use super::{Revocation, Subject};
use crate::Timestamp;

/// Minutes are counted from 2020-01-01, so that 25 bits reach until 2083.
const FIRST_MINUTE: i64 = 1_577_836_800 / 60;
const MINUTE_BITS: u32 = 25;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    id: [u8; 16],
    /// From the lowest bit: the minute in which it is forgotten, the reason, the kind.
    rest: u32,
}

impl Entry {
    /// Packs a revocation; `None`: it is of another kind, or revokes only some of the tokens.
    fn pack(revocation: &Revocation) -> Option<Self> {
        let (kind, id) = key(&revocation.subject)?;
        let minute = u32::try_from(minute_behind(revocation.forget_at) - FIRST_MINUTE).ok()?;
        let reason = Reason::ALL.iter().position(|reason| *reason == revocation.because)?;
        let fits = minute < 1 << MINUTE_BITS && revocation.not_before == revocation.forget_at;
        let rest = minute | u32::try_from(reason).ok()? << MINUTE_BITS | kind << 31;
        fits.then_some(Self { id, rest })
    }

    fn key(&self) -> (u32, [u8; 16]) {
        (self.rest >> 31, self.id)
    }

    fn minute(&self) -> i64 {
        i64::from(self.rest & ((1 << MINUTE_BITS) - 1)) + FIRST_MINUTE
    }

    fn reason(&self) -> Reason {
        let index = (self.rest & !(1 << 31)) >> MINUTE_BITS;
        // Only packed reasons are unpacked, so the index is one of them.
        Reason::ALL.get(index as usize).copied().unwrap_or(Reason::RevokedByAdmin)
    }
}

/// A queue of packed revocations with an index.
#[derive(Debug, Default)]
pub(super) struct PackedRevocations {
    queue: VecDeque<Entry>,
    /// The places of the entries: how many entries were added before each.
    index: HashTable<u32>,
    /// How many entries were removed from the front of the queue. It may wrap around, and so may places.
    removed: u32,
    hasher: RandomState,
}

impl PackedRevocations {
    /// Adds a revocation; `false`: it cannot be packed.
    pub(super) fn insert(&mut self, revocation: &Revocation) -> bool {
        let Some(entry) = Entry::pack(revocation) else { return false };
        let hash = self.hasher.hash_one(entry.id);
        let Self { queue, index, removed, hasher } = self;
        let is_same = |place: &u32| at(queue, *removed, *place).is_some_and(|known| known.key() == entry.key());
        if let Some(place) = index.find(hash, is_same).copied() {
            let known = &mut queue[place.wrapping_sub(*removed) as usize];
            if known.minute() < entry.minute() {
                *known = entry;
            }
            return true;
        }
        let Ok(length) = u32::try_from(queue.len()) else { return false };
        queue.push_back(entry);
        let queue = &*queue;
        index.insert_unique(hash, removed.wrapping_add(length), |place| {
            hasher.hash_one(at(queue, *removed, *place).map_or([0; 16], |entry| entry.id))
        });
        true
    }

    /// Returns why a subject is revoked; `None`: it is not, or not among the packed revocations.
    pub(super) fn reason(&self, subject: &Subject) -> Option<Reason> {
        if self.queue.is_empty() {
            return None;
        }
        let key = key(subject)?;
        let entry = |place: &u32| at(&self.queue, self.removed, *place);
        let is_same = |place: &u32| entry(place).is_some_and(|entry| entry.key() == key);
        let found = self.index.find(self.hasher.hash_one(key.1), is_same);
        found.and_then(entry).map(Entry::reason)
    }

    /// Returns when the revocation that arrived first is forgotten, to the minute.
    pub(super) fn first_forget_at(&self) -> Option<Timestamp> {
        Timestamp::from_second(self.queue.front()?.minute() * 60).ok()
    }

    pub(super) fn pop_first(&mut self) {
        let Some(entry) = self.queue.front() else { return };
        let first = self.removed;
        if let Ok(found) = self.index.find_entry(self.hasher.hash_one(entry.id), |place| *place == first) {
            found.remove();
        }
        self.queue.pop_front();
        self.removed = self.removed.wrapping_add(1);
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of bytes that the revocations and their index take.
    pub(super) fn allocated(&self) -> usize {
        self.queue.capacity() * size_of::<Entry>() + self.index.allocation_size()
    }
}

fn at(queue: &VecDeque<Entry>, removed: u32, place: u32) -> Option<&Entry> {
    queue.get(place.wrapping_sub(removed) as usize)
}

/// Returns the kind of a subject, in one bit, and its id; `None`: it cannot be packed.
fn key(subject: &Subject) -> Option<(u32, [u8; 16])> {
    match subject {
        Subject::Grant(id) => Some((0, id.uuid().into_bytes())),
        Subject::CliToken(id) => Some((1, id.uuid().into_bytes())),
        _ => None,
    }
}

/// The first full minute that is not before this time.
fn minute_behind(at: Timestamp) -> i64 {
    (super::whole_second_behind(at) + 59).div_euclid(60)
}
