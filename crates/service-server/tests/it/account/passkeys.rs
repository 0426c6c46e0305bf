//! `/v1/account/passkeys`: listing, renaming and removing passkeys, and where password managers learn of them.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use service_api::ids::PasskeyId;
use service_rules::lifetimes;
use service_testkit::{
    response::TestResponse,
    server::{Setup, SignedIn, TestServer, with_server},
    settings::BASE_URL,
    tab::Tab,
};

use crate::support::{
    cli_tokens::{check, make},
    contents::send,
    refresh::refreshed,
    step_up::check_stale,
};

const PATH: &str = "/v1/account/passkeys";
const DOCUMENT: &str = "/.well-known/passkey-endpoints";

async fn list(server: &TestServer, session: &SignedIn) -> Result<Vec<Value>> {
    let response = send(server, "GET", PATH, session, None).await?;
    ensure!(response.status == 200, "{}", response.text);
    ensure!(response.body.as_object().map(serde_json::Map::len) == Some(1), "{}", response.text);
    Ok(response.body["data"].as_array().context("no list")?.clone())
}

async fn rename(server: &TestServer, session: &SignedIn, id: &str, body: Value) -> Result<TestResponse> {
    send(server, "PATCH", &format!("{PATH}/{id}"), session, Some(&body)).await
}

async fn remove(server: &TestServer, session: &SignedIn, id: &str) -> Result<TestResponse> {
    send(server, "DELETE", &format!("{PATH}/{id}"), session, None).await
}

async fn count_events(server: &TestServer, event: &str, id: &str) -> Result<Option<String>> {
    server.sql(&format!("select count(*) from audit_events where event = '{event}' and subject = '{id}'")).await
}

#[test]
fn passkeys_are_listed_newest_first_and_renamed() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        assert!(list(server, &ann).await?.is_empty());
        let first = server.make_passkey(ann.user_id, "MacBook").await?.to_string();
        server.advance(1);
        let second = server.make_passkey(ann.user_id, "Phone").await?.to_string();
        let listed = list(server, &ann).await?;
        assert_eq!((&listed[0]["id"], &listed[1]["id"]), (&json!(second), &json!(first)));
        let created_at = listed[1]["createdAt"].clone();
        let expected = json!({ "id": first, "name": "MacBook", "backedUp": true, "createdAt": created_at });
        assert_eq!(listed[1], expected, "a passkey that was never used has another shape");
        server.sql("update passkeys set last_used_at = created_at, is_backed_up = false").await?;
        let used = &list(server, &ann).await?[1];
        assert_eq!((&used["lastUsedAt"], &used["backedUp"]), (&created_at, &json!(false)));

        // No sign-in within the last 15 minutes is needed.
        server.advance(lifetimes::RECENT_SIGN_IN + 1);
        let ann = refreshed(server, &ann.refresh_token).await?;
        for _ in 0..2 {
            let renamed = rename(server, &ann, &first, json!({ "name": "Work laptop" })).await?;
            assert_eq!((renamed.status.as_u16(), renamed.field("name")), (200, "Work laptop"), "{}", renamed.text);
            assert_eq!(renamed.body, list(server, &ann).await?[1]);
        }
        assert_eq!(list(server, &ann).await?[0]["name"], "Phone");
        assert_eq!(count_events(server, "passkey.renamed", &first).await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn a_name_that_is_no_display_name_is_refused_with_its_field() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = server.make_passkey(ann.user_id, "MacBook").await?.to_string();
        let long = "a".repeat(61);
        for name in ["", " ", long.as_str(), "two\nlines", "https://evil.test", "a\u{202e}b"] {
            let refused = rename(server, &ann, &id, json!({ "name": name })).await?;
            check(&refused, 422, "validation_failed");
            assert!(refused.body["details"]["fields"]["name"].is_string(), "{}", refused.text);
        }
        let missing = rename(server, &ann, &id, json!({})).await?;
        check(&missing, 422, "validation_failed");
        assert!(missing.body["details"]["fields"]["name"].is_string(), "{}", missing.text);
        check(&rename(server, &ann, &id, json!({ "name": "x", "colour": "red" })).await?, 400, "invalid_request");
        assert_eq!(rename(server, &ann, &id, json!({ "name": "a".repeat(60) })).await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_passkey_is_removed_once_and_its_user_is_told() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = server.make_passkey(ann.user_id, "MacBook").await?.to_string();
        server.make_passkey(ann.user_id, "Phone").await?;
        for _ in 0..2 {
            assert_eq!(remove(server, &ann, &id).await?.status, 204);
        }
        let left = list(server, &ann).await?;
        assert_eq!((left.len(), &left[0]["name"]), (1, &json!("Phone")));
        assert_eq!(server.sql("select count(*) from passkey_credentials").await?.as_deref(), Some("1"));
        assert_eq!(count_events(server, "passkey.removed", &id).await?.as_deref(), Some("1"));
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        assert!(mail.text.contains("MacBook"), "{}", mail.text);
        check(&rename(server, &ann, &id, json!({ "name": "MacBook" })).await?, 404, "not_found");
        Ok(())
    })
}

#[test]
fn a_passkey_of_another_user_is_not_found() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let of_ann = server.make_passkey(ann.user_id, "MacBook").await?.to_string();
        // One that was removed is known to its user only.
        let removed = server.make_passkey(ann.user_id, "Phone").await?.to_string();
        assert_eq!(remove(server, &ann, &removed).await?.status, 204);
        for id in [&of_ann, &removed, "passkey_01m955vw00fjqrz47smcqrkmzz", "passkey_nope", "grant_nope"] {
            check(&rename(server, &bob, id, json!({ "name": "Mine" })).await?, 404, "not_found");
            check(&remove(server, &bob, id).await?, 404, "not_found");
        }
        assert!(list(server, &bob).await?.is_empty());
        assert_eq!(list(server, &ann).await?[0]["name"], "MacBook");
        Ok(())
    })
}

#[test]
fn removing_needs_a_recent_sign_in_and_nothing_opens_to_a_cli_token() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = server.make_passkey(ann.user_id, "MacBook").await?.to_string();
        let (_, token) = make(server, &ann, &json!({ "scopes": ["read", "write"] })).await?;
        let one = format!("{PATH}/{id}");
        for (method, path) in [(Method::GET, PATH), (Method::PATCH, &one), (Method::DELETE, &one)] {
            let request = server.http.request(method.clone(), path).bearer_auth(&token);
            let request = if method == Method::PATCH { request.json(&json!({ "name": "Mine" })) } else { request };
            check(&server.http.send(request).await?, 403, "forbidden");
        }
        server.advance(lifetimes::RECENT_SIGN_IN + 1);
        let stale = refreshed(server, &ann.refresh_token).await?;
        check_stale(&remove(server, &stale, &id).await?, "removing");
        let listed = list(server, &stale).await?;
        assert_eq!((listed.len(), &listed[0]["name"]), (1, &json!("MacBook")));
        Ok(())
    })
}

#[test]
fn a_passkey_is_renamed_on_the_account_page() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let begun = tab.get("/sign-in").await?;
        tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        server.advance(61);
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let id = server.make_passkey(ann.user_id, "MacBook").await?;
        let foreign = server.make_passkey(bob.user_id, "Phone").await?;
        let form = |id: PasskeyId| format!("/account/security/passkeys/{id}/rename");
        let page = tab.get("/account/security").await?;
        assert!(page.text.contains(&format!("action=\"{}\"", form(id))), "{}", page.text);
        let done = tab.submit(&form(id), &[("name", "Work <b>laptop")]).await?;
        assert_eq!(done.status, 400, "{}", done.text);
        let done = tab.submit(&form(id), &[("name", "Work laptop")]).await?;
        assert_eq!(done.status, 303, "{}", done.text);
        let page = tab.get(done.next()?).await?;
        assert!(page.text.contains("Passkey renamed to Work laptop."), "{}", page.text);
        tab.submit(&form(foreign), &[("name", "Mine")]).await?;
        assert_eq!(list(server, &bob).await?[0]["name"], "Phone");
        assert_eq!(list(server, &ann).await?[0]["name"], "Work laptop");
        Ok(())
    })
}

#[test]
fn password_managers_find_the_page_of_passkeys_where_there_are_passkeys() -> Result<()> {
    with_server(async |server| {
        let found = server.http.get(DOCUMENT, None).await?;
        let page = format!("{BASE_URL}/account/security");
        assert_eq!((found.status.as_u16(), &found.body), (200, &json!({ "enroll": page, "manage": page })));
        let expected = [
            ("content-type", "application/json"),
            ("cache-control", "public, max-age=300"),
            ("access-control-allow-origin", "*"),
        ];
        for (name, value) in expected {
            assert_eq!(found.header(name), Some(value), "{name}");
        }
        Ok(())
    })?;
    Setup::default().set("base_url", "http://127.0.0.1:8080").run(async |server| {
        let refused = server.http.get(DOCUMENT, None).await?;
        check(&refused, 404, "not_found");
        assert_eq!(refused.header("cache-control"), Some("no-store"));
        Ok(())
    })
}
