//! `/oauth/authorize`: what is refused, to whom that is told, and the way through.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_server::flows::{
    clients::{self, Wanted},
    exchange_code::challenge_of,
};
use service_testkit::{
    answer::Answer,
    server::{TestServer, with_server},
    settings::BASE_URL,
    tab::{Shown, Tab},
};

pub(crate) const CALLBACK: &str = "https://app.test/cb";
pub(crate) const VERIFIER: &str = "a-verifier-of-forty-three-characters-or-more";

/// A public client that an operator registered.
pub(crate) async fn register(server: &TestServer, name: &str, redirect_uris: &[&str]) -> Result<String> {
    let redirect_uris = redirect_uris.iter().map(|uri| (*uri).to_owned()).collect();
    let wanted = Wanted { name: name.into(), redirect_uris, ..Wanted::default() };
    Ok(clients::create(&server.app, &wanted).await?.id)
}

/// The address of a request that is right in every respect, with these parameters changed; an empty one is left out.
pub(crate) fn asking(client_id: &str, changes: &[(&str, &str)]) -> String {
    let challenge = challenge_of(VERIFIER);
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

#[test]
fn a_person_signs_in_agrees_and_the_client_gets_tokens() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let begun = tab.get(&asking(&client, &[])).await?;
        assert_eq!(begun.status, 303);
        let path = begun.next()?.to_owned();
        assert!(path.starts_with("/sign-in/flow_"), "{path}");
        let page = tab.get(&path).await?;
        assert!(page.text.contains("Web app") && page.status == 200, "{}", page.text);
        let shown = tab.sign_in(&server.mailbox, &path, "ann@acme.test").await?;
        let consent = shown.next()?.to_owned();
        let page = tab.get(&consent).await?;
        for expected in ["Web app wants access", "app.test", "ann@acme.test", "Your personal space"] {
            assert!(
                page.text.replace("<bdi>", "").replace("</bdi>", "").contains(expected),
                "{expected}: {}",
                page.text
            );
        }
        let done = tab.submit(&consent, &[("decision", "allow"), ("space", "personal")]).await?;
        assert_eq!(done.status, 303);
        let location = done.next()?;
        assert!(location.starts_with("https://app.test/cb?code=svc_ac_"), "{location}");
        assert_eq!(
            (done.parameter("state").as_deref(), done.parameter("iss").as_deref()),
            (Some("a state"), Some(BASE_URL))
        );
        assert!(location.ends_with("#_"), "a fragment could be inherited");
        let answer: Answer = server.door.post("/oauth/token", &exchange(&client, &code(&done)?)).await?;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!((answer.field("scope"), answer.field("token_type")), ("read", "Bearer"));
        let who = server.door.get("/v1/whoami", Some(answer.field("access_token"))).await?;
        assert_eq!(who.body["user"]["email"], "ann@acme.test");
        let refreshed = json!({ "grant_type": "refresh_token", "client_id": client, "refresh_token": answer.field("refresh_token") });
        assert_eq!(server.door.post("/oauth/token", &refreshed).await?.status, 200);
        Ok(())
    })
}
