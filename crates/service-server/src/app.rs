//! The state that all requests and background tasks share.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use axum::body::Bytes;
use quick_cache::sync::Cache;
use service_api::ids::UserId;
use service_rules::Timestamp;
use tokio::sync::{Notify, OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    audit::{chain, keys::AuditKeys},
    batches::{cli_tokens::CliTokenReads, grants::GrantBatches},
    clock::Clock,
    config::{Config, DatabaseConfig},
    crypto::{random, root_keys::RootKeys},
    database::{
        Database, Servers,
        restore_fence::{Fence, RestoreFence},
        table_walk::TableWalk,
    },
    issuers::Issuers,
    locales::Locales,
    net::{
        dns::Dns,
        document_fetcher::DocumentFetcher,
        outbound::Outbound,
        server_tls::{self, ServerTls},
        tls,
    },
    node_limits::{
        network_places::{self, NetworkPlaces},
        search_turns::SearchTurns,
        support_attempts::SupportAttempts,
        user_limits::UserLimits,
    },
    tasks::mailer::Relays,
    telemetry::{Metrics, alarms::Alarms, traces::Traces},
    tokens::{
        cli_token_cache::CliTokenCache,
        membership_cache::MembershipCache,
        revocations::Revocations,
        signing_keys::{KeyTable, SigningKeys},
        verified_cache::VerifiedTokenCache,
        whoami_cache::WhoamiCache,
    },
};

/// The number of request bodies that may arrive at once, for each request that may run at once.
const BODIES_PER_REQUEST_SLOT: usize = 8;
const MAX_CACHED_USER_EMAILS: usize = 32_768;
/// The number of account exports that read and compress a page at the same time. Together they use no more connections and cores.
const MAX_EXPORT_PAGES_AT_ONCE: usize = 2;

/// A cheaply cloned handle to the shared state.
#[derive(Clone)]
pub struct App(Arc<AppState>);

/// The shared state of this node.
pub struct AppState {
    pub config: Config,
    pub clock: Clock,
    /// The texts of pages and mails.
    pub locales: Locales,
    /// The stylesheet of pages.
    pub stylesheet: Bytes,
    /// The pool for credentials: signing in, refreshing, authenticating, and everything that the other pools do not
    /// serve.
    pub database: Database,
    /// Reads and rotates grants for refreshes that arrive together.
    pub grant_batches: GrantBatches,
    /// Reads CLI tokens for requests that arrive together.
    pub cli_token_reads: CliTokenReads,
    /// The pool for content and search. Slow requests there take no connection from credentials.
    pub content_database: Database,
    /// The pool for background tasks: mail, sealing, deleting.
    pub background_database: Database,
    /// The servers that the revocations can be read from, with one connection each. The last one is the primary.
    pub feed_databases: Vec<Database>,
    /// The one connection that writes this node's heartbeat. It is separate, because a busy pool must not delay the
    /// heartbeat.
    pub heartbeat_database: Database,
    /// The database server that all connections of this node must lead to.
    pub servers: Arc<Servers>,
    /// Closed when the database looks restored from a backup.
    pub restore_fence: RestoreFence,
    /// The id of this process in `node_heartbeats`.
    pub node_id: Uuid,
    pub root_keys: RootKeys,
    /// The key that decides about the shard of an email address, once it was read.
    pub address_key: OnceCell<Vec<u8>>,
    pub signing_keys: SigningKeys,
    pub verified_tokens: VerifiedTokenCache,
    pub revocations: Revocations,
    pub cli_tokens: CliTokenCache,
    pub memberships: MembershipCache,
    pub user_limits: UserLimits,
    pub search_turns: SearchTurns,
    /// Turns of account exports to read a page.
    pub export_pages: Semaphore,
    pub support_attempts: SupportAttempts,
    /// The TLS configuration of the support listener, if it is on and this process serves it.
    pub support_tls: OnceLock<Arc<ServerTls>>,
    /// Where the TXT records of domains are looked up.
    pub dns: Dns,
    outbound: Arc<Outbound>,
    /// Fetches client metadata documents.
    pub documents: DocumentFetcher,
    /// Outside issuers whose tokens are accepted.
    pub issuers: Issuers,
    /// Email addresses by user, with when they were read.
    pub user_emails: Cache<UserId, (Arc<str>, Timestamp)>,
    pub whoami_responses: WhoamiCache,
    pub metrics: Arc<Metrics>,
    /// `None`: nothing is traced.
    pub traces: Option<Traces>,
    pub alarms: Alarms,
    /// The last seal that this node has seen.
    pub audit_seen: chain::LastSeenSeal,
    /// Where housekeeping continues its scan for dead grants.
    pub grants_walk: TableWalk,
    /// The keys of personal fields in audit events.
    pub audit_keys: Arc<AuditKeys>,
    mail_relays: RwLock<Relays>,
    /// Notified when mail was put into the outbox.
    pub mail_waiting: Notify,
    /// Slots for requests that run at once.
    pub in_flight: Semaphore,
    /// Places for request bodies that are still arriving.
    pub arriving: NetworkPlaces,
    /// Places for large responses that clients have not read yet.
    pub outgoing: NetworkPlaces,
    /// Places for downloads, which are made while clients read them.
    pub downloads: NetworkPlaces,
    /// The audience of access tokens for `/v1`.
    pub audience: String,
    /// The audience of access tokens for `/mcp`.
    pub mcp_audience: String,
    /// Cancelled when the node has checked its database and serves requests.
    pub started: CancellationToken,
    /// Cancelled when the node is about to stop. It is not ready any more, and closes each connection after the next
    /// response on it.
    pub leaving: CancellationToken,
    /// Cancelled when the node stops.
    pub stop: CancellationToken,
}

impl App {
    /// Builds the state from the configuration. Connects to nothing.
    pub fn new(config: Config, clock: Clock) -> anyhow::Result<Self> {
        let servers = Arc::default();
        let outbound = Arc::new(Outbound::new(tls::client(config.documents.ca_file.as_deref(), None)?));
        let metrics = Arc::<Metrics>::default();
        let pool = |connections| {
            anyhow::Ok(Database::new(&config.database, connections, &servers)?.observed_by(&metrics.database_wait))
        };
        let database = pool(config.database.credential_connections)?;
        let node_id = random::uuid(clock.now())?;
        let issuers = Issuers::new(outbound.clone(), &config, clock.clone(), database.clone(), metrics.clone());
        Ok(Self(Arc::new(AppState {
            locales: Locales::with_brand(&config.brand)?,
            stylesheet: config.brand.stylesheet(),
            cli_token_reads: CliTokenReads::new(&database, &config.database),
            grant_batches: GrantBatches::new(&database, &config.database, &metrics.refresh_batch),
            database,
            content_database: pool(config.database.content_connections)?,
            background_database: pool(config.database.background_connections)?,
            feed_databases: feed_databases(&config.database, &servers)?,
            heartbeat_database: Database::for_comparison(&config.database, &servers)?,
            servers,
            restore_fence: RestoreFence::default(),
            node_id,
            root_keys: RootKeys::new(&config.root_keys)?,
            address_key: OnceCell::new(),
            signing_keys: SigningKeys::default(),
            verified_tokens: VerifiedTokenCache::default(),
            revocations: Revocations::default(),
            cli_tokens: CliTokenCache::default(),
            memberships: MembershipCache::default(),
            user_limits: UserLimits::default(),
            search_turns: SearchTurns::default(),
            export_pages: Semaphore::new(MAX_EXPORT_PAGES_AT_ONCE),
            support_attempts: SupportAttempts::default(),
            support_tls: OnceLock::new(),
            dns: Dns::new(config.dns.servers.clone()),
            documents: DocumentFetcher::new(outbound.clone(), config.documents.allowed_networks.clone()),
            outbound,
            issuers,
            user_emails: Cache::new(MAX_CACHED_USER_EMAILS),
            whoami_responses: WhoamiCache::default(),
            traces: Traces::new(&config.traces, node_id, &metrics)?,
            metrics,
            alarms: Alarms::default(),
            audit_seen: chain::LastSeenSeal::default(),
            grants_walk: TableWalk::default(),
            audit_keys: Arc::new(AuditKeys::new(&config.root_keys)?),
            mail_relays: RwLock::new(Relays::new(&config.mail)?),
            mail_waiting: Notify::new(),
            in_flight: Semaphore::new(config.http.in_flight),
            arriving: network_places(&config, config.http.in_flight.saturating_mul(BODIES_PER_REQUEST_SLOT)),
            outgoing: network_places(&config, network_places::MAX_OUTGOING_PLACES),
            downloads: network_places(&config, network_places::MAX_DOWNLOADS_AT_ONCE),
            audience: config.api_audience(),
            mcp_audience: config.mcp_audience(),
            started: CancellationToken::new(),
            leaving: CancellationToken::new(),
            stop: CancellationToken::new(),
            config,
            clock,
        })))
    }
}

impl AppState {
    /// Returns what is needed to read the signing keys.
    #[must_use]
    pub fn key_table(&self) -> KeyTable<'_> {
        KeyTable {
            database: &self.database,
            root_keys: &self.root_keys,
            now: self.clock.now(),
            publish_lead: self.config.keys.publish_lead,
        }
    }

    /// Whether this node may serve requests from the database server that it is connected to.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.restore_fence.state(self.servers.comparison())
    }

    /// Returns the mail servers.
    #[must_use]
    pub fn mail_relays(&self) -> Relays {
        self.mail_relays.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over the secrets of another configuration that can be replaced while the node runs, and reads all files of
    /// certificates again. Fails with nothing changed if a file cannot be used.
    pub fn reload(&self, new: &Config) -> anyhow::Result<()> {
        let own = &self.config;
        let relays = Relays::new(&own.mail.with_passwords_of(&new.mail))?;
        let tls = tls::client(own.documents.ca_file.as_deref(), None)?;
        let support_tls = own.support.as_ref().map(|support| server_tls::read(&support.files)).transpose()?;
        let of_collector = self.traces.as_ref().map(|traces| traces.prepare_reload(&own.traces, &new.traces));
        let of_collector = of_collector.transpose()?;
        let url = new.database.url.clone();
        // Another number of servers needs a restart.
        let is_as_many = new.database.feed_urls.len() == own.database.feed_urls.len();
        let feed_urls = if is_as_many { &new.database.feed_urls } else { &own.database.feed_urls }.clone();
        let settings = DatabaseConfig { url, feed_urls, ..own.database.clone() };
        // Checks every URL and every file before anything changes.
        feed_databases(&settings, &self.servers)?;
        for database in [&self.database, &self.content_database, &self.background_database, &self.heartbeat_database] {
            database.reload(&settings)?;
        }
        for (database, of_feed) in self.feed_databases.iter().zip(feed_settings(&settings)) {
            database.reload(&of_feed)?;
        }
        if let (Some(traces), Some(secrets)) = (&self.traces, of_collector) {
            traces.take_over(secrets);
        }
        self.outbound.replace_tls(tls);
        if let (Some(current), Some(new)) = (self.support_tls.get(), support_tls) {
            current.replace(new);
        }
        *self.mail_relays.write().unwrap_or_else(PoisonError::into_inner) = relays;
        Ok(())
    }

    /// Reads the signing keys from the database.
    pub async fn reload_signing_keys(&self) -> anyhow::Result<()> {
        self.signing_keys.reload(&self.key_table()).await
    }
}

impl std::ops::Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

/// This many places, of which networks that the operator raised may hold more.
fn network_places(config: &Config, places: usize) -> NetworkPlaces {
    NetworkPlaces::new(places, config.limits.raised_networks.clone())
}

/// The servers in `database.feed_urls`, and the one in `database.url` after them. Opens no connection yet.
fn feed_databases(config: &DatabaseConfig, servers: &Arc<Servers>) -> anyhow::Result<Vec<Database>> {
    let mut settings = feed_settings(config);
    settings.pop();
    let mut databases = settings.iter().map(Database::for_feed).collect::<anyhow::Result<Vec<_>>>()?;
    databases.push(Database::for_comparison(config, servers)?);
    Ok(databases)
}

/// The settings for each of these servers.
fn feed_settings(config: &DatabaseConfig) -> Vec<DatabaseConfig> {
    let urls = config.feed_urls.iter().chain([&config.url]);
    urls.map(|url| DatabaseConfig { url: url.clone(), ..config.clone() }).collect()
}
