//! Browser sign-in and consent through the pages, up to an authorization code.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_server::{
    crypto::digest::pkce_challenge,
    flows::clients::{self, ClientToRegister},
};
use service_testkit::{
    server::TestServer,
    tab::{Shown, Tab},
};

pub(crate) const CALLBACK: &str = "https://app.test/cb";

pub(crate) const VERIFIER: &str = "a-verifier-of-forty-three-characters-or-more";

/// A public client that an operator registered.
pub(crate) async fn register(server: &TestServer, name: &str, redirect_uris: &[&str]) -> Result<String> {
    let redirect_uris = redirect_uris.iter().map(|uri| (*uri).to_owned()).collect();
    let wanted = ClientToRegister { name: name.into(), redirect_uris, ..ClientToRegister::default() };
    Ok(clients::create(&server.app, &wanted).await?.id)
}

/// The address of a request that is right in every respect, with these parameters changed; an empty one is left out.
pub(crate) fn asking(client_id: &str, changes: &[(&str, &str)]) -> String {
    let challenge = pkce_challenge(VERIFIER);
    let mut pairs = vec![
        ("client_id", client_id),
        ("redirect_uri", CALLBACK),
        ("response_type", "code"),
        ("scope", "read"),
        ("state", "a state"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    for (name, value) in changes {
        pairs.retain(|(known, _)| known != name);
        pairs.push((name, value));
    }
    let encode =
        |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
    let written: Vec<_> = pairs
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect();
    format!("/oauth/authorize?{}", written.join("&"))
}

/// Signs in and agrees; where the browser ends up.
pub(crate) async fn go_through(server: &TestServer, tab: &Tab, address: &str, email: &str) -> Result<Shown> {
    let begun = tab.get(address).await?;
    let shown = match begun.next()? {
        path if path.starts_with("/sign-in/") => tab.sign_in(&server.mailbox, path, email).await?,
        _ => begun,
    };
    agree(tab, shown, &[("space", "personal")]).await
}

/// Agrees on the page that the browser was sent to.
pub(crate) async fn agree(tab: &Tab, shown: Shown, fields: &[(&str, &str)]) -> Result<Shown> {
    let path = shown.next()?.to_owned();
    if !path.starts_with("/consent/") {
        return Ok(shown);
    }
    let page = tab.get(&path).await?;
    ensure!(page.status == 200, "{}", page.text);
    let mut all = vec![("decision", "allow")];
    all.extend_from_slice(fields);
    tab.submit(&path, &all).await
}

/// The code that a client was sent.
pub(crate) fn code(shown: &Shown) -> Result<String> {
    shown.parameter("code").with_context(|| format!("no code: {:?} {}", shown.location, shown.text))
}

pub(crate) fn exchange(client_id: &str, code: &str) -> Value {
    json!({
        "grant_type": "authorization_code", "client_id": client_id, "code": code,
        "redirect_uri": CALLBACK, "code_verifier": VERIFIER,
    })
}
