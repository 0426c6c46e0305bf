//! What lives in spaces: all five kinds alike.

use crate::support::contents::{kinds, make, send};
use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::json;
use service_api::workspaces::Role;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, with_server},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[test]
fn every_kind_is_made_read_listed_changed_and_deleted() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?;
        for (kind, path, body) in kinds() {
            for query in [String::new(), format!("?workspaceId={acme}")] {
                let (id, made) = make(server, &format!("{path}{query}"), &ann, &body).await?;
                assert!(id.starts_with(&format!("{}_", kind.prefix())), "{id}");
                let scope = if query.is_empty() { "personal" } else { "workspace" };
                assert_eq!(made.field("scope"), scope);
                assert_eq!(made.body["workspaceId"].is_null(), query.is_empty(), "{}", made.text);
                for (name, value) in body.as_object().context("no body")? {
                    assert_eq!(made.body[name], *value, "{path}");
                }
                assert_eq!(made.header("etag"), Some("\"1\""));
                let one = format!("{path}/{id}{query}");
                let read = send(server, "GET", &one, &ann, None).await?;
                assert_eq!((read.status.as_u16(), &read.body), (200, &made.body), "{one}");
                let listed = send(server, "GET", &format!("{path}{query}"), &ann, None).await?;
                assert_eq!(listed.body["data"], json!([made.body]), "{path}");
                server.advance(1);
                let changed = send(server, "PATCH", &one, &ann, Some(&json!({ "name": "Other" }))).await?;
                assert_eq!((changed.status.as_u16(), changed.field("name")), (200, "Other"), "{}", changed.text);
                assert_eq!(
                    (changed.header("etag"), changed.field("createdAt")),
                    (Some("\"2\""), made.field("createdAt"))
                );
                assert_ne!(changed.field("updatedAt"), made.field("updatedAt"));
                for _ in 0..2 {
                    assert_eq!(send(server, "DELETE", &one, &ann, None).await?.status, 204);
                }
                assert_eq!(send(server, "GET", &one, &ann, None).await?.status, 404);
            }
        }
        Ok(())
    })
}

#[test]
fn what_is_foreign_is_like_what_is_not_there_ws_02() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        let viewed =
            server.make_workspace("Viewed", &[(ann.user_id, Role::Viewer), (bob.user_id, Role::Owner)]).await?;
        let essence =
            |response: &TestResponse| (response.status, response.text.replace(response.field("request_id"), ""));
        for (kind, path, body) in kinds() {
            let (bobs, _) = make(server, path, &bob, &body).await?;
            let (shared, _) = make(server, &format!("{path}?workspaceId={viewed}"), &bob, &body).await?;
            let nowhere = format!("{path}/{}_00000000000000000000000000", kind.prefix());
            for (method, change) in [("GET", None), ("PATCH", Some(json!({ "name": "Mine" })))] {
                let unknown = send(server, method, &nowhere, &ann, change.as_ref()).await?;
                assert_eq!(unknown.status, 404);
                // In another space than its own it is not there either, even for a user who may see it elsewhere.
                for id in [&bobs, &shared, "x", "proj_", "user_01h2xcejqtf2nbrexx3vqjhp41"] {
                    let foreign = send(server, method, &format!("{path}/{id}"), &ann, change.as_ref()).await?;
                    assert_eq!(essence(&foreign), essence(&unknown), "{method} {path}/{id}");
                }
            }
            let one = format!("{path}/{shared}?workspaceId={viewed}");
            assert_eq!(send(server, "GET", &one, &ann, None).await?.status, 200);
            for (method, body) in [("PATCH", Some(json!({}))), ("DELETE", None)] {
                let refused = send(server, method, &one, &ann, body.as_ref()).await?;
                assert_eq!((refused.status.as_u16(), refused.error()), (403, "forbidden"), "{method}");
            }
            send(server, "DELETE", &format!("{path}/{bobs}"), &ann, None).await?;
            assert_eq!(
                send(server, "GET", &format!("{path}/{bobs}"), &bob, None).await?.status,
                200,
                "deleted by a stranger"
            );
        }
        Ok(())
    })
}

#[test]
fn a_read_token_does_not_write_and_is_told_what_would_ws_06() -> Result<()> {
    with_server(async |server| {
        let reader = server.sign_in("ann@acme.test", "read").await?;
        for (_, path, body) in kinds() {
            let refused = send(server, "POST", path, &reader, Some(&body)).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (403, "insufficient_scope"), "{path}");
            let challenge = refused.header("www-authenticate").unwrap_or_default();
            let kind = path.rsplit('/').next().unwrap_or_default();
            let scope = format!("error=\"insufficient_scope\", scope=\"{kind}:write\"");
            assert!(challenge.contains(&scope), "{challenge}");
        }
        Ok(())
    })
}

#[test]
fn an_id_is_given_out_once_ws_09() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let (id, _) = make(server, "/v1/projects", &ann, &json!({ "name": "A" })).await?;
            assert_eq!(send(server, "DELETE", &format!("/v1/projects/{id}"), &ann, None).await?.status, 204);
            assert_eq!(send(server, "GET", &format!("/v1/projects/{id}"), &ann, None).await?.status, 404);
            assert!(seen.insert(id));
        }
        Ok(())
    })
}

#[test]
fn what_cannot_be_said_is_refused_with_the_field_ws_11() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (id, _) = make(server, "/v1/projects", &ann, &json!({ "name": "A" })).await?;
        let one = format!("/v1/projects/{id}");
        for name in ["id", "workspaceId", "ownerId", "createdBy", "createdAt", "version", "emailVerified"] {
            for (method, path) in [("POST", "/v1/projects"), ("PATCH", &one)] {
                let response = send(server, method, path, &ann, Some(&json!({ "name": "B", name: "x" }))).await?;
                assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"), "{method} {name}");
            }
        }
        for (path, body, field) in [
            ("/v1/projects", json!({}), "name"),
            ("/v1/projects", json!({ "name": 1 }), "name"),
            ("/v1/packs", json!({ "name": "A", "type": "other" }), "type"),
            ("/v1/cases", json!({ "name": "A", "dueOn": "1 May" }), "dueOn"),
            ("/v1/records", json!({ "name": "A", "scope": "mine" }), "scope"),
        ] {
            let response = send(server, "POST", path, &ann, Some(&body)).await?;
            assert_eq!((response.status.as_u16(), response.error()), (422, "validation_failed"), "{body}");
            assert!(response.body["details"]["fields"][field].is_string(), "{}", response.text);
        }
        Ok(())
    })
}

#[test]
fn content_moves_where_its_scope_says() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?;
        let space = format!("?workspaceId={acme}");
        let (id, made) =
            make(server, &format!("/v1/projects{space}"), &ann, &json!({ "name": "A", "scope": "personal" })).await?;
        assert_eq!(made.field("scope"), "personal");
        assert_eq!(send(server, "GET", &format!("/v1/projects/{id}{space}"), &ann, None).await?.status, 404);
        let none =
            send(server, "POST", "/v1/projects", &ann, Some(&json!({ "name": "A", "scope": "workspace" }))).await?;
        assert_eq!((none.status.as_u16(), none.error()), (422, "validation_failed"), "{}", none.text);
        let (id, _) = make(server, &format!("/v1/projects{space}"), &ann, &json!({ "name": "B" })).await?;
        let moved =
            send(server, "PATCH", &format!("/v1/projects/{id}{space}"), &ann, Some(&json!({ "scope": "personal" })))
                .await?;
        assert_eq!((moved.field("scope"), moved.field("name")), ("personal", "B"));
        assert_eq!(send(server, "GET", &format!("/v1/projects/{id}"), &ann, None).await?.status, 200);
        assert_eq!(send(server, "GET", &format!("/v1/projects/{id}{space}"), &ann, None).await?.status, 404);
        // And back, and the same again: a move finds what it is to move, or has moved.
        for scope in ["workspace", "workspace", "personal", "personal"] {
            let path = format!("/v1/projects/{id}{space}");
            let moved = send(server, "PATCH", &path, &ann, Some(&json!({ "scope": scope }))).await?;
            assert_eq!((moved.status.as_u16(), moved.field("scope")), (200, scope), "{}", moved.text);
            let shared = send(server, "GET", &path, &ann, None).await?;
            assert_eq!(shared.status == 200, scope == "workspace");
        }
        // Without a word about where it is to live, only what is in the space is there to be changed.
        let path = format!("/v1/projects/{id}{space}");
        assert_eq!(send(server, "PATCH", &path, &ann, Some(&json!({ "name": "C" }))).await?.status, 404);
        // What is bound to the workspace does not reach into personal space.
        let (_, bound) = crate::support::cli_tokens::make(
            server,
            &ann,
            &json!({ "scopes": ["read", "write"], "workspaceId": acme }),
        )
        .await?;
        let request = server.http.request(Method::PATCH, &path).bearer_auth(&bound);
        assert_eq!(server.http.send(request.json(&json!({ "scope": "workspace" }))).await?.status, 404);
        Ok(())
    })
}

#[test]
fn deleting_again_succeeds_and_what_never_was_is_not_found() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        let (id, _) = make(server, "/v1/projects", &ann, &json!({ "name": "A" })).await?;
        let one = format!("/v1/projects/{id}");
        let delete = async |path: &str, who: &SignedIn| {
            let response = send(server, "DELETE", path, who, None).await?;
            anyhow::Ok((response.status.as_u16(), response.text.replace(response.field("request_id"), "")))
        };
        let unknown = delete("/v1/projects/proj_00000000000000000000000000", &bob).await?;
        assert_eq!(unknown.0, 404);
        assert_eq!(delete(&one, &bob).await?, unknown, "a stranger learns that it is there");
        for _ in 0..2 {
            assert_eq!(delete(&one, &ann).await?.0, 204);
        }
        assert_eq!(delete(&one, &bob).await?, unknown, "a stranger learns that it was there");
        assert_eq!(delete(&format!("/v1/packs/{}", id.replace("proj", "pack")), &ann).await?.0, 404);
        server.advance(31 * 86_400);
        service_server::tasks::housekeeping::clean_once(&server.app).await?;
        assert_eq!(server.sql("select count(*) from deletions").await?.as_deref(), Some("0"));
        Ok(())
    })
}

/// The body comes in after the head was judged, as slowly as its sender likes.
#[test]
fn who_is_taken_out_while_the_body_comes_in_writes_nothing() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?;
        for (method, path) in [
            ("POST", "/v1/projects".to_owned()),
            ("PATCH", {
                let place = service_rules::space::Space::Workspace(acme);
                format!("/v1/projects/{}", server.make_project(place, ann.user_id, "A").await?)
            }),
        ] {
            server.sql("update memberships set role = 'member'").await?;
            let body = r#"{"name":"Late"}"#;
            let head = format!(
                "{method} {path}?workspaceId={acme} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\
                 connection: close\r\n\r\n",
                ann.access_token,
                body.len()
            );
            let mut stream = tokio::net::TcpStream::connect(server.http.url.trim_start_matches("http://")).await?;
            stream.write_all(head.as_bytes()).await?;
            // The body is asked for when the head has been judged.
            let mut go_on = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
            stream.read_exact(&mut go_on).await?;
            server.sql("update memberships set role = 'viewer'").await?;
            stream.write_all(body.as_bytes()).await?;
            let mut response = String::new();
            stream.read_to_string(&mut response).await?;
            assert!(response.starts_with("HTTP/1.1 403") && response.contains("\"forbidden\""), "{method}: {response}");
        }
        assert_eq!(
            server.sql("select count(*) from contents where fields->>'name' = 'Late'").await?.as_deref(),
            Some("0")
        );
        Ok(())
    })
}
