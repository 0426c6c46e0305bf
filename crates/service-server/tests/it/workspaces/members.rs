//! Workspaces: making one, asking others in, roles, and leaving.

use std::time::{Duration, Instant};

use crate::support::workspaces::{accept_all, invite, join, make, members, send};
use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use reqwest::Method;
use serde_json::json;
use service_testkit::{response::TestResponse, server::with_server};

#[test]
fn a_workspace_is_made_named_read_and_deleted() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let id = make(server, &ann, " Harbour ").await?;
        let path = format!("/v1/workspaces/{id}");
        let read = send(server, "GET", &path, &ann, None).await?;
        assert_eq!((read.field("name"), read.field("role")), ("Harbour", "owner"));
        let renamed = send(server, "PATCH", &path, &ann, Some(&json!({ "name": "Dock" }))).await?;
        assert_eq!((renamed.status.as_u16(), renamed.field("name")), (200, "Dock"));
        let listed = send(server, "GET", "/v1/workspaces", &ann, None).await?;
        assert_eq!(listed.body["data"][0]["name"], "Dock");
        assert_eq!(send(server, "GET", "/v1/workspaces", &bob, None).await?.body["data"], json!([]));
        for (method, body) in [("GET", None), ("PATCH", Some(json!({ "name": "Mine" }))), ("DELETE", None)] {
            let foreign = send(server, method, &path, &bob, body.as_ref()).await?;
            let unknown =
                send(server, method, "/v1/workspaces/wsp_00000000000000000000000000", &bob, body.as_ref()).await?;
            let essence =
                |response: &TestResponse| (response.status, response.text.replace(response.field("request_id"), ""));
            assert_eq!((foreign.status.as_u16(), essence(&foreign)), (404, essence(&unknown)), "{method}");
        }
        for wrong in ["", " ", "a\nb", &"a".repeat(101)] {
            let refused = send(server, "POST", "/v1/workspaces", &ann, Some(&json!({ "name": wrong }))).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (422, "validation_failed"), "{wrong}");
        }
        send(server, "POST", &format!("/v1/projects?workspaceId={id}"), &ann, Some(&json!({ "name": "A" }))).await?;
        for _ in 0..2 {
            assert_eq!(send(server, "DELETE", &path, &ann, None).await?.status, 204);
        }
        assert_eq!(send(server, "DELETE", &path, &bob, None).await?.status, 404);
        assert_eq!(
            server.sql("select count(*) from audit_events where event = 'workspace.deleted'").await?.as_deref(),
            Some("1")
        );
        assert_eq!(send(server, "GET", &path, &ann, None).await?.status, 404);
        assert_eq!(send(server, "GET", &format!("/v1/projects?workspaceId={id}"), &ann, None).await?.status, 404);
        Ok(())
    })
}

#[test]
fn who_is_invited_comes_in_by_accepting() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        invite(server, &ann, &id, "Bob@Acme.test", "viewer").await?;
        let mail = server.mailbox.next_mail_to("bob@acme.test").await?;
        assert!(mail.text.contains("Harbour") && mail.text.contains("ann@acme.test"), "{}", mail.text);
        let waiting = send(server, "GET", &format!("/v1/workspaces/{id}/invitations"), &ann, None).await?;
        assert_eq!(waiting.body["data"][0]["email"], "bob@acme.test");
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        assert_eq!(accept_all(server, &bob).await?, 1);
        let mut all = members(server, &ann, &id).await?;
        all.sort();
        assert_eq!(all, [("ann@acme.test".into(), "owner".into()), ("bob@acme.test".into(), "viewer".into())]);
        let waiting = send(server, "GET", &format!("/v1/workspaces/{id}/invitations"), &ann, None).await?;
        assert_eq!(waiting.body["data"], json!([]));
        // A viewer sees, and neither changes anything nor asks others in.
        let projects = format!("/v1/projects?workspaceId={id}");
        assert_eq!(send(server, "GET", &projects, &bob, None).await?.status, 200);
        assert_eq!(send(server, "POST", &projects, &bob, Some(&json!({ "name": "A" }))).await?.error(), "forbidden");
        let path = format!("/v1/workspaces/{id}/invitations");
        for (method, body) in [("GET", None), ("POST", Some(json!({ "email": "eve@acme.test" })))] {
            assert_eq!(send(server, method, &path, &bob, body.as_ref()).await?.error(), "forbidden", "{method}");
        }
        Ok(())
    })
}

#[test]
fn an_invitation_ends_when_it_is_taken_back_or_too_old() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        let taken_back = invite(server, &ann, &id, "bob@acme.test", "member").await?;
        server.mailbox.next_mail_to("bob@acme.test").await?;
        let path = format!("/v1/workspaces/{id}/invitations/{taken_back}");
        for _ in 0..2 {
            assert_eq!(send(server, "DELETE", &path, &ann, None).await?.status, 204);
        }
        let never = format!("/v1/workspaces/{id}/invitations/inv_00000000000000000000000000");
        assert_eq!(send(server, "DELETE", &never, &ann, None).await?.status, 404);
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        assert_eq!(accept_all(server, &bob).await?, 0);
        assert_eq!(
            send(server, "POST", &format!("/v1/invitations/{taken_back}/accept"), &bob, None).await?.status,
            404
        );
        let late = invite(server, &ann, &id, "eve@acme.test", "member").await?;
        server.mailbox.next_mail_to("eve@acme.test").await?;
        server.advance(7 * 86_400 + 1);
        let eve = server.sign_in("eve@acme.test", "read write").await?;
        assert_eq!(accept_all(server, &eve).await?, 0);
        assert_eq!(send(server, "POST", &format!("/v1/invitations/{late}/accept"), &eve, None).await?.status, 404);
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        assert_eq!(members(server, &ann, &id).await?.len(), 1, "a user joined too late");
        Ok(())
    })
}

#[test]
fn members_and_invitations_come_page_by_page_and_leaving_twice_is_leaving() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        for name in ["bob", "cyd", "dee"] {
            invite(server, &ann, &id, &format!("{name}@acme.test"), "member").await?;
        }
        let pages = async |list: &str| {
            let (mut seen, mut cursor) = (Vec::new(), String::new());
            loop {
                let path = format!("/v1/workspaces/{id}/{list}?limit=2{cursor}");
                let page = send(server, "GET", &path, &ann, None).await?;
                let data = page.body["data"].as_array().with_context(|| page.text.clone())?;
                ensure!(data.len() <= 2, "{}", page.text);
                seen.extend(data.iter().map(|one| one["email"].as_str().unwrap_or_default().to_owned()));
                let Some(next) = page.body["nextCursor"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            seen.sort();
            Ok(seen)
        };
        assert_eq!(pages("invitations").await?, ["bob@acme.test", "cyd@acme.test", "dee@acme.test"]);
        let bob = join(server, "bob@acme.test").await?;
        for name in ["cyd@acme.test", "dee@acme.test"] {
            join(server, name).await?;
        }
        assert_eq!(pages("members").await?.len(), 4);
        let foreign = format!("/v1/workspaces/{id}/members?cursor=AQGigwPkAHaTnM8wWWCDaLIufSwDqVB64mXs9bU1aIWl");
        assert_eq!(send(server, "GET", &foreign, &ann, None).await?.status, 400);
        let path = format!("/v1/workspaces/{id}/members/{}", bob.user_id);
        for who in [&bob, &bob, &ann] {
            assert_eq!(send(server, "DELETE", &path, who, None).await?.status, 204);
        }
        let eve = server.sign_in("eve@acme.test", "read write").await?;
        let never = format!("/v1/workspaces/{id}/members/{}", eve.user_id);
        assert_eq!(send(server, "DELETE", &never, &ann, None).await?.status, 404);
        assert_eq!(send(server, "DELETE", &never, &eve, None).await?.status, 404);
        Ok(())
    })
}

#[test]
fn the_last_owner_stays_whatever_happens_at_once() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        let own = format!("/v1/workspaces/{id}/members/{}", ann.user_id);
        for (method, body) in [("DELETE", None), ("PATCH", Some(json!({ "role": "member" })))] {
            let refused = send(server, method, &own, &ann, body.as_ref()).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (409, "conflict"), "{method}");
        }
        invite(server, &ann, &id, "bob@acme.test", "owner").await?;
        let bob = join(server, "bob@acme.test").await?;
        // Each takes the other out, and itself, many times at once: one of them is left.
        let other = format!("/v1/workspaces/{id}/members/{}", bob.user_id);
        let pairs = [(&ann, &own), (&bob, &other), (&ann, &other), (&bob, &own)];
        try_join_all(pairs.iter().cycle().take(40).map(|(who, path)| send(server, "DELETE", path, who, None))).await?;
        let owners = server.sql("select count(*) from memberships where role = 'owner' and ended_at is null").await?;
        assert_eq!(owners.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn who_is_taken_out_is_out_of_everything_there_at_once() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        invite(server, &ann, &id, "bob@acme.test", "member").await?;
        let bob = join(server, "bob@acme.test").await?;
        let scopes = json!({ "scopes": ["read"], "workspaceId": id });
        let (_, token) = crate::support::cli_tokens::make(server, &bob, &scopes).await?;
        server.mailbox.next_mail_to("bob@acme.test").await?;
        assert_eq!(server.http.get("/v1/projects", Some(&token)).await?.status, 200);
        let path = format!("/v1/workspaces/{id}/members/{}", bob.user_id);
        let role = send(server, "PATCH", &path, &ann, Some(&json!({ "role": "viewer" }))).await?;
        assert_eq!((role.status.as_u16(), role.field("role")), (200, "viewer"), "{}", role.text);
        assert_eq!(send(server, "DELETE", &path, &ann, None).await?.status, 204);
        let began = Instant::now();
        while server.http.get("/v1/projects", Some(&token)).await?.status == 200 {
            ensure!(began.elapsed() < Duration::from_secs(1), "a token for the workspace lives on");
        }
        assert_eq!(send(server, "GET", &format!("/v1/workspaces/{id}"), &bob, None).await?.status, 404);
        assert_eq!(send(server, "DELETE", &path, &ann, None).await?.status, 204, "again");
        // A removed user can be invited again.
        invite(server, &ann, &id, "bob@acme.test", "member").await?;
        server.advance(61);
        let bob = join(server, "bob@acme.test").await?;
        assert_eq!(send(server, "GET", &format!("/v1/workspaces/{id}"), &bob, None).await?.field("role"), "member");
        assert_eq!(server.http.get("/v1/projects", Some(&token)).await?.status, 401, "what was ended came back");
        Ok(())
    })
}

#[test]
fn a_token_bound_to_a_workspace_knows_only_that_one() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (first, second) = (make(server, &ann, "First").await?, make(server, &ann, "Second").await?);
        let scopes = json!({ "scopes": ["read", "write"], "workspaceId": first });
        let (_, token) = crate::support::cli_tokens::make(server, &ann, &scopes).await?;
        let listed = server.http.get("/v1/workspaces", Some(&token)).await?;
        assert_eq!(listed.body["data"].as_array().map(Vec::len), Some(1), "{}", listed.text);
        let other = server.http.get(&format!("/v1/workspaces/{second}"), Some(&token)).await?;
        assert_eq!((other.status.as_u16(), other.error()), (403, "workspace_mismatch"));
        let request = server.http.request(Method::POST, "/v1/workspaces").bearer_auth(&token);
        let made = server.http.send(request.json(&json!({ "name": "Third" }))).await?;
        assert_eq!((made.status.as_u16(), made.error()), (403, "workspace_mismatch"));
        Ok(())
    })
}

#[test]
fn invitations_of_a_former_owner_admit_no_user() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        invite(server, &ann, &id, "mallory@acme.test", "owner").await?;
        let mallory = join(server, "mallory@acme.test").await?;
        for address in ["mallory@acme.test", "friend@acme.test"] {
            invite(server, &mallory, &id, address, "owner").await?;
            server.mailbox.next_mail_to(address).await?;
        }
        let path = format!("/v1/workspaces/{id}/members/{}", mallory.user_id);
        assert_eq!(send(server, "DELETE", &path, &ann, None).await?.status, 204);
        server.advance(61);
        for address in ["mallory@acme.test", "friend@acme.test"] {
            let back = server.sign_in(address, "read write").await?;
            assert_eq!(accept_all(server, &back).await?, 0, "{address}");
        }
        assert_eq!(members(server, &ann, &id).await?.len(), 1, "a removed user is back");
        Ok(())
    })
}

#[test]
fn automation_decides_nothing_about_who_is_in() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        let scopes = json!({ "scopes": ["read", "write"], "workspaceId": id });
        let (_, token) = crate::support::cli_tokens::make(server, &ann, &scopes).await?;
        let path = format!("/v1/workspaces/{id}");
        for (method, path, body) in [
            ("POST", format!("{path}/invitations"), Some(json!({ "email": "eve@acme.test", "role": "owner" }))),
            ("DELETE", path.clone(), None),
            ("DELETE", format!("{path}/members/{}", ann.user_id), None),
        ] {
            let request = server.http.request(Method::from_bytes(method.as_bytes())?, &path).bearer_auth(&token);
            let response = server.http.send(body.iter().fold(request, reqwest::RequestBuilder::json)).await?;
            assert_eq!((response.status.as_u16(), response.error()), (403, "forbidden"), "{method} {path}");
        }
        Ok(())
    })
}
