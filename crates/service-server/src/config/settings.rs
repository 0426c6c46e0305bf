//! Every setting there is. `docs/configuration.md` is this table in prose, and a test keeps the two together.

pub struct Setting {
    pub key: &'static str,
    /// `None`: must be given. Empty: may be left out.
    pub default: Option<&'static str>,
    /// Never printed; may also be given as the path of a file, under the same name with `_file` behind it.
    pub secret: bool,
    pub doc: &'static str,
}

/// The environment variable that overrides a setting.
#[must_use]
pub fn environment_name(key: &str) -> String {
    format!("SERVICED_{}", key.replace('.', "_").to_ascii_uppercase())
}

const fn setting(key: &'static str, default: Option<&'static str>, doc: &'static str) -> Setting {
    Setting { key, default, secret: false, doc }
}

const fn secret(key: &'static str, default: Option<&'static str>, doc: &'static str) -> Setting {
    Setting { key, default, secret: true, doc }
}

pub const SETTINGS: &[Setting] = &[
    setting(
        "base_url",
        None,
        "The public address of the service, and the issuer in its tokens. https, except on the same machine.",
    ),
    setting("http.listen", Some("127.0.0.1:8080"), "Where the service listens."),
    setting(
        "http.ops_listen",
        Some("127.0.0.1:9090"),
        "Where health, readiness and metrics are served. Never expose it.",
    ),
    setting(
        "http.trusted_proxies",
        Some(""),
        "Networks whose X-Forwarded-For is believed, hop by hop from the right. Nobody's, unless set.",
    ),
    setting("http.connections", Some("10000"), "Connections held at once; further ones wait to be accepted."),
    setting("http.in_flight", Some("512"), "Requests worked on at once; further ones get 503 with Retry-After."),
    setting("http.deadline_seconds", Some("10"), "After so long a request is answered with 503."),
    setting("http.body_limit_bytes", Some("65536"), "Larger bodies get 413."),
    setting("http.drain_seconds", Some("20"), "How long a stopping node waits for the requests it has begun."),
    secret(
        "database.url",
        None,
        "The PostgreSQL primary; several hosts and target_session_attrs=read-write follow a failover.",
    ),
    setting("database.ca_file", Some(""), "PEM certificates the database's must descend from, instead of the web's."),
    setting("database.connections", Some("16"), "Connections a node holds to the database."),
    setting("database.deadline_seconds", Some("2"), "After so long without an answer the outcome is unknown: 503."),
    secret(
        "secrets.root_keys",
        None,
        "id:key pairs, comma separated, each key 32 random bytes in base64. The first is used, all are readable.",
    ),
    setting("mail.from", None, "The sender of every mail, such as Service <no-reply@service.example>."),
    setting("mail.host", None, "The mail server. Its certificate must bear this name."),
    setting("mail.port", Some("587"), "The mail server's port."),
    setting("mail.tls", Some("starttls"), "starttls, implicit, or none for a server on the same machine."),
    setting("mail.ca_file", Some(""), "PEM certificates the mail server's must descend from, instead of the web's."),
    setting("mail.user", Some(""), "The name to authenticate with, if any."),
    secret("mail.password", Some(""), "The password to authenticate with, if any."),
    setting(
        "limits.otp_sends_per_address",
        Some("1/60, 5/3600, 10/86400"),
        "Codes sent to one address: count/seconds, all of which must hold.",
    ),
    setting(
        "limits.otp_sends_per_network",
        Some("10+30"),
        "Codes asked for from one IPv4 address or IPv6 /64: burst+per hour.",
    ),
    setting(
        "limits.otp_failures_per_address",
        Some("10/3600, 20/86400"),
        "Wrong codes for one address, across codes: count/seconds.",
    ),
    setting(
        "limits.otp_failures_per_network",
        Some("20+100"),
        "Wrong codes from one IPv4 address or IPv6 /64: burst+per hour.",
    ),
    setting(
        "limits.otp_failures",
        Some("500+1500"),
        "Wrong codes of everybody together, beyond which each code can be tried only once: burst+per hour.",
    ),
    setting(
        "limits.login_options_per_network",
        Some("60+3600"),
        "Questions for sign-in methods from one IPv4 address or IPv6 /64: burst+per hour.",
    ),
    setting(
        "limits.leak_reports_per_network",
        Some("30+600"),
        "Reports of leaked tokens from one IPv4 address or IPv6 /64: burst+per hour.",
    ),
    setting(
        "limits.tokens_per_user",
        Some("120+120"),
        "Tokens for automation and MCP pairs that one user makes, whether they live or not: burst+per hour.",
    ),
    setting(
        "limits.browsers_per_network",
        Some("120+1200"),
        "Browsers that begin to sign in from one IPv4 address or IPv6 /64: burst+per hour.",
    ),
    setting(
        "limits.registrations_per_network",
        Some("60+600"),
        "Registrations of clients from one IPv4 address or IPv6 /64: burst+per hour.",
    ),
    setting(
        "limits.documents",
        Some("30+300"),
        "Documents of clients fetched for one network, and from one host: burst+per hour.",
    ),
    setting("keys.rotate_every_days", Some("30"), "How often a new signing key takes over."),
    setting("keys.publish_lead_seconds", Some("1200"), "How long a new signing key is published before it signs."),
    setting("keys.refresh_every_seconds", Some("5"), "How often a node looks for new signing keys."),
    setting("audit.keep_days", Some("400"), "How long audit events are kept; whole months are dropped. 31 at least."),
    setting(
        "documents.allowed_networks",
        Some(""),
        "Networks that clients' documents may be fetched from although they are not public.",
    ),
    setting(
        "documents.ca_file",
        Some(""),
        "PEM certificates that servers of clients' documents must descend from, instead of the web's.",
    ),
    setting("log.format", Some("json"), "json, or text for people."),
    setting("log.filter", Some("info"), "What is logged, such as info or info,service_server=debug."),
];
