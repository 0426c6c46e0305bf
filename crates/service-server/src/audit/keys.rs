//! Keys for the personal fields of audit events: one for each day, for network addresses, and one for each user.
//!
//! An event is never changed, because the chain of seals covers it. But its personal data has to be erasable. So an
//! event holds ciphertext, which the seals cover, and the keys are in separate tables, sealed under the root key.
//! Deleting a key erases what it sealed in every copy of the event, and no seal is affected.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use jiff::{civil::Date, tz::TimeZone};
use serde_json::{Map, Value};
use service_api::ids::{EventId, UserId};
use service_rules::Timestamp;
use zeroize::Zeroizing;

use crate::crypto::{
    random,
    root_keys::{ROOT_KEY_LENGTH, RootKey, RootKeys},
};

/// Sealed details are padded to a multiple of this length, so that their length does not reveal an address.
const DETAILS_BLOCK: usize = 64;

/// Seals and opens the keys, and caches those of recent days.
pub struct AuditKeys {
    root_keys: RootKeys,
    days: Mutex<BTreeMap<Date, Arc<AuditKey>>>,
}

/// The key of one day or of one user.
pub struct AuditKey {
    root_keys: RootKeys,
    bytes: Zeroizing<[u8; ROOT_KEY_LENGTH]>,
}

impl AuditKeys {
    pub fn new(root_keys: &[RootKey]) -> anyhow::Result<Self> {
        Ok(Self { root_keys: RootKeys::new(root_keys)?, days: Mutex::default() })
    }

    /// Returns the day whose key seals the network address of an event.
    #[must_use]
    pub fn day_of(at: Timestamp) -> Date {
        at.to_zoned(TimeZone::UTC).date()
    }

    /// Returns the key of a day, if it is cached.
    #[must_use]
    pub fn cached_day(&self, day: Date) -> Option<Arc<AuditKey>> {
        self.days.lock().unwrap_or_else(PoisonError::into_inner).get(&day).cloned()
    }

    /// Caches the key of a day. The row of the key must be committed: what is sealed under a key that was rolled back
    /// can never be opened.
    pub fn cache_day(&self, day: Date, key: Arc<AuditKey>) {
        self.days.lock().unwrap_or_else(PoisonError::into_inner).insert(day, key);
    }

    /// Removes keys of days before `day` from the cache.
    pub fn forget_days_before(&self, day: Date) {
        let mut days = self.days.lock().unwrap_or_else(PoisonError::into_inner);
        *days = days.split_off(&day);
    }

    /// Seals a key for the row of its day.
    pub fn seal_day(&self, day: Date, key: &AuditKey) -> anyhow::Result<Vec<u8>> {
        self.root_keys.seal(&format!("audit_day_keys.sealed/{day}"), &key.bytes[..])
    }

    /// Whether a sealed key is to be sealed again, because another root key is current.
    #[must_use]
    pub fn is_outdated(&self, sealed: &[u8]) -> bool {
        sealed.first() != Some(&self.root_keys.key_in_use())
    }

    /// Returns the first bytes of sealed keys that are to be sealed again and can be opened.
    #[must_use]
    pub fn outdated(&self) -> Vec<i32> {
        self.root_keys.older_keys().map(i32::from).collect()
    }

    /// Opens the key of a day.
    pub fn open_day(&self, day: Date, sealed: &[u8]) -> anyhow::Result<AuditKey> {
        AuditKey::read(&self.root_keys.open(&format!("audit_day_keys.sealed/{day}"), sealed)?)
    }

    /// Seals a key for the row of its user.
    pub fn seal_user(&self, user_id: UserId, key: &AuditKey) -> anyhow::Result<Vec<u8>> {
        self.root_keys.seal(&format!("audit_user_keys.sealed/{user_id}"), &key.bytes[..])
    }

    /// Opens the key of a user.
    pub fn open_user(&self, user_id: UserId, sealed: &[u8]) -> anyhow::Result<AuditKey> {
        AuditKey::read(&self.root_keys.open(&format!("audit_user_keys.sealed/{user_id}"), sealed)?)
    }
}

impl AuditKey {
    /// Generates a random key.
    pub fn generate() -> anyhow::Result<Self> {
        Self::from_bytes(Zeroizing::new(random::bytes()?))
    }

    fn read(bytes: &[u8]) -> anyhow::Result<Self> {
        Self::from_bytes(Zeroizing::new(bytes.try_into().context("a key has another length")?))
    }

    fn from_bytes(bytes: Zeroizing<[u8; ROOT_KEY_LENGTH]>) -> anyhow::Result<Self> {
        // A key is derived for each event, so random nonces cannot collide under one key.
        Ok(Self { root_keys: RootKeys::new(&[RootKey { id: 0, bytes: bytes.clone() }])?, bytes })
    }

    /// Seals the network address of one event. Sealed addresses of both families have the same length.
    pub fn seal_address(&self, event: EventId, address: IpAddr) -> anyhow::Result<Vec<u8>> {
        let bytes = match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        self.root_keys.seal(&address_of(event), &bytes)
    }

    /// Opens the network address of one event.
    pub fn open_address(&self, event: EventId, sealed: &[u8]) -> anyhow::Result<IpAddr> {
        let opened = self.root_keys.open(&address_of(event), sealed)?;
        let octets: [u8; 16] = opened.as_slice().try_into().context("an address has another length")?;
        Ok(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical())
    }

    /// Seals the personal details of one event.
    pub fn seal_details(&self, event: EventId, details: &Map<String, Value>) -> anyhow::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(details)?;
        // JSON may end in spaces.
        text.resize(text.len().next_multiple_of(DETAILS_BLOCK), b' ');
        self.root_keys.seal(&details_of(event), &text)
    }

    /// Opens the personal details of one event.
    pub fn open_details(&self, event: EventId, sealed: &[u8]) -> anyhow::Result<Map<String, Value>> {
        Ok(serde_json::from_slice(&self.root_keys.open(&details_of(event), sealed)?)?)
    }
}

fn address_of(event: EventId) -> String {
    format!("audit_events.sealed_address/{event}")
}

fn details_of(event: EventId) -> String {
    format!("audit_events.sealed_details/{event}")
}

impl fmt::Debug for AuditKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditKeys(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> AuditKeys {
        AuditKeys::new(&[RootKey { id: 1, bytes: Zeroizing::new([1; 32]) }]).unwrap()
    }

    fn event(number: u128) -> EventId {
        uuid::Uuid::from_u128(number).into()
    }

    #[test]
    fn a_key_opens_in_the_row_of_its_own_day_or_user_only() {
        let (keys, key) = (keys(), AuditKey::generate().unwrap());
        let (one, other) = (Date::constant(2027, 1, 15), Date::constant(2027, 1, 16));
        let sealed = keys.seal_day(one, &key).unwrap();
        assert_eq!(keys.open_day(one, &sealed).unwrap().bytes, key.bytes);
        assert!(keys.open_day(other, &sealed).is_err());
        let (ann, bob): (UserId, UserId) = (uuid::Uuid::from_u128(1).into(), uuid::Uuid::from_u128(2).into());
        let sealed = keys.seal_user(ann, &key).unwrap();
        assert_eq!(keys.open_user(ann, &sealed).unwrap().bytes, key.bytes);
        assert!(keys.open_user(bob, &sealed).is_err());
    }

    #[test]
    fn a_sealed_field_opens_in_its_own_event_under_its_own_key_only() {
        let (key, other) = (AuditKey::generate().unwrap(), AuditKey::generate().unwrap());
        for address in ["203.0.113.9", "2001:db8::9"] {
            let address: IpAddr = address.parse().unwrap();
            let sealed = key.seal_address(event(1), address).unwrap();
            assert_eq!(sealed.len(), 1 + 12 + 16 + 16, "the length tells the family");
            assert_eq!(key.open_address(event(1), &sealed).unwrap(), address);
            assert!(key.open_address(event(2), &sealed).is_err());
            assert!(other.open_address(event(1), &sealed).is_err());
        }
        let details = |email: &str| Map::from_iter([("email".to_owned(), Value::from(email))]);
        let short = key.seal_details(event(1), &details("a@b.test")).unwrap();
        let long = key.seal_details(event(1), &details("somebody.else@example.test")).unwrap();
        assert_eq!(short.len(), long.len(), "the length tells the address");
        assert_eq!(key.open_details(event(1), &short).unwrap(), details("a@b.test"));
        assert!(key.open_details(event(2), &short).is_err() && other.open_details(event(1), &short).is_err());
    }

    #[test]
    fn days_that_are_over_are_forgotten() {
        let (keys, key) = (keys(), Arc::new(AuditKey::generate().unwrap()));
        let days = [Date::constant(2027, 1, 14), Date::constant(2027, 1, 15), Date::constant(2027, 1, 16)];
        for day in days {
            keys.cache_day(day, key.clone());
        }
        keys.forget_days_before(days[1]);
        assert_eq!(days.map(|day| keys.cached_day(day).is_some()), [false, true, true]);
    }
}
