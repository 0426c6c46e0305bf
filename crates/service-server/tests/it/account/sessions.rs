//! `/v1/sessions`: seeing where one is signed in, and ending it.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::Value;
use service_testkit::{
    response::TestResponse,
    server::{Setup, SignedIn, TestServer, with_server},
    tab::Tab,
};

use crate::support::refresh::{check_refused, refreshed};

async fn sessions(server: &TestServer, token: &str) -> Result<Vec<Value>> {
    let response = server.http.get("/v1/sessions", Some(token)).await?;
    anyhow::ensure!(response.status == 200, "{}", response.text);
    Ok(response.body["data"].as_array().context("no list")?.clone())
}

async fn end(server: &TestServer, id: &str, token: &str) -> Result<TestResponse> {
    let request = server.http.request(Method::DELETE, &format!("/v1/sessions/{id}"));
    server.http.send(request.bearer_auth(token)).await
}

/// Signs the same person in so often, a minute apart.
async fn sign_in_times(server: &TestServer, times: usize) -> Result<Vec<SignedIn>> {
    let mut all = Vec::new();
    for _ in 0..times {
        all.push(server.sign_in("ann@acme.test", "read write").await?);
        server.advance(61);
    }
    Ok(all)
}

async fn whoami(server: &TestServer, session: &SignedIn) -> Result<TestResponse> {
    server.http.get("/v1/whoami", Some(&session.access_token)).await
}

#[test]
fn sessions_are_listed_with_where_and_when() -> Result<()> {
    Setup::default().set("http.trusted_proxies", "127.0.0.0/8").run(async |server| {
        let all = sign_in_times(server, 2).await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let listed = sessions(server, &all[1].access_token).await?;
        let ids: Vec<_> = listed.iter().map(|session| session["id"].as_str().unwrap_or_default().to_owned()).collect();
        assert_eq!(ids, [all[1].grant_id.to_string(), all[0].grant_id.to_string()], "not the youngest first");
        assert_eq!((&listed[0]["current"], &listed[1]["current"]), (&true.into(), &false.into()));
        assert_eq!(listed[0]["client"]["id"], "service-cli");
        assert_eq!(listed[0]["client"]["name"], "Service command line");
        assert_eq!(listed[0]["createdFrom"], "127.0.0.1");
        assert_eq!(listed[0]["scopes"], serde_json::json!(["read", "write"]));
        assert_eq!(listed[1]["createdAt"], listed[1]["lastUsedAt"]);
        let body = service_testkit::server::refresh_body(&all[0].refresh_token);
        let request = server.http.request(Method::POST, "/oauth/token").header("x-forwarded-for", "203.0.113.9");
        assert_eq!(server.http.send(request.json(&body)).await?.status, 200);
        let listed = sessions(server, &all[1].access_token).await?;
        assert_ne!(listed[1]["createdAt"], listed[1]["lastUsedAt"]);
        assert_eq!(listed[1]["lastUsedFrom"], "203.0.113.9");
        assert_eq!(listed[1]["createdFrom"], "127.0.0.1");
        assert_eq!(sessions(server, &bob.access_token).await?.len(), 1);
        Ok(())
    })
}

#[test]
fn a_session_that_was_ended_is_dead_at_once_and_stays_dead() -> Result<()> {
    with_server(async |server| {
        let all = sign_in_times(server, 2).await?;
        let id = all[0].grant_id.to_string();
        for _ in 0..2 {
            assert_eq!(end(server, &id, &all[1].access_token).await?.status, 204);
        }
        let response = whoami(server, &all[0]).await?;
        assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_token"));
        assert_eq!(response.body["details"]["reason"], "revoked_by_user");
        check_refused(&server.refresh(&all[0].refresh_token).await?, Some("revoked_by_user"));
        assert_eq!(whoami(server, &all[1]).await?.status, 200);
        assert_eq!(sessions(server, &all[1].access_token).await?.len(), 1);
        assert_eq!(
            server.sql("select count(*) from audit_events where event = 'session.ended'").await?.as_deref(),
            Some("1")
        );
        // The one that asks can end itself.
        let own = all[1].grant_id.to_string();
        assert_eq!(end(server, &own, &all[1].access_token).await?.status, 204);
        assert_eq!(whoami(server, &all[1]).await?.status, 401);
        Ok(())
    })
}

#[test]
fn a_user_cannot_find_or_revoke_sessions_of_another_user() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "write").await?, server.sign_in("bob@acme.test", "read").await?);
        let foreign = end(server, &bob.grant_id.to_string(), &ann.access_token).await?;
        let essence = |response: &TestResponse| response.text.replace(response.field("request_id"), "");
        for id in ["grant_00000000000000000000000000", "grant_", "x", "%00", "%ff", "user_01h2xcejqtf2nbrexx3vqjhp41"] {
            let unknown = end(server, id, &ann.access_token).await?;
            assert_eq!(unknown.status, 404, "{id}");
            assert_eq!(essence(&unknown), essence(&foreign), "{id}");
        }
        assert_eq!(whoami(server, &bob).await?.status, 200);
        refreshed(server, &bob.refresh_token).await.map(drop)
    })
}

#[test]
fn all_others_end_together_and_this_one_goes_on() -> Result<()> {
    with_server(async |server| {
        let all = sign_in_times(server, 4).await?;
        let bob = server.sign_in("bob@acme.test", "read").await?;
        let others = async || {
            let request = server.http.request(Method::POST, "/v1/sessions/revoke-others");
            server.http.send(request.bearer_auth(&all[2].access_token)).await
        };
        assert_eq!(others().await?.body["ended"], 3);
        assert_eq!(others().await?.body["ended"], 0);
        for (place, session) in all.iter().enumerate() {
            assert_eq!(whoami(server, session).await?.status, if place == 2 { 200 } else { 401 }, "{place}");
        }
        assert_eq!(whoami(server, &bob).await?.status, 200);
        refreshed(server, &all[2].refresh_token).await?;
        check_refused(&server.refresh(&all[3].refresh_token).await?, Some("revoked_by_user"));
        assert_eq!(sessions(server, &all[2].access_token).await?.len(), 1);
        Ok(())
    })
}

async fn sign_in_browser(server: &TestServer, email: &str) -> Result<Tab> {
    server.advance(61);
    let tab = Tab::open(server)?;
    let begun = tab.get("/sign-in").await?;
    tab.sign_in(&server.mailbox, begun.next()?, email).await?;
    Ok(tab)
}

#[test]
fn browsers_are_listed_signed_out_and_counted_fh_15() -> Result<()> {
    with_server(async |server| {
        let all = sign_in_times(server, 2).await?;
        let token = all[0].access_token.as_str();
        let (ann, bob) =
            (sign_in_browser(server, "ann@acme.test").await?, sign_in_browser(server, "bob@acme.test").await?);
        let first = server.http.get("/v1/sessions?limit=1", Some(token)).await?.body;
        assert_eq!(first["browsers"].as_array().map(Vec::len), Some(1), "{first}");
        let browser = first["browsers"][0]["id"].as_str().context("no browser")?.to_owned();
        assert!(browser.starts_with("sess_") && first["browsers"][0]["signedInAt"].is_string());
        // They are on the first page only.
        let cursor = first["nextCursor"].as_str().context("no second page")?;
        let second = server.http.get(&format!("/v1/sessions?limit=1&cursor={cursor}"), Some(token)).await?.body;
        assert_eq!((second["data"].as_array().map(Vec::len), second.get("browsers")), (Some(1), None), "{second}");
        // Another user's browser is not found.
        let stranger = server.sign_in("cleo@acme.test", "read write").await?;
        assert_eq!(end(server, &browser, &stranger.access_token).await?.status, 404);
        assert_eq!(ann.get("/account/sessions").await?.status, 200);
        assert_eq!(end(server, &browser, token).await?.status, 204);
        assert_ne!(ann.get("/account/sessions").await?.status, 200);
        let again = sign_in_browser(server, "ann@acme.test").await?;
        let request = server.http.request(Method::POST, "/v1/sessions/revoke-others");
        let done = server.http.send(request.bearer_auth(token)).await?.body;
        assert_eq!(done, serde_json::json!({ "ended": 1, "browsers": 1 }));
        assert_ne!(again.get("/account/sessions").await?.status, 200);
        assert_eq!(bob.get("/account/sessions").await?.status, 200);
        Ok(())
    })
}

#[test]
fn the_list_comes_in_pages_and_knows_only_what_lives() -> Result<()> {
    with_server(async |server| {
        let all = sign_in_times(server, 5).await?;
        let token = &all[4].access_token;
        assert_eq!(end(server, &all[2].grant_id.to_string(), token).await?.status, 204);
        server
            .sql("update grants set expires_at = created_at where id in (select id from grants order by id limit 1)")
            .await?;
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let response = server.http.get(&format!("/v1/sessions?limit=2{cursor}"), Some(token)).await?;
            assert_eq!(response.status, 200, "{}", response.text);
            let data = response.body["data"].as_array().context("no list")?.clone();
            assert!(data.len() <= 2);
            seen.extend(data.iter().map(|session| session["id"].as_str().unwrap_or_default().to_owned()));
            let Some(next) = response.body["nextCursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        let expected: Vec<_> = [4, 3, 1].map(|place: usize| all[place].grant_id.to_string()).into();
        assert_eq!(seen, expected);
        let bob = server.sign_in("bob@acme.test", "read").await?;
        for query in [&cursor[1..], "cursor=x", "limit=0", "limit=101", "other=1"] {
            let response = server.http.get(&format!("/v1/sessions?{query}"), Some(&bob.access_token)).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"), "{query}");
        }
        Ok(())
    })
}
