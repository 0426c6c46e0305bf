//! `POST /oauth/revoke` and `POST /oauth/introspect`: giving a token back, and asking what one is worth.

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::Method;
use serde_json::{Value, json};
use service_rules::lifetimes;
use service_testkit::{
    response::TestResponse,
    server::{TestServer, refresh_body, signed_in, with_server},
};

use crate::support::refresh::{check_refused, column, refreshed};
use crate::support::revoke::reports;

async fn revoke(server: &TestServer, token: &str, client_id: &str) -> Result<TestResponse> {
    server.http.post("/oauth/revoke", &json!({ "token": token, "client_id": client_id })).await
}

#[test]
fn either_token_ends_the_session() -> Result<()> {
    with_server(async |server| {
        for (place, hint) in [Some("refresh_token"), Some("access_token"), Some("nonsense"), None].iter().enumerate() {
            for by_access_token in [true, false] {
                let email = format!("ann{place}{by_access_token}@acme.test");
                let ann = server.sign_in(&email, "read").await?;
                let ann = refreshed(server, &ann.refresh_token).await?;
                let token = if by_access_token { &ann.access_token } else { &ann.refresh_token };
                let hint = hint.map(|hint| format!("&token_type_hint={hint}")).unwrap_or_default();
                for _ in 0..2 {
                    let form = format!("token={token}&client_id=service-cli{hint}");
                    let response = server.http.post_form("/oauth/revoke", &form).await?;
                    assert_eq!((response.status.as_u16(), response.text.as_str()), (200, ""));
                    assert_eq!(response.header("cache-control"), Some("no-store"));
                }
                check_refused(&server.refresh(&ann.refresh_token).await?, Some("revoked_by_user"));
                assert_eq!(server.http.get("/v1/whoami", Some(&ann.access_token)).await?.status, 401);
            }
        }
        Ok(())
    })
}

/// An old token that comes back, at any endpoint, means that two parties have it.
#[test]
fn an_old_token_that_is_given_back_is_a_replay_rf_02() -> Result<()> {
    with_server(async |server| {
        let first = server.sign_in("ann@acme.test", "read").await?;
        let second = refreshed(server, &first.refresh_token).await?;
        let third = refreshed(server, &second.refresh_token).await?;
        for _ in 0..2 {
            assert_eq!(revoke(server, &first.refresh_token, "service-cli").await?.status, 200);
        }
        check_refused(&server.refresh(&third.refresh_token).await?, Some("replayed"));
        let count = server.sql("select count(*) from audit_events where event = 'refresh.replay'").await?;
        assert_eq!(count.as_deref(), Some("1"));
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        assert_eq!(mail.subject, "We signed you out to protect your account");
        Ok(())
    })
}

#[test]
fn what_is_not_ours_is_given_back_already() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let before = column(server, ann.grant_id, "grants.*::text || xmin::text").await?;
        let forged = format!("{}x", &ann.access_token[..ann.access_token.len() - 1]);
        for token in ["x", "svc_rt_1", "a.b.c", &forged, &ann.refresh_token[..20], "\u{1f511}"] {
            assert_eq!(revoke(server, token, "service-cli").await?.status, 200, "{token}");
        }
        assert_eq!(column(server, ann.grant_id, "grants.*::text || xmin::text").await?, before);
        // An access token that has expired opens nothing, and ends nothing either.
        server.advance(lifetimes::ACCESS_TOKEN + lifetimes::CLOCK_SKEW + 1);
        assert_eq!(revoke(server, &ann.access_token, "service-cli").await?.status, 200);
        refreshed(server, &ann.refresh_token).await.map(drop)
    })
}

#[test]
fn only_its_own_client_gives_a_token_back() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        for token in [&ann.access_token, &ann.refresh_token] {
            let response = revoke(server, token, "service-web").await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_grant"));
            let response = revoke(server, token, "unknown").await?;
            assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_client"));
            for body in [json!({ "token": token }), json!({ "token": token, "client_id": "" })] {
                let response = server.http.post("/oauth/revoke", &body).await?;
                assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"));
            }
            let body = json!({ "token": token, "client_id": "service-cli", "client_secret": "x" });
            assert_eq!(server.http.post("/oauth/revoke", &body).await?.status, 401);
        }
        for body in [json!({ "client_id": "service-cli" }), json!({ "client_id": "service-cli", "token": "" })] {
            let response = server.http.post("/oauth/revoke", &body).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"));
        }
        refreshed(server, &ann.refresh_token).await.map(drop)
    })
}

async fn introspect(server: &TestServer, id: &str, secret: &str, token: &str) -> Result<Value> {
    let body = json!({ "token": token, "client_id": id, "client_secret": secret });
    let response = server.http.post("/oauth/introspect", &body).await?;
    anyhow::ensure!(response.status == 200, "{}", response.text);
    Ok(response.body)
}

#[test]
fn introspection_says_what_a_token_is_worth_now() -> Result<()> {
    with_server(async |server| {
        let reports = reports(server).await?;
        let ann = server.sign_in("ann@acme.test", "read projects:write").await?;
        let access = introspect(server, &reports.0, &reports.1, &ann.access_token).await?;
        assert_eq!((&access["active"], &access["token_type"]), (&true.into(), &"Bearer".into()));
        assert_eq!((&access["sub"], &access["client_id"]), (&ann.user_id.to_string().into(), &"service-cli".into()));
        assert_eq!(
            (&access["scope"], &access["aud"]),
            (&"read projects:write".into(), &"https://service.test/v1".into())
        );
        assert_eq!(access["exp"].as_i64().zip(access["iat"].as_i64()).map(|(exp, iat)| exp - iat), Some(900));
        assert!(access["jti"].is_string() && access["iss"] == "https://service.test");
        let refresh = introspect(server, &reports.0, &reports.1, &ann.refresh_token).await?;
        assert_eq!((&refresh["active"], &refresh["token_type"]), (&true.into(), &"refresh_token".into()));
        let next = refreshed(server, &ann.refresh_token).await?;
        // Asking is not using: an old token is worth nothing, and its grant goes on.
        let last = refreshed(server, &next.refresh_token).await?;
        assert_eq!(introspect(server, &reports.0, &reports.1, &ann.refresh_token).await?, json!({ "active": false }));
        assert_eq!(introspect(server, &reports.0, &reports.1, &last.refresh_token).await?["active"], true);
        for token in ["x", "a.b.c", "", "svc_rt_1"].iter().filter(|token| !token.is_empty()) {
            assert_eq!(introspect(server, &reports.0, &reports.1, token).await?, json!({ "active": false }), "{token}");
        }
        assert_eq!(revoke(server, &last.refresh_token, "service-cli").await?.status, 200);
        for token in [&ann.access_token, &last.access_token, &last.refresh_token] {
            assert_eq!(introspect(server, &reports.0, &reports.1, token).await?, json!({ "active": false }));
        }
        Ok(())
    })
}

#[test]
fn introspection_ends_with_the_user_and_with_time() -> Result<()> {
    with_server(async |server| {
        let reports = reports(server).await?;
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "read").await?, server.sign_in("bob@acme.test", "read").await?);
        server.sql("update users set disabled_at = '2026-01-01Z' where email = 'ann@acme.test'").await?;
        for token in [&ann.access_token, &ann.refresh_token] {
            assert_eq!(introspect(server, &reports.0, &reports.1, token).await?, json!({ "active": false }));
        }
        server.advance(lifetimes::ACCESS_TOKEN + lifetimes::CLOCK_SKEW + 1);
        assert_eq!(introspect(server, &reports.0, &reports.1, &bob.access_token).await?, json!({ "active": false }));
        assert_eq!(introspect(server, &reports.0, &reports.1, &bob.refresh_token).await?["active"], true);
        server.advance(lifetimes::REFRESH_IDLE);
        assert_eq!(introspect(server, &reports.0, &reports.1, &bob.refresh_token).await?, json!({ "active": false }));
        Ok(())
    })
}

#[test]
fn only_a_client_that_proves_itself_introspects_tk_05_tk_06() -> Result<()> {
    with_server(async |server| {
        let (id, secret) = reports(server).await?;
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let token = ann.access_token.as_str();
        for body in [
            json!({ "token": token }),
            json!({}),
            json!({ "token": token, "client_id": "service-cli" }),
            json!({ "token": token, "client_id": id }),
            json!({ "token": token, "client_id": id, "client_secret": format!("{secret}x") }),
            json!({ "token": token, "client_id": id, "client_secret": "" }),
            json!({ "token": token, "client_id": "service-web", "client_secret": secret }),
            json!({ "token": token, "client_id": "unknown", "client_secret": secret }),
        ] {
            let response = server.http.post("/oauth/introspect", &body).await?;
            assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_client"), "{}", response.text);
            assert_eq!(response.header("www-authenticate"), Some("Basic realm=\"service\""));
        }
        let bearer = server.http.request(Method::POST, "/oauth/introspect").bearer_auth(token);
        assert_eq!(server.http.send(bearer.json(&json!({ "token": token }))).await?.status, 401);
        let by_basic = async |pair: String| {
            let header = format!("Basic {}", BASE64_STANDARD.encode(pair));
            let request = server.http.request(Method::POST, "/oauth/introspect").header("authorization", header);
            server.http.send(request.json(&json!({ "token": token }))).await
        };
        server.leaks.register("client secret", &BASE64_STANDARD.encode(format!("{id}:{secret}")));
        assert_eq!(by_basic(format!("{id}:{secret}")).await?.body["active"], true);
        assert_eq!(by_basic(format!("{id}:{secret}x")).await?.status, 401);
        assert_eq!(by_basic(format!("{id}:")).await?.status, 401);
        server.sql("update clients set disabled_at = '2026-01-01Z' where secret_digest is not null").await?;
        assert_eq!(by_basic(format!("{id}:{secret}")).await?.status, 401);
        Ok(())
    })
}

#[test]
fn a_grant_of_a_client_with_a_secret_is_refreshed_by_it_only_rf_07() -> Result<()> {
    with_server(async |server| {
        let (id, secret) = reports(server).await?;
        let ann = server.sign_in("ann@acme.test", "read").await?;
        server.sql(&format!("update grants set client_id = '{id}'")).await?;
        let ask = async |secret: Option<&str>| {
            let mut body = refresh_body(&ann.refresh_token);
            body["client_id"] = id.clone().into();
            if let Some(secret) = secret {
                body["client_secret"] = secret.into();
            }
            server.http.post("/oauth/token", &body).await
        };
        let before = column(server, ann.grant_id, "grants.*::text || xmin::text").await?;
        for wrong in [None, Some("x"), Some("svc_cs_1")] {
            let response = ask(wrong).await?;
            assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_client"));
        }
        assert_eq!(column(server, ann.grant_id, "grants.*::text || xmin::text").await?, before);
        let response = ask(Some(&secret)).await?;
        signed_in(&response).context("the right secret was refused").map(drop)
    })
}
