//! Tokens for automation as their owner sees and ends them, and the one space each opens.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_api::{ids::WorkspaceId, workspaces::Role};
use service_server::tasks::housekeeping;
use service_testkit::{
    response::TestResponse,
    server::{Setup, SignedIn, TestServer, with_server},
};

use crate::support::cli_tokens::delete;
use crate::support::cli_tokens::{PATH, check, make, post, whoami};

async fn listed(server: &TestServer, session: &SignedIn, query: &str) -> Result<Vec<Value>> {
    let response = server.http.get(&format!("{PATH}{query}"), Some(&session.access_token)).await?;
    ensure!(response.status == 200, "{}", response.text);
    Ok(response.body["data"].as_array().context("no list")?.clone())
}

#[test]
fn one_user_makes_only_so_many_in_a_row_whether_they_live_or_not() -> Result<()> {
    Setup::default().set("limits.tokens_per_user", "3+60").run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        for _ in 0..2 {
            let (id, _) = make(server, &ann, &json!({})).await?;
            assert_eq!(delete(server, &id, &ann.access_token).await?.status, 204);
        }
        let pair = async || post(server, "/v1/mcp/tokens", &ann.access_token, &json!({})).await;
        assert_eq!(pair().await?.status, 201);
        for limited in [pair().await?, post(server, PATH, &ann.access_token, &json!({})).await?] {
            check(&limited, 429, "rate_limited");
            assert_eq!(limited.header("retry-after"), Some("60"));
        }
        make(server, &bob, &json!({})).await?;
        server.advance(60);
        make(server, &ann, &json!({})).await.map(drop)
    })
}

#[test]
fn the_list_is_the_owners_and_tells_no_secret_cl_05_cl_06_cl_11() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        let mut made = Vec::new();
        for number in 0..5 {
            made.push(
                make(server, &ann, &json!({ "name": format!("token {number}"), "expiresInDays": number + 1 })).await?,
            );
            server.advance(1);
        }
        make(server, &bob, &json!({ "name": "bob's" })).await?;
        assert_eq!(delete(server, &made[4].0, &ann.access_token).await?.status, 204);
        server.advance(86_400 - 5);
        let ann = crate::support::refresh::refreshed(server, &ann.refresh_token).await?;
        let names = async |query: &str| -> Result<Vec<String>> {
            let all = listed(server, &ann, query).await?;
            Ok(all
                .iter()
                .map(|token| {
                    format!("{} {}", token["name"].as_str().unwrap_or(""), token["status"].as_str().unwrap_or(""))
                })
                .collect())
        };
        assert_eq!(names("").await?, ["token 3 active", "token 2 active", "token 1 active"]);
        assert_eq!(names("?status=expired").await?, ["token 0 expired"]);
        assert_eq!(names("?status=revoked").await?, ["token 4 revoked"]);
        assert_eq!(names("?status=all").await?.len(), 5);
        assert_eq!(names("?status=all&limit=2").await?.len(), 2);
        let first = &listed(server, &ann, "").await?[0];
        let members: Vec<_> = first.as_object().context("no object")?.keys().cloned().collect();
        assert_eq!(members, ["createdAt", "expiresAt", "hint", "id", "madeBy", "name", "scopes", "status"]);
        let page = server.http.get(&format!("{PATH}?status=all&limit=2"), Some(&ann.access_token)).await?;
        let cursor = page.field("nextCursor");
        let bob = crate::support::refresh::refreshed(server, &bob.refresh_token).await?;
        for (session, query) in [
            (&bob, format!("cursor={cursor}")),
            (&ann, "cursor=' or true --".into()),
            (&ann, "cursor=x".into()),
            (&ann, "status=live".into()),
            (&ann, "status=".into()),
        ] {
            check(
                &server.http.get(&format!("{PATH}?{query}"), Some(&session.access_token)).await?,
                400,
                "invalid_request",
            );
        }
        // Dead ones are listed for a month, and then forgotten.
        server.advance(29 * 86_400 + 10);
        let ann = crate::support::refresh::refreshed(server, &ann.refresh_token).await?;
        assert_eq!(listed(server, &ann, "?status=all").await?.len(), 4);
        server.advance(10 * 86_400);
        housekeeping::clean_once(&server.app).await?;
        assert_eq!(server.sql("select count(*) from cli_tokens where name like 'token%'").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn a_user_revokes_own_tokens_and_an_owner_those_of_the_workspace_cl_07_cl_08() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        let (id, token) = make(server, &ann, &json!({})).await?;
        let (_, bobs) = make(server, &bob, &json!({ "scopes": ["read", "write"] })).await?;
        let essence = |response: &TestResponse| response.text.replace(response.field("request_id"), "");
        let foreign = delete(server, &id, &bob.access_token).await?;
        check(&foreign, 404, "not_found");
        let long = "x".repeat(5_000);
        for other in ["clit_00000000000000000000000000", "x", "..%2fx", "'%20or%20true", &long, "%00"] {
            let response = delete(server, other, &bob.access_token).await?;
            assert_eq!(essence(&response), essence(&foreign), "{other:.20}");
        }
        check(&delete(server, &id, &bobs).await?, 403, "forbidden");
        assert_eq!(whoami(server, &token).await?.status, 200);
        let reader =
            crate::support::access::signed(server, &crate::support::access::claims(server, ann.user_id, "read")?)?;
        check(&delete(server, &id, &reader).await?, 403, "insufficient_scope");
        for _ in 0..2 {
            assert_eq!(delete(server, &id, &ann.access_token).await?.status, 204);
            let response = whoami(server, &token).await?;
            check(&response, 401, "invalid_token");
            assert_eq!(response.body["details"]["reason"], "revoked_by_user");
        }
        assert_eq!(
            server.sql("select count(*) from audit_events where event = 'cli_token.revoked'").await?.as_deref(),
            Some("1")
        );
        Ok(())
    })
}

#[test]
fn a_token_ends_itself_whatever_its_scopes_cl_09() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        for scopes in [json!(["projects:read"]), json!(["write"])] {
            let (id, token) = make(server, &ann, &json!({ "scopes": scopes })).await?;
            assert_eq!(delete(server, &id, &token).await?.status, 204);
            check(&whoami(server, &token).await?, 401, "invalid_token");
        }
        Ok(())
    })
}

#[test]
fn a_bound_token_opens_no_other_space_ws_08() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let members = [(ann.user_id, Role::Owner)];
        let (first, second) =
            (server.make_workspace("First", &members).await?, server.make_workspace("Second", &members).await?);
        let spaces: [Option<WorkspaceId>; 3] = [None, Some(first), Some(second)];
        let name = |space: Option<WorkspaceId>| space.map_or("personal".to_owned(), |id| id.to_string());
        for bound in spaces {
            let (_, token) = make(server, &ann, &json!({ "workspaceId": name(bound) })).await?;
            for asked in spaces {
                for path in ["/v1/whoami", "/v1/projects"] {
                    let response =
                        server.http.get(&format!("{path}?workspaceId={}", name(asked)), Some(&token)).await?;
                    if asked == bound {
                        assert_eq!(response.status, 200, "{}", response.text);
                    } else {
                        check(&response, 403, "workspace_mismatch");
                    }
                }
            }
            // Also one that is not there at all: a bound token learns nothing about others.
            let response =
                server.http.get("/v1/whoami?workspaceId=wsp_00000000000000000000000000", Some(&token)).await?;
            check(&response, 403, "workspace_mismatch");
            assert_eq!(
                whoami(server, &token).await?.body["space"]["workspaceId"].as_str().map(str::to_owned),
                bound.map(|id| id.to_string())
            );
        }
        Ok(())
    })
}
