//! The configuration: one TOML file and the environment, read once at the start.

mod brand;
mod database_url;
mod mail;
mod service_links;
mod settings;
mod sources;
mod support;
mod values;

use std::{net::SocketAddr, path::Path, path::PathBuf, time::Duration};

use anyhow::Context as _;
use ipnet::IpNet;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use service_rules::{
    domains::Domain,
    limits::{FailureShare, Rate, Window},
    network_rates::{NetworkRates, RaisedNetworks},
    registration::ServiceIdentity,
    trace_context::SampleRatio,
};
use url::Url;
use zeroize::Zeroizing;

pub(crate) use self::values::is_local;
use self::values::{
    ALLOWED_ISSUERS, FAILURE_SHARE, NETWORK_RATES, NETWORKS, RAISED_NETWORKS, RATE, WINDOWS, allowed_issuers, base_url,
    bearer_token, collector_url, database_urls, domains, failure_share, filter, hosts, hosts_and_ports, keep_days,
    network_rates, networks, raised_networks, rate, root_keys, sample_ratio, windows, yes_or_no,
};
pub use self::{
    database_url::{ClientCertificate, DatabaseUrl},
    mail::{MailConfig, MailServer, MailTls},
    settings::{SETTINGS, Setting, environment_name},
    sources::{Problem, Problems, Sources},
    support::{ServerTlsFiles, SupportConfig},
};
use crate::{brand::Brand, crypto::root_keys::RootKey, net::outbound::is_loopback};

/// The configuration of a node.
#[derive(Clone)]
pub struct Config {
    /// The public URL of the service without a trailing slash. It is also the OAuth issuer, byte for byte.
    pub base_url: String,
    pub brand: Brand,
    pub http: HttpConfig,
    pub database: DatabaseConfig,
    pub root_keys: Vec<RootKey>,
    pub mail: MailConfig,
    pub limits: LimitsConfig,
    pub keys: KeysConfig,
    pub audit: AuditConfig,
    pub restore: RestoreConfig,
    pub documents: DocumentsConfig,
    pub sso: SsoConfig,
    pub dns: DnsConfig,
    pub log: LogConfig,
    pub traces: TracesConfig,
    /// `None`: the support listener is off.
    pub support: Option<SupportConfig>,
}

/// Listeners and limits of the HTTP server.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    pub listen: SocketAddr,
    pub ops_listen: SocketAddr,
    pub trusted_proxies: Vec<IpNet>,
    /// Hosts that `/mcp` is served under, besides that of the base URL.
    pub mcp_hosts: Vec<String>,
    pub connections: usize,
    pub in_flight: usize,
    pub deadline: Duration,
    pub body_limit: usize,
    /// How long a stopping node still accepts connections, so that load balancers can take it out.
    pub lame_duck: Duration,
    pub drain: Duration,
}

/// The database and its connection pools.
#[derive(Clone)]
pub struct DatabaseConfig {
    pub url: DatabaseUrl,
    /// Where revocations are read, instead of `url`. Any of these servers may be a standby.
    pub feed_urls: Vec<DatabaseUrl>,
    pub ca_file: Option<PathBuf>,
    /// Connections of the pool for credentials.
    pub credential_connections: usize,
    /// Connections of the pool for content and search.
    pub content_connections: usize,
    /// Connections of the pool for background tasks.
    pub background_connections: usize,
    /// The timeout of a statement. It is shorter than PostgreSQL's own, because after that a commit reports success
    /// although it is not replicated.
    pub deadline: Duration,
    /// Whether refreshes that arrive together share statements, which then touch several shards of one database.
    pub coalesce: bool,
}

/// Rate limits.
#[derive(Clone, Debug)]
pub struct LimitsConfig {
    pub otp_sends_per_context: Vec<Window>,
    pub otp_sends_per_device: Vec<Window>,
    pub otp_sends_per_address_and_network: Vec<Window>,
    pub otp_sends_per_address: Vec<Window>,
    pub otp_sends_per_network: NetworkRates,
    pub otp_sends: Rate,
    pub otp_failures_per_device: Vec<Window>,
    pub otp_failures_per_address_and_network: Vec<Window>,
    pub otp_failures_per_address: Vec<Window>,
    pub otp_failures_per_network: NetworkRates,
    pub otp_failures: Rate,
    pub otp_failures_percent: FailureShare,
    /// Networks whose limits are higher.
    pub raised_networks: RaisedNetworks,
    pub login_options_per_network: NetworkRates,
    pub leak_reports_per_network: NetworkRates,
    pub tokens_per_user: Rate,
    pub browsers_per_network: NetworkRates,
    pub logouts_per_network: NetworkRates,
    pub registrations_per_network: NetworkRates,
    pub requests_per_user: Rate,
    pub writes_per_user: Rate,
    pub searches_per_user: Rate,
    pub documents: Rate,
    /// Checks of DNS records, for each workspace and each user.
    pub domain_checks: Rate,
}

/// Signing keys.
#[derive(Clone, Debug)]
pub struct KeysConfig {
    pub rotate_every: Duration,
    /// How long a new key is published before it signs.
    pub publish_lead: Duration,
    /// How often a node reads the signing keys. It must be shorter than the time after which they count as stale.
    pub refresh_every: Duration,
}

/// The audit log.
#[derive(Clone, Debug)]
pub struct AuditConfig {
    /// How long events are kept, in seconds. Whole months are dropped.
    pub keep: i64,
}

/// How the service notices that the database was restored from a backup.
#[derive(Clone, Debug)]
pub struct RestoreConfig {
    /// The file outside of the database that holds the last confirmed heartbeat.
    pub anchor_file: Option<PathBuf>,
}

/// How client metadata documents are fetched.
#[derive(Clone, Debug)]
pub struct DocumentsConfig {
    /// Networks that may be fetched from although they are not public.
    pub allowed_networks: Vec<IpNet>,
    pub ca_file: Option<PathBuf>,
}

/// Single sign-on.
#[derive(Clone, Debug)]
pub struct SsoConfig {
    /// Issuers that are not at public addresses.
    pub allowed_issuers: Vec<AllowedIssuer>,
    /// Domains where anyone can have an address. No workspace can claim them.
    pub public_mail_domains: Vec<Domain>,
}

/// An issuer that may be at an address that is not public.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedIssuer {
    /// Compared byte for byte.
    pub issuer: String,
    pub networks: Vec<IpNet>,
}

/// How names are resolved to verify domains.
#[derive(Clone, Debug)]
pub struct DnsConfig {
    /// Hosts and ports. Empty: the servers of the system.
    pub servers: Vec<String>,
}

/// The log.
#[derive(Clone, Debug)]
pub struct LogConfig {
    pub json: bool,
    pub filter: String,
}

/// Traces.
#[derive(Clone)]
pub struct TracesConfig {
    /// Where spans are sent (OTLP over HTTP). `None`: nothing is traced.
    pub endpoint: Option<Url>,
    /// The part of requests without a parent that is traced.
    pub sample_ratio: SampleRatio,
    pub token: Option<Zeroizing<String>>,
    pub ca_file: Option<PathBuf>,
}

/// Reads the rate limits.
fn limits(from: &mut sources::Reader<'_>) -> LimitsConfig {
    let mut in_windows = |key| from.checked(key, WINDOWS, windows);
    let otp_sends_per_context = in_windows("limits.otp_sends_per_context");
    let otp_sends_per_device = in_windows("limits.otp_sends_per_device");
    let otp_sends_per_address_and_network = in_windows("limits.otp_sends_per_address_and_network");
    let otp_sends_per_address = in_windows("limits.otp_sends_per_address");
    let otp_failures_per_device = in_windows("limits.otp_failures_per_device");
    let otp_failures_per_address_and_network = in_windows("limits.otp_failures_per_address_and_network");
    let otp_failures_per_address = in_windows("limits.otp_failures_per_address");
    let mut per_network = |key| from.checked(key, NETWORK_RATES, network_rates);
    LimitsConfig {
        otp_sends_per_network: per_network("limits.otp_sends_per_network"),
        otp_failures_per_network: per_network("limits.otp_failures_per_network"),
        login_options_per_network: per_network("limits.login_options_per_network"),
        leak_reports_per_network: per_network("limits.leak_reports_per_network"),
        browsers_per_network: per_network("limits.browsers_per_network"),
        logouts_per_network: per_network("limits.logouts_per_network"),
        registrations_per_network: per_network("limits.registrations_per_network"),
        raised_networks: RaisedNetworks::new(from.checked("limits.raised_networks", RAISED_NETWORKS, raised_networks)),
        otp_sends_per_context,
        otp_sends_per_device,
        otp_sends_per_address_and_network,
        otp_sends_per_address,
        otp_failures_per_device,
        otp_failures_per_address_and_network,
        otp_failures_per_address,
        otp_sends: from.checked("limits.otp_sends", RATE, rate),
        otp_failures: from.checked("limits.otp_failures", RATE, rate),
        otp_failures_percent: from.checked("limits.otp_failures_percent", FAILURE_SHARE, failure_share),
        tokens_per_user: from.checked("limits.tokens_per_user", RATE, rate),
        requests_per_user: from.checked("limits.requests_per_user", RATE, rate),
        writes_per_user: from.checked("limits.writes_per_user", RATE, rate),
        searches_per_user: from.checked("limits.searches_per_user", RATE, rate),
        documents: from.checked("limits.documents", RATE, rate),
        domain_checks: from.checked("limits.domain_checks", RATE, rate),
    }
}

/// Divides the database connections among pools, so that none uses up another's.
fn database(from: &mut sources::Reader<'_>) -> DatabaseConfig {
    let connections = from.count("database.connections");
    let content = from.optional_count("database.content_connections").unwrap_or(connections * 3 / 8).max(1);
    let background = from.optional_count("database.background_connections").unwrap_or(connections / 8).max(1);
    let url = from.checked("database.url", "a PostgreSQL address", DatabaseUrl::parse);
    let feed_urls = from.checked("database.feed_urls", "PostgreSQL addresses, separated by spaces", database_urls);
    for (key, url) in
        [("database.url", &url)].into_iter().chain(feed_urls.iter().map(|url| ("database.feed_urls", url)))
    {
        if let Some(problem) = url.problem() {
            from.report(&format!("in {key}, {problem}"));
        }
    }
    DatabaseConfig {
        url,
        feed_urls,
        ca_file: from.certificates("database.ca_file"),
        credential_connections: connections.saturating_sub(content + background).max(1),
        content_connections: content,
        background_connections: background,
        deadline: from.seconds_below("database.deadline_seconds", 5.0, "more than 0 and less than 5 seconds"),
        coalesce: from.checked("database.coalesce", "yes or no", yes_or_no),
    }
}

fn keys(from: &mut sources::Reader<'_>) -> KeysConfig {
    KeysConfig {
        rotate_every: from.days("keys.rotate_every_days"),
        publish_lead: from.seconds("keys.publish_lead_seconds"),
        refresh_every: from.seconds_below("keys.refresh_every_seconds", 30.0, "more than 0 and less than 30 seconds"),
    }
}

fn traces(from: &mut sources::Reader<'_>) -> TracesConfig {
    let expected = "an http(s) URL such as http://127.0.0.1:4318/v1/traces";
    let traces = TracesConfig {
        endpoint: from.optional_checked("traces.endpoint", expected, collector_url),
        sample_ratio: from.checked("traces.sample_ratio", "a number from 0 to 1", sample_ratio),
        token: from.optional_checked("traces.token", "a token of visible ASCII characters", bearer_token),
        ca_file: from.certificates("traces.ca_file"),
    };
    let is_clear = |url: &Url| url.scheme() == "http" && !is_loopback(url);
    if traces.token.is_some() && traces.endpoint.as_ref().is_some_and(is_clear) {
        from.report(
            "traces.token is set, but traces.endpoint is http on another machine: the token would travel in clear",
        );
    }
    traces
}

impl Config {
    /// Reads every setting, and reports all problems rather than only the first.
    pub fn read(sources: &Sources) -> Result<Self, Problems> {
        let mut from = sources.reader();
        let base_url = from.checked("base_url", "an http(s) address without a path or trailing slash", base_url);
        let config = Self {
            support: support::support(&mut from, &base_url),
            base_url,
            brand: brand::brand(&mut from),
            http: HttpConfig {
                listen: from.parsed("http.listen", "an address and port such as 127.0.0.1:8080"),
                ops_listen: from.parsed("http.ops_listen", "an address and port such as 127.0.0.1:9090"),
                trusted_proxies: from.checked("http.trusted_proxies", NETWORKS, networks),
                mcp_hosts: from.checked("http.mcp_hosts", "hosts such as service.internal:8080", hosts),
                connections: from.count("http.connections"),
                in_flight: from.count("http.in_flight"),
                deadline: from.seconds("http.deadline_seconds"),
                body_limit: from.count("http.body_limit_bytes"),
                lame_duck: from.pause("http.lame_duck_seconds"),
                drain: from.seconds("http.drain_seconds"),
            },
            database: database(&mut from),
            root_keys: from.checked("secrets.root_keys", "id:key pairs, each key 32 bytes in base64", root_keys),
            mail: mail::mail(&mut from),
            limits: limits(&mut from),
            keys: keys(&mut from),
            audit: AuditConfig { keep: from.checked("audit.keep_days", "31 days or more", keep_days) },
            restore: RestoreConfig { anchor_file: from.optional("restore.anchor_file").map(PathBuf::from) },
            documents: DocumentsConfig {
                allowed_networks: from.checked("documents.allowed_networks", NETWORKS, networks),
                ca_file: from.certificates("documents.ca_file"),
            },
            sso: SsoConfig {
                allowed_issuers: from.checked("sso.allowed_issuers", ALLOWED_ISSUERS, allowed_issuers),
                public_mail_domains: from.checked("sso.public_mail_domains", "domains such as gmail.com", domains),
            },
            dns: DnsConfig {
                servers: from.checked("dns.servers", "hosts and ports such as 192.0.2.53:53", hosts_and_ports),
            },
            traces: traces(&mut from),
            log: LogConfig {
                json: from.checked("log.format", "json or text", |text| match text {
                    "json" => Some(true),
                    "text" => Some(false),
                    _ => None,
                }),
                filter: from.checked("log.filter", "a filter such as info or info,service_server=debug", filter),
            },
        };
        from.finish(config)
    }

    /// Returns what no client may pass itself off as.
    #[must_use]
    pub fn identity(&self) -> ServiceIdentity<'_> {
        ServiceIdentity { names: &self.brand.own_names, base_url: &self.base_url }
    }

    /// Returns the audience of access tokens for `/v1` (RFC 8707).
    #[must_use]
    pub fn api_audience(&self) -> String {
        format!("{}/v1", self.base_url)
    }

    /// Returns the audience of access tokens for `/mcp` (RFC 8707).
    #[must_use]
    pub fn mcp_audience(&self) -> String {
        format!("{}/mcp", self.base_url)
    }
}

/// Reads the certificates in a PEM file.
pub fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).with_context(|| format!("cannot read {}", path.display()))?.collect();
    certificates.with_context(|| format!("{} holds no PEM certificates", path.display()))
}
