//! Hosts that an operator has blocked for self-registered clients.
//!
//! A self-registered client that was disabled can register again under another name. What it cannot easily change is the
//! host of its redirect URIs or of its metadata document. Blocking a host therefore refuses new registrations and
//! documents there, and disables the clients that are there already. A client that is not disabled although its host is
//! blocked, as after a restore, is refused at the authorization endpoint.

use serde_json::json;
use service_api::audit_events::EventName;
use service_rules::clients::{Client, ClientKind};
use url::{Host, Url};

use crate::{
    app::App,
    database::{Connection, Error},
    flows::{clients, operator::Operator},
    store,
};

/// Whether an operator has blocked the host of any of these addresses, or a domain that it belongs to.
pub async fn is_blocked(db: &Connection, addresses: &[impl AsRef<str>]) -> Result<bool, Error> {
    let hosts: Vec<String> = addresses.iter().flat_map(|address| domains_of(address.as_ref())).collect();
    store::blocked_client_hosts::is_any_blocked(db, &hosts).await
}

/// Whether a client is refused because its host is blocked. Clients that an operator registered never are.
pub async fn is_client_blocked(db: &Connection, client: &Client) -> Result<bool, Error> {
    let addresses: Vec<&String> = addresses_of(client).collect();
    Ok(is_self_registered(client) && is_blocked(db, &addresses).await?)
}

/// Makes an operator who blocks a host wait until this transaction ends, so that the client that is stored by it is
/// disabled with the others there; or waits until a host is blocked, so that the client is refused.
pub async fn hold(db: &Connection) -> Result<(), Error> {
    store::blocked_client_hosts::lock_shared(db).await
}

/// The host of an address and every domain above it. The scheme of an app is a domain backwards: `example.apps.notes:`
/// belongs to `notes.apps.example`. Nothing for a scheme without a dot, unless the address names a host as well.
fn domains_of(address: &str) -> Vec<String> {
    let Ok(url) = Url::parse(address) else { return Vec::new() };
    let above = |domain: &str| {
        let labels: Vec<&str> = domain.trim_end_matches('.').split('.').collect();
        (0..labels.len()).map(|first| labels[first..].join(".").to_ascii_lowercase()).collect::<Vec<_>>()
    };
    let mut domains = match url.host() {
        Some(Host::Domain(domain)) => above(domain),
        Some(address) => vec![address.to_string()],
        None => Vec::new(),
    };
    if url.scheme().contains('.') {
        let backwards: Vec<&str> = url.scheme().rsplit('.').collect();
        domains.extend(above(&backwards.join(".")));
    }
    domains
}

/// Blocks a host, and disables the self-registered clients there; returns how many these were.
pub async fn block(app: &App, operator: &Operator, host: &str) -> anyhow::Result<usize> {
    let host = check(host)?;
    let now = app.clock.now();
    let db = app.database.begin().await?;
    store::blocked_client_hosts::lock(&db).await?;
    if store::blocked_client_hosts::insert(&db, &host, operator.name(), now).await? {
        let event = operator.event(EventName::ClientHostBlocked, now, json!({ "host": host }))?;
        store::audit_events::insert(&db, &event).await?;
    }
    db.commit().await?;
    let (mut disabled, mut after) = (0, None);
    loop {
        let page = clients::list(app, after.as_deref()).await?;
        let Some(last) = page.last() else { return Ok(disabled) };
        after = Some(last.id.clone());
        for client in page.iter().filter(|client| !client.disabled && is_at(client, &host)) {
            disabled += usize::from(clients::disable(app, operator, &client.id).await?);
        }
    }
}

/// Allows a host again; `false`: it was not blocked. Clients that were disabled stay so.
pub async fn unblock(app: &App, operator: &Operator, host: &str) -> anyhow::Result<bool> {
    let host = check(host)?;
    let now = app.clock.now();
    let db = app.database.begin().await?;
    if !store::blocked_client_hosts::delete(&db, &host).await? {
        return Ok(false);
    }
    let event = operator.event(EventName::ClientHostUnblocked, now, json!({ "host": host }))?;
    store::audit_events::insert(&db, &event).await?;
    db.commit().await?;
    Ok(true)
}

/// Every blocked host, and the operator who blocked it.
pub async fn list(app: &App) -> anyhow::Result<Vec<(String, String)>> {
    Ok(store::blocked_client_hosts::list(&app.database.connect().await?).await?)
}

const fn is_self_registered(client: &Client) -> bool {
    matches!(client.kind, ClientKind::Dynamic | ClientKind::Document)
}

/// The redirect URIs of a client, and the URL of its metadata document.
fn addresses_of(client: &Client) -> impl Iterator<Item = &String> {
    client.redirect_uris.iter().chain(std::iter::once(&client.id))
}

fn is_at(client: &Client, host: &str) -> bool {
    let mut domains = addresses_of(client).flat_map(|address| domains_of(address));
    is_self_registered(client) && domains.any(|domain| domain == host)
}

/// A host in the form that is compared. The loopback hosts cannot be blocked: every native app uses them.
fn check(host: &str) -> anyhow::Result<String> {
    let parsed = Url::parse(&format!("https://{host}/")).ok();
    let plain = parsed.as_ref().filter(|url| url.path() == "/" && url.port().is_none() && url.username().is_empty());
    let host = match plain.and_then(Url::host) {
        Some(Host::Domain(domain)) if domain.contains('.') => domain.trim_end_matches('.').to_owned(),
        Some(Host::Ipv4(address)) if !address.is_loopback() => address.to_string(),
        Some(Host::Ipv6(address)) if !address.is_loopback() => Host::<&str>::Ipv6(address).to_string(),
        _ => anyhow::bail!("{host} is not a host that can be blocked, such as apps.example"),
    };
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_holds_for_everything_below_it() {
        assert_eq!(domains_of("https://a.Apps.example:8443/cb"), ["a.apps.example", "apps.example", "example"]);
        assert_eq!(domains_of("http://127.0.0.1:9/cb"), ["127.0.0.1"]);
    }

    #[test]
    fn the_scheme_of_an_app_is_a_domain_backwards() {
        assert_eq!(domains_of("test.Acme.app:/cb"), ["app.acme.test", "acme.test", "test"]);
        assert_eq!(domains_of("test.editor://b.test/cb"), ["b.test", "test", "editor.test", "test"]);
        assert_eq!(domains_of("vscode://acme.notes/callback"), ["acme.notes", "notes"]);
        assert!(domains_of("app:/cb").is_empty());
    }

    #[test]
    fn the_users_own_machine_is_never_blocked() {
        for host in ["localhost", "127.0.0.1", "[::1]", "example", "a.example/x", "a.example:1", "u@a.example", ""] {
            assert!(check(host).is_err(), "{host}");
        }
        assert_eq!(check("Apps.Example").unwrap(), "apps.example");
    }
}
