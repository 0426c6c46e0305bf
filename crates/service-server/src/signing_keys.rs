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
use tokio::{sync::Mutex, time::Instant};

use crate::{app::App, mint, store, vault::Vault};

const BETWEEN_READS: Duration = Duration::from_millis(200);
const REMEMBERED_UNKNOWN_KEYS: usize = 4_096;

pub struct SigningKeys {
    ring: RwLock<Arc<Vec<Key>>>,
    /// When the last read of the table began; held while it is being read.
    read_at: Mutex<Option<Instant>>,
    unknown: Cache<String, ()>,
}

struct Key {
    id: String,
    /// The JWT header of every token this key signs, encoded.
    header: String,
    private: EncodingKey,
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
        Self { ring: RwLock::default(), read_at: Mutex::default(), unknown: Cache::new(REMEMBERED_UNKNOWN_KEYS) }
    }
}

impl SigningKeys {
    /// Signs with the youngest key whose time has come.
    pub fn sign(&self, claims: &Claims, now: Timestamp) -> anyhow::Result<AccessToken> {
        let ring = self.ring();
        let usable = ring.iter().filter(|key| key.accepts(now) && key.schedule.active_at <= now);
        let key = usable.max_by_key(|key| key.schedule.active_at).context("there is no signing key")?;
        let message = format!("{}.{}", key.header, BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims)?));
        // Of the two signatures of a pair only the smaller counts as ours; one draw in two gives it.
        loop {
            let signature = crypto::sign(message.as_bytes(), &key.private, Algorithm::ES256)?;
            if bearer::is_low(&BASE64_URL_SAFE_NO_PAD.decode(&signature)?) {
                return Ok(AccessToken::new(format!("{message}.{signature}")));
            }
        }
    }

    /// Whether tokens signed by this key are accepted now.
    pub fn accept(&self, key_id: &str, now: Timestamp) -> bool {
        self.ring().iter().any(|key| key.id == key_id && key.accepts(now))
    }

    /// Whether the token was signed by one of our keys.
    pub async fn verify(&self, app: &App, jwt: &UnverifiedJwt<'_>) -> anyhow::Result<bool> {
        if let Some(genuine) = self.verify_with_known_key(jwt)? {
            return Ok(genuine);
        }
        if self.unknown.get(jwt.key_id()).is_some() {
            return Ok(false);
        }
        read_again(app).await?;
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
    pub fn is_empty(&self) -> bool {
        self.ring().is_empty()
    }

    fn ring(&self) -> Arc<Vec<Key>> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads the table now, in the background of everybody else.
pub async fn reload(app: &App) -> anyhow::Result<()> {
    let mut read_at = app.signing_keys.read_at.lock().await;
    read(app, &mut read_at).await
}

/// Reads the table for a request that cannot go on without: at most every [`BETWEEN_READS`], for all of them together.
async fn read_again(app: &App) -> anyhow::Result<()> {
    let asked_at = Instant::now();
    let mut read_at = app.signing_keys.read_at.lock().await;
    if read_at.is_some_and(|at| at > asked_at) {
        return Ok(());
    }
    if let Some(at) = *read_at {
        tokio::time::sleep_until(at + BETWEEN_READS).await;
    }
    read(app, &mut read_at).await
}

/// The moment that counts is when the read began: what was written later, it may not have seen.
async fn read(app: &App, read_at: &mut Option<Instant>) -> anyhow::Result<()> {
    let began = Instant::now();
    let stored = store::signing_keys::list(&app.database.connect().await?).await?;
    let ring: Vec<Key> = stored.into_iter().map(|key| unseal(&app.vault, key)).collect::<anyhow::Result<_>>()?;
    *app.signing_keys.ring.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(ring);
    *read_at = Some(began);
    Ok(())
}

fn unseal(vault: &Vault, stored: store::signing_keys::StoredKey) -> anyhow::Result<Key> {
    let private = vault.open(&place(&stored.kid), &stored.sealed)?;
    let jwk: Jwk = serde_json::from_value(stored.jwk.clone()).context("signing_keys.jwk holds no key")?;
    let header = format!(r#"{{"alg":"ES256","kid":"{}","typ":"at+jwt"}}"#, stored.kid);
    Ok(Key {
        header: BASE64_URL_SAFE_NO_PAD.encode(header),
        private: EncodingKey::from_ec_der(&private),
        public: DecodingKey::from_jwk(&jwk)?,
        id: stored.kid,
        jwk: stored.jwk,
        schedule: stored.schedule,
    })
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
