//! Tokens for automation over time: use, rotation, what ends them, what their owner is told.

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use reqwest::Method;
use serde_json::json;
use service_api::workspaces::Role;
use service_rules::{bearer::Claims, email::Address};
use service_server::flows::operator::Operator;
use service_server::{flows::revocation, tasks::housekeeping};
use service_testkit::server::{TestServer, with_server};

use crate::support::{
    access::{claims, signed},
    cli_tokens::{PATH, check, delete, make, post, whoami},
};

const DAY: i64 = 86_400;

async fn check_dead(server: &TestServer, token: &str, reason: &str) -> Result<()> {
    let response = whoami(server, token).await?;
    ensure!((response.status.as_u16(), response.error()) == (401, "invalid_token"), "{}", response.text);
    ensure!(response.body["details"]["reason"] == reason, "{}", response.text);
    Ok(())
}

#[test]
fn whatever_ends_its_ground_ends_the_token_cl_10() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let members = [(ann.user_id, Role::Owner)];
        let (left, deleted) =
            (server.make_workspace("Left", &members).await?, server.make_workspace("Deleted", &members).await?);
        let (_, of_left) = make(server, &ann, &json!({ "workspaceId": left })).await?;
        let (_, of_deleted) = make(server, &ann, &json!({ "workspaceId": deleted })).await?;
        let (_, personal) = make(server, &ann, &json!({})).await?;
        // All remembered by now.
        for token in [&of_left, &of_deleted, &personal] {
            assert_eq!(whoami(server, token).await?.status, 200);
        }
        revocation::remove_member(&server.app, &Operator::default(), ann.user_id, left).await?;
        check_dead(server, &of_left, "workspace_removed").await?;
        revocation::delete_workspace(&server.app, &Operator::default(), deleted).await?;
        check_dead(server, &of_deleted, "workspace_removed").await?;
        assert_eq!(whoami(server, &personal).await?.status, 200);
        // Let in again, the old token stays dead.
        server.sql("update memberships set ended_at = null").await?;
        check_dead(server, &of_left, "workspace_removed").await?;

        let address = Address::parse("ann@acme.test").ok().context("no address")?;
        revocation::sign_out_user(&server.app, &Operator::default(), &address).await?;
        assert_eq!(whoami(server, &personal).await?.status, 200, "signing out is for sessions");
        revocation::disable_user(&server.app, &Operator::default(), &address).await?;
        check_dead(server, &personal, "user_disabled").await?;
        revocation::enable_user(&server.app, &Operator::default(), &address).await?;
        check_dead(server, &personal, "user_disabled").await?;

        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let (_, bobs) = make(server, &bob, &json!({})).await?;
        assert_eq!(whoami(server, &bobs).await?.status, 200);
        revocation::bump_epoch(&server.app, &Operator::default()).await?;
        check_dead(server, &bobs, "revoked_by_admin").await
    })
}

#[test]
fn a_token_ends_when_it_says_and_a_wrong_one_costs_no_query() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (_, token) = make(server, &ann, &json!({ "expiresInDays": 1 })).await?;
        server.advance(DAY - 1);
        assert_eq!(whoami(server, &token).await?.status, 200);
        server.advance(1);
        check_dead(server, &token, "expired").await?;
        let held = server.app.database.begin().await?;
        held.execute("lock table cli_tokens in access exclusive mode", &[]).await?;
        let typo = token.replace("svc_cli_", "svc_cli_0");
        for wrong in [&typo, &token[..token.len() - 1], "svc_cli_", "svc_cli_x"] {
            let response = whoami(server, wrong).await?;
            check(&response, 401, "invalid_token");
            assert!(response.body["details"].is_null(), "{}", response.text);
        }
        drop(held);
        // The right id with another secret is no token.
        let id = service_api::token::CliToken::parse(&token).and_then(|token| token.id()).context("no id")?;
        let forged = service_server::crypto::random::cli_token(id)?;
        let response = whoami(server, forged.expose()).await?;
        check(&response, 401, "invalid_token");
        assert!(response.body["details"].is_null(), "{}", response.text);
        Ok(())
    })
}

#[test]
fn a_token_is_replaced_and_the_old_one_goes_on_for_the_hours_asked() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let body = json!({ "name": "deploy", "scopes": ["read", "projects:write"], "expiresInDays": 30 });
        let (id, old) = make(server, &ann, &body).await?;
        assert_eq!(whoami(server, &old).await?.status, 200);
        for hours in [-1, 73, 1_000] {
            let response =
                post(server, &format!("{PATH}/{id}/rotate"), &ann.access_token, &json!({ "overlapHours": hours }))
                    .await?;
            check(&response, 422, "validation_failed");
        }
        let response =
            post(server, &format!("{PATH}/{id}/rotate"), &ann.access_token, &json!({ "overlapHours": 2 })).await?;
        assert_eq!(response.status, 201, "{}", response.text);
        assert_eq!((response.field("name"), response.field("scope")), ("deploy", "read projects:write"));
        assert_eq!(response.body["expires_in"], 30 * DAY);
        let (new_id, new) = (response.field("id"), response.field("access_token"));
        server.advance(2 * 3_600 - 1);
        for token in [old.as_str(), new] {
            assert_eq!(whoami(server, token).await?.status, 200);
        }
        server.advance(1);
        check_dead(server, &old, "expired").await?;
        assert_eq!(whoami(server, new).await?.status, 200);
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        // Without an overlap the old one is over at once; a revoked one is not replaced; nor one of another user.
        let next = post(server, &format!("{PATH}/{new_id}/rotate"), &ann.access_token, &json!({})).await?;
        assert_eq!(next.status, 201, "{}", next.text);
        check_dead(server, new, "revoked_by_user").await?;
        check(&post(server, &format!("{PATH}/{new_id}/rotate"), &ann.access_token, &json!({})).await?, 409, "conflict");
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let foreign = format!("{PATH}/{}/rotate", next.field("id"));
        check(&post(server, &foreign, &bob.access_token, &json!({})).await?, 404, "not_found");
        let narrow = Claims { grant: ann.grant_id, ..claims(server, ann.user_id, "tokens:write")? };
        let narrow = signed(server, &narrow)?;
        check(&post(server, &foreign, &narrow, &json!({})).await?, 403, "insufficient_scope");
        Ok(())
    })
}

#[test]
fn one_key_rotates_a_token_once() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (id, _) = make(server, &ann, &json!({})).await?;
        let rotate = async |key: &str| {
            let request = server.http.request(Method::POST, &format!("{PATH}/{id}/rotate"));
            let request = request.bearer_auth(&ann.access_token).header("idempotency-key", key);
            server.http.send(request.json(&json!({ "overlapHours": 2 }))).await
        };
        let responses = try_join_all((0..20).map(|_| rotate("rotation-7"))).await?;
        assert_eq!(responses.iter().filter(|response| response.status == 201).count(), 1, "it was rotated twice");
        for response in responses.iter().filter(|response| response.status != 201) {
            check(response, 409, "conflict");
        }
        assert_eq!(rotate("rotation-8").await?.status, 201);
        check(&rotate("two words").await?, 400, "invalid_request");
        Ok(())
    })
}

#[test]
fn a_token_is_given_back_and_introspected_like_any_other() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (id, secret) = crate::support::revoke::reports(server).await?;
        let (_, token) = make(server, &ann, &json!({ "scopes": ["projects:read"] })).await?;
        let about = json!({ "token": token, "client_id": id, "client_secret": secret });
        let active = server.http.post("/oauth/introspect", &about).await?.body;
        assert_eq!((&active["active"], &active["scope"]), (&true.into(), &"projects:read".into()));
        assert_eq!(active["sub"], ann.user_id.to_string());
        let revoke = async |client: &str| {
            server.http.post("/oauth/revoke", &json!({ "token": token, "client_id": client })).await
        };
        check(&revoke("service-web").await?, 400, "invalid_grant");
        assert_eq!(whoami(server, &token).await?.status, 200);
        for _ in 0..2 {
            assert_eq!(revoke("service-cli").await?.status, 200);
        }
        check_dead(server, &token, "revoked_by_user").await?;
        assert_eq!(server.http.post("/oauth/introspect", &about).await?.body, json!({ "active": false }));
        Ok(())
    })
}

/// A token created while its session is being revoked must not outlive it: the second transaction sees the first.
#[test]
fn nothing_is_made_from_a_session_that_is_being_ended() -> Result<()> {
    with_server(async |server| {
        for (number, meanwhile) in [
            "update users set disabled_at = created_at where email = 'ann0@acme.test'",
            "update grants set revoked_at = created_at, revoked_because = 'revoked_by_admin'",
        ]
        .into_iter()
        .enumerate()
        {
            let ann = server.sign_in(&format!("ann{number}@acme.test"), "read write").await?;
            let held = server.app.database.begin().await?;
            held.execute("select from users for update", &[]).await?;
            held.execute(meanwhile, &[]).await?;
            let waiting = async {
                while server.sql("select count(*) from pg_locks where not granted").await?.as_deref() == Some("0") {
                    tokio::task::yield_now().await;
                }
                Ok(held.commit().await?)
            };
            let path = if number == 0 { PATH } else { "/v1/mcp/tokens" };
            let body = json!({});
            let making = post(server, path, &ann.access_token, &body);
            let (response, ()) = tokio::try_join!(making, waiting)?;
            check(&response, 401, "invalid_token");
        }
        assert_eq!(server.sql("select count(*) from cli_tokens").await?.as_deref(), Some("0"));
        assert_eq!(server.sql("select count(*) from grants where revoked_at is null").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn use_is_noted_at_most_once_a_minute() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (_, token) = make(server, &ann, &json!({})).await?;
        let state = "select concat_ws(' ', xmin, last_used_at, last_used_from) from cli_tokens";
        let note = async || {
            for _ in 0..20 {
                assert_eq!(whoami(server, &token).await?.status, 200);
            }
            housekeeping::record_uses_once(&server.app).await?;
            server.sql(state).await
        };
        let unused = server.sql(state).await?;
        let first = note().await?;
        assert_ne!(first, unused);
        assert!(first.as_ref().is_some_and(|text| text.ends_with(" 127.0.0.1")), "{first:?}");
        server.advance(59);
        assert_eq!(note().await?, first);
        server.advance(1);
        assert_ne!(note().await?, first);
        let listed = server.http.get(PATH, Some(&ann.access_token)).await?;
        assert!(
            listed.body["data"][0]["lastUsedAt"].is_string() && listed.body["data"][0]["lastUsedFrom"] == "127.0.0.1"
        );
        Ok(())
    })
}

#[test]
fn owners_are_told_a_week_and_a_day_before_a_token_ends() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        make(server, &ann, &json!({ "name": "long", "expiresInDays": 30 })).await?;
        make(server, &ann, &json!({ "name": "week", "expiresInDays": 7 })).await?;
        make(server, &ann, &json!({ "name": "day", "expiresInDays": 1 })).await?;
        let (gone, _) = make(server, &ann, &json!({ "name": "gone", "expiresInDays": 30 })).await?;
        assert_eq!(delete(server, &gone, &ann.access_token).await?.status, 204);
        for _ in 0..4 {
            assert_eq!(server.mailbox.next_mail_to("ann@acme.test").await?.subject, "New CLI token created");
        }
        let state = "select string_agg(name || ' ' || warned_at_days, ', ' order by name) from cli_tokens";
        let (mut told, mut last) = (Vec::new(), None);
        for day in 0..31 {
            for _ in 0..2 {
                housekeeping::notify_expiring(&server.app).await?;
            }
            let now = server.sql(state).await?;
            if now != last {
                told.push((day, now.clone().unwrap_or_default()));
                last = now;
            }
            // A mail is not worth sending when its token has ended.
            while server.sql("select count(*) from outbox").await?.as_deref() != Some("0") {}
            server.advance(DAY);
        }
        let told: Vec<_> = told.iter().map(|(day, state)| (*day, state.as_str())).collect();
        assert_eq!(told, [(6, "week 1"), (23, "long 7, week 1"), (29, "long 1, week 1")]);
        for name in ["week", "long", "long"] {
            let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
            assert_eq!(mail.subject, "Your token expires soon");
            assert!(mail.text.contains(&format!("token {name} ")), "{}", mail.text);
        }
        Ok(())
    })
}
