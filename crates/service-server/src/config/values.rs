//! Parsers for the values of settings. `None`: the text is not valid.

use std::net::SocketAddr;

use axum::http::uri::Authority;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use ipnet::IpNet;
use service_rules::{
    domains::Domain,
    limits::{FailureShare, Rate, Window},
    network_rates::{IPV4_PREFIXES, IPV6_PREFIXES, NetworkRates},
    trace_context::SampleRatio,
};
use tracing_subscriber::EnvFilter;
use url::{Host, Url};
use zeroize::Zeroizing;

use crate::{
    config::{AllowedIssuer, DatabaseUrl, MailTls},
    crypto::root_keys::{ROOT_KEY_LENGTH, RootKey},
    net::outbound::is_loopback,
};

pub(super) const WINDOWS: &str = "counts and seconds such as 1/60, 5/3600";
pub(super) const RATE: &str = "a burst and a number per hour such as 10+30";
pub(super) const FAILURE_SHARE: &str = "a whole number of percent from 0 to 90";
pub(super) const NETWORK_RATES: &str =
    "a burst and a number per hour such as 10+30, or one for each of 32:, 24:, 64:, 56: and 48:";
pub(super) const RAISED_NETWORKS: &str = "networks and factors from 2 to 1000 such as 203.0.113.7/32=10";
pub(super) const NETWORKS: &str = "networks such as 192.0.2.10/32";
pub(super) const ALLOWED_ISSUERS: &str = "issuers and networks such as https://id.acme.example=10.1.0.0/16";

/// Parses the base URL. Plain http is allowed on the same machine only, because requests carry tokens.
pub(super) fn base_url(text: &str) -> Option<String> {
    let (scheme, authority) = text.split_once("://")?;
    let colon = authority.rfind(':').filter(|colon| !authority[*colon..].contains(']'));
    let (host, port) = authority.split_at(colon.unwrap_or(authority.len()));
    let known = host.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.:[]".contains(&byte));
    let numbered = port.is_empty() || port[1..].parse::<u16>().is_ok_and(|port| port > 0);
    let usable = known && numbered && !host.is_empty();
    (usable && (scheme == "https" || scheme == "http" && is_local(host))).then(|| text.to_owned())
}

pub(super) fn host(text: &str) -> Option<String> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| text.to_owned())
}

pub(super) fn filter(text: &str) -> Option<String> {
    EnvFilter::try_new(text).ok().map(|_| text.to_owned())
}

/// Whether a host is this machine itself.
pub(crate) fn is_local(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "::1" | "[::1]")
}

/// Parses hosts, each with or without a port.
pub(super) fn hosts(text: &str) -> Option<Vec<String>> {
    let is_host = |text: &str| text.parse::<Authority>().is_ok_and(|parsed| !parsed.as_str().contains('@'));
    list(text).map(|host| is_host(host).then(|| host.to_ascii_lowercase())).collect()
}

pub(super) fn networks(text: &str) -> Option<Vec<IpNet>> {
    list(text).map(|network| network.parse().ok()).collect()
}

/// Parses issuers, each with the networks that it may be in, which are separated by spaces. An issuer that is listed
/// several times may be in all of its networks.
pub(super) fn allowed_issuers(text: &str) -> Option<Vec<AllowedIssuer>> {
    let mut allowed: Vec<AllowedIssuer> = Vec::new();
    for item in list(text) {
        let (issuer, networks) = item.rsplit_once('=').map(|(issuer, networks)| (issuer.trim(), networks))?;
        let url = Url::parse(issuer).ok().filter(|url| url.host().is_some())?;
        let is_allowed = url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url);
        // Another spelling would never be equal to the issuer of a connection.
        let is_normal = url.as_str() == issuer || url.as_str().strip_suffix('/') == Some(issuer);
        (is_allowed && is_normal && !issuer.contains(['?', '#', '@'])).then_some(())?;
        let networks = networks.split_ascii_whitespace().map(|network| network.parse().ok());
        let networks = networks.collect::<Option<Vec<IpNet>>>().filter(|networks| !networks.is_empty())?;
        match allowed.iter_mut().find(|known| known.issuer == issuer) {
            Some(known) => known.networks.extend(networks),
            None => allowed.push(AllowedIssuer { issuer: issuer.to_owned(), networks }),
        }
    }
    Some(allowed)
}

/// Parses hosts with their ports. A host is a name or an address.
pub(super) fn hosts_and_ports(text: &str) -> Option<Vec<String>> {
    let is_valid = |server: &str| {
        let name = |host: &str| Host::parse(host).is_ok_and(|host| matches!(host, Host::Domain(_)));
        let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
        let by_name = || server.rsplit_once(':').is_some_and(|(host, port)| name(host) && is_port(port));
        server.parse::<SocketAddr>().is_ok() || by_name()
    };
    list(text).map(|server| is_valid(server).then(|| server.to_owned())).collect()
}

pub(super) fn domains(text: &str) -> Option<Vec<Domain>> {
    list(text).map(|domain| Domain::parse(domain).ok()).collect()
}

/// Parses networks, each with the factor by which its limits are higher.
pub(super) fn raised_networks(text: &str) -> Option<Vec<(IpNet, u32)>> {
    let raised = |text: &str| {
        let (network, factor) = text.split_once('=')?;
        let factor = factor.trim().parse().ok().filter(|factor| (2..=1_000).contains(factor))?;
        Some((network.trim().parse().ok()?, factor))
    };
    list(text).map(raised).collect()
}

/// Parses PostgreSQL URLs that are separated by spaces: commas separate the hosts of one URL.
pub(super) fn database_urls(text: &str) -> Option<Vec<DatabaseUrl>> {
    // Separated by commas, all but the first would be part of a database name.
    let is_one = |url: &str| url.matches("://").count() <= 1;
    text.split_ascii_whitespace().map(|url| is_one(url).then(|| DatabaseUrl::parse(url)).flatten()).collect()
}

/// Parses the URL of a collector.
pub(super) fn collector_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok().filter(|url| url.host().is_some() && ["http", "https"].contains(&url.scheme()))?;
    let is_bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (is_bare && url.query().is_none()).then_some(url)
}

pub(super) fn sample_ratio(text: &str) -> Option<SampleRatio> {
    text.parse().ok().and_then(SampleRatio::new)
}

/// Parses a token that is sent in a header.
pub(super) fn bearer_token(text: &str) -> Option<Zeroizing<String>> {
    text.bytes().all(|byte| byte.is_ascii_graphic()).then(|| Zeroizing::new(text.to_owned()))
}

pub(super) fn mailbox(text: &str) -> Option<String> {
    text.parse::<lettre::message::Mailbox>().ok().map(|_| text.to_owned())
}

/// A local part has at most 64 characters, of which a return path needs 45 for itself.
const MAX_BOUNCE_USER: usize = 19;

/// Parses an address that return paths can be made of.
pub(super) fn bounce_address(text: &str) -> Option<lettre::Address> {
    let address: lettre::Address = text.parse().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let user = address.user();
    (user.len() <= MAX_BOUNCE_USER && user.bytes().all(is_plain)).then_some(address)
}

pub(super) fn mail_tls(text: &str) -> Option<MailTls> {
    match text {
        "starttls" => Some(MailTls::StartTls),
        "implicit" => Some(MailTls::Implicit),
        "none" => Some(MailTls::None),
        _ => None,
    }
}

pub(super) fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    }
}

pub(super) fn windows(text: &str) -> Option<Vec<Window>> {
    let window = |text: &str| {
        let (count, seconds) = text.split_once('/')?;
        let window = Window { count: count.parse().ok()?, seconds: seconds.parse().ok()? };
        (window.count > 0 && window.seconds > 0).then_some(window)
    };
    list(text).map(window).collect::<Option<Vec<_>>>().filter(|windows| !windows.is_empty())
}

pub(super) fn rate(text: &str) -> Option<Rate> {
    let (burst, per_hour) = text.split_once('+')?;
    let rate = Rate { burst: burst.parse().ok()?, per_hour: per_hour.parse().ok()? };
    (rate.burst > 0 && rate.per_hour > 0).then_some(rate)
}

pub(super) fn failure_share(text: &str) -> Option<FailureShare> {
    text.parse().ok().and_then(FailureShare::from_percent)
}

/// Parses one rate, from which those of wider networks are derived, or `prefix:rate` for every prefix length.
pub(super) fn network_rates(text: &str) -> Option<NetworkRates> {
    if !text.contains(':') {
        return rate(text).map(NetworkRates::from_narrowest);
    }
    let given = |text: &str| {
        let (prefix, given) = text.split_once(':')?;
        Some((prefix.trim().parse::<u8>().ok()?, rate(given.trim())?))
    };
    let given = list(text).map(given).collect::<Option<Vec<_>>>()?;
    let of = |prefix: u8| given.iter().find(|(known, _)| *known == prefix).map(|(_, rate)| *rate);
    let [host, wide] = IPV4_PREFIXES.map(of);
    let [subnet, site, wider] = IPV6_PREFIXES.map(of);
    let rates = NetworkRates { ipv4: [host?, wide?], ipv6: [subnet?, site?, wider?] };
    (given.len() == IPV4_PREFIXES.len() + IPV6_PREFIXES.len()).then_some(rates)
}

pub(super) fn root_keys(text: &str) -> Option<Vec<RootKey>> {
    let key = |text: &str| {
        let (id, key) = text.split_once(':')?;
        let bytes = Zeroizing::new(BASE64_STANDARD.decode(key).ok()?);
        let bytes: &[u8; ROOT_KEY_LENGTH] = bytes.first_chunk().filter(|_| bytes.len() == ROOT_KEY_LENGTH)?;
        // Thirty-two equal bytes, such as zeros, are not a random key.
        bytes.iter().any(|byte| *byte != bytes[0]).then_some(())?;
        Some(RootKey { id: id.parse().ok()?, bytes: Zeroizing::new(*bytes) })
    };
    let keys = list(text).map(key).collect::<Option<Vec<_>>>()?;
    let unique = keys.iter().enumerate().all(|(place, key)| keys[..place].iter().all(|other| other.id != key.id));
    (unique && !keys.is_empty()).then_some(keys)
}

/// Parses a retention in days. The database refuses to drop a month that ended less than 30 days ago.
pub(super) fn keep_days(text: &str) -> Option<i64> {
    text.parse::<u32>().ok().filter(|days| *days >= 31).map(|days| i64::from(days) * 86_400)
}

pub(super) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_and_a_port() {
        let valid = "192.0.2.53:53, [2001:db8::53]:5353, dns.acme.test:53, localhost:1";
        assert_eq!(hosts_and_ports(valid).map(|servers| servers.len()), Some(4));
        assert_eq!(hosts_and_ports(""), Some(Vec::new()));
        for wrong in ["192.0.2.53", "dns.acme.test", "dns.acme.test:", "dns.acme.test:0", "dns.acme.test:65536", ":53"]
        {
            assert_eq!(hosts_and_ports(wrong), None, "{wrong}");
        }
        for wrong in ["2001:db8::53", "a b:53", "https://dns.acme.test:53", "192.0.2.999:53", "dns.acme.test/x:53"] {
            assert_eq!(hosts_and_ports(wrong), None, "{wrong}");
        }
    }
}
