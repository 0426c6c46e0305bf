//! What holds for every endpoint of `/v1`: how mistakes are named, where a created resource is, and updates without a change.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_api::workspaces::Role;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, with_server},
};

use crate::support::contents::{kinds, make, send};

fn check_field(response: &TestResponse, status: u16, field: &str) {
    assert_eq!(response.status.as_u16(), status, "{}", response.text);
    assert!(response.body["details"]["fields"][field].is_string(), "{field}: {}", response.text);
}

async fn event_count(server: &TestServer, who: &SignedIn, workspace: &str, event: &str) -> Result<usize> {
    let path = format!("/v1/audit-events?workspaceId={workspace}&event={event}");
    let response = send(server, "GET", &path, who, None).await?;
    Ok(response.body["data"].as_array().with_context(|| response.text.clone())?.len())
}

#[test]
fn an_unknown_field_is_named_unless_it_may_be_a_secret_fh_22() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        for (path, body) in [
            ("/v1/projects", json!({ "name": "A", "colour": "red" })),
            ("/v1/packs/search", json!({ "type": "context", "query": "a", "colour": "red" })),
            ("/v1/cli/tokens", json!({ "colour": "red" })),
            ("/v1/workspaces", json!({ "name": "A", "colour": "red" })),
        ] {
            let response = send(server, "POST", path, &ann, Some(&body)).await?;
            check_field(&response, 400, "colour");
            let text = response.field("error_description");
            assert!(text.contains("the unknown field colour. Known fields: "), "{path}: {text}");
        }
        for secret in ["12345678", "eyJhbGciOiJFUzI1NiIs", "svc_cli_abc"] {
            for path in ["/v1/projects", "/v1/workspaces"] {
                let response = send(server, "POST", path, &ann, Some(&json!({ "name": "A", secret: 1 }))).await?;
                assert_eq!(response.status, 400, "{}", response.text);
                assert!(!response.text.contains(secret), "{}", response.text);
            }
        }
        Ok(())
    })
}

#[test]
fn a_missing_field_is_422_with_its_name_everywhere_fh_22() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?;
        let below = |name: &str| format!("/v1/workspaces/{acme}/{name}");
        for (path, body, field) in [
            ("/v1/packs".to_owned(), json!({ "name": "A" }), "type"),
            ("/v1/packs/search".to_owned(), json!({ "query": "a" }), "type"),
            ("/v1/packs/search".to_owned(), json!({ "type": "context" }), "query"),
            ("/v1/projects".to_owned(), json!({}), "name"),
            ("/v1/workspaces".to_owned(), json!({}), "name"),
            (below("invitations"), json!({}), "email"),
            (below("connections"), json!({ "name": "Acme" }), "issuer"),
            (below("domains"), json!({}), "domain"),
            ("/v1/mcp/tokens/refresh".to_owned(), json!({}), "refresh_token"),
            ("/v1/otp-tokens".to_owned(), json!({}), "email"),
            ("/v1/login-options".to_owned(), json!({}), "email"),
            ("/v1/token-leaks".to_owned(), json!({}), "tokens"),
        ] {
            let response = send(server, "POST", &path, &ann, Some(&body)).await?;
            check_field(&response, 422, field);
            assert_eq!(response.error(), "validation_failed", "{path}");
        }
        Ok(())
    })
}

#[test]
fn a_scope_that_cannot_be_is_422_fh_22() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (id, _) = make(server, "/v1/projects", &ann, &json!({ "name": "A" })).await?;
        let scope = json!({ "name": "A", "scope": "workspace" });
        check_field(&send(server, "POST", "/v1/projects", &ann, Some(&scope)).await?, 422, "scope");
        check_field(&send(server, "PATCH", &format!("/v1/projects/{id}"), &ann, Some(&scope)).await?, 422, "scope");
        for scopes in [json!([]), json!(["workspace"]), json!(["personal", "workspace"])] {
            let body = json!({ "type": "context", "query": "a", "scopes": scopes });
            check_field(&send(server, "POST", "/v1/packs/search", &ann, Some(&body)).await?, 422, "scopes");
        }
        Ok(())
    })
}

#[test]
fn a_created_resource_is_where_location_says_fh_22() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let made = send(server, "POST", "/v1/workspaces", &ann, Some(&json!({ "name": "Acme" }))).await?;
        let acme = made.field("id").to_owned();
        let location = made.header("location").context("no Location")?.to_owned();
        assert_eq!(send(server, "GET", &location, &ann, None).await?.text, made.text);
        for (_, path, body) in kinds() {
            for space in [String::new(), format!("?workspaceId={acme}")] {
                let made = send(server, "POST", &format!("{path}{space}"), &ann, Some(&body)).await?;
                let location = made.header("location").context("no Location")?.to_owned();
                assert_eq!(send(server, "GET", &location, &ann, None).await?.text, made.text, "{location}");
            }
        }
        let token = send(server, "POST", "/v1/cli/tokens", &ann, Some(&json!({ "name": "deploy" }))).await?;
        let location = token.header("location").context("no Location")?.to_owned();
        assert_eq!(send(server, "DELETE", &location, &ann, None).await?.status, 204);
        Ok(())
    })
}

#[test]
fn an_update_without_a_change_makes_no_version_and_no_event_fh_22() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let members = [(ann.user_id, Role::Owner), (bob.user_id, Role::Member)];
        let acme = server.make_workspace("Acme", &members).await?.to_string();
        for (_, path, body) in kinds() {
            let (id, made) = make(server, &format!("{path}?workspaceId={acme}"), &ann, &body).await?;
            let one = format!("{path}/{id}?workspaceId={acme}");
            server.advance(1);
            for body in [json!({}), body.clone(), json!({ "scope": "workspace" })] {
                let same = send(server, "PATCH", &one, &ann, Some(&body)).await?;
                assert_eq!(
                    (same.status.as_u16(), &same.body, same.header("etag")),
                    (200, &made.body, made.header("etag"))
                );
            }
            let renamed = send(server, "PATCH", &one, &ann, Some(&json!({ "name": "Other" }))).await?;
            assert_ne!(
                (renamed.field("updatedAt"), renamed.header("etag")),
                (made.field("updatedAt"), made.header("etag"))
            );
        }
        let (workspace, member) =
            (format!("/v1/workspaces/{acme}"), format!("/v1/workspaces/{acme}/members/{}", bob.user_id));
        let changes: [(&str, &str, [Value; 2], Value); 2] = [
            (&workspace, "workspace.renamed", [json!({}), json!({ "name": "Acme" })], json!({ "name": "Acme Two" })),
            (&member, "member.role_changed", [json!({}), json!({ "role": "member" })], json!({ "role": "viewer" })),
        ];
        for (path, event, unchanged, changed) in changes {
            for body in unchanged {
                assert_eq!(send(server, "PATCH", path, &ann, Some(&body)).await?.status, 200, "{body}");
                assert_eq!(event_count(server, &ann, &acme, event).await?, 0, "{path} {body}");
            }
            assert_eq!(send(server, "PATCH", path, &ann, Some(&changed)).await?.status, 200);
            assert_eq!(event_count(server, &ann, &acme, event).await?, 1, "{path}");
        }
        Ok(())
    })
}

#[test]
fn a_token_for_another_resource_is_told_what_to_request_fh_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let token = crate::support::mcp::token(server, &ann, "read").await?;
        let response = server.http.get("/v1/whoami", Some(&token)).await?;
        assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_token"));
        assert_eq!(response.body["details"]["reason"], "wrong_audience");
        let text = response.field("error_description");
        assert!(text.contains("`resource=https://service.test/v1`"), "{text}");
        Ok(())
    })
}

#[test]
fn names_are_camel_case_but_for_those_of_oauth_fh_22() {
    // The names that OAuth clients read, and those that stand beside them in the same bodies.
    const OAUTH: [&str; 21] = [
        "access_token",
        "refresh_token",
        "token_type",
        "expires_in",
        "client_id",
        "client_secret",
        "client_assertion",
        "client_assertion_type",
        "code_verifier",
        "grant_type",
        "redirect_uri",
        "token_type_hint",
        "otp_id",
        "workspace_id",
        "error_description",
        "request_id",
        "scope",
        "device",
        "resource",
        "code",
        "token",
    ];
    const BODIES: [&str; 9] = [
        "AboutToken",
        "CreatedCliToken",
        "Error",
        "Introspection",
        "McpTokens",
        "RefreshMcpTokens",
        "TokenRequest",
        "TokenResponse",
        "StandardDocument",
    ];
    let document = service_api::openapi::document("https://service.test");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        for property in schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()) {
            let is_oauth = BODIES.contains(&name.as_str()) && OAUTH.contains(&property);
            let is_camel = property.bytes().all(|byte| byte.is_ascii_alphanumeric());
            assert!(is_camel || is_oauth, "{name}.{property}");
        }
    }
}
