//! All settings. `docs/configuration.md` lists the same settings; a test compares the two.

/// A setting and its description.
pub struct Setting {
    pub key: &'static str,
    /// `None`: required. Empty: optional.
    pub default: Option<&'static str>,
    /// Whether the value is a secret. A secret is never printed, and can also be given as the path of a file, under the
    /// name with `_file` appended.
    pub secret: bool,
    pub doc: &'static str,
}

/// Returns the environment variable that overrides a setting.
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

/// The default of `sso.public_mail_domains`.
const PUBLIC_MAIL_DOMAINS: &str = "gmail.com, googlemail.com, outlook.com, hotmail.com, live.com, msn.com, yahoo.com, \
                                   ymail.com, aol.com, icloud.com, me.com, mac.com, proton.me, protonmail.com, pm.me, \
                                   gmx.com, gmx.net, gmx.de, gmx.at, gmx.ch, web.de, t-online.de, freenet.de, mail.com, \
                                   zoho.com, fastmail.com, hey.com, tutanota.com, tuta.com, posteo.de, mailbox.org, \
                                   yandex.com, yandex.ru, mail.ru, qq.com, 163.com, 126.com, sina.com, naver.com, \
                                   orange.fr, laposte.net, libero.it, bluewin.ch, hotmail.fr, hotmail.co.uk, \
                                   yahoo.co.uk, yahoo.co.jp, yahoo.fr, yahoo.de, outlook.de, outlook.fr, live.nl, \
                                   btinternet.com, comcast.net, verizon.net, att.net, sbcglobal.net, rediffmail.com";

pub const SETTINGS: &[Setting] = &[
    setting(
        "base_url",
        None,
        "The public URL of the service, and the issuer in its tokens. Must be https, except on the same machine.",
    ),
    setting(
        "brand.name",
        Some("Service"),
        "What pages and mails call the service. No workspace, token or app can have this name.",
    ),
    setting(
        "brand.logo",
        Some(""),
        "SVG or PNG file of at most 64 KiB that pages show instead of the default mark. It is read at the start.",
    ),
    setting(
        "brand.color",
        Some(""),
        "Color of links and buttons, such as #0b6355. It is darkened or lightened where it could not be read.",
    ),
    setting("brand.support_url", Some(""), "Page where users get help. {language} in it becomes en or de."),
    setting("brand.support_email", Some(""), "Email address where users get help, if there is no brand.support_url."),
    setting("brand.privacy_url", Some(""), "Page with your privacy policy. {language} in it becomes en or de."),
    setting("brand.terms_url", Some(""), "Page with your terms of service. {language} in it becomes en or de."),
    setting("http.listen", Some("127.0.0.1:8080"), "The address the service listens on."),
    setting(
        "http.ops_listen",
        Some("127.0.0.1:9090"),
        "The address for health, readiness and metrics. Never expose it to the internet.",
    ),
    setting(
        "http.trusted_proxies",
        Some(""),
        "Networks of proxies whose X-Forwarded-For is trusted, hop by hop from the right. By default none.",
    ),
    setting(
        "http.mcp_hosts",
        Some(""),
        "Host headers that are accepted at /mcp besides the host of base_url, if a proxy changes the header. By default none.",
    ),
    setting("http.connections", Some("10000"), "Maximum number of open connections; further ones wait to be accepted."),
    setting(
        "http.in_flight",
        Some("512"),
        "Maximum number of running requests; further ones get 503 with Retry-After.",
    ),
    setting("http.deadline_seconds", Some("10"), "Timeout of a request, after which it gets 503."),
    setting("http.body_limit_bytes", Some("65536"), "Maximum size of a request body; larger ones get 413."),
    setting(
        "http.lame_duck_seconds",
        Some("5"),
        "How long a stopping node is not ready but still serves requests, so that load balancers take it out. May be 0.",
    ),
    setting("http.drain_seconds", Some("20"), "How long a stopping node waits for running requests after that."),
    secret(
        "database.url",
        None,
        "The URL of the PostgreSQL primary. Give several hosts and target_session_attrs=read-write to follow a failover.",
    ),
    secret(
        "database.feed_urls",
        Some(""),
        "URLs of the servers that revocations are read from, separated by spaces. Any may be a standby. If all fail, database.url.",
    ),
    setting(
        "database.ca_file",
        Some(""),
        "PEM file of the certificate authorities trusted for the database, instead of the public ones.",
    ),
    setting(
        "database.connections",
        Some("16"),
        "Database connections of a node, in three pools: for credentials, for content, and for background tasks.",
    ),
    setting(
        "database.content_connections",
        Some(""),
        "How many of database.connections are for content and search. By default three eighths.",
    ),
    setting(
        "database.background_connections",
        Some(""),
        "How many of database.connections are for background tasks. By default an eighth. Credentials get the rest, at least one.",
    ),
    setting(
        "database.deadline_seconds",
        Some("2"),
        "Timeout of a database statement. After it the outcome is unknown, and the request gets 503.",
    ),
    setting(
        "database.coalesce",
        Some("yes"),
        "yes or no: whether refreshes and CLI tokens that arrive together share statements. no is for engines that find rows by one shard.",
    ),
    secret(
        "secrets.root_keys",
        None,
        "Comma-separated id:key pairs, each key 32 random bytes in base64. The first key encrypts; all of them decrypt.",
    ),
    setting("mail.from", None, "The sender of all mail, such as Service <no-reply@service.example>."),
    setting("mail.host", None, "The host name of the mail server. Its certificate must have this name."),
    setting("mail.port", Some("587"), "The mail server's port."),
    setting(
        "mail.tls",
        Some("starttls"),
        "starttls, implicit, or none. none is allowed for a server on the same machine only.",
    ),
    setting(
        "mail.ca_file",
        Some(""),
        "PEM file of the certificate authorities trusted for the mail server, instead of the public ones.",
    ),
    setting("mail.user", Some(""), "The user name for the mail server, if it requires one."),
    secret("mail.password", Some(""), "The password for the mail server, if it requires one."),
    setting(
        "mail.second_host",
        Some(""),
        "The host name of a second mail server. Mail that the first one did not take is tried there, then again at the first.",
    ),
    setting("mail.second_port", Some("587"), "The second mail server's port."),
    setting("mail.second_tls", Some("starttls"), "As mail.tls, for the second mail server."),
    setting("mail.second_ca_file", Some(""), "As mail.ca_file, for the second mail server."),
    setting("mail.second_user", Some(""), "The user name for the second mail server, if it requires one."),
    secret("mail.second_password", Some(""), "The password for the second mail server, if it requires one."),
    setting(
        "mail.bounce_to",
        Some(""),
        "The address that bounces are sent to, such as bounces@mail.service.example. Mail to an address that bounced is not \
         sent for a while.",
    ),
    setting(
        "mail.code_in_subject",
        Some("yes"),
        "yes or no: whether the subject of a mail has the sign-in code, which lock screens then show.",
    ),
    setting(
        "limits.otp_sends_per_context",
        Some("1/60"),
        "Codes sent to one address for one known device, sign-in page or network: count/seconds.",
    ),
    setting(
        "limits.otp_sends_per_device",
        Some("5/3600, 10/86400"),
        "Codes sent to one address for a device on which it signed in before. Other devices do not use up this limit: count/seconds.",
    ),
    setting(
        "limits.otp_sends_per_address_and_network",
        Some("5/3600, 10/86400"),
        "Codes sent to one address for unknown devices at one IPv4 address or IPv6 /64: count/seconds.",
    ),
    setting(
        "limits.otp_sends_per_address",
        Some("30/86400"),
        "Codes sent to one address for all unknown devices together: count/seconds.",
    ),
    setting(
        "limits.otp_sends_per_network",
        Some("100+300"),
        "Codes requested by unknown devices in one network: burst+per hour.",
    ),
    setting(
        "limits.otp_sends",
        Some("2000+10000"),
        "Codes sent in total. Beyond this limit only known devices get codes: burst+per hour.",
    ),
    setting(
        "limits.otp_failures_per_device",
        Some("10/3600, 20/86400"),
        "Wrong codes from a known device, over all its codes: count/seconds.",
    ),
    setting(
        "limits.otp_failures_per_address_and_network",
        Some("10/3600, 20/86400"),
        "Wrong codes for one address from unknown devices at one IPv4 address or IPv6 /64: count/seconds.",
    ),
    setting(
        "limits.otp_failures_per_address",
        Some("60/86400"),
        "Wrong codes for one address from all unknown devices together: count/seconds.",
    ),
    setting(
        "limits.otp_failures_per_network",
        Some("60+200"),
        "Wrong codes from unknown devices in one network: burst+per hour.",
    ),
    setting(
        "limits.otp_failures",
        Some("500+1500"),
        "Wrong codes from all unknown devices together. Beyond this limit each code can be tried only once: burst+per hour.",
    ),
    setting(
        "limits.otp_failures_percent",
        Some("20"),
        "Wrong codes that limits.otp_failures allows in addition, as a share of all codes that unknown devices enter: 0 to 90 percent.",
    ),
    setting(
        "limits.login_options_per_network",
        Some("60+3600"),
        "Requests for sign-in methods from one network: burst+per hour.",
    ),
    setting(
        "limits.leak_reports_per_network",
        Some("30+600"),
        "Reports of leaked tokens from one network: burst+per hour.",
    ),
    setting(
        "limits.tokens_per_user",
        Some("120+120"),
        "CLI tokens and MCP token pairs that one user creates, valid or not: burst+per hour.",
    ),
    setting(
        "limits.browsers_per_network",
        Some("120+1200"),
        "Sign-ins that browsers in one network start: burst+per hour.",
    ),
    setting(
        "limits.logouts_per_network",
        Some("600+36000"),
        "Logout tokens of identity providers from one network: burst+per hour.",
    ),
    setting(
        "limits.registrations_per_network",
        Some("60+600"),
        "Client registrations from one network: burst+per hour.",
    ),
    setting(
        "limits.raised_networks",
        Some(""),
        "Networks that many people share, such as 203.0.113.7/32=10: their limits and share of connections are that many times as high.",
    ),
    setting(
        "limits.requests_per_user",
        Some("1200+72000"),
        "Requests to /v1 and /mcp with tokens of one user, on each node: burst+per hour.",
    ),
    setting(
        "limits.writes_per_user",
        Some("600+36000"),
        "Requests of limits.requests_per_user that change something: burst+per hour.",
    ),
    setting(
        "limits.searches_per_user",
        Some("60+3600"),
        "Requests of limits.requests_per_user that search: burst+per hour.",
    ),
    setting(
        "limits.documents",
        Some("30+300"),
        "Client metadata documents fetched for one network, and new ones from one host. One user gets a fifth of it: burst+per hour.",
    ),
    setting(
        "limits.domain_checks",
        Some("20+60"),
        "Checks of DNS records that one workspace starts, and one user: burst+per hour.",
    ),
    setting("keys.rotate_every_days", Some("30"), "How often the signing key is rotated."),
    setting("keys.publish_lead_seconds", Some("1200"), "How long a new signing key is published before it signs."),
    setting("keys.refresh_every_seconds", Some("5"), "How often a node reads the signing keys."),
    setting(
        "audit.keep_days",
        Some("400"),
        "How long audit events are kept, at least 31 days. Whole months are dropped.",
    ),
    setting(
        "restore.anchor_file",
        Some(""),
        "A file outside of the database to which the last heartbeat is written every minute, to detect a restored backup.",
    ),
    setting(
        "documents.allowed_networks",
        Some(""),
        "Private networks from which client metadata documents may be fetched.",
    ),
    setting(
        "documents.ca_file",
        Some(""),
        "PEM file of the certificate authorities trusted for client metadata documents and issuers, instead of the public ones.",
    ),
    setting(
        "sso.allowed_issuers",
        Some(""),
        "Issuers in private networks, such as https://id.acme.example=10.1.0.0/16. On the same machine http is allowed, too.",
    ),
    setting(
        "sso.public_mail_domains",
        Some(PUBLIC_MAIL_DOMAINS),
        "Domains of public mail providers, which no workspace can claim.",
    ),
    setting(
        "dns.servers",
        Some(""),
        "DNS servers (host:port) that domains are verified with, such as 192.0.2.53:53. By default those of the system.",
    ),
    setting("log.format", Some("json"), "json, or text for people."),
    setting("log.filter", Some("info"), "The log filter, such as info or info,service_server=debug."),
    setting(
        "traces.endpoint",
        Some(""),
        "URL of an OTLP/HTTP collector that gets traces, such as http://127.0.0.1:4318/v1/traces. Without it nothing is traced.",
    ),
    setting(
        "traces.sample_ratio",
        Some("0.01"),
        "The part of requests that is traced, from 0 to 1. For requests that trusted proxies trace, their decision counts.",
    ),
    secret(
        "traces.token",
        Some(""),
        "Bearer token for the collector. Then the URL must be https, except on the same machine.",
    ),
    setting(
        "traces.ca_file",
        Some(""),
        "PEM file of the certificate authorities trusted for the collector, instead of the public ones.",
    ),
    setting(
        "support.listen",
        Some(""),
        "The address of the support listener (HTTPS), for tools of the operator. By default off. Never expose it to the internet.",
    ),
    setting(
        "support.url",
        Some(""),
        "The https URL by which tools reach the support listener. It is the audience of their assertions, and not base_url.",
    ),
    setting("support.certificate_file", Some(""), "PEM file of the support listener's certificate, with its chain."),
    setting("support.key_file", Some(""), "PEM file of the private key of that certificate."),
    setting(
        "support.client_ca_file",
        Some(""),
        "PEM file of the certificate authorities of tools. Only clients with a certificate of theirs can connect.",
    ),
];
