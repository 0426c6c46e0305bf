//! What a request claims about itself: its method, its host, its id, its path. None of it is believed.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_api::endpoints;
use service_testkit::{
    answer::Answer,
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
                let request = server.door.request(Method::from_bytes(method.as_bytes())?, endpoint.path);
                let request = request.header("x-http-method-override", endpoint.method.as_str());
                let answer = server.door.send(request).await?;
                assert_eq!(answer.status, 405, "{method} {}", endpoint.path);
                let told = answer.header("allow").map(|text| text.split(',').collect());
                assert_eq!(told, Some(allow.clone()), "{method} {}", endpoint.path);
            }
        }
        let request = server.door.request(Method::POST, "/v1/login-options").header("x-http-method-override", "DELETE");
        let answer = server.door.send(request.json(&json!({ "email": "ann@acme.test" }))).await?;
        assert_eq!(answer.status, 200);
        for request in ["CONNECT evil.test:443", "CONNECT /v1/whoami", "OPTIONS *"] {
            let request = format!("{request} HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n");
            let answer = server.door.raw(request.as_bytes()).await?;
            let refused = ["404", "405", "400"].iter().any(|status| answer.starts_with(&format!("HTTP/1.1 {status} ")));
            ensure!(refused && answer.matches("HTTP/1.1 ").count() == 1, "{answer}");
        }
        Ok(())
    })
}

/// An answer without what differs between any two.
fn essence(answer: &Answer) -> (u16, String, Vec<String>) {
    let id = answer.header("x-request-id").unwrap_or_default();
    let mut headers: Vec<_> = answer.headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
    headers.retain(|header| !header.starts_with("date:") && !header.starts_with("x-request-id:"));
    headers.sort_unstable();
    (answer.status.as_u16(), answer.text.replace(id, "…"), headers)
}

#[test]
fn what_is_not_there_is_not_there_for_anybody_ht_11() -> Result<()> {
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
            let request = || server.door.request(method.clone(), path);
            let anybody = server.door.send(request()).await?;
            assert_eq!((anybody.status.as_u16(), anybody.error()), (status, error), "{method} {path}");
            for token in [ann.access_token.as_str(), "nonsense"] {
                let somebody = server.door.send(request().bearer_auth(token)).await?;
                assert_eq!(essence(&somebody), essence(&anybody), "{method} {path}");
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
                .fold(server.door.request(method, path), |request, (name, value)| request.header(*name, *value))
        };
        for (path, status) in [("/v1/whoami", 401), ("/.well-known/jwks.json", 200), ("/nowhere", 404)] {
            let answer = server.door.send(claiming(Method::GET, path)).await?;
            assert_eq!(answer.status, status, "{path}");
            // Where everybody may read, every origin is told so.
            let plain = server.door.request(Method::GET, path).header("origin", "https://other.test");
            assert_eq!(essence(&answer), essence(&server.door.send(plain).await?), "{path}");
            assert!(!format!("{:?}{}", answer.headers, answer.text).contains("evil"), "{path}");
        }
        let challenge = server.door.send(claiming(Method::GET, "/v1/whoami")).await?;
        let place = format!("resource_metadata=\"{BASE_URL}/.well-known/oauth-protected-resource\"");
        assert!(
            challenge.header("www-authenticate").is_some_and(|text| text.contains(&place)),
            "{:?}",
            challenge.headers
        );

        let absolute = "GET http://evil.test/v1/whoami HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n";
        let answer = server.door.raw(absolute.as_bytes()).await?;
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains(&place) && !answer.contains("evil"), "{answer}");

        let email = json!({ "email": "ann@acme.test" });
        assert_eq!(server.door.send(claiming(Method::POST, "/v1/otp-tokens").json(&email)).await?.status, 201);
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        server.leaks.register("otp code", &mail.code().unwrap_or_default());
        assert!(!format!("{mail:?}").contains("evil"));
        Ok(())
    })
}

const USABLE: [&str; 4] = ["abcdefgh", "0af7651916cd43dd8448eb211c80319c", "A-1-b-2-C-3", "01234567-89ab-cdef"];

/// Ids that nobody's word is taken for.
fn unusable() -> Vec<String> {
    let mut ids: Vec<_> =
        ["", "short-7", "with space", "with_underscore", "semi;colon", "quote\"quote", "%0d%0aSet-Cookie"]
            .map(str::to_owned)
            .to_vec();
    ids.extend(["a".repeat(65), "a".repeat(4_000), "req_01mcc5rm00f5na9t1p98t9a4c5".into(), "{\"a\":1}2345".into()]);
    ids
}

async fn answered_id(server: &TestServer, given: &str) -> Result<String> {
    let answer = server.door.send(server.door.request(Method::GET, "/nowhere").header("x-request-id", given)).await?;
    let id = answer.header("x-request-id").unwrap_or_default();
    assert_eq!(answer.field("request_id"), id);
    assert_eq!(answer.headers.get_all("x-request-id").iter().count(), 1);
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
            let answer = server.door.raw(request.as_bytes()).await?.to_lowercase();
            assert!(answer.matches("http/1.1 4").count() == 1 && !answer.contains("canary"), "{line:?} {answer}");
        }
        Ok(())
    })
}
