//! The signing keys of this node: a copy of the table, reloaded in the background.
//!
//! A token may name a key that this node does not know. A key is published some time before it signs. While the copy is
//! younger than that, no such key can be genuine, and the token is rejected at once. Otherwise the request waits for
//! the table. All such requests share one read, reads are a fifth of a second apart, few requests may wait, and unknown
//! key ids are cached. So made-up key ids cost little.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use anyhow::Context as _;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, crypto,
    jwk::{Jwk, PublicKeyUse, ThumbprintHash},
};
use quick_cache::sync::Cache;
use service_api::token::AccessToken;
use service_rules::{
    Timestamp,
    bearer::{self, Claims, UnverifiedJwt},
    signing::Schedule,
};
use subtle::ConstantTimeEq as _;
use tokio::{
    sync::{Mutex, Notify, Semaphore},
    time::Instant,
};

use crate::{
    crypto::{
        random,
        root_keys::{Purpose, RootKeys},
    },
    database::{self, Database},
    store::{self, signing_keys::StoredSigningKey},
};

const MIN_READ_INTERVAL: Duration = Duration::from_millis(200);
const MAX_CACHED_UNKNOWN_KEYS: usize = 4_096;
const MAX_WAITING_REQUESTS: usize = 16;
/// A copy of the table that is younger than this, and than half of the publication time, has every key that signs.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// After this time without a read the node accepts no key. Until then it learns of retired keys from the revocations,
/// which have a retired key for an hour. So how current the keys are depends on the revocations alone.
const KEYS_STALE_AFTER: Duration = Duration::from_secs(15 * 60);

/// The signing keys of this node.
pub struct SigningKeys {
    ring: RwLock<Arc<KeyRing>>,
    /// When the last read of the table began. Locked while the table is being read.
    read_at: Mutex<Option<Instant>>,
    unknown: Cache<String, ()>,
    /// The highest version of each row that this node has seen. An attacker may have put back a row with a lower
    /// version.
    versions: std::sync::Mutex<HashMap<String, i32>>,
    /// Permits for requests that wait for the table.
    waiting: Semaphore,
    /// Notified when the table should be read at once.
    pub(crate) reload_requested: Notify,
}

/// What is needed to read the keys.
pub struct KeyTable<'a> {
    pub database: &'a Database,
    pub root_keys: &'a RootKeys,
    pub now: Timestamp,
    /// How long a key is published before it signs.
    pub publish_lead: Duration,
}

/// The table at one moment.
#[derive(Default)]
struct KeyRing {
    keys: Vec<LoadedKey>,
    /// Keys that their successors retired. They only verify, and only for one endpoint.
    retired: Vec<RetiredKey>,
    seen_at: Option<Instant>,
}

impl KeyRing {
    fn is_stale(&self) -> bool {
        self.seen_at.is_none_or(|at| at.elapsed() > KEYS_STALE_AFTER)
    }

    fn signing(&self, now: Timestamp) -> anyhow::Result<(&LoadedKey, &EcdsaKeyPair)> {
        let usable = self.iter().filter(|key| key.accepts(now) && key.schedule.active_at <= now);
        let signing = usable.filter_map(|key| Some((key, key.private.as_ref()?)));
        signing.max_by_key(|(key, _)| key.schedule.active_at).ok_or_else(|| unavailable("there is no signing key"))
    }
}

impl std::ops::Deref for KeyRing {
    type Target = [LoadedKey];

    fn deref(&self) -> &[LoadedKey] {
        &self.keys
    }
}

struct LoadedKey {
    id: String,
    /// The encoded JWT header of tokens that this key signs.
    header: String,
    /// `None`: it is sealed under a root key that this node lacks. The key can still verify.
    private: Option<EcdsaKeyPair>,
    public: DecodingKey,
    jwk: serde_json::Value,
    schedule: Schedule,
}

/// The public half of a key that its successor retired.
struct RetiredKey {
    id: String,
    public: DecodingKey,
}

impl LoadedKey {
    fn accepts(&self, now: Timestamp) -> bool {
        self.schedule.retired_at.is_none_or(|at| at > now)
    }
}

impl Default for SigningKeys {
    fn default() -> Self {
        Self {
            ring: RwLock::default(),
            read_at: Mutex::default(),
            unknown: Cache::new(MAX_CACHED_UNKNOWN_KEYS),
            versions: std::sync::Mutex::default(),
            waiting: Semaphore::new(MAX_WAITING_REQUESTS),
            reload_requested: Notify::new(),
        }
    }
}

impl SigningKeys {
    /// Returns the id of the key that signs: the newest active one.
    pub fn signer(&self, now: Timestamp) -> anyhow::Result<String> {
        Ok(self.ring().signing(now)?.0.id.clone())
    }

    /// Signs claims with the key that signs now.
    pub fn sign(&self, claims: &Claims, now: Timestamp) -> anyhow::Result<AccessToken> {
        let ring = self.ring();
        let (key, private) = ring.signing(now)?;
        let message = format!("{}.{}", key.header, BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims)?));
        let signature = random::signature(private, message.as_bytes())?;
        Ok(AccessToken::new(format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(bearer::lowered(signature)))))
    }

    /// Whether tokens signed by this key are accepted now. Fails if the keys are stale.
    pub fn accept(&self, key_id: &str, now: Timestamp) -> anyhow::Result<bool> {
        let ring = self.ring();
        if ring.is_stale() {
            return Err(unavailable("the signing keys were not read for 15 minutes"));
        }
        Ok(ring.iter().any(|key| key.id == key_id && key.accepts(now)))
    }

    /// Whether this key is accepted now, or was until its successor retired it. Fails if the keys are stale.
    pub fn accept_or_recognize(&self, key_id: &str, now: Timestamp) -> anyhow::Result<bool> {
        if self.accept(key_id, now)? {
            return Ok(true);
        }
        // A key that is no longer accepted, but was live at the last read, was retired by its successor since.
        let ring = self.ring();
        Ok(ring.retired.iter().any(|key| key.id == key_id) || ring.iter().any(|key| key.id == key_id))
    }

    /// Whether the token was signed by a key that its successor has retired.
    pub fn is_signed_by_retired_key(&self, jwt: &UnverifiedJwt<'_>) -> anyhow::Result<bool> {
        let ring = self.ring();
        let Some(key) = ring.retired.iter().find(|key| key.id == jwt.key_id()) else { return Ok(false) };
        Ok(crypto::verify(jwt.signature, jwt.message.as_bytes(), &key.public, Algorithm::ES256)?)
    }

    /// Verifies that one of our keys signed the token.
    pub async fn verify(&self, jwt: &UnverifiedJwt<'_>, table: &KeyTable<'_>) -> anyhow::Result<bool> {
        if let Some(genuine) = self.verify_with_known_key(jwt)? {
            return Ok(genuine);
        }
        if self.unknown.get(jwt.key_id()).is_some() {
            return Ok(false);
        }
        let young = FRESH_FOR.min(table.publish_lead / 2);
        if self.ring().seen_at.is_some_and(|at| at.elapsed() < young) {
            return Ok(false);
        }
        let _place = self.waiting.try_acquire().map_err(|_| unavailable("too many requests wait for unknown keys"))?;
        self.read_again(table).await?;
        let genuine = self.verify_with_known_key(jwt)?;
        if genuine.is_none() {
            self.unknown.insert(jwt.key_id().to_owned(), ());
        }
        Ok(genuine.unwrap_or(false))
    }

    /// Verifies with a known key; `None`: the key is not known.
    fn verify_with_known_key(&self, jwt: &UnverifiedJwt<'_>) -> anyhow::Result<Option<bool>> {
        let ring = self.ring();
        let Some(key) = ring.iter().find(|key| key.id == jwt.key_id()) else { return Ok(None) };
        Ok(Some(crypto::verify(jwt.signature, jwt.message.as_bytes(), &key.public, Algorithm::ES256)?))
    }

    /// Returns the public halves of all accepted keys (RFC 7517).
    #[must_use]
    pub fn published(&self, now: Timestamp) -> serde_json::Value {
        let keys: Vec<_> = self.ring().iter().filter(|key| key.accepts(now)).map(|key| key.jwk.clone()).collect();
        serde_json::json!({ "keys": keys })
    }

    /// Whether the keys were not read for so long that none is accepted.
    #[must_use]
    pub fn are_stale(&self) -> bool {
        self.ring().is_stale()
    }

    /// Returns how many seconds ago the keys were read.
    #[must_use]
    pub fn read_age(&self) -> f64 {
        self.ring().seen_at.map_or(f64::INFINITY, |at| at.elapsed().as_secs_f64())
    }

    /// Whether this node has a key to sign with.
    #[must_use]
    pub fn can_sign(&self) -> bool {
        self.ring().iter().any(|key| key.private.is_some())
    }

    /// Reads the table now.
    pub async fn reload(&self, table: &KeyTable<'_>) -> anyhow::Result<()> {
        let mut read_at = self.read_at.lock().await;
        self.read(table, &mut read_at).await
    }

    /// Reads the table for waiting requests, at most every [`MIN_READ_INTERVAL`].
    async fn read_again(&self, table: &KeyTable<'_>) -> anyhow::Result<()> {
        let asked_at = Instant::now();
        let mut read_at = self.read_at.lock().await;
        if read_at.is_some_and(|at| at > asked_at) {
            return Ok(());
        }
        if let Some(at) = *read_at {
            tokio::time::sleep_until(at + MIN_READ_INTERVAL).await;
        }
        self.read(table, &mut read_at).await
    }

    /// The relevant time is when the read began, because later changes may be missing.
    async fn read(&self, table: &KeyTable<'_>, read_at: &mut Option<Instant>) -> anyhow::Result<()> {
        let began = Instant::now();
        // Also set if the read fails, so that waiting requests do not retry one after the other.
        *read_at = Some(began);
        let stored = store::signing_keys::list(&table.database.connect().await?).await?;
        let trusted = stored.into_iter().filter(|key| self.is_trusted(table.root_keys, key));
        let is_live = |key: &StoredSigningKey| key.schedule.retired_at.is_none_or(|at| at > table.now);
        let (live, retired): (Vec<_>, Vec<_>) = trusted.partition(is_live);
        let keys = live.into_iter().filter_map(|key| unseal(table.root_keys, key)).collect();
        let followed = retired.into_iter().filter(|key| !key.retired_by_hand);
        let retired = followed.filter_map(|key| Some(RetiredKey { public: public_half(&key)?, id: key.kid })).collect();
        let ring = KeyRing { keys, retired, seen_at: Some(began) };
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(ring);
        Ok(())
    }

    /// Whether the service wrote a row, and the row is not older than one that this node has seen.
    fn is_trusted(&self, root_keys: &RootKeys, key: &StoredSigningKey) -> bool {
        if !is_authentic(root_keys, key) {
            tracing::error!(kid = key.kid, "A signing key's row has a wrong MAC; the key is not used");
            return false;
        }
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = versions.entry(key.kid.clone()).or_insert(key.version);
        if key.version < *seen {
            tracing::error!(kid = key.kid, "A signing key's row is older than one seen before; the key is not used");
            return false;
        }
        *seen = key.version;
        true
    }

    fn ring(&self) -> Arc<KeyRing> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Opens a stored key. A row that cannot be used is logged, and does not affect other keys.
fn unseal(root_keys: &RootKeys, stored: StoredSigningKey) -> Option<LoadedKey> {
    let public = public_half(&stored)?;
    let private = root_keys.open(&place(&stored.kid), &stored.sealed).inspect_err(|error| {
        tracing::error!(
            kid = stored.kid,
            error = format!("{error:#}"),
            "A signing key cannot be opened; it can only verify"
        );
    });
    let header = format!(r#"{{"alg":"ES256","kid":"{}","typ":"at+jwt"}}"#, stored.kid);
    Some(LoadedKey {
        header: BASE64_URL_SAFE_NO_PAD.encode(header),
        private: private.ok().and_then(|der| EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der).ok()),
        public,
        id: stored.kid,
        jwk: stored.jwk,
        schedule: stored.schedule,
    })
}

fn public_half(stored: &StoredSigningKey) -> Option<DecodingKey> {
    let public = serde_json::from_value::<Jwk>(stored.jwk.clone()).ok().filter(|jwk| {
        // The id of a key is the thumbprint of its public half. Another public half was put there by an attacker.
        jwk.thumbprint(ThumbprintHash::SHA256).is_ok_and(|thumbprint| thumbprint == stored.kid)
    });
    let public = public.and_then(|jwk| DecodingKey::from_jwk(&jwk).ok());
    if public.is_none() {
        tracing::error!(kid = stored.kid, "A signing key's public half does not match its id; the key is not used");
    }
    public
}

/// Verifies the MAC of a row. Returns `false` if this node lacks the root key of the MAC.
#[must_use]
pub fn is_authentic(root_keys: &RootKeys, key: &StoredSigningKey) -> bool {
    let expected = with_parts(key, |parts| root_keys.mac_under(key.mac_key, Purpose::SigningKey, parts));
    expected.is_some_and(|expected| expected.ct_eq(&key.mac).into())
}

/// Computes the MAC of a row under the current root key.
pub fn authenticate(root_keys: &RootKeys, key: &mut StoredSigningKey) {
    let mac = with_parts(key, |parts| root_keys.mac(Purpose::SigningKey, parts));
    (key.mac_key, key.mac) = (mac.key_id, mac.bytes.to_vec());
}

/// Passes what the MAC covers: id, public key, sealed private key, schedule and version.
fn with_parts<T>(key: &StoredSigningKey, use_parts: impl FnOnce(&[&[u8]]) -> T) -> T {
    // PostgreSQL does not preserve the order of object members.
    let jwk: BTreeMap<&String, &serde_json::Value> = key.jwk.as_object().into_iter().flatten().collect();
    let jwk = serde_json::to_vec(&jwk).unwrap_or_default();
    let moment = |at: Timestamp| at.as_microsecond().to_be_bytes();
    use_parts(&[
        key.kid.as_bytes(),
        &jwk,
        &key.sealed,
        &moment(key.created_at),
        &moment(key.schedule.active_at),
        key.schedule.retired_at.map(moment).as_ref().map_or(&[][..], |bytes| bytes),
        &[u8::from(key.retired_by_hand)],
        &key.version.to_be_bytes(),
    ])
}

/// Checks that a stored key can be opened with our root keys.
pub fn check(root_keys: &RootKeys, stored: &StoredSigningKey) -> anyhow::Result<()> {
    root_keys.open(&place(&stored.kid), &stored.sealed).map(drop).context("no signing key opens with secrets.root_keys")
}

fn unavailable(what: &str) -> anyhow::Error {
    database::Error::Unavailable(what.to_owned()).into()
}

/// A new key. Its private half is sealed.
pub struct GeneratedKey {
    pub kid: String,
    pub sealed: Vec<u8>,
    pub jwk: serde_json::Value,
}

pub fn generate(root_keys: &RootKeys) -> anyhow::Result<GeneratedKey> {
    let private = random::signing_key()?;
    let mut jwk = Jwk::from_encoding_key(&EncodingKey::from_ec_der(&private), Algorithm::ES256)?;
    let kid = jwk.thumbprint(ThumbprintHash::SHA256)?;
    jwk.common.key_id = Some(kid.clone());
    jwk.common.public_key_use = Some(PublicKeyUse::Signature);
    let sealed = root_keys.seal(&place(&kid), &private)?;
    Ok(GeneratedKey { kid, sealed, jwk: serde_json::to_value(&jwk)? })
}

fn place(kid: &str) -> String {
    format!("signing_keys.sealed/{kid}")
}
