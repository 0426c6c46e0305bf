//! Discovery: what clients learn that know nothing but an address.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};
use service_testkit::{
    answer::Answer,
    server::{TestServer, with_server},
    settings::BASE_URL,
};

use crate::authorize::{CALLBACK, register};

const ALL: [&str; 4] = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/v1",
    "/.well-known/oauth-protected-resource/mcp",
];

async fn fetch(server: &TestServer, path: &str) -> Result<Answer> {
    let request = server.door.request(Method::GET, path);
    let request =
        request.header("host", "evil.test").header("x-forwarded-host", "evil.test").header("x-forwarded-proto", "http");
    server.door.send(request.header("forwarded", "host=evil.test;proto=http")).await
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
            let answer = fetch(server, path).await?;
            assert_eq!(answer.status, 200, "{path}");
            assert!(!answer.text.contains("evil") && !answer.text.contains("http://"), "{path}: {}", answer.text);
            assert!(!has_null(&answer.body), "{path}: {}", answer.text);
            assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
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
            let answer = server.door.get(unknown, None).await?;
            assert_eq!((answer.status.as_u16(), answer.error()), (404, "not_found"), "{unknown}");
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
            let answer = server.door.send(server.door.request(method, path).json(&json!({}))).await?;
            assert!(!matches!(answer.status.as_u16(), 404 | 405 | 500..), "{name}: {}", answer.status);
        }
        for (path, grant) in [("/oauth/token", "password"), ("/oauth/token", "implicit")] {
            let answer = server.door.post(path, &json!({ "grant_type": grant })).await?;
            assert_eq!(answer.error(), "unsupported_grant_type");
        }
        Ok(())
    })
}

#[test]
fn what_is_public_may_be_read_from_anywhere_and_kept_for_a_while_dm_05() -> Result<()> {
    with_server(async |server| {
        for path in ALL.iter().chain(&["/.well-known/jwks.json"]) {
            let request = server.door.request(Method::GET, path).header("origin", "https://anywhere.test");
            let answer = server.door.send(request).await?;
            assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{path}");
            assert_eq!(answer.header("access-control-allow-credentials"), None);
            let seconds = answer
                .header("cache-control")
                .and_then(|value| value.strip_prefix("public, max-age=")?.parse::<i64>().ok());
            assert!(seconds.is_some_and(|seconds| seconds <= service_rules::lifetimes::SIGNING_KEY_OVERLAP), "{path}");
            let preflight = server.door.request(Method::OPTIONS, path).header("origin", "https://anywhere.test");
            let preflight = preflight
                .header("access-control-request-method", "GET")
                .header("access-control-request-headers", "mcp-protocol-version");
            let answer = server.door.send(preflight).await?;
            assert_eq!(answer.status, 204, "{path}");
            assert!(
                answer
                    .header("access-control-allow-headers")
                    .is_some_and(|names| names.contains("mcp-protocol-version"))
            );
            let head = server.door.send(server.door.request(Method::HEAD, path)).await?;
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
            let request = server.door.request(Method::POST, "/oauth/token").header("origin", origin).json(&json!({}));
            let answer = server.door.send(request).await?;
            assert_eq!(answer.header("access-control-allow-origin"), allowed.then_some(origin), "{origin}");
            assert_eq!(answer.header("access-control-allow-credentials"), None);
            let preflight = server.door.request(Method::OPTIONS, "/oauth/token").header("origin", origin);
            let answer = server.door.send(preflight.header("access-control-request-method", "POST")).await?;
            assert_eq!(answer.status.as_u16(), if allowed { 204 } else { 405 }, "{origin}");
        }
        Ok(())
    })
}
