//! Refreshing: every row of what presenting a refresh token can mean, through the front door.

use crate::support::refresh::{check_refused, column, refreshed};
use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use reqwest::Method;
use serde_json::{Value, json};
use service_api::{ids::GrantId, scope::Scopes};
use service_rules::lifetimes;
use service_testkit::{
    response::TestResponse,
    server::{Setup, TestServer, refresh_body, signed_in, with_server},
};

/// Behind a proxy that says where requests come from.
fn behind_a_proxy(test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
    Setup::default().set("http.trusted_proxies", "127.0.0.0/8").run(test)
}

async fn refresh_from(server: &TestServer, token: &str, address: &str) -> Result<TestResponse> {
    let request = server.http.request(Method::POST, "/oauth/token").header("x-forwarded-for", address);
    server.http.send(request.json(&refresh_body(token))).await
}

/// Everything in the grant's row: that nothing was written.
async fn row(server: &TestServer, grant: GrantId) -> Result<Option<String>> {
    column(server, grant, "grants.*::text || xmin::text").await
}

async fn events(server: &TestServer, event: &str) -> Result<u64> {
    let count = server.sql(&format!("select count(*) from audit_events where event = '{event}'")).await?;
    Ok(count.context("no count")?.parse()?)
}

#[test]
fn a_refresh_gives_a_new_pair_with_the_same_rights_and_the_same_end_rf_01() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read projects:write").await?;
        let end = column(server, ann.grant_id, "expires_at").await?;
        server.advance(600);
        let response = server.refresh(&ann.refresh_token).await?;
        let next = signed_in(&response)?;
        assert_ne!(next.refresh_token, ann.refresh_token);
        assert_ne!(next.access_token, ann.access_token);
        assert_eq!((next.user_id, next.grant_id), (ann.user_id, ann.grant_id));
        assert_eq!((response.field("scope"), response.field("token_type")), ("read projects:write", "Bearer"));
        assert_eq!(response.body["expires_in"], lifetimes::ACCESS_TOKEN);
        assert_eq!(response.header("cache-control"), Some("no-store"));
        assert_eq!(column(server, ann.grant_id, "expires_at").await?, end);
        // The access token before it goes on: a refresh kills nothing.
        for token in [&ann.access_token, &next.access_token] {
            assert_eq!(server.http.get("/v1/whoami", Some(token)).await?.status, 200);
        }
        let form = format!("grant_type=refresh_token&client_id=service-cli&refresh_token={}", next.refresh_token);
        assert_eq!(server.http.post_form("/oauth/token", &form).await?.status, 200);
        Ok(())
    })
}

#[test]
fn an_old_token_whose_successor_was_used_ends_the_grant_rf_02_rf_03() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let bystander = server.sign_in("bob@acme.test", "read").await?;
        let second = refreshed(server, &ann.refresh_token).await?;
        let third = refreshed(server, &second.refresh_token).await?;
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("replayed"));
        assert_eq!(column(server, ann.grant_id, "revoked_because").await?.as_deref(), Some("replayed"));
        assert!(column(server, ann.grant_id, "revoked_at").await?.is_some(), "the refusal was not committed");
        for token in [&ann, &second, &third] {
            check_refused(&server.refresh(&token.refresh_token).await?, Some("replayed"));
            let response = server.http.get("/v1/whoami", Some(&token.access_token)).await?;
            assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_token"));
            assert_eq!(response.body["details"]["reason"], "replayed");
        }
        assert_eq!(events(server, "refresh.replay").await?, 1);
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        assert_eq!(mail.subject, "We signed you out to protect your account");
        assert!(mail.text.contains("127.0.0.1") && mail.text.contains("The command line"), "{}", mail.text);
        assert!(mail.code().is_none());
        refreshed(server, &bystander.refresh_token).await.map(drop)
    })
}

#[test]
fn a_lost_answer_is_made_good_and_the_token_it_replaced_is_a_trap_rf_04() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let lost = refreshed(server, &ann.refresh_token).await?;
        // Soon and from the same network: the very same successor, and nothing written.
        let before = row(server, ann.grant_id).await?;
        assert_eq!(refreshed(server, &ann.refresh_token).await?.refresh_token, lost.refresh_token);
        assert_eq!(row(server, ann.grant_id).await?, before);
        server.advance(61);
        let other = refreshed(server, &ann.refresh_token).await?;
        assert_ne!(other.refresh_token, lost.refresh_token);
        assert_eq!(refreshed(server, &ann.refresh_token).await?.refresh_token, other.refresh_token);
        check_refused(&server.refresh(&lost.refresh_token).await?, Some("superseded"));
        check_refused(&server.refresh(&other.refresh_token).await?, Some("replayed"));
        assert_eq!(events(server, "refresh.replay").await?, 1);
        Ok(())
    })
}

#[test]
fn the_same_token_from_elsewhere_gets_another_successor_and_the_first_is_a_trap_rf_04() -> Result<()> {
    behind_a_proxy(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let near = signed_in(&refresh_from(server, &ann.refresh_token, "203.0.113.4").await?)?;
        let neighbour = signed_in(&refresh_from(server, &ann.refresh_token, "203.0.113.200").await?)?;
        assert_eq!(neighbour.refresh_token, near.refresh_token);
        let far = signed_in(&refresh_from(server, &ann.refresh_token, "203.0.114.4").await?)?;
        assert_ne!(far.refresh_token, near.refresh_token);
        check_refused(&refresh_from(server, &near.refresh_token, "203.0.113.4").await?, Some("superseded"));
        check_refused(&refresh_from(server, &far.refresh_token, "203.0.114.4").await?, Some("replayed"));

        let bob = server.sign_in("bob@acme.test", "read").await?;
        let first = signed_in(&refresh_from(server, &bob.refresh_token, "2001:db8:1:2::7").await?)?;
        let same = signed_in(&refresh_from(server, &bob.refresh_token, "2001:db8:1:2:ffff::8").await?)?;
        assert_eq!(same.refresh_token, first.refresh_token);
        let other = signed_in(&refresh_from(server, &bob.refresh_token, "2001:db8:1:3::7").await?)?;
        assert_ne!(other.refresh_token, first.refresh_token);
        Ok(())
    })
}

#[test]
fn another_clients_token_is_refused_and_its_grant_goes_on_rf_07() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let used = ann.refresh_token.clone();
        let ann = refreshed(server, &used).await?;
        let ann = refreshed(server, &ann.refresh_token).await?;
        let before = row(server, ann.grant_id).await?;
        for client_id in ["service-web", "service-mcp", "SERVICE-CLI", "unknown", "service-cli "] {
            for token in [&ann.refresh_token, &used] {
                let mut body = refresh_body(token);
                body["client_id"] = client_id.into();
                check_refused(&server.http.post("/oauth/token", &body).await?, None);
            }
        }
        for empty in [None, Some("")] {
            let mut body = refresh_body(&ann.refresh_token);
            body["client_id"] = json!(empty);
            if empty.is_none() {
                body.as_object_mut().context("no object")?.remove("client_id");
            }
            check_refused(&server.http.post("/oauth/token", &body).await?, None);
        }
        // The right client that proves itself in a way it was not registered for.
        let mut body = refresh_body(&ann.refresh_token);
        body["client_secret"] = "guess".into();
        let response = server.http.post("/oauth/token", &body).await?;
        assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_client"));
        assert_eq!(row(server, ann.grant_id).await?, before);
        refreshed(server, &ann.refresh_token).await.map(drop)
    })
}

#[test]
fn a_refresh_narrows_scopes_and_never_widens_them_rf_08() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read projects:write").await?;
        let ask = async |token: &str, scope: &str| {
            let mut body = refresh_body(token);
            body["scope"] = scope.into();
            server.http.post("/oauth/token", &body).await
        };
        let before = row(server, ann.grant_id).await?;
        for scope in ["read write", "write", "packs:write", "admin", "read packs:write"] {
            let response = ask(&ann.refresh_token, scope).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_scope"), "{scope}");
        }
        assert_eq!(row(server, ann.grant_id).await?, before, "a refused request used the token up");
        let narrow = ask(&ann.refresh_token, "projects:read openid").await?;
        assert_eq!(narrow.field("scope"), "projects:read");
        let narrow = signed_in(&narrow)?;
        assert_eq!(server.http.get("/v1/projects", Some(&narrow.access_token)).await?.status, 200);
        assert_eq!(server.http.get("/v1/sessions", Some(&narrow.access_token)).await?.status, 403);
        let whole = server.refresh(&narrow.refresh_token).await?;
        assert_eq!(Scopes::parse(whole.field("scope")), Scopes::parse("read projects:write"));
        Ok(())
    })
}

#[test]
fn a_token_unused_too_long_or_too_old_is_refused_rf_09() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        server.advance(lifetimes::REFRESH_IDLE - 1);
        let mut kept = refreshed(server, &ann.refresh_token).await?;
        server.advance(lifetimes::REFRESH_IDLE);
        check_refused(&server.refresh(&kept.refresh_token).await?, Some("idle"));

        let bob = server.sign_in("bob@acme.test", "read").await?;
        kept = bob.clone();
        let step = 25 * 86_400;
        for _ in 0..lifetimes::REFRESH_ABSOLUTE_CLI / step {
            server.advance(step);
            kept = refreshed(server, &kept.refresh_token).await?;
        }
        server.advance(lifetimes::REFRESH_ABSOLUTE_CLI % step - 1);
        kept = refreshed(server, &kept.refresh_token).await?;
        server.advance(1);
        check_refused(&server.refresh(&kept.refresh_token).await?, Some("expired"));
        assert_eq!(column(server, bob.grant_id, "revoked_at").await?, None);
        Ok(())
    })
}

#[test]
fn other_kinds_of_secrets_are_refused_by_their_form_rf_12() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let (otp_id, code) = server.request_code("bob@acme.test").await?;
        let genuine = &ann.refresh_token;
        let mut typo = genuine.clone().into_bytes();
        let last = typo.len() - 10;
        typo[last] = if typo[last] == b'a' { b'b' } else { b'a' };
        // No query: with every table locked, the answer is still the refusal and not 503.
        let held = server.app.database.begin().await?;
        held.execute("lock table grants, clients, users in access exclusive mode", &[]).await?;
        for text in [
            ann.access_token.as_str(),
            &otp_id,
            &code,
            &String::from_utf8(typo)?,
            &genuine[..genuine.len() - 1],
            &genuine.replace("svc_rt_", "svc_mrt_"),
            &genuine.replace("svc_rt_", "svc_cli_"),
            &format!(" {genuine}"),
            "svc_rt_",
            "\u{1f511}",
            "' or true --",
        ] {
            check_refused(&server.refresh(text).await?, None);
        }
        drop(held);
        for body in [json!({}), json!({ "refresh_token": "" }), json!({ "refresh_token": null })] {
            let mut body: Value = body;
            body["grant_type"] = "refresh_token".into();
            body["client_id"] = "service-cli".into();
            let response = server.http.post("/oauth/token", &body).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"), "{}", response.text);
        }
        Ok(())
    })
}

#[test]
fn two_refreshes_in_one_second_are_told_apart_rf_15() -> Result<()> {
    with_server(async |server| {
        // The clock stands still: only the count of generations can tell.
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let second = refreshed(server, &ann.refresh_token).await?;
        let third = refreshed(server, &second.refresh_token).await?;
        ensure!(third.refresh_token != second.refresh_token && second.refresh_token != ann.refresh_token);
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("replayed"));
        let uses = (0..5).map(|_| server.refresh(&third.refresh_token));
        for response in try_join_all(uses).await? {
            check_refused(&response, Some("replayed"));
        }
        Ok(())
    })
}
