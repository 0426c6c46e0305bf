//! What every request shares.

use std::sync::Arc;

use quick_cache::sync::Cache;
use service_api::ids::UserId;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    audit_chain,
    cli_tokens::CliTokens,
    clock::Clock,
    config::Config,
    database::Database,
    document_fetcher::Documents,
    revocations::Revocations,
    signing_keys::{SigningKeys, Table},
    telemetry::Metrics,
    tls,
    vault::Vault,
    verified_tokens::VerifiedTokens,
};

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
    /// One connection, for following the revocations and nothing else.
    pub feed_database: Database,
    pub vault: Vault,
    pub signing_keys: SigningKeys,
    pub verified_tokens: VerifiedTokens,
    pub revocations: Revocations,
    pub cli_tokens: CliTokens,
    /// For fetching what clients say of themselves.
    pub documents: Documents,
    /// Addresses of users, which never change.
    pub user_emails: Cache<UserId, Arc<str>>,
    pub metrics: Metrics,
    /// The end of the chain of seals, as this node last saw it.
    pub audit_seen: audit_chain::Seen,
    /// Rung when mail was put into the outbox.
    pub mail_waiting: Notify,
    /// Room for requests.
    pub in_flight: Semaphore,
    /// Room for bodies that have not arrived yet.
    pub arriving: Semaphore,
    /// The audience of the tokens that open `/v1`.
    pub audience: String,
    /// The audience of the tokens that open `/mcp`.
    pub mcp_audience: String,
    /// Cancelled when the node is to stop.
    pub stop: CancellationToken,
}

impl App {
    pub fn new(config: Config, clock: Clock) -> anyhow::Result<Self> {
        Ok(Self(Arc::new(Shared {
            database: Database::new(&config.database, config.database.connections)?,
            feed_database: Database::new(&config.database, 1)?,
            vault: Vault::new(&config.root_keys)?,
            signing_keys: SigningKeys::default(),
            verified_tokens: VerifiedTokens::default(),
            revocations: Revocations::default(),
            cli_tokens: CliTokens::default(),
            documents: Documents::new(
                tls::client(config.documents.ca_file.as_deref())?,
                config.documents.allowed_networks.clone(),
            ),
            user_emails: Cache::new(REMEMBERED_USERS),
            metrics: Metrics::default(),
            audit_seen: audit_chain::Seen::default(),
            mail_waiting: Notify::new(),
            in_flight: Semaphore::new(config.http.in_flight),
            arriving: Semaphore::new(config.http.in_flight.saturating_mul(ARRIVING_PER_ROOM)),
            audience: config.api_audience(),
            mcp_audience: config.mcp_audience(),
            stop: CancellationToken::new(),
            config,
            clock,
        })))
    }
}

impl Shared {
    /// Where the signing keys are kept.
    #[must_use]
    pub fn key_table(&self) -> Table<'_> {
        Table { database: &self.database, vault: &self.vault, now: self.clock.now() }
    }

    pub async fn reload_signing_keys(&self) -> anyhow::Result<()> {
        self.signing_keys.reload(&self.key_table()).await
    }
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
