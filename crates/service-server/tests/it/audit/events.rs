//! `/v1/audit-events`: what happened to one's own account, and in a workspace that one owns.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_api::{audit_events::EventName, workspaces::Role};
use service_testkit::server::{TestServer, with_server};

use crate::support::cli_tokens::{delete, make};

async fn events(server: &TestServer, token: &str, query: &str) -> Result<Vec<Value>> {
    let response = server.http.get(&format!("/v1/audit-events{query}"), Some(token)).await?;
    anyhow::ensure!(response.status == 200, "{}", response.text);
    Ok(response.body["data"].as_array().context("no list")?.clone())
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap_or_default()).collect()
}

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names
}

#[test]
fn people_see_what_happened_to_their_own_account() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        server.advance(1);
        let (id, _) = make(server, &ann, &json!({ "scopes": ["read"] })).await?;
        server.advance(1);
        assert_eq!(delete(server, &id, &ann.access_token).await?.status, 204);
        let seen = events(server, &ann.access_token, "").await?;
        assert_eq!(names(&seen[..2]), ["cli_token.revoked", "cli_token.created"]);
        // These two happened at one moment.
        assert_eq!(sorted(names(&seen[2..])), ["sign_in.succeeded", "user.created"]);
        let first = &seen[0];
        assert_eq!(first["userId"], ann.user_id.to_string());
        assert_eq!((&first["subject"], &first["address"]), (&json!(id), &json!("127.0.0.1")));
        assert_eq!(first["details"], json!({ "itself": false }));
        assert_eq!(first["at"], service_api::instant::to_text(server.now()));
        assert!(first["requestId"].as_str().is_some_and(|id| id.starts_with("req_")));
        let bobs = events(server, &bob.access_token, "").await?;
        assert_eq!(sorted(names(&bobs)), ["sign_in.succeeded", "user.created"]);
        assert!(events(server, &ann.access_token, &format!("?userId={}", bob.user_id)).await?.is_empty());
        Ok(())
    })
}

#[test]
fn a_list_is_filtered_and_comes_in_pages() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let begun = service_api::instant::to_text(server.now());
        server.advance(86_400 * 40);
        // The first token has expired meanwhile, so the user signs in again.
        let ann = service_testkit::server::SignedIn {
            user_id: ann.user_id,
            ..server.sign_in("ann@acme.test", "read write").await?
        };
        for _ in 0..5 {
            server.advance(1);
            make(server, &ann, &json!({ "scopes": ["read"] })).await?;
        }
        let token = &ann.access_token;
        assert_eq!(events(server, token, "?event=cli_token.created").await?.len(), 5);
        assert_eq!(names(&events(server, token, "?event=user.created").await?), ["user.created"]);
        assert!(events(server, token, "?event=token.leaked").await?.is_empty());
        assert_eq!(events(server, token, "?until=2027-02-01").await?.len(), 2);
        assert_eq!(events(server, token, "?since=2027-02-01").await?.len(), 6);
        assert_eq!(events(server, token, &format!("?since={begun}&until=2027-01-16")).await?.len(), 2);
        assert!(events(server, token, &format!("?until={begun}")).await?.is_empty());
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let response = server.http.get(&format!("/v1/audit-events?limit=3{cursor}"), Some(token)).await?;
            let data = response.body["data"].as_array().context("no list")?.clone();
            seen.extend(data.iter().map(|event| event["id"].as_str().unwrap_or_default().to_owned()));
            let Some(next) = response.body["nextCursor"].as_str() else { break };
            assert_eq!(data.len(), 3);
            cursor = format!("&cursor={next}");
        }
        let mut sorted = seen.clone();
        sorted.sort_by(|a, b| b.cmp(a));
        sorted.dedup();
        assert_eq!((seen.len(), &seen), (8, &sorted));
        let bob = server.sign_in("bob@acme.test", "read").await?;
        for wrong in [
            &cursor[1..],
            "event=x",
            "event=",
            "since=yesterday",
            "until=2027-1-1",
            "since=2027-13-01",
            "since=-009999-01-01T00:00:00Z",
            "userId=ann",
        ] {
            let response = server.http.get(&format!("/v1/audit-events?{wrong}"), Some(&bob.access_token)).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"), "{wrong}");
        }
        Ok(())
    })
}

#[test]
fn only_owners_see_the_audit_events_of_their_workspace() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        let eve = server.sign_in("eve@other.test", "read write").await?;
        let members = [(ann.user_id, Role::Owner), (bob.user_id, Role::Member)];
        let workspace = server.make_workspace("Acme", &members).await?;
        make(server, &bob, &json!({ "scopes": ["read"], "workspaceId": workspace.to_string() })).await?;
        make(server, &bob, &json!({ "scopes": ["read"] })).await?;
        let query = format!("?workspaceId={workspace}");
        let seen = events(server, &ann.access_token, &query).await?;
        assert_eq!(names(&seen), ["cli_token.created"], "events of other spaces are not listed");
        assert_eq!(seen[0]["userId"], bob.user_id.to_string());
        assert_eq!(events(server, &ann.access_token, &format!("{query}&userId={}", bob.user_id)).await?.len(), 1);
        assert!(events(server, &ann.access_token, &format!("{query}&userId={}", ann.user_id)).await?.is_empty());
        let path = format!("/v1/audit-events{query}");
        let refused = server.http.get(&path, Some(&bob.access_token)).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (403, "forbidden"));
        assert_eq!(server.http.get(&path, Some(&eve.access_token)).await?.status, 404);
        Ok(())
    })
}

#[test]
fn every_event_has_a_name_of_its_own_in_the_manual() {
    let manual = include_str!("../../../../../docs/api.md");
    for name in EventName::ALL {
        assert_eq!(EventName::parse(name.as_str()), Some(*name));
        assert!(manual.contains(&format!("| `{}` | {} |", name.as_str(), name.meaning())), "{}", name.as_str());
    }
}
