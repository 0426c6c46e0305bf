//! What every request shares.

use std::sync::Arc;

use quick_cache::sync::Cache;
use service_api::ids::UserId;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock, config::Config, database::Database, signing_keys::SigningKeys, telemetry::Metrics, vault::Vault,
};

/// Access tokens whose signature has been checked are remembered by digest, up to so many.
const REMEMBERED_TOKENS: usize = 32_768;
/// Bodies that may arrive at once, for each request that may be worked on at once.
const ARRIVING_PER_ROOM: usize = 8;
const REMEMBERED_USERS: usize = 32_768;

/// Cheap to clone: a handle.
#[derive(Clone)]
pub struct App(Arc<Shared>);

pub struct Shared {
    pub config: Config,
    pub clock: Clock,
    pub database: Database,
    pub vault: Vault,
    pub signing_keys: SigningKeys,
    /// Tokens by the SHA-256 of their whole text. What a token opens is never remembered, only that it is genuine.
    pub verified_tokens: Cache<[u8; 32], Arc<crate::flows::authenticate::Verified>>,
    /// Addresses of users, which never change.
    pub user_emails: Cache<UserId, Arc<str>>,
    pub metrics: Metrics,
    /// Rung when mail was put into the outbox.
    pub mail_waiting: Notify,
    /// Room for requests.
    pub in_flight: Semaphore,
    /// Room for bodies that have not arrived yet.
    pub arriving: Semaphore,
    /// The audience of the tokens that open `/v1`.
    pub audience: String,
    /// Cancelled when the node is to stop.
    pub stop: CancellationToken,
}

impl App {
    pub fn new(config: Config, clock: Clock) -> anyhow::Result<Self> {
        Ok(Self(Arc::new(Shared {
            database: Database::new(&config.database)?,
            vault: Vault::new(&config.root_keys)?,
            signing_keys: SigningKeys::default(),
            verified_tokens: Cache::new(REMEMBERED_TOKENS),
            user_emails: Cache::new(REMEMBERED_USERS),
            metrics: Metrics::default(),
            mail_waiting: Notify::new(),
            in_flight: Semaphore::new(config.http.in_flight),
            arriving: Semaphore::new(config.http.in_flight.saturating_mul(ARRIVING_PER_ROOM)),
            audience: config.api_audience(),
            stop: CancellationToken::new(),
            config,
            clock,
        })))
    }
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
