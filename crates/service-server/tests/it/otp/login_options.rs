//! Asking how to sign in: the answer depends on the domain, and tells nothing about the address.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_server::config::SETTINGS;
use service_testkit::{
    response::TestResponse,
    server::{Setup, TestServer, with_server},
};

use crate::support::{
    otp::{assert_refused, count},
    otp_kinds::{outline, three_kinds},
};

const PATH: &str = "/v1/login-options";

async fn ask(server: &TestServer, email: &str) -> Result<TestResponse> {
    server.http.post(PATH, &json!({ "email": email })).await
}

/// What every address can do.
fn methods() -> serde_json::Value {
    json!({ "methods": [{ "type": "otp" }, { "type": "browser", "authorizeUrl": "https://service.test/oauth/authorize" }] })
}

#[test]
fn the_answer_is_the_same_for_every_address_of_a_domain_lo_01() -> Result<()> {
    with_server(async |server| {
        let mut told = Vec::new();
        for email in three_kinds(server).await? {
            let response = ask(server, email).await?;
            assert_eq!((response.status.as_u16(), &response.body), (200, &methods()));
            assert_eq!(response.header("cache-control"), Some("no-store"));
            told.push(outline(&response));
        }
        assert_eq!(told[0], told[1]);
        assert_eq!(told[0], told[2]);
        Ok(())
    })
}

#[test]
fn asking_leaves_nothing_behind_but_its_count_lo_01() -> Result<()> {
    with_server(async |server| {
        let before = count(server, "audit_events").await?;
        assert_eq!(ask(server, "ann@acme.test").await?.status, 200);
        for table in ["users", "emails", "otps", "outbox", "recent_hits", "grants"] {
            assert_eq!(count(server, table).await?, 0, "{table}");
        }
        // One for the address, and one for the /24 around it.
        assert_eq!((count(server, "rates").await?, count(server, "audit_events").await?), (2, before));
        Ok(())
    })
}

#[test]
fn a_network_asks_sixty_times_at_once_and_then_once_a_second_lo_04() -> Result<()> {
    let key = "limits.login_options_per_network";
    let default = SETTINGS.iter().find(|setting| setting.key == key).and_then(|setting| setting.default);
    Setup::default().set(key, default.context("there is no default")?).run(async |server| {
        for number in 0..60 {
            assert_eq!(ask(server, &format!("person{number}@acme.test")).await?.status, 200, "{number}");
        }
        let request = server.http.request(reqwest::Method::POST, PATH).header("X-Forwarded-For", "203.0.113.9");
        let elsewhere = server.http.send(request.json(&json!({ "email": "ann@acme.test" }))).await?;
        for limited in [ask(server, "ann@acme.test").await?, elsewhere] {
            assert_refused(&limited, 429, "rate_limited");
            assert_eq!(limited.header("retry-after"), Some("1"));
            assert_eq!(limited.header("ratelimit-policy"), Some("\"login-options-network\";q=3600;w=3600"));
            assert_eq!(limited.header("ratelimit"), Some("\"login-options-network\";r=0;t=1"));
        }
        server.advance(1);
        assert_eq!(ask(server, "ann@acme.test").await?.status, 200);
        assert_refused(&ask(server, "ann@acme.test").await?, 429, "rate_limited");
        Ok(())
    })
}

#[test]
fn what_is_no_address_is_refused_as_it_is_for_codes_lo_05() -> Result<()> {
    with_server(async |server| {
        let long = format!("{}@acme.test", "a".repeat(255));
        let emails = [
            Value::Null,
            json!(12),
            json!([]),
            json!({}),
            json!(""),
            json!(long),
            json!("ann"),
            json!("ann@@acme.test"),
            json!("ann@acme.test\r\nBcc: eve@evil.test"),
            json!("ann\u{0}@acme.test"),
            json!("ａnn@acme.test"),
            json!("ann@acme"),
        ];
        for email in emails {
            let body = json!({ "email": email });
            let response = server.http.post(PATH, &body).await?;
            assert_refused(&response, 400, "invalid_request");
            assert_eq!(outline(&response), outline(&server.http.post("/v1/otp-tokens", &body).await?), "{email}");
        }
        let missing = server.http.post(PATH, &json!({})).await?;
        assert_eq!((missing.status.as_u16(), missing.error()), (422, "validation_failed"));
        let unknown = server.http.post(PATH, &json!({ "email": "ann@acme.test", "clientId": "service-web" })).await?;
        assert_eq!((unknown.status.as_u16(), unknown.error()), (400, "invalid_request"));
        assert_refused(&server.http.post(PATH, &json!([])).await?, 400, "invalid_request");
        assert_eq!(count(server, "rates").await?, 0);
        Ok(())
    })
}

#[test]
fn a_domain_is_the_same_in_every_spelling_lo_05() -> Result<()> {
    with_server(async |server| {
        let spellings = ["ann@bücher.test", "ann@bu\u{308}cher.test", "ann@BÜCHER.test", "ann@xn--bcher-kva.test"];
        let mut told = Vec::new();
        for email in spellings {
            let response = ask(server, email).await?;
            assert_eq!(response.status, 200, "{email}");
            told.push(outline(&response));
        }
        assert!(told.iter().all(|response| *response == told[0]));
        // A look-alike is a domain of its own, and says no more than any other.
        let look_alike = ask(server, "ann@\u{430}cme.test").await?;
        assert_eq!((look_alike.status.as_u16(), outline(&look_alike)), (200, told[0].clone()));
        Ok(())
    })
}
