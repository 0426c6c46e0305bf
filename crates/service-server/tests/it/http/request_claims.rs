//! What a request claims about itself: its method, its host, its id, its path. None of it is believed.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_api::endpoints;
use service_testkit::{
    response::TestResponse,
    server::{Setup, TestServer, with_server},
    settings::BASE_URL,
};

#[test]
fn only_the_methods_of_the_table_are_taken_ht_10() -> Result<()> {
    with_server(async |server| {
        for endpoint in endpoints::ALL {
            let rows = endpoints::ALL.iter().filter(|row| row.path == endpoint.path);
            let allow: BTreeSet<_> = rows
                .flat_map(|row| match row.method {
                    endpoints::Method::Get => vec!["GET", "HEAD"],
                    endpoints::Method::Post => vec!["POST"],
                    endpoints::Method::Delete => vec!["DELETE"],
                    endpoints::Method::Patch => vec!["PATCH"],
                })
                .collect();
            for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "PURGE"] {
                if allow.contains(method) {
                    continue;
                }
                let request = server.http.request(Method::from_bytes(method.as_bytes())?, endpoint.path);
                let request = request.header("x-http-method-override", endpoint.method.as_str());
                let response = server.http.send(request).await?;
                assert_eq!(response.status, 405, "{method} {}", endpoint.path);
                let told = response.header("allow").map(|text| text.split(',').collect());
                assert_eq!(told, Some(allow.clone()), "{method} {}", endpoint.path);
            }
        }
        let request = server.http.request(Method::POST, "/v1/login-options").header("x-http-method-override", "DELETE");
        let response = server.http.send(request.json(&json!({ "email": "ann@acme.test" }))).await?;
        assert_eq!(response.status, 200);
        for request in ["CONNECT evil.test:443", "CONNECT /v1/whoami", "OPTIONS *"] {
            let request = format!("{request} HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n");
            let response = server.http.raw(request.as_bytes()).await?;
            let refused =
                ["404", "405", "400"].iter().any(|status| response.starts_with(&format!("HTTP/1.1 {status} ")));
            ensure!(refused && response.matches("HTTP/1.1 ").count() == 1, "{response}");
        }
        Ok(())
    })
}

/// An answer without what differs between any two.
fn essence(response: &TestResponse) -> (u16, String, Vec<String>) {
    let id = response.header("x-request-id").unwrap_or_default();
    let mut headers: Vec<_> = response.headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
    headers.retain(|header| !header.starts_with("date:") && !header.starts_with("x-request-id:"));
    headers.sort_unstable();
    (response.status.as_u16(), response.text.replace(id, "…"), headers)
}

#[test]
fn an_unknown_path_is_404_for_every_caller_ht_11() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        for (method, path, status, error) in [
            (Method::GET, "/index.html", 404, "not_found"),
            (Method::GET, "/v1", 404, "not_found"),
            (Method::POST, "/v1/nothing", 404, "not_found"),
            (Method::DELETE, "/v1/whoami/me", 404, "not_found"),
            (Method::GET, "/oauth", 404, "not_found"),
            (Method::GET, "/.git/config", 404, "not_found"),
            (Method::POST, "/v1/whoami", 405, "method_not_allowed"),
            (Method::DELETE, "/v1/projects", 405, "method_not_allowed"),
            (Method::GET, "/v1/otp-tokens", 405, "method_not_allowed"),
            (Method::GET, "/oauth/token", 405, "method_not_allowed"),
        ] {
            let request = || server.http.request(method.clone(), path);
            let anonymous = server.http.send(request()).await?;
            assert_eq!((anonymous.status.as_u16(), anonymous.error()), (status, error), "{method} {path}");
            for token in [ann.access_token.as_str(), "nonsense"] {
                let authenticated = server.http.send(request().bearer_auth(token)).await?;
                assert_eq!(essence(&authenticated), essence(&anonymous), "{method} {path}");
            }
        }
        Ok(())
    })
}

#[test]
fn the_host_a_request_names_shows_nowhere_ht_12() -> Result<()> {
    with_server(async |server| {
        let claims = [
            ("host", "evil.test"),
            ("x-forwarded-host", "evil.test"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-port", "666"),
            ("x-forwarded-prefix", "/evil.test"),
            ("forwarded", "host=evil.test;proto=http"),
            ("x-original-url", "/evil.test"),
            ("x-rewrite-url", "/evil.test"),
            ("origin", "https://evil.test"),
            ("referer", "https://evil.test/"),
        ];
        let claiming = |method, path: &str| {
            claims
                .iter()
                .fold(server.http.request(method, path), |request, (name, value)| request.header(*name, *value))
        };
        for (path, status) in [("/v1/whoami", 401), ("/.well-known/jwks.json", 200), ("/nowhere", 404)] {
            let response = server.http.send(claiming(Method::GET, path)).await?;
            assert_eq!(response.status, status, "{path}");
            // A public endpoint allows every origin.
            let plain = server.http.request(Method::GET, path).header("origin", "https://other.test");
            assert_eq!(essence(&response), essence(&server.http.send(plain).await?), "{path}");
            assert!(!format!("{:?}{}", response.headers, response.text).contains("evil"), "{path}");
        }
        let challenge = server.http.send(claiming(Method::GET, "/v1/whoami")).await?;
        let place = format!("resource_metadata=\"{BASE_URL}/.well-known/oauth-protected-resource/v1\"");
        assert!(
            challenge.header("www-authenticate").is_some_and(|text| text.contains(&place)),
            "{:?}",
            challenge.headers
        );

        let absolute = "GET http://evil.test/v1/whoami HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n";
        let response = server.http.raw(absolute.as_bytes()).await?;
        assert!(
            response.starts_with("HTTP/1.1 401 ") && response.contains(&place) && !response.contains("evil"),
            "{response}"
        );

        let email = json!({ "email": "ann@acme.test" });
        assert_eq!(server.http.send(claiming(Method::POST, "/v1/otp-tokens").json(&email)).await?.status, 201);
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        server.leaks.register("otp code", &mail.code().unwrap_or_default());
        assert!(!format!("{mail:?}").contains("evil"));
        Ok(())
    })
}

const USABLE: [&str; 4] = ["abcdefgh", "0af7651916cd43dd8448eb211c80319c", "A-1-b-2-C-3", "01234567-89ab-cdef"];

/// Request ids that are not taken over from a caller.
fn unusable() -> Vec<String> {
    let mut ids: Vec<_> =
        ["", "short-7", "with space", "with_underscore", "semi;colon", "quote\"quote", "%0d%0aSet-Cookie"]
            .map(str::to_owned)
            .to_vec();
    ids.extend(["a".repeat(65), "a".repeat(4_000), "req_01mcc5rm00f5na9t1p98t9a4c5".into(), "{\"a\":1}2345".into()]);
    ids
}

async fn answered_id(server: &TestServer, given: &str) -> Result<String> {
    let response = server.http.send(server.http.request(Method::GET, "/nowhere").header("x-request-id", given)).await?;
    let id = response.header("x-request-id").unwrap_or_default();
    assert_eq!(response.field("request_id"), id);
    assert_eq!(response.headers.get_all("x-request-id").iter().count(), 1);
    Ok(id.to_owned())
}

#[test]
fn a_stranger_does_not_name_its_request_ht_13() -> Result<()> {
    with_server(async |server| {
        for given in USABLE.map(str::to_owned).into_iter().chain(unusable()) {
            let id = answered_id(server, &given).await?;
            assert!(id.starts_with("req_") && id.len() == 30 && id != given, "{id}");
        }
        let ids = (answered_id(server, "").await?, answered_id(server, "").await?);
        assert_ne!(ids.0, ids.1);
        Ok(())
    })
}

#[test]
fn a_trusted_proxy_names_a_request_in_harmless_characters_only_ht_13() -> Result<()> {
    Setup::default().set("http.trusted_proxies", "127.0.0.0/8").run(async |server| {
        for given in USABLE {
            assert_eq!(answered_id(server, given).await?, given);
        }
        for given in unusable() {
            let id = answered_id(server, &given).await?;
            assert!(id.starts_with("req_") && id.len() == 30 && id != given, "{id}");
        }
        let lines = [
            "X-Request-Id: abcdefgh\r\nSet-Cookie: canary=1",
            "X-Request-Id: abcdefgh\rSet-Cookie: canary=1",
            "X-Request-Id: abcdefgh\nSet-Cookie: canary=1",
            "X-Request-Id: abcdefgh%0d%0aSet-Cookie:canary=1",
            "X-Request-Id: abcdefgh\u{560a}\u{560d}Set-Cookie:canary=1",
            "X-Request-Id: abcdefgh\r\n Set-Cookie: canary=1",
        ];
        for line in lines {
            let request = format!("GET /nowhere HTTP/1.1\r\nHost: a\r\n{line}\r\nConnection: close\r\n\r\n");
            let response = server.http.raw(request.as_bytes()).await?.to_lowercase();
            assert!(response.matches("http/1.1 4").count() == 1 && !response.contains("canary"), "{line:?} {response}");
        }
        Ok(())
    })
}
