//! What breaks real MCP clients elsewhere: the fifteen traps that their issue trackers name most.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use reqwest::Method;
use serde_json::{Value, json};
use service_testkit::{
    response::TestResponse,
    server::{TestServer, with_server},
    settings::BASE_URL,
    tab::Tab,
};

use crate::support::{
    authorize::{CALLBACK, agree, asking, code, exchange, go_through},
    mcp::{NEWEST, call, done, request},
};

/// Registers a client as MCP clients do; its id.
async fn register(server: &TestServer, redirect_uris: &[&str]) -> Result<String> {
    let metadata = json!({ "client_name": "Editor", "redirect_uris": redirect_uris, "application_type": "web" });
    let registered = server.http.post("/oauth/register", &metadata).await?;
    ensure!(registered.status == 201, "{}", registered.text);
    Ok(registered.field("client_id").to_owned())
}

/// Signs in, consents, and exchanges the code; the token response.
async fn connect(server: &TestServer, tab: &Tab, client: &str, changes: &[(&str, &str)]) -> Result<TestResponse> {
    server.advance(61);
    let done = go_through(server, tab, &asking(client, changes), "ann@acme.test").await?;
    let mut body = exchange(client, &code(&done)?);
    if let Some((_, uri)) = changes.iter().find(|(name, _)| *name == "redirect_uri") {
        body["redirect_uri"] = json!(uri);
    }
    let tokens = server.http.post("/oauth/token", &body).await?;
    ensure!(tokens.status == 200, "{}", tokens.text);
    Ok(tokens)
}

async fn document(server: &TestServer, path: &str) -> Result<Value> {
    let response = server.http.get(&format!("/.well-known/{path}"), None).await?;
    ensure!(response.status == 200, "{path}: {}", response.text);
    Ok(response.body)
}

fn refresh(client: &str, token: &str) -> Value {
    json!({ "grant_type": "refresh_token", "client_id": client, "refresh_token": token })
}

#[test]
fn trap_01_any_port_of_the_users_machine_is_redirected_to_and_the_code_is_bound_to_it() -> Result<()> {
    with_server(async |server| {
        let client = register(server, &["http://localhost/callback", "http://127.0.0.1:33418/"]).await?;
        let tab = Tab::open(server)?;
        for uri in ["http://localhost:51234/callback", "http://127.0.0.1:40000/"] {
            connect(server, &tab, &client, &[("redirect_uri", uri)]).await?;
        }
        let address = asking(&client, &[("redirect_uri", "http://localhost:51234/callback")]);
        let shown = go_through(server, &tab, &address, "ann@acme.test").await?;
        let mut other = exchange(&client, &code(&shown)?);
        other["redirect_uri"] = json!("http://localhost:51235/callback");
        assert_eq!(server.http.post("/oauth/token", &other).await?.error(), "invalid_grant");
        let elsewhere = tab.get(&asking(&client, &[("redirect_uri", "http://localhost:51234/other")])).await?;
        assert_eq!(elsewhere.status, 400);
        Ok(())
    })
}

#[test]
fn trap_02_every_spelling_of_the_resource_gives_one_audience() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = (register(server, &[CALLBACK]).await?, Tab::open(server)?);
        let spellings = [BASE_URL, &format!("{BASE_URL}/"), &format!("{BASE_URL}/mcp"), &format!("{BASE_URL}/mcp/")];
        for resource in spellings {
            let tokens = connect(server, &tab, &client, &[("resource", resource)]).await?;
            done(server, tokens.field("access_token"), "whoami", &json!({})).await?;
        }
        assert_eq!(document(server, "oauth-protected-resource/mcp").await?["resource"], format!("{BASE_URL}/mcp"));
        let wrong = tab.get(&asking(&client, &[("resource", "https://other.example/mcp")])).await?;
        assert!(wrong.location.is_none_or(|location| location.contains("invalid_target")), "{}", wrong.text);
        Ok(())
    })
}

#[test]
fn trap_03_an_editor_with_a_scheme_of_its_own_registers() -> Result<()> {
    with_server(async |server| {
        let uris = ["cursor://anysphere.cursor-mcp/oauth/callback", "http://localhost:8787/callback", CALLBACK];
        register(server, &uris).await?;
        for uri in ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "https://app.test/cb#x"] {
            let refused = server.http.post("/oauth/register", &json!({ "redirect_uris": [CALLBACK, uri] })).await?;
            assert_eq!(refused.status, 400, "{uri}");
        }
        Ok(())
    })
}

#[test]
fn trap_04_the_policy_of_the_consent_page_lets_the_browser_go_back_to_the_client() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = (register(server, &[CALLBACK]).await?, Tab::open(server)?);
        let begun = tab.get(&asking(&client, &[])).await?;
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let page = tab.send(tab.request(Method::GET, shown.next()?)).await?;
        let policy = page.headers.get("content-security-policy").context("no policy")?.to_str()?.to_owned();
        assert!(policy.contains("form-action 'self' https://app.test"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        Ok(())
    })
}

#[test]
fn trap_05_the_issuer_is_the_same_bytes_everywhere() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = (register(server, &[CALLBACK]).await?, Tab::open(server)?);
        let metadata = document(server, "oauth-authorization-server").await?;
        assert_eq!(metadata["issuer"], BASE_URL);
        for path in ["oauth-protected-resource", "oauth-protected-resource/mcp", "oauth-protected-resource/v1"] {
            assert_eq!(document(server, path).await?["authorization_servers"], json!([BASE_URL]), "{path}");
        }
        let shown = go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        assert_eq!(shown.parameter("iss").as_deref(), Some(BASE_URL));
        Ok(())
    })
}

#[test]
fn trap_06_every_authorization_response_names_the_issuer() -> Result<()> {
    with_server(async |server| {
        let metadata = document(server, "oauth-authorization-server").await?;
        assert_eq!(metadata["authorization_response_iss_parameter_supported"], true);
        // A client that an operator verified gets errors without a page in between.
        let client = crate::support::authorize::register(server, "Editor", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let error = tab.get(&asking(&client, &[("response_type", "token")])).await?;
        assert_eq!((error.parameter("iss").as_deref(), error.parameter("error").is_some()), (Some(BASE_URL), true));
        let begun = tab.get(&asking(&client, &[])).await?;
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let path = shown.next()?.to_owned();
        tab.get(&path).await?;
        let denied = tab.submit(&path, &[("decision", "deny")]).await?;
        assert_eq!(denied.parameter("error").as_deref(), Some("access_denied"));
        assert_eq!(denied.parameter("iss").as_deref(), Some(BASE_URL));
        assert_eq!(denied.parameter("state").as_deref(), Some("a state"));
        Ok(())
    })
}

#[test]
fn trap_07_documents_are_served_in_both_forms_and_no_other_path_pretends() -> Result<()> {
    with_server(async |server| {
        assert_eq!(document(server, "oauth-protected-resource/mcp").await?["resource"], format!("{BASE_URL}/mcp"));
        document(server, "oauth-protected-resource").await?;
        for path in ["openid-configuration", "oauth-authorization-server/mcp", "oauth-protected-resource/other"] {
            let response = server.http.get(&format!("/.well-known/{path}"), None).await?;
            assert_eq!((response.status.as_u16(), response.error()), (404, "not_found"), "{path}");
        }
        Ok(())
    })
}

#[test]
fn trap_08_processes_that_share_a_refresh_token_all_go_on() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = (register(server, &[CALLBACK]).await?, Tab::open(server)?);
        let tokens = connect(server, &tab, &client, &[]).await?;
        let body = refresh(&client, tokens.field("refresh_token"));
        let all = try_join_all((0..5).map(|_| server.http.post("/oauth/token", &body))).await?;
        let successors: BTreeSet<_> = all.iter().map(|response| response.field("refresh_token").to_owned()).collect();
        assert_eq!(successors.len(), 1, "more than one lineage");
        for response in &all {
            done(server, response.field("access_token"), "whoami", &json!({})).await?;
        }
        Ok(())
    })
}

#[test]
fn trap_09_errors_have_the_shape_that_clients_act_on() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = (register(server, &[CALLBACK]).await?, Tab::open(server)?);
        let tokens = connect(server, &tab, &client, &[]).await?;
        server.advance(3_700);
        let expired = call(server, tokens.field("access_token"), "whoami", &json!({})).await?;
        assert_eq!((expired.status.as_u16(), expired.error()), (401, "invalid_token"));
        assert!(expired.header("www-authenticate").is_some_and(|text| text.contains("error=\"invalid_token\"")));
        let dead = server.http.post("/oauth/token", &refresh(&client, "svc_rt_dead")).await?;
        assert_eq!((dead.status.as_u16(), dead.error()), (400, "invalid_grant"));
        let alive = server.http.post("/oauth/token", &refresh(&client, tokens.field("refresh_token"))).await?;
        assert_eq!(alive.status, 200, "{}", alive.text);
        Ok(())
    })
}

#[test]
fn trap_10_a_client_that_is_gone_is_told_so_and_registers_again() -> Result<()> {
    with_server(async |server| {
        let client = register(server, &[CALLBACK]).await?;
        let tokens = connect(server, &Tab::open(server)?, &client, &[]).await?;
        server.sql("delete from grants; delete from consents; delete from clients where kind = 'dynamic'").await?;
        let page = Tab::open(server)?.get(&asking(&client, &[])).await?;
        assert_eq!((page.status.as_u16(), page.location.is_none()), (400, true), "{}", page.text);
        let token = server.http.post("/oauth/token", &refresh(&client, tokens.field("refresh_token"))).await?;
        assert_eq!((token.status.as_u16(), token.error()), (401, "invalid_client"));
        register(server, &[CALLBACK]).await?;
        Ok(())
    })
}

#[test]
fn trap_11_a_client_that_registers_at_every_start_is_one_client() -> Result<()> {
    with_server(async |server| {
        let mut ids = BTreeSet::new();
        for _ in 0..20 {
            ids.insert(register(server, &[CALLBACK]).await?);
        }
        assert_eq!(ids.len(), 1);
        Ok(())
    })
}

#[test]
fn trap_12_scopes_that_are_unknown_absent_or_of_others_give_read() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = (register(server, &[CALLBACK]).await?, Tab::open(server)?);
        for (asked, granted) in [
            ("", "read"),
            ("claudeai read", "read"),
            ("openid email profile", "read"),
            ("offline_access", "read"),
            ("read offline_access admin", "read"),
            ("read write offline_access", "read write"),
        ] {
            let asks = asking(&client, &[("scope", asked)]);
            let tokens = connect(server, &tab, &client, &[("scope", asked)]).await.with_context(|| asks)?;
            assert_eq!(tokens.field("scope"), granted, "{asked}");
        }
        Ok(())
    })
}

#[test]
fn trap_13_a_client_that_names_no_resource_gets_tokens_for_mcp_and_keeps_them() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = (register(server, &[CALLBACK]).await?, Tab::open(server)?);
        let tokens = connect(server, &tab, &client, &[]).await?;
        done(server, tokens.field("access_token"), "whoami", &json!({})).await?;
        let again = server.http.post("/oauth/token", &refresh(&client, tokens.field("refresh_token"))).await?;
        done(server, again.field("access_token"), "whoami", &json!({})).await?;
        let mut other = refresh(&client, again.field("refresh_token"));
        other["resource"] = json!(format!("{BASE_URL}/v1"));
        assert_eq!(server.http.post("/oauth/token", &other).await?.error(), "invalid_target");
        Ok(())
    })
}

#[test]
fn trap_14_a_client_that_asks_for_what_the_challenge_says_loses_nothing() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = (register(server, &[CALLBACK]).await?, Tab::open(server)?);
        let first = connect(server, &tab, &client, &[("scope", "read")]).await?;
        let pack = json!({ "name": "Tone", "type": "context" });
        let refused = call(server, first.field("access_token"), "create_pack", &pack).await?;
        let challenge = refused.header("www-authenticate").context("no challenge")?;
        let scope = challenge.split("scope=\"").nth(1).and_then(|rest| rest.split('"').next()).context("no scope")?;
        let second = connect(server, &tab, &client, &[("scope", scope)]).await?;
        let token = second.field("access_token");
        done(server, token, "create_pack", &pack).await?;
        done(server, token, "list_projects", &json!({})).await?;
        done(server, token, "create_pack", &pack).await?;
        // Unticking leaves the client with what the user left.
        let begun = tab.get(&asking(&client, &[("scope", "read write")])).await?;
        let shown = agree(&tab, begun, &[("space", "personal"), ("scope.read", "true")]).await?;
        let narrowed = server.http.post("/oauth/token", &exchange(&client, &code(&shown)?)).await?;
        assert_eq!(narrowed.field("scope"), "read", "{}", narrowed.text);
        Ok(())
    })
}

#[test]
fn trap_15_web_clients_read_the_challenge_and_nothing_is_null() -> Result<()> {
    with_server(async |server| {
        let origin = "https://inspector.test";
        let preflight = server.http.request(Method::OPTIONS, "/mcp").header("origin", origin);
        let preflight = preflight
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type,mcp-protocol-version");
        let allowed = server.http.send(preflight).await?;
        assert_eq!((allowed.status.as_u16(), allowed.header("access-control-allow-origin")), (204, Some(origin)));
        let headers = allowed.header("access-control-allow-headers").unwrap_or_default();
        for name in ["authorization", "content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-name"] {
            assert!(headers.contains(name), "{name}");
        }
        let refused =
            server.http.send(request(server, NEWEST, "tools/list", &json!({})).header("origin", origin)).await?;
        assert_eq!((refused.status.as_u16(), refused.header("access-control-allow-origin")), (401, Some(origin)));
        let exposed = refused.header("access-control-expose-headers").unwrap_or_default();
        assert!(exposed.contains("www-authenticate"), "{exposed}");
        for path in ["oauth-authorization-server", "oauth-protected-resource", "oauth-protected-resource/mcp"] {
            let text = document(server, path).await?.to_string();
            assert!(!text.contains("null"), "{path}: {text}");
        }
        Ok(())
    })
}
