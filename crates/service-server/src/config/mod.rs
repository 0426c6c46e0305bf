//! What an operator decides: one TOML file plus the environment, read once at the start.

mod settings;
mod sources;
mod values;

use std::{net::SocketAddr, path::Path, path::PathBuf, time::Duration};

use anyhow::Context as _;
use ipnet::IpNet;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use service_rules::limits::{Rate, Window};
use zeroize::Zeroizing;

use self::values::{
    RATE, WINDOWS, base_url, database_url, filter, host, is_local, keep_days, mail_tls, mailbox, networks, rate,
    root_keys, windows,
};
pub use self::{
    settings::{SETTINGS, Setting, environment_name},
    sources::{Problem, Problems, Sources},
};
use crate::vault::RootKey;

#[derive(Clone)]
pub struct Config {
    /// The address of the service, without a trailing slash; also the OAuth issuer, byte for byte.
    pub base_url: String,
    pub http: Http,
    pub database: Database,
    pub root_keys: Vec<RootKey>,
    pub mail: Mail,
    pub limits: Limits,
    pub keys: Keys,
    pub audit: Audit,
    pub documents: Documents,
    pub log: Log,
}

#[derive(Clone, Debug)]
pub struct Http {
    pub listen: SocketAddr,
    pub ops_listen: SocketAddr,
    pub trusted_proxies: Vec<IpNet>,
    pub connections: usize,
    pub in_flight: usize,
    pub deadline: Duration,
    pub body_limit: usize,
    pub drain: Duration,
}

#[derive(Clone)]
pub struct Database {
    pub url: Zeroizing<String>,
    pub ca_file: Option<PathBuf>,
    pub connections: usize,
    /// Shorter than PostgreSQL's own timeout, which at a commit reports success for what is not replicated yet.
    pub deadline: Duration,
}

#[derive(Clone)]
pub struct Mail {
    pub from: String,
    pub host: String,
    pub port: u16,
    pub tls: MailTls,
    pub ca_file: Option<PathBuf>,
    pub user: Option<String>,
    pub password: Option<Zeroizing<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// The connection starts in clear and must switch before anything is sent.
    StartTls,
    /// TLS from the first byte.
    Implicit,
    /// For a mail server on the same machine.
    None,
}

#[derive(Clone, Debug)]
pub struct Limits {
    pub otp_sends_per_address: Vec<Window>,
    pub otp_sends_per_network: Rate,
    pub otp_failures_per_address: Vec<Window>,
    pub otp_failures_per_network: Rate,
    pub otp_failures: Rate,
    pub login_options_per_network: Rate,
    pub leak_reports_per_network: Rate,
    pub tokens_per_user: Rate,
    pub browsers_per_network: Rate,
    pub registrations_per_network: Rate,
    pub documents: Rate,
}

#[derive(Clone, Debug)]
pub struct Keys {
    pub rotate_every: Duration,
    /// How long a new key is published before it signs.
    pub publish_lead: Duration,
    /// How often a node looks for new keys: often enough that it never takes its own for stale.
    pub refresh_every: Duration,
}

#[derive(Clone, Debug)]
pub struct Audit {
    /// How long events are kept, in seconds; months go as a whole.
    pub keep: i64,
}

/// Fetching what clients say of themselves.
#[derive(Clone, Debug)]
pub struct Documents {
    /// Networks that may be fetched from although they are not public.
    pub allowed_networks: Vec<IpNet>,
    pub ca_file: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct Log {
    pub json: bool,
    pub filter: String,
}

fn limits(from: &mut sources::Reader<'_>) -> Limits {
    Limits {
        otp_sends_per_address: from.checked("limits.otp_sends_per_address", WINDOWS, windows),
        otp_sends_per_network: from.checked("limits.otp_sends_per_network", RATE, rate),
        otp_failures_per_address: from.checked("limits.otp_failures_per_address", WINDOWS, windows),
        otp_failures_per_network: from.checked("limits.otp_failures_per_network", RATE, rate),
        otp_failures: from.checked("limits.otp_failures", RATE, rate),
        login_options_per_network: from.checked("limits.login_options_per_network", RATE, rate),
        leak_reports_per_network: from.checked("limits.leak_reports_per_network", RATE, rate),
        tokens_per_user: from.checked("limits.tokens_per_user", RATE, rate),
        browsers_per_network: from.checked("limits.browsers_per_network", RATE, rate),
        registrations_per_network: from.checked("limits.registrations_per_network", RATE, rate),
        documents: from.checked("limits.documents", RATE, rate),
    }
}

impl Config {
    /// Reads every setting, and names all that is wrong with them rather than the first.
    pub fn read(sources: &Sources) -> Result<Self, Problems> {
        let mut from = sources.reader();
        from.together("mail.user", "mail.password");
        let config = Self {
            base_url: from.checked("base_url", "an http(s) address without a path or trailing slash", base_url),
            http: Http {
                listen: from.parsed("http.listen", "an address and port such as 127.0.0.1:8080"),
                ops_listen: from.parsed("http.ops_listen", "an address and port such as 127.0.0.1:9090"),
                trusted_proxies: from.checked("http.trusted_proxies", "networks such as 10.0.0.0/8", networks),
                connections: from.count("http.connections"),
                in_flight: from.count("http.in_flight"),
                deadline: from.seconds("http.deadline_seconds"),
                body_limit: from.count("http.body_limit_bytes"),
                drain: from.seconds("http.drain_seconds"),
            },
            database: Database {
                url: from.checked("database.url", "a PostgreSQL address", database_url),
                ca_file: from.certificates("database.ca_file"),
                connections: from.count("database.connections"),
                deadline: from.seconds_below("database.deadline_seconds", 5.0, "more than 0 and less than 5 seconds"),
            },
            root_keys: from.checked("secrets.root_keys", "id:key pairs, each key 32 bytes in base64", root_keys),
            mail: Mail {
                from: from.checked("mail.from", "a mailbox such as Service <no-reply@service.example>", mailbox),
                host: from.checked("mail.host", "a host name", host),
                port: from.checked("mail.port", "a port", |text| text.parse().ok().filter(|port| *port > 0)),
                tls: from.checked("mail.tls", "starttls, implicit or none", mail_tls),
                ca_file: from.certificates("mail.ca_file"),
                user: from.optional("mail.user").map(str::to_owned),
                password: from.optional("mail.password").map(|text| Zeroizing::new(text.to_owned())),
            },
            limits: limits(&mut from),
            keys: Keys {
                rotate_every: from.days("keys.rotate_every_days"),
                publish_lead: from.seconds("keys.publish_lead_seconds"),
                refresh_every: from.seconds_below(
                    "keys.refresh_every_seconds",
                    30.0,
                    "more than 0 and less than 30 seconds",
                ),
            },
            audit: Audit { keep: from.checked("audit.keep_days", "31 days or more", keep_days) },
            documents: Documents {
                allowed_networks: from.checked("documents.allowed_networks", "networks such as 10.0.0.0/8", networks),
                ca_file: from.certificates("documents.ca_file"),
            },
            log: Log {
                json: from.checked("log.format", "json or text", |text| match text {
                    "json" => Some(true),
                    "text" => Some(false),
                    _ => None,
                }),
                filter: from.checked("log.filter", "a filter such as info or info,service_server=debug", filter),
            },
        };
        if config.mail.tls == MailTls::None && !is_local(&config.mail.host) {
            from.complain("mail.tls is none, but mail.host is another machine: codes would travel in clear");
        }
        from.finish(config)
    }

    /// The resource that `/v1` is (RFC 8707): the audience of the tokens that open it.
    #[must_use]
    pub fn api_audience(&self) -> String {
        format!("{}/v1", self.base_url)
    }

    /// What tokens that open `/mcp` are for.
    #[must_use]
    pub fn mcp_audience(&self) -> String {
        format!("{}/mcp", self.base_url)
    }
}

/// The certificates in a PEM file.
pub fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).with_context(|| format!("cannot read {}", path.display()))?.collect();
    certificates.with_context(|| format!("{} holds no PEM certificates", path.display()))
}
