//! Consents: listed, withdrawn, and deleted when they are unused.

use anyhow::{Context as _, Result};
use service_rules::lifetimes;
use service_server::flows::oauth::consents;
use service_testkit::{
    server::{SignedIn, TestServer, with_server},
    tab::Tab,
};

use crate::support::authorize::{CALLBACK, asking, code, exchange, go_through, register};

/// Lets an app in; its access token and its refresh token.
async fn connect(server: &TestServer, tab: &Tab, client: &str) -> Result<(String, String)> {
    connect_by(server, tab, client, &asking(client, &[])).await
}

async fn connect_by(server: &TestServer, tab: &Tab, client: &str, address: &str) -> Result<(String, String)> {
    let done = go_through(server, tab, address, "ann@acme.test").await?;
    let tokens = server.http.post("/oauth/token", &exchange(client, &code(&done)?)).await?;
    Ok((tokens.field("access_token").to_owned(), tokens.field("refresh_token").to_owned()))
}

/// Signs in with the command line, as the same person.
async fn ann(server: &TestServer) -> Result<SignedIn> {
    server.advance(61);
    server.sign_in("ann@acme.test", "read write").await
}

async fn delete(server: &TestServer, path: &str, ann: &SignedIn) -> Result<u16> {
    let request = server.http.request(reqwest::Method::DELETE, path).bearer_auth(&ann.access_token);
    Ok(server.http.send(request).await?.status.as_u16())
}

async fn is_asked(tab: &Tab, client: &str) -> Result<bool> {
    Ok(tab.get(&asking(client, &[])).await?.next()?.starts_with("/consent/"))
}

#[test]
fn a_consent_is_listed_and_withdrawn_with_the_sessions_of_its_client_rv_15() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let other = register(server, "Other app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let (first, _) = connect(server, &tab, &client).await?;
        let (second, _) = connect(server, &tab, &client).await?;
        // The youngest is listed first.
        server.advance(1);
        let (untouched, _) = connect(server, &tab, &other).await?;
        let ann = ann(server).await?;
        let listed = server.http.get("/v1/consents", Some(&ann.access_token)).await?;
        let names: Vec<_> =
            listed.body["data"].as_array().context("no list")?.iter().map(|one| &one["client"]).collect();
        assert_eq!(
            names.iter().map(|one| one["name"].as_str()).collect::<Vec<_>>(),
            [Some("Other app"), Some("Web app")]
        );
        let consent = &listed.body["data"][1];
        assert_eq!((&consent["client"]["id"], &consent["client"]["verified"]), (&client.clone().into(), &true.into()));
        assert_eq!((&consent["redirectHost"], &consent["scopes"]), (&"app.test".into(), &serde_json::json!(["read"])));
        let path = format!("/v1/consents/{}", consent["id"].as_str().context("no id")?);
        server.advance(61);
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        assert_eq!(delete(server, &path, &bob).await?, 404, "of another user");
        assert_eq!(delete(server, &path, &ann).await?, 204);
        assert_eq!(delete(server, &path, &ann).await?, 204, "again");
        assert_eq!(delete(server, "/v1/consents/consent_00000000000000000000000000", &ann).await?, 404);
        for token in [&first, &second] {
            assert_eq!(server.http.get("/v1/whoami", Some(token)).await?.status, 401);
        }
        assert_eq!(server.http.get("/v1/whoami", Some(&untouched)).await?.status, 200);
        assert!(is_asked(&tab, &client).await? && !is_asked(&tab, &other).await?);
        let recorded = "select details ->> 'sessions' from audit_events where event = 'consent.withdrawn'";
        assert_eq!(server.sql(recorded).await?.as_deref(), Some("2"));
        Ok(())
    })
}

#[test]
fn a_consent_ends_with_the_last_session_of_its_client_rv_15() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        connect(server, &tab, &client).await?;
        connect(server, &tab, &client).await?;
        let ann = ann(server).await?;
        let sessions = server.http.get("/v1/sessions", Some(&ann.access_token)).await?;
        let sessions = sessions.body["data"].as_array().context("no list")?.clone();
        let of_client = sessions.iter().filter(|one| one["client"]["id"] == client.as_str());
        let ids: Vec<_> = of_client.filter_map(|one| one["id"].as_str()).collect();
        assert_eq!(ids.len(), 2);
        assert_eq!(delete(server, &format!("/v1/sessions/{}", ids[0]), &ann).await?, 204);
        assert!(!is_asked(&tab, &client).await?, "another session of the client lives");
        server.sql("delete from authorization_codes").await?;
        assert_eq!(delete(server, &format!("/v1/sessions/{}", ids[1]), &ann).await?, 204);
        assert!(is_asked(&tab, &client).await?, "the last session is gone and the consent is not");
        // So it is when all others are revoked at once.
        connect(server, &tab, &client).await?;
        let others =
            server.http.request(reqwest::Method::POST, "/v1/sessions/revoke-others").bearer_auth(&ann.access_token);
        assert_eq!(server.http.send(others).await?.status, 200);
        let count = "select count(*) from consents where client_id <> 'service-cli'";
        assert_eq!(server.sql(count).await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn a_consent_that_is_not_used_for_ninety_days_ends_rv_15() -> Result<()> {
    with_server(async |server| {
        let idle = register(server, "Idle app", &[CALLBACK]).await?;
        let busy = register(server, "Busy app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        // For MCP, a consent lasts longer than this if it is used.
        let asking_mcp = |client: &str| asking(client, &[("resource", &server.app.mcp_audience)]);
        connect_by(server, &tab, &idle, &asking_mcp(&idle)).await?;
        let (_, mut refresh) = connect_by(server, &tab, &busy, &asking_mcp(&busy)).await?;
        // Longer than a consent is kept, with one of the two in use.
        let weeks = lifetimes::UNUSED_CONSENT / (7 * 86_400) + 1;
        for _ in 0..weeks - 1 {
            server.advance(7 * 86_400);
            let body =
                serde_json::json!({ "grant_type": "refresh_token", "client_id": busy, "refresh_token": refresh });
            let response = server.http.post("/oauth/token", &body).await?;
            assert_eq!(response.status, 200, "{}", response.text);
            refresh = response.field("refresh_token").to_owned();
        }
        server.advance(7 * 86_400);
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let listed = server.http.get("/v1/consents", Some(&ann.access_token)).await?;
        let listed = listed.body["data"].as_array().context("no list")?.clone();
        assert_eq!(listed.iter().map(|one| one["client"]["name"].as_str()).collect::<Vec<_>>(), [Some("Busy app")]);
        // It does not count any more, whether or not it was deleted yet.
        let fresh = Tab::open(server)?;
        server.advance(61);
        let begun = fresh.get(&asking_mcp(&idle)).await?;
        let shown = fresh.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        assert!(shown.next()?.starts_with("/consent/"), "{:?}", shown.location);
        assert!(fresh.get(&asking_mcp(&busy)).await?.parameter("code").is_some(), "asked about an app in use");
        assert_eq!(consents::expire(&server.app).await?, 1);
        assert_eq!(consents::expire(&server.app).await?, 0);
        let recorded = "select client_id from audit_events where event = 'consent.expired'";
        assert_eq!(server.sql(recorded).await?.as_deref(), Some(idle.as_str()));
        let because = "select details ->> 'because' from audit_events where event = 'consent.expired'";
        assert_eq!(server.sql(because).await?.as_deref(), Some("unused"));
        Ok(())
    })
}
