//! Clients: those that register themselves, and those that prove themselves.

use anyhow::{Context as _, Result};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::Method;
use serde_json::{Value, json};
use service_server::flows::clients::{self, ClientToRegister};
use service_testkit::{
    response::TestResponse,
    server::{Setup, TestServer, with_server},
    settings::BASE_URL,
    tab::Tab,
};

use crate::support::authorize::{CALLBACK, asking, code, exchange, go_through};

async fn register(server: &TestServer, metadata: &Value) -> Result<TestResponse> {
    server.http.post("/oauth/register", metadata).await
}

#[test]
fn saying_the_same_ten_thousand_times_makes_one_client_ss_10() -> Result<()> {
    with_server(async |server| {
        let metadata = json!({
            "client_name": "Editor", "redirect_uris": ["http://127.0.0.1/cb", "cursor://anysphere.cursor-mcp/oauth/callback"],
            "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "client_secret_basic",
            "software_statement": "x", "scope": "admin", "unknown": { "a": 1 },
        });
        let first = register(server, &metadata).await?;
        assert_eq!(first.status, 201, "{}", first.text);
        assert_eq!((first.field("token_endpoint_auth_method"), first.field("client_name")), ("none", "Editor"));
        assert!(first.field("client_id").starts_with("client_") && first.body.get("client_secret").is_none());
        assert!(!first.text.contains("null") && !first.text.contains("admin"));
        for _ in 0..100 {
            let again = futures_util::future::try_join_all((0..100).map(|_| register(server, &metadata)));
            for response in again.await? {
                assert_eq!(response.text, first.text);
            }
        }
        assert_eq!(server.sql("select count(*) from clients where kind = 'dynamic'").await?.as_deref(), Some("1"));
        assert_eq!(
            server.sql("select count(*) from audit_events where event = 'client.registered'").await?.as_deref(),
            Some("1")
        );
        for wrong in [
            json!({ "redirect_uris": [] }),
            json!({ "redirect_uris": ["https://app.test/cb"], "grant_types": ["client_credentials"] }),
            json!({ "redirect_uris": "https://app.test/cb" }),
        ] {
            assert_eq!(register(server, &wrong).await?.status, 400, "{wrong}");
        }
        // No name is refused; what cannot be shown is left out of it.
        for (said, name) in [("<script>alert(1)</script>", "scriptalert(1)/script"), ("Goo\u{202e}gle", "Google")] {
            let body = json!({ "redirect_uris": ["https://app.test/cb"], "client_name": said });
            assert_eq!(register(server, &body).await?.field("client_name"), name);
        }
        Ok(())
    })
}

#[test]
fn registration_is_limited_by_network_ss_10() -> Result<()> {
    Setup::default().set("limits.registrations_per_network", "2+60").run(async |server| {
        let metadata = json!({ "redirect_uris": [CALLBACK] });
        for _ in 0..2 {
            assert_eq!(register(server, &metadata).await?.status, 201);
        }
        assert_eq!(register(server, &metadata).await?.error(), "rate_limited");
        Ok(())
    })
}

#[test]
fn a_client_that_registered_itself_comes_for_mcp_and_is_asked_about_every_time() -> Result<()> {
    with_server(async |server| {
        let registered = register(server, &json!({ "client_name": "Editor", "redirect_uris": [CALLBACK] })).await?;
        let client = registered.field("client_id").to_owned();
        let tab = Tab::open(server)?;
        let done = go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        let tokens = server.http.post("/oauth/token", &exchange(&client, &code(&done)?)).await?;
        assert_eq!((tokens.status.as_u16(), &tokens.body["expires_in"]), (200, &3_600.into()), "{}", tokens.text);
        let api = server.http.get("/v1/whoami", Some(tokens.field("access_token"))).await?;
        assert_eq!(api.status, 401, "a token for MCP opens the API");
        let again = tab.get(&asking(&client, &[])).await?;
        let page = tab.get(again.next()?).await?;
        assert!(page.text.contains("app.test") && page.text.contains("We can’t verify this app"), "{}", page.text);
        let done =
            go_through(server, &tab, &asking(&client, &[("resource", "https://service.test/v1")]), "ann@acme.test")
                .await?;
        let mut body = exchange(&client, &code(&done)?);
        body["resource"] = "https://service.test/v1".into();
        let tokens = server.http.post("/oauth/token", &body).await?;
        assert_eq!(server.http.get("/v1/whoami", Some(tokens.field("access_token"))).await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_client_with_a_secret_proves_itself_by_it_and_guesses_are_limited_tk_05_tk_06() -> Result<()> {
    with_server(async |server| {
        let wanted = ClientToRegister {
            name: "Backend".into(),
            redirect_uris: vec![CALLBACK.into()],
            with_secret: true,
            ..ClientToRegister::default()
        };
        let made = clients::create(&server.app, &wanted).await?;
        let secret = made.secret.as_ref().context("no secret")?.expose().to_owned();
        server.leaks.register("client secret", &secret);
        let tab = Tab::open(server)?;
        let done = go_through(server, &tab, &asking(&made.id, &[]), "ann@acme.test").await?;
        let body = exchange(&made.id, &code(&done)?);
        let with = |secret: &str| {
            server.http.request(Method::POST, "/oauth/token").basic_auth(&made.id, Some(secret)).json(&body)
        };
        let nothing = server.http.post("/oauth/token", &body).await?;
        assert_eq!((nothing.status.as_u16(), nothing.error()), (401, "invalid_client"));
        for _ in 0..4 {
            let wrong = server.http.send(with("svc_cs_wrong")).await?;
            assert_eq!((wrong.status.as_u16(), wrong.error()), (401, "invalid_client"));
            assert!(wrong.header("www-authenticate").is_some_and(|value| value.starts_with("Basic")));
        }
        let right = server.http.send(with(&secret)).await?;
        assert_eq!(right.status, 200, "{}", right.text);
        let limited = loop {
            let wrong = server.http.send(with("svc_cs_wrong")).await?;
            if wrong.status != 401 {
                break wrong;
            }
        };
        assert_eq!((limited.status.as_u16(), limited.error()), (429, "rate_limited"));
        let mut in_body = json!({ "grant_type": "refresh_token", "client_id": made.id, "refresh_token": right.field("refresh_token") });
        server.advance(120);
        assert_eq!(server.http.post("/oauth/token", &in_body).await?.error(), "invalid_client");
        in_body["client_secret"] = secret.into();
        assert_eq!(server.http.post("/oauth/token", &in_body).await?.status, 200);
        Ok(())
    })
}

/// What a client signs; the key is a test's own.
fn assertion(client_id: &str, key: &EncodingKey, changes: &[(&str, Value)]) -> Result<String> {
    let mut claims = json!({
        "iss": client_id, "sub": client_id, "aud": BASE_URL, "exp": 1_800_000_060, "jti": format!("{:?}", changes),
    });
    for (name, value) in changes {
        claims[name] = value.clone();
    }
    Ok(jsonwebtoken::encode(&Header { kid: Some("one".into()), ..Header::new(Algorithm::ES256) }, &claims, key)?)
}

#[test]
fn a_client_that_signs_proves_itself_once_by_each_signature() -> Result<()> {
    with_server(async |server| {
        let pkcs8 = service_server::crypto::random::signing_key()?;
        let key = EncodingKey::from_ec_der(&pkcs8);
        let other = EncodingKey::from_ec_der(&service_server::crypto::random::signing_key()?);
        let wanted = ClientToRegister {
            name: "Signer".into(),
            redirect_uris: vec![CALLBACK.into()],
            jwks: Some(json!({ "keys": [crate::support::forge::public_jwk(&pkcs8, "one")?] })),
            ..ClientToRegister::default()
        };
        let client = clients::create(&server.app, &wanted).await?.id;
        let tab = Tab::open(server)?;
        let done = go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        let mut body = exchange(&client, &code(&done)?);
        body["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer".into();
        let mut send = async |assertion: String| {
            body["client_assertion"] = assertion.into();
            server.http.post("/oauth/token", &body).await
        };
        for (what, wrong) in [
            ("another key", assertion(&client, &other, &[])?),
            ("another audience", assertion(&client, &key, &[("aud", json!("https://other.test"))])?),
            ("two audiences", assertion(&client, &key, &[("aud", json!([BASE_URL, "https://other.test"]))])?),
            ("another issuer", assertion(&client, &key, &[("iss", json!("x"))])?),
            ("another subject", assertion(&client, &key, &[("sub", json!("x"))])?),
            ("too old", assertion(&client, &key, &[("exp", json!(1_799_999_900))])?),
            ("for too long", assertion(&client, &key, &[("exp", json!(1_800_009_999))])?),
            ("no id", assertion(&client, &key, &[("jti", Value::Null)])?),
            ("none", "eyJhbGciOiJub25lIn0.e30.".into()),
            ("nonsense", "x".into()),
        ] {
            let response = send(wrong).await?;
            assert_eq!(
                (response.status.as_u16(), response.error()),
                (401, "invalid_client"),
                "{what}: {}",
                response.text
            );
            // Guesses are limited.
            server.sql("delete from rates").await?;
        }
        let once = assertion(&client, &key, &[])?;
        let tokens = send(once.clone()).await?;
        assert_eq!(tokens.status, 200, "{}", tokens.text);
        let refresh = |assertion: &str| {
            json!({
                "grant_type": "refresh_token", "client_id": client, "refresh_token": tokens.field("refresh_token"),
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion": assertion,
            })
        };
        assert_eq!(server.http.post("/oauth/token", &refresh(&once)).await?.error(), "invalid_client", "used twice");
        let fresh = assertion(&client, &key, &[("aud", json!(format!("{BASE_URL}/oauth/token")))])?;
        assert_eq!(server.http.post("/oauth/token", &refresh(&fresh)).await?.status, 200);
        Ok(())
    })
}
