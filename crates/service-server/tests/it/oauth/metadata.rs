//! Discovery: what clients learn that know nothing but an address.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::{Value, json};
use service_testkit::{
    response::TestResponse,
    server::{TestServer, with_server},
    settings::BASE_URL,
    tab::Tab,
};

use crate::support::authorize::{CALLBACK, asking, code, exchange, go_through, register};

const ALL: [&str; 4] = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/v1",
    "/.well-known/oauth-protected-resource/mcp",
];

async fn fetch(server: &TestServer, path: &str) -> Result<TestResponse> {
    let request = server.http.request(Method::GET, path);
    let request =
        request.header("host", "evil.test").header("x-forwarded-host", "evil.test").header("x-forwarded-proto", "http");
    server.http.send(request.header("forwarded", "host=evil.test;proto=http")).await
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

#[test]
fn addresses_come_from_the_configuration_and_from_nowhere_else_dm_01_dm_06() -> Result<()> {
    with_server(async |server| {
        for path in ALL {
            let response = fetch(server, path).await?;
            assert_eq!(response.status, 200, "{path}");
            assert!(!response.text.contains("evil") && !response.text.contains("http://"), "{path}: {}", response.text);
            assert!(!has_null(&response.body), "{path}: {}", response.text);
            assert_eq!(response.header("content-type"), Some("application/json"), "{path}");
        }
        let server_metadata = fetch(server, ALL[0]).await?.body;
        assert_eq!(server_metadata["issuer"], BASE_URL);
        for (path, resource) in ALL[1..].iter().zip(["", "/v1", "/mcp"]) {
            let body = fetch(server, path).await?.body;
            assert_eq!(body["resource"], format!("{BASE_URL}{resource}"));
            assert_eq!(body["authorization_servers"], json!([BASE_URL]));
        }
        for unknown in
            ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/mcp", "/.well-known/x"]
        {
            let response = server.http.get(unknown, None).await?;
            assert_eq!((response.status.as_u16(), response.error()), (404, "not_found"), "{unknown}");
        }
        Ok(())
    })
}

#[test]
fn what_is_named_answers_and_what_is_not_does_not_dm_02_dm_03() -> Result<()> {
    with_server(async |server| {
        let body = fetch(server, ALL[0]).await?.body;
        assert_eq!(body["code_challenge_methods_supported"], json!(["S256"]));
        assert_eq!(body["authorization_response_iss_parameter_supported"], true);
        assert_eq!(body["client_id_metadata_document_supported"], true);
        assert_eq!(body["grant_types_supported"], json!(["authorization_code", "refresh_token"]));
        assert_eq!(body["response_types_supported"], json!(["code"]));
        let named: Vec<_> = body
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| name.ends_with("_endpoint") || *name == "jwks_uri")
            .collect();
        assert_eq!(named.len(), 6);
        for (name, address) in named {
            let path = address.as_str().and_then(|address| address.strip_prefix(BASE_URL)).unwrap_or_default();
            let get = name.as_str() == "jwks_uri" || name.as_str() == "authorization_endpoint";
            let method = if get { Method::GET } else { Method::POST };
            let response = server.http.send(server.http.request(method, path).json(&json!({}))).await?;
            assert!(!matches!(response.status.as_u16(), 404 | 405 | 500..), "{name}: {}", response.status);
        }
        for (path, grant) in [("/oauth/token", "password"), ("/oauth/token", "implicit")] {
            let response = server.http.post(path, &json!({ "grant_type": grant })).await?;
            assert_eq!(response.error(), "unsupported_grant_type");
        }
        Ok(())
    })
}

#[test]
fn what_is_public_may_be_read_from_anywhere_and_kept_for_a_while_dm_05() -> Result<()> {
    with_server(async |server| {
        for path in ALL.iter().chain(&["/.well-known/jwks.json"]) {
            let request = server.http.request(Method::GET, path).header("origin", "https://anywhere.test");
            let response = server.http.send(request).await?;
            assert_eq!(response.header("access-control-allow-origin"), Some("*"), "{path}");
            assert_eq!(response.header("access-control-allow-credentials"), None);
            let seconds = response
                .header("cache-control")
                .and_then(|value| value.strip_prefix("public, max-age=")?.parse::<i64>().ok());
            assert!(seconds.is_some_and(|seconds| seconds <= service_rules::lifetimes::SIGNING_KEY_OVERLAP), "{path}");
            let preflight = server.http.request(Method::OPTIONS, path).header("origin", "https://anywhere.test");
            let preflight = preflight
                .header("access-control-request-method", "GET")
                .header("access-control-request-headers", "mcp-protocol-version");
            let response = server.http.send(preflight).await?;
            assert_eq!(response.status, 204, "{path}");
            assert!(
                response
                    .header("access-control-allow-headers")
                    .is_some_and(|names| names.contains("mcp-protocol-version"))
            );
            let head = server.http.send(server.http.request(Method::HEAD, path)).await?;
            assert!(head.status == 200 && head.text.is_empty());
        }
        Ok(())
    })
}

#[test]
fn pages_of_a_clients_own_origin_read_the_token_endpoint_and_no_others_tk_14() -> Result<()> {
    with_server(async |server| {
        register(server, "Web app", &[CALLBACK]).await?;
        for (origin, allowed) in [
            ("https://app.test", true),
            ("https://evil.test", false),
            ("https://app.test.evil.test", false),
            ("null", false),
        ] {
            let request = server.http.request(Method::POST, "/oauth/token").header("origin", origin).json(&json!({}));
            let response = server.http.send(request).await?;
            assert_eq!(response.header("access-control-allow-origin"), allowed.then_some(origin), "{origin}");
            assert_eq!(response.header("access-control-allow-credentials"), None);
            let preflight = server.http.request(Method::OPTIONS, "/oauth/token").header("origin", origin);
            let response = server.http.send(preflight.header("access-control-request-method", "POST")).await?;
            assert_eq!(response.status.as_u16(), if allowed { 204 } else { 405 }, "{origin}");
        }
        Ok(())
    })
}

#[test]
fn every_endpoint_that_clients_prove_themselves_at_says_how_rv_50() -> Result<()> {
    with_server(async |server| {
        let body = fetch(server, ALL[0]).await?.body;
        let methods = json!(["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]);
        for endpoint in ["token", "revocation"] {
            assert_eq!(body[format!("{endpoint}_endpoint_auth_methods_supported")], methods, "{endpoint}");
        }
        assert_eq!(
            body["introspection_endpoint_auth_methods_supported"],
            json!(["client_secret_basic", "client_secret_post", "private_key_jwt"])
        );
        for endpoint in ["token", "revocation", "introspection"] {
            let algorithms = &body[format!("{endpoint}_endpoint_auth_signing_alg_values_supported")];
            assert_eq!(*algorithms, json!(["ES256", "RS256", "EdDSA"]), "{endpoint}");
        }
        Ok(())
    })
}

#[test]
fn a_challenge_leads_a_client_to_tokens_that_are_valid_where_it_was_challenged_rv_17() -> Result<()> {
    with_server(async |server| {
        let challenge = server.http.get("/v1/projects", None).await?;
        let challenge = challenge.header("www-authenticate").context("no challenge")?.to_owned();
        let place = challenge.split("resource_metadata=\"").nth(1).and_then(|rest| rest.split('"').next());
        let path = place.and_then(|place| place.strip_prefix(BASE_URL)).context("no metadata")?;
        let metadata = server.http.get(path, None).await?;
        let resource = metadata.body["resource"].as_str().context("no resource")?.to_owned();
        assert_eq!(resource, format!("{BASE_URL}/v1"));
        // A client that registered itself comes for MCP unless it names what the challenge led it to.
        let body = json!({ "client_name": "Editor", "redirect_uris": [CALLBACK] });
        let client = server.http.post("/oauth/register", &body).await?.field("client_id").to_owned();
        let tab = Tab::open(server)?;
        let done = go_through(server, &tab, &asking(&client, &[("resource", &resource)]), "ann@acme.test").await?;
        let tokens = server.http.post("/oauth/token", &exchange(&client, &code(&done)?)).await?;
        assert_eq!(server.http.get("/v1/projects", Some(tokens.field("access_token"))).await?.status, 200);
        Ok(())
    })
}

#[test]
fn cacheable_documents_are_readable_by_every_origin_rv_46() -> Result<()> {
    with_server(async |server| {
        for path in ALL.iter().chain(&["/.well-known/jwks.json", "/openapi.json"]) {
            let response = server.http.get(path, None).await?;
            assert_eq!(response.header("access-control-allow-origin"), Some("*"), "{path}");
            let named = server.http.request(Method::GET, path).header("origin", "https://anywhere.test");
            assert_eq!(server.http.send(named).await?.header("access-control-allow-origin"), Some("*"), "{path}");
        }
        Ok(())
    })
}

#[test]
fn pages_of_registered_origins_call_the_api_rv_46() -> Result<()> {
    with_server(async |server| {
        register(server, "Web app", &[CALLBACK]).await?;
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        for (origin, allowed) in [("https://app.test", true), ("https://evil.test", false), ("null", false)] {
            let expected = allowed.then_some(origin);
            let request = server.http.request(Method::GET, "/v1/projects").header("origin", origin);
            let response = server.http.send(request.bearer_auth(&ann.access_token)).await?;
            assert_eq!(response.status, 200);
            assert_eq!(response.header("access-control-allow-origin"), expected, "{origin}");
            assert_eq!(response.header("access-control-allow-credentials"), None);
            let refused = server.http.request(Method::GET, "/v1/projects").header("origin", origin);
            let refused = server.http.send(refused).await?;
            assert_eq!(refused.header("access-control-allow-origin"), expected, "a page reads why it was refused");
            for method in ["GET", "POST", "PATCH", "DELETE"] {
                let preflight = server.http.request(Method::OPTIONS, "/v1/projects/proj_x").header("origin", origin);
                let preflight = preflight.header("access-control-request-method", method);
                let response =
                    server.http.send(preflight.header("access-control-request-headers", "authorization")).await?;
                assert_eq!(response.status.as_u16(), if allowed { 204 } else { 405 }, "{origin} {method}");
            }
            // What needs no token sends mails, and is for no page of others.
            for path in ["/v1/otp-tokens", "/v1/login-options", "/v1/token-leaks"] {
                let preflight = server.http.request(Method::OPTIONS, path).header("origin", origin);
                let response = server.http.send(preflight.header("access-control-request-method", "POST")).await?;
                assert_eq!(response.status, 405, "{path}");
                assert_eq!(response.header("access-control-allow-origin"), None, "{path}");
            }
        }
        Ok(())
    })
}
