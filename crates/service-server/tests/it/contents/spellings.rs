//! Requests that may be spelt in more than one way, and changes that change nothing.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};
use service_api::workspaces::Role;
use service_testkit::{
    response::TestResponse,
    server::{TestServer, with_server},
};

use crate::support::cli_tokens::{check, make, post};

const BOTH: [&str; 2] = ["/v1/cli/tokens", "/v1/mcp/tokens"];

#[test]
fn scope_and_scopes_and_the_query_are_taken_by_both_kinds_of_tokens_rv_28() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?;
        for path in BOTH {
            for body in [
                json!({ "scope": "read projects:write" }),
                json!({ "scopes": ["projects:write", "read"] }),
                json!({ "scope": "projects:write read", "scopes": ["read", "projects:write"] }),
            ] {
                let response = post(server, path, &ann.access_token, &body).await?;
                assert_eq!(
                    (response.status.as_u16(), response.field("scope")),
                    (201, "read projects:write"),
                    "{path} {body}"
                );
            }
            let differing = json!({ "scope": "read", "scopes": ["read", "write"] });
            check(&post(server, path, &ann.access_token, &differing).await?, 400, "invalid_request");
            let named = |response: &TestResponse| {
                response.body.get("workspaceId").or(response.body.get("workspace_id")).cloned()
            };
            let there = format!("{path}?workspaceId={acme}");
            for body in [json!({}), json!({ "workspaceId": acme })] {
                let response = post(server, &there, &ann.access_token, &body).await?;
                assert_eq!((response.status.as_u16(), named(&response)), (201, Some(json!(acme))), "{path} {body}");
            }
            let other = json!({ "workspaceId": "personal" });
            check(&post(server, &there, &ann.access_token, &other).await?, 400, "invalid_request");
            for query in ["?workspaceId=", "?workspaceId=personal&workspaceId=personal", "?workspaceid=personal"] {
                let response = post(server, &format!("{path}{query}"), &ann.access_token, &json!({})).await?;
                check(&response, 400, "invalid_request");
            }
        }
        Ok(())
    })
}

async fn patch(server: &TestServer, path: &str, token: &str, body: &Value) -> Result<TestResponse> {
    server.http.send(server.http.request(Method::PATCH, path).bearer_auth(token).json(body)).await
}

#[test]
fn a_change_of_nothing_is_done_and_whoami_needs_no_scope_rv_29() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?;
        let (workspace, member) =
            (format!("/v1/workspaces/{acme}"), format!("/v1/workspaces/{acme}/members/{}", ann.user_id));
        let before = server.sql("select count(*) from audit_events").await?;
        let same = patch(server, &workspace, &ann.access_token, &json!({})).await?;
        assert_eq!((same.status.as_u16(), same.field("name")), (200, "Acme"), "{}", same.text);
        let same = patch(server, &member, &ann.access_token, &json!({})).await?;
        assert_eq!((same.status.as_u16(), same.field("role")), (200, "owner"), "{}", same.text);
        assert_eq!(server.sql("select count(*) from audit_events").await?, before, "nothing happened and was recorded");
        check(&patch(server, &workspace, &ann.access_token, &json!({ "name": null })).await?, 400, "invalid_request");
        check(&patch(server, &member, &ann.access_token, &json!({ "role": null })).await?, 400, "invalid_request");
        let (_, writer) = make(server, &ann, &json!({ "scopes": ["write"] })).await?;
        assert_eq!(server.http.get("/v1/whoami", Some(&writer)).await?.status, 200);
        check(&server.http.get("/v1/whoami", None).await?, 401, "missing_token");
        Ok(())
    })
}

#[test]
fn a_challenge_names_the_narrowest_scope_that_would_do_rv_48() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "packs:read").await?;
        for (path, scope) in [("/v1/projects", "projects:read"), ("/v1/audit-events", "audit:read")] {
            let response = server.http.get(path, Some(&ann.access_token)).await?;
            check(&response, 403, "insufficient_scope");
            let challenge = response.header("www-authenticate").unwrap_or_default();
            assert!(challenge.contains(&format!("scope=\"{scope}\"")), "{challenge}");
        }
        Ok(())
    })
}
