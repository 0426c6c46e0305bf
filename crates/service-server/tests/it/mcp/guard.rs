//! Who is let in at `/mcp`, and what the others are told.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};
use service_api::{scope::Scopes, workspaces::Role};
use service_rules::bearer::Claims;
use service_testkit::{
    server::{TestServer, with_server},
    settings::BASE_URL,
};

use crate::support::{
    access::{claims, signed},
    cli_tokens,
    mcp::{NEWEST, call, done, refused, request, send, token},
    mcp_tokens,
};

fn metadata() -> String {
    format!("resource_metadata=\"{BASE_URL}/.well-known/oauth-protected-resource/mcp\"")
}

fn list_tools(server: &TestServer) -> reqwest::RequestBuilder {
    request(server, NEWEST, "tools/list", &json!({}))
}

#[test]
fn a_general_access_token_does_not_open_mcp_and_the_challenge_says_where_to_go_mc_03() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (_, cli) = cli_tokens::make(server, &ann, &json!({ "scopes": ["read", "write"] })).await?;
        let invalid = format!("Bearer error=\"invalid_token\", {}, scope=\"read write\"", metadata());
        for (name, token) in [("access token", &ann.access_token), ("CLI token", &cli)] {
            let response = server.http.send(list_tools(server).bearer_auth(token)).await?;
            assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_token"), "{name}");
            assert_eq!(response.body["details"]["reason"], "wrong_audience", "{name}");
            assert_eq!(response.header("www-authenticate"), Some(invalid.as_str()), "{name}");
        }
        let pair = mcp_tokens::pair(server, &ann, &json!({})).await?;
        for token in [&pair.refresh_token, &ann.refresh_token, "garbage"] {
            let response = server.http.send(list_tools(server).bearer_auth(token)).await?;
            assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_token"));
            assert!(response.body["details"].is_null(), "a stranger learns something");
        }
        let without = server.http.send(list_tools(server)).await?;
        assert_eq!((without.status.as_u16(), without.error()), (401, "missing_token"));
        let missing = format!("Bearer {}, scope=\"read write\"", metadata());
        assert_eq!(without.header("www-authenticate"), Some(missing.as_str()));
        Ok(())
    })
}

#[test]
fn a_token_for_several_audiences_or_another_one_is_refused_at_mcp_mc_08() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let pair = mcp_tokens::pair(server, &ann, &json!({})).await?;
        let good = Claims {
            grant: pair.grant_id,
            aud: format!("{BASE_URL}/mcp"),
            client_id: "service-mcp".into(),
            ..claims(server, ann.user_id, "read")?
        };
        let check = async |claims: &Claims, status: u16| {
            let response = server.http.send(list_tools(server).bearer_auth(signed(server, claims)?)).await?;
            assert_eq!(response.status, status, "{}: {}", claims.aud, response.text);
            anyhow::Ok(())
        };
        check(&good, 200).await?;
        for aud in ["", BASE_URL, &format!("{BASE_URL}/"), &format!("{BASE_URL}/mcp/"), "https://other.example/mcp"] {
            check(&Claims { aud: aud.into(), ..good.clone() }, 401).await?;
        }
        check(&Claims { iss: "https://other.example".into(), ..good.clone() }, 401).await
    })
}

#[test]
fn a_revoked_or_expired_token_is_refused_with_the_reason_and_asks_for_a_new_one() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let pair = mcp_tokens::pair(server, &ann, &json!({})).await?;
        let other = mcp_tokens::pair(server, &ann, &json!({})).await?;
        let path = format!("/v1/sessions/{}", pair.grant_id);
        let revoke = server.http.request(Method::DELETE, &path).bearer_auth(&ann.access_token);
        assert_eq!(server.http.send(revoke).await?.status, 204);
        let response = server.http.send(list_tools(server).bearer_auth(&pair.access_token)).await?;
        assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_token"));
        assert_eq!(response.body["details"]["reason"], "revoked_by_user");
        server.advance(3_700);
        let response = server.http.send(list_tools(server).bearer_auth(&other.access_token)).await?;
        assert_eq!((response.status.as_u16(), &response.body["details"]["reason"]), (401, &json!("expired")));
        Ok(())
    })
}

#[test]
fn a_tool_that_lacks_a_scope_asks_for_what_the_token_has_and_the_narrowest_missing_one() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        for (held, tool, asked) in [
            ("read", "create_pack", "read packs:write"),
            ("read", "delete_case", "read cases:write"),
            ("packs:read", "list_projects", "projects:read packs:read"),
            ("read packs:write", "update_record", "read packs:write records:write"),
            ("write", "search_packs", "write packs:read"),
            ("projects:read", "list_workspaces", "workspaces:read projects:read"),
        ] {
            let token = token(server, &ann, held).await?;
            let response = call(server, &token, tool, &json!({})).await?;
            assert_eq!((response.status.as_u16(), response.error()), (403, "insufficient_scope"), "{tool}");
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{asked}\", {}", metadata());
            assert_eq!(response.header("www-authenticate"), Some(challenge.as_str()), "{tool}");
            assert!(Scopes::parse(asked).cover(Scopes::parse(held)), "{tool}: the client would lose {held}");
        }
        Ok(())
    })
}

#[test]
fn the_guard_and_the_protocol_read_one_and_the_same_tool() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let token = token(server, &ann, "read").await?;
        let message = |text: &str| {
            let request = server.http.request(Method::POST, "/mcp").bearer_auth(&token);
            request
                .header("accept", "application/json, text/event-stream")
                .header("content-type", "application/json")
                .body(text.to_owned())
        };
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami","name":"create_pack","arguments":{}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"create_pack"}}"#,
            r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_pack"}}]"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_pack"}} {}"#,
            "\u{feff}{}",
            "",
        ] {
            let response = server.http.send(message(text)).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"), "{text}");
        }
        // A header that names another tool than the body.
        let forged = request(server, NEWEST, "tools/call", &json!({ "name": "create_pack", "arguments": {} }));
        let mut forged = forged.bearer_auth(&token).build()?;
        forged.headers_mut().insert("mcp-name", "whoami".parse()?);
        let response = reqwest::Client::new().execute(forged).await?;
        assert_eq!(response.status(), 403, "the header decided");
        Ok(())
    })
}

#[test]
fn only_our_own_host_and_origins_of_clients_are_served() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let token = token(server, &ann, "read").await?;
        let host = BASE_URL.trim_start_matches("https://");
        let send = async |name: &'static str, value: &str| {
            let request = list_tools(server).bearer_auth(&token).header(name, value);
            anyhow::Ok(server.http.send(request).await?.status.as_u16())
        };
        for (value, status) in [(host, 200), ("localhost:8080", 200), ("evil.test", 403), ("127.0.0.1.evil.test", 403)]
        {
            assert_eq!(send("host", value).await?, status, "{value}");
        }
        let evil = ["https://evil.test", "null", "https://localhost.evil.test", "http://127.0.0.1.evil.test", "x"];
        for origin in evil {
            assert_eq!(send("origin", origin).await?, 403, "{origin}");
        }
        for origin in [BASE_URL, "http://localhost:6274", "http://127.0.0.1:6274", "http://[::1]:6274"] {
            assert_eq!(send("origin", origin).await?, 200, "{origin}");
        }
        let metadata = json!({ "client_name": "Editor", "redirect_uris": ["https://editor.test/cb"] });
        assert_eq!(server.http.post("/oauth/register", &metadata).await?.status, 201);
        assert_eq!(send("origin", "https://editor.test").await?, 200);
        Ok(())
    })
}

#[test]
fn a_user_has_one_limit_for_the_api_and_for_mcp() -> Result<()> {
    let setup = service_testkit::server::Setup::default()
        .set("limits.writes_per_user", "3+3")
        .set("limits.searches_per_user", "2+2");
    setup.run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let token = token(server, &ann, "read write").await?;
        // The pair was one write.
        for _ in 0..2 {
            done(server, &token, "create_project", &json!({ "name": "Pier" })).await?;
        }
        let limited = call(server, &token, "create_project", &json!({ "name": "Pier" })).await?;
        assert_eq!((limited.status.as_u16(), limited.error()), (429, "rate_limited"), "{}", limited.text);
        assert!(limited.header("retry-after").is_some());
        let query = json!({ "type": "context", "query": "pier" });
        for _ in 0..2 {
            done(server, &token, "search_packs", &query).await?;
        }
        assert_eq!(call(server, &token, "search_packs", &query).await?.status, 429);
        done(server, &token, "whoami", &json!({})).await?;
        Ok(())
    })
}

#[test]
fn a_token_works_in_the_space_that_its_user_chose_and_in_no_other() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?;
        let other = server.make_workspace("Other", &[(ann.user_id, Role::Owner)]).await?;
        // A third-party client is bound to the space of its consent.
        let good = Claims {
            aud: format!("{BASE_URL}/mcp"),
            client_id: "client_x".into(),
            workspace: Some(acme),
            grant: ann.grant_id,
            ..claims(server, ann.user_id, "read write")?
        };
        let token = signed(server, &good)?;
        let made = done(server, &token, "create_project", &json!({ "name": "Pier" })).await?;
        assert_eq!(made["workspaceId"], json!(acme));
        let listed = done(server, &token, "list_workspaces", &json!({})).await?;
        assert_eq!(listed["data"].as_array().map(Vec::len), Some(1), "{listed}");
        for space in [json!(other), json!("personal")] {
            let text = refused(server, &token, "list_projects", &json!({ "workspaceId": space })).await?;
            assert!(text.contains("another workspace"), "{text}");
        }
        let unknown = json!({ "workspaceId": "wsp_01m955vw00fjqrz47smcqrkmzz" });
        assert!(refused(server, &token, "list_projects", &unknown).await?.contains("another workspace"));
        Ok(())
    })
}

#[test]
fn a_failure_of_the_service_is_an_error_of_http_and_no_result_of_a_tool() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let token = token(server, &ann, "read write").await?;
        server.sql("alter table contents rename to contents_gone").await?;
        let broken = call(server, &token, "list_projects", &json!({})).await?;
        assert_eq!((broken.status.as_u16(), broken.error()), (500, "server_error"), "{}", broken.text);
        assert!(broken.body["result"].is_null() && broken.body["details"].is_null());
        let listed = send(server, &token, NEWEST, "resources/list", &json!({})).await?;
        assert_eq!(listed.status, 500, "{}", listed.text);
        server.sql("alter table contents_gone rename to contents").await?;
        let values: Value = done(server, &token, "list_projects", &json!({})).await?;
        assert_eq!(values["data"], json!([]));
        Ok(())
    })
}
