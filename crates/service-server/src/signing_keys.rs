//! The keys this node signs and verifies with: a copy of the table, renewed in the background.
//!
//! A token may name a key that this node has not seen yet. Then, and only then, a request waits for the table: all such
//! requests share one read, reads are a fifth of a second apart, and a key id that was not in the table is remembered,
//! so made-up key ids cost next to nothing.

use std::{
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
use tokio::{
    sync::{Mutex, Semaphore},
    time::Instant,
};

use crate::{
    database::{self, Database},
    mint, store,
    vault::Vault,
};

const BETWEEN_READS: Duration = Duration::from_millis(200);
const REMEMBERED_UNKNOWN_KEYS: usize = 4_096;
const WAITING_REQUESTS: usize = 256;
/// A node that has not seen the table for so long does not know which keys were retired, and accepts none.
const STALE_AFTER: Duration = Duration::from_secs(30);

pub struct SigningKeys {
    ring: RwLock<Arc<Ring>>,
    /// When the last read of the table began; held while it is being read.
    read_at: Mutex<Option<Instant>>,
    unknown: Cache<String, ()>,
    /// Places for requests that wait for the table.
    waiting: Semaphore,
}

/// Where the keys are kept, what opens them, and the time.
pub struct Table<'a> {
    pub database: &'a Database,
    pub vault: &'a Vault,
    pub now: Timestamp,
}

/// The table as it was at one moment.
#[derive(Default)]
struct Ring {
    keys: Vec<Key>,
    seen_at: Option<Instant>,
}

impl Ring {
    fn signing(&self, now: Timestamp) -> anyhow::Result<(&Key, &EcdsaKeyPair)> {
        let usable = self.iter().filter(|key| key.accepts(now) && key.schedule.active_at <= now);
        let signing = usable.filter_map(|key| Some((key, key.private.as_ref()?)));
        signing.max_by_key(|(key, _)| key.schedule.active_at).ok_or_else(|| unavailable("there is no signing key"))
    }
}

impl std::ops::Deref for Ring {
    type Target = [Key];

    fn deref(&self) -> &[Key] {
        &self.keys
    }
}

struct Key {
    id: String,
    /// The JWT header of every token this key signs, encoded.
    header: String,
    /// `None`: sealed under a root key that this node does not have. It verifies all the same.
    private: Option<EcdsaKeyPair>,
    public: DecodingKey,
    jwk: serde_json::Value,
    schedule: Schedule,
}

impl Key {
    fn accepts(&self, now: Timestamp) -> bool {
        self.schedule.retired_at.is_none_or(|at| at > now)
    }
}

impl Default for SigningKeys {
    fn default() -> Self {
        Self {
            ring: RwLock::default(),
            read_at: Mutex::default(),
            unknown: Cache::new(REMEMBERED_UNKNOWN_KEYS),
            waiting: Semaphore::new(WAITING_REQUESTS),
        }
    }
}

impl SigningKeys {
    /// The id of the key that signs: the youngest whose time has come.
    pub fn signer(&self, now: Timestamp) -> anyhow::Result<String> {
        Ok(self.ring().signing(now)?.0.id.clone())
    }

    /// Signs with it.
    pub fn sign(&self, claims: &Claims, now: Timestamp) -> anyhow::Result<AccessToken> {
        let ring = self.ring();
        let (key, private) = ring.signing(now)?;
        let message = format!("{}.{}", key.header, BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims)?));
        let signature = mint::signature(private, message.as_bytes())?;
        Ok(AccessToken::new(format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(bearer::lowered(signature)))))
    }

    /// Whether tokens signed by this key are accepted now; an error if this node cannot know.
    pub fn accept(&self, key_id: &str, now: Timestamp) -> anyhow::Result<bool> {
        let ring = self.ring();
        if ring.seen_at.is_none_or(|at| at.elapsed() > STALE_AFTER) {
            return Err(unavailable("the signing keys were not seen lately"));
        }
        Ok(ring.iter().any(|key| key.id == key_id && key.accepts(now)))
    }

    /// Whether the token was signed by one of our keys.
    pub async fn verify(&self, jwt: &UnverifiedJwt<'_>, table: &Table<'_>) -> anyhow::Result<bool> {
        if let Some(genuine) = self.verify_with_known_key(jwt)? {
            return Ok(genuine);
        }
        if self.unknown.get(jwt.key_id()).is_some() {
            return Ok(false);
        }
        let _place = self.waiting.try_acquire().map_err(|_| unavailable("too many unknown keys are asked for"))?;
        self.read_again(table).await?;
        let genuine = self.verify_with_known_key(jwt)?;
        if genuine.is_none() {
            self.unknown.insert(jwt.key_id().to_owned(), ());
        }
        Ok(genuine.unwrap_or(false))
    }

    /// `None`: the key is not known here.
    fn verify_with_known_key(&self, jwt: &UnverifiedJwt<'_>) -> anyhow::Result<Option<bool>> {
        let ring = self.ring();
        let Some(key) = ring.iter().find(|key| key.id == jwt.key_id()) else { return Ok(None) };
        Ok(Some(crypto::verify(jwt.signature, jwt.message.as_bytes(), &key.public, Algorithm::ES256)?))
    }

    /// The public halves of all accepted keys (RFC 7517).
    #[must_use]
    pub fn published(&self, now: Timestamp) -> serde_json::Value {
        let keys: Vec<_> = self.ring().iter().filter(|key| key.accepts(now)).map(|key| key.jwk.clone()).collect();
        serde_json::json!({ "keys": keys })
    }

    #[must_use]
    pub fn can_sign(&self) -> bool {
        self.ring().iter().any(|key| key.private.is_some())
    }

    /// Reads the table now.
    pub async fn reload(&self, table: &Table<'_>) -> anyhow::Result<()> {
        let mut read_at = self.read_at.lock().await;
        self.read(table, &mut read_at).await
    }

    /// Reads the table for a request that cannot go on without: at most every [`BETWEEN_READS`], for all together.
    async fn read_again(&self, table: &Table<'_>) -> anyhow::Result<()> {
        let asked_at = Instant::now();
        let mut read_at = self.read_at.lock().await;
        if read_at.is_some_and(|at| at > asked_at) {
            return Ok(());
        }
        if let Some(at) = *read_at {
            tokio::time::sleep_until(at + BETWEEN_READS).await;
        }
        self.read(table, &mut read_at).await
    }

    /// The moment that counts is when the read began: what was written later, it may not have seen.
    async fn read(&self, table: &Table<'_>, read_at: &mut Option<Instant>) -> anyhow::Result<()> {
        let began = Instant::now();
        // Also if it fails: those who wait do not all try in turn.
        *read_at = Some(began);
        let stored = store::signing_keys::list(&table.database.connect().await?).await?;
        let live = stored.into_iter().filter(|key| key.schedule.retired_at.is_none_or(|at| at > table.now));
        let keys = live.filter_map(|key| unseal(table.vault, key)).collect();
        let ring = Ring { keys, seen_at: Some(began) };
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(ring);
        Ok(())
    }

    fn ring(&self) -> Arc<Ring> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One row that cannot be used does not keep the others from being used; it is loud, though.
fn unseal(vault: &Vault, stored: store::signing_keys::StoredKey) -> Option<Key> {
    let public = serde_json::from_value::<Jwk>(stored.jwk.clone()).ok().filter(|jwk| {
        // A row whose public half was exchanged is not the key that its id says it is.
        jwk.thumbprint(ThumbprintHash::SHA256).is_ok_and(|thumbprint| thumbprint == stored.kid)
    });
    let Some(public) = public.and_then(|jwk| DecodingKey::from_jwk(&jwk).ok()) else {
        tracing::error!(kid = stored.kid, "A signing key's public half is not its own; the key is not used");
        return None;
    };
    let private = vault.open(&place(&stored.kid), &stored.sealed).inspect_err(|error| {
        tracing::error!(
            kid = stored.kid,
            error = format!("{error:#}"),
            "A signing key does not open; it only verifies"
        );
    });
    let header = format!(r#"{{"alg":"ES256","kid":"{}","typ":"at+jwt"}}"#, stored.kid);
    Some(Key {
        header: BASE64_URL_SAFE_NO_PAD.encode(header),
        private: private.ok().and_then(|der| EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der).ok()),
        public,
        id: stored.kid,
        jwk: stored.jwk,
        schedule: stored.schedule,
    })
}

/// Whether a stored key opens under our root keys.
pub fn check(vault: &Vault, stored: &store::signing_keys::StoredKey) -> anyhow::Result<()> {
    vault.open(&place(&stored.kid), &stored.sealed).map(drop).context("no signing key opens with secrets.root_keys")
}

fn unavailable(what: &str) -> anyhow::Error {
    database::Error::Unavailable(what.to_owned()).into()
}

/// A new key, its private half already sealed.
pub struct GeneratedKey {
    pub kid: String,
    pub sealed: Vec<u8>,
    pub jwk: serde_json::Value,
}

pub fn generate(vault: &Vault) -> anyhow::Result<GeneratedKey> {
    let private = mint::signing_key()?;
    let mut jwk = Jwk::from_encoding_key(&EncodingKey::from_ec_der(&private), Algorithm::ES256)?;
    let kid = jwk.thumbprint(ThumbprintHash::SHA256)?;
    jwk.common.key_id = Some(kid.clone());
    jwk.common.public_key_use = Some(PublicKeyUse::Signature);
    let sealed = vault.seal(&place(&kid), &private)?;
    Ok(GeneratedKey { kid, sealed, jwk: serde_json::to_value(&jwk)? })
}

fn place(kid: &str) -> String {
    format!("signing_keys.sealed/{kid}")
}
