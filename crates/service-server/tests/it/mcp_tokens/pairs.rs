//! The MCP pair: for one client and one audience, refused at every other door, refreshed at its own.

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use reqwest::Method;
use serde_json::{Value, json};
use service_api::{
    token::{McpRefresh, Refresh, Token, TokenKind as _},
    workspaces::Role,
};
use service_rules::{bearer::Claims, lifetimes};
use service_testkit::{
    server::{refresh_body, with_server},
    settings::BASE_URL,
};

use crate::support::mcp_tokens::{PATH, REFRESH, pair, refresh, taken};
use crate::support::{
    access::{claims, signed},
    cli_tokens::{check, make, post},
    refresh::{check_refused, column, refreshed},
};

fn payload(token: &str) -> Result<Value> {
    let payload = token.split('.').nth(1).context("no JWT")?;
    Ok(serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload)?)?)
}

#[test]
fn a_pair_is_for_mcp_and_nothing_else_mc_02_cl_04() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?;
        let response = post(server, PATH, &ann.access_token, &json!({ "workspaceId": acme, "scope": "read" })).await?;
        assert_eq!(response.status, 201, "{}", response.text);
        assert_eq!((response.field("client_id"), response.field("scope")), ("service-mcp", "read"));
        assert_eq!(
            (response.field("workspace_id"), response.field("token_type")),
            (acme.to_string().as_str(), "Bearer")
        );
        assert_eq!(response.body["expires_in"], lifetimes::ACCESS_TOKEN_MCP);
        assert_eq!(response.header("cache-control"), Some("no-store"));
        let mcp = taken(&response)?;
        assert!(mcp.refresh_token.starts_with("svc_mrt_"));
        let claims = payload(&mcp.access_token)?;
        assert_eq!((&claims["aud"], &claims["client_id"]), (&format!("{BASE_URL}/mcp").into(), &"service-mcp".into()));
        assert_ne!(mcp.grant_id, ann.grant_id);
        for path in ["/v1/whoami", "/v1/projects", "/v1/sessions", "/v1/cli/tokens"] {
            let response = server.http.get(path, Some(&mcp.access_token)).await?;
            check(&response, 401, "invalid_token");
            assert_eq!(response.body["details"], json!({ "reason": "wrong_audience" }), "{path}: {}", response.text);
        }
        for path in ["/v1/cli/tokens", PATH, "/v1/sessions/revoke-others"] {
            check(&post(server, path, &mcp.access_token, &json!({})).await?, 401, "invalid_token");
        }
        // It is a session of its own, seen and ended like any other.
        let sessions = server.http.get("/v1/sessions", Some(&ann.access_token)).await?;
        let listed = sessions.body["data"].as_array().context("no list")?;
        assert!(listed.iter().any(|session| session["client"]["id"] == "service-mcp"));
        let path = format!("/v1/sessions/{}", mcp.grant_id);
        let request = server.http.request(Method::DELETE, &path).bearer_auth(&ann.access_token);
        assert_eq!(server.http.send(request).await?.status, 204);
        check_refused(&refresh(server, &ann.access_token, &mcp.refresh_token).await?, Some("revoked_by_user"));
        check(&refresh(server, &mcp.access_token, &mcp.refresh_token).await?, 401, "invalid_token");
        Ok(())
    })
}

#[test]
fn only_our_own_clients_get_it_and_never_more_than_they_have_mc_01_mc_07_mc_09() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let of = |client: &str, scope: &str| {
            let claims = claims(server, ann.user_id, scope)?;
            signed(server, &Claims { grant: ann.grant_id, client_id: client.into(), ..claims })
        };
        let ask = async |token: &str, body: Value| post(server, PATH, token, &body).await;
        for client in ["service-mcp", "client_01h2xcejqtf2nbrexx3vqjhp41", "web2", "SERVICE-WEB"] {
            check(&ask(&of(client, "read write")?, json!({})).await?, 403, "forbidden");
        }
        for client in ["service-web", "service-cli"] {
            assert_eq!(ask(&of(client, "read write")?, json!({})).await?.status, 201);
        }
        let cli = make(server, &ann, &json!({ "scopes": ["read", "write"] })).await?.1;
        check(&ask(&cli, json!({})).await?, 403, "forbidden");
        for (has, asks) in [("read", "read"), ("read tokens:write", "write"), ("projects:read tokens:write", "read")] {
            check(&ask(&of("service-cli", has)?, json!({ "scope": asks })).await?, 403, "insufficient_scope");
        }
        check(&ask(&ann.access_token, json!({ "scope": "unheard:of" })).await?, 400, "invalid_scope");
        check(&ask(&ann.access_token, json!({ "workspaceId": "" })).await?, 422, "validation_failed");
        let nowhere = json!({ "workspaceId": "wsp_00000000000000000000000000" });
        check(&ask(&ann.access_token, nowhere).await?, 404, "not_found");
        check(&ask(&ann.access_token, json!({ "client_id": "x" })).await?, 400, "invalid_request");
        // Nor does it outlive the session that made it.
        server.advance(86_400);
        let ann = refreshed(server, &ann.refresh_token).await?;
        crate::support::step_up::freshen(server, &ann).await?;
        let mcp = pair(server, &ann, &json!({})).await?;
        let ends = column(server, ann.grant_id, "expires_at").await?;
        assert_eq!(column(server, mcp.grant_id, "expires_at").await?, ends);
        Ok(())
    })
}

#[test]
fn refresh_tokens_are_refused_at_each_others_door_mc_04() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let mcp = pair(server, &ann, &json!({})).await?;
        let state = async || -> Result<_> {
            let expression = "grants.*::text || xmin::text";
            Ok((column(server, ann.grant_id, expression).await?, column(server, mcp.grant_id, expression).await?))
        };
        let before = state().await?;
        check_refused(&refresh(server, &ann.access_token, &ann.refresh_token).await?, None);
        check_refused(&server.refresh(&mcp.refresh_token).await?, None);
        let mut body = refresh_body(&mcp.refresh_token);
        body["client_id"] = "service-mcp".into();
        check_refused(&server.http.post("/oauth/token", &body).await?, None);
        // The same numbers under the other prefix, with a correct checksum, which any attacker can compute.
        let numbers =
            Token::<McpRefresh>::parse(&mcp.refresh_token).and_then(|token| token.body::<{ Refresh::BODY }>());
        let disguised = Token::<Refresh>::from_body(&numbers.context("no token")?);
        body["refresh_token"] = disguised.expose().into();
        check_refused(&server.http.post("/oauth/token", &body).await?, None);
        let numbers = Token::<Refresh>::parse(&ann.refresh_token).and_then(|token| token.body::<{ Refresh::BODY }>());
        let disguised = Token::<McpRefresh>::from_body(&numbers.context("no token")?);
        check_refused(&refresh(server, &ann.access_token, disguised.expose()).await?, None);
        check_refused(&refresh(server, &ann.access_token, &mcp.access_token).await?, None);
        assert_eq!(state().await?, before);
        let next = taken(&refresh(server, &ann.access_token, &mcp.refresh_token).await?)?;
        assert!(next.refresh_token.starts_with("svc_mrt_"));
        refreshed(server, &ann.refresh_token).await.map(drop)
    })
}

#[test]
fn it_rotates_as_every_session_does_mc_05() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let first = pair(server, &ann, &json!({})).await?;
        let second = taken(&refresh(server, &first.access_token, &first.refresh_token).await?)?;
        assert_eq!(payload(&second.access_token)?["aud"], format!("{BASE_URL}/mcp"));
        // Soon: the same again. Later: another, and the one before is a trap.
        let again = taken(&refresh(server, &ann.access_token, &first.refresh_token).await?)?;
        assert_eq!(again.refresh_token, second.refresh_token);
        server.advance(61);
        let other = taken(&refresh(server, &first.access_token, &first.refresh_token).await?)?;
        assert_ne!(other.refresh_token, second.refresh_token);
        check_refused(&refresh(server, &ann.access_token, &second.refresh_token).await?, Some("superseded"));
        check_refused(&refresh(server, &ann.access_token, &other.refresh_token).await?, Some("replayed"));
        check(&refresh(server, &other.access_token, &other.refresh_token).await?, 401, "invalid_token");
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        assert_eq!(mail.subject, "New MCP client connected");
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        assert_eq!(mail.subject, "We signed you out to protect your account");
        // The session that made it goes on.
        refreshed(server, &ann.refresh_token).await.map(drop)
    })
}

#[test]
fn it_is_refreshed_for_its_user_only_mc_06_mc_08() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        let (mcp, bobs) = (pair(server, &ann, &json!({})).await?, pair(server, &bob, &json!({})).await?);
        let anns_other = pair(server, &ann, &json!({})).await?;
        let before = column(server, mcp.grant_id, "grants.*::text || xmin::text").await?;
        for bearer in [&bob.access_token, &bobs.access_token, &anns_other.access_token] {
            check_refused(&refresh(server, bearer, &mcp.refresh_token).await?, None);
        }
        check(&server.http.post(REFRESH, &json!({ "refresh_token": mcp.refresh_token })).await?, 401, "missing_token");
        let cli = make(server, &ann, &json!({ "scopes": ["read", "write"] })).await?.1;
        let good = claims(server, ann.user_id, "read write")?;
        let foreign = signed(server, &Claims { client_id: "web2".into(), ..good.clone() })?;
        let several = format!("{BASE_URL}/mcp {BASE_URL}/v1");
        let several = signed(server, &Claims { aud: several, ..good })?;
        for bearer in ["garbage", &cli, &foreign, &several] {
            check(&refresh(server, bearer, &mcp.refresh_token).await?, 401, "invalid_token");
        }
        assert_eq!(column(server, mcp.grant_id, "grants.*::text || xmin::text").await?, before);
        check(&post(server, REFRESH, &ann.access_token, &json!({})).await?, 422, "validation_failed");
        for body in [json!({ "refresh_token": 1 }), json!({ "refresh_token": "x", "client_id": "y" })] {
            check(&post(server, REFRESH, &ann.access_token, &body).await?, 400, "invalid_request");
        }
        taken(&refresh(server, &mcp.access_token, &mcp.refresh_token).await?).map(drop)
    })
}
