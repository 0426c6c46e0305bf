//! Tokens for automation over time: use, rotation, what ends them, what their owner is told.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use serde_json::json;
use service_api::workspaces::Role;
use service_rules::{bearer::Claims, email::Address};
use service_server::{flows::end_access, housekeeping};
use service_testkit::{
    process::Process,
    server::{Setup, TestServer, otp_exchange, request_code, signed_in, with_server},
};

use crate::{
    access::{claims, signed},
    cli_tokens::{PATH, check, make, post, whoami},
    cli_tokens_owner::delete,
};

const DAY: i64 = 86_400;

async fn check_dead(server: &TestServer, token: &str, reason: &str) -> Result<()> {
    let answer = whoami(server, token).await?;
    ensure!((answer.status.as_u16(), answer.error()) == (401, "invalid_token"), "{}", answer.text);
    ensure!(answer.body["details"]["reason"] == reason, "{}", answer.text);
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
        end_access::remove_member(&server.app, ann.user_id, left).await?.ok().context("not removed")?;
        check_dead(server, &of_left, "workspace_removed").await?;
        end_access::delete_workspace(&server.app, deleted).await?.ok().context("not deleted")?;
        check_dead(server, &of_deleted, "workspace_removed").await?;
        assert_eq!(whoami(server, &personal).await?.status, 200);
        // Let in again, the old token stays dead.
        server.sql("update memberships set ended_at = null").await?;
        check_dead(server, &of_left, "workspace_removed").await?;

        let address = Address::parse("ann@acme.test").ok().context("no address")?;
        end_access::sign_out_user(&server.app, &address).await?.ok().context("not signed out")?;
        assert_eq!(whoami(server, &personal).await?.status, 200, "signing out is for sessions");
        end_access::disable_user(&server.app, &address).await?.ok().context("not disabled")?;
        check_dead(server, &personal, "user_disabled").await?;
        end_access::enable_user(&server.app, &address).await?.ok().context("not enabled")?;
        check_dead(server, &personal, "user_disabled").await?;

        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let (_, bobs) = make(server, &bob, &json!({})).await?;
        assert_eq!(whoami(server, &bobs).await?.status, 200);
        end_access::bump_epoch(&server.app).await?;
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
            let answer = whoami(server, wrong).await?;
            check(&answer, 401, "invalid_token");
            assert!(answer.body["details"].is_null(), "{}", answer.text);
        }
        drop(held);
        // The right id with another secret is nobody's.
        let id = service_api::token::CliToken::parse(&token).and_then(|token| token.id()).context("no id")?;
        let forged = service_server::mint::cli_token(id)?;
        let answer = whoami(server, forged.expose()).await?;
        check(&answer, 401, "invalid_token");
        assert!(answer.body["details"].is_null(), "{}", answer.text);
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
            let answer =
                post(server, &format!("{PATH}/{id}/rotate"), &ann.access_token, &json!({ "overlapHours": hours }))
                    .await?;
            check(&answer, 422, "validation_failed");
        }
        let answer =
            post(server, &format!("{PATH}/{id}/rotate"), &ann.access_token, &json!({ "overlapHours": 2 })).await?;
        assert_eq!(answer.status, 201, "{}", answer.text);
        assert_eq!((answer.field("name"), answer.field("scope")), ("deploy", "read projects:write"));
        assert_eq!(answer.body["expires_in"], 30 * DAY);
        let (new_id, new) = (answer.field("id"), answer.field("access_token"));
        server.advance(2 * 3_600 - 1);
        for token in [old.as_str(), new] {
            assert_eq!(whoami(server, token).await?.status, 200);
        }
        server.advance(1);
        check_dead(server, &old, "expired").await?;
        assert_eq!(whoami(server, new).await?.status, 200);
        let ann = crate::refresh::refreshed(server, &ann.refresh_token).await?;
        // Without an overlap the old one is over at once; a dead one is not replaced; nor somebody else's.
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
fn use_is_noted_at_most_once_a_minute() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (_, token) = make(server, &ann, &json!({})).await?;
        let state = "select concat_ws(' ', xmin, last_used_at, last_used_from) from cli_tokens";
        let note = async || {
            for _ in 0..20 {
                assert_eq!(whoami(server, &token).await?.status, 200);
            }
            housekeeping::note_uses_once(&server.app).await?;
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
        let listed = server.door.get(PATH, Some(&ann.access_token)).await?;
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
            assert_eq!(
                server.mailbox.next_mail_to("ann@acme.test").await?.subject,
                "A token was made for your account"
            );
        }
        let mut told = Vec::new();
        for day in 0..31 {
            for _ in 0..2 {
                housekeeping::announce_ends(&server.app).await?;
            }
            let count: usize = server.sql("select count(*) from outbox").await?.context("no count")?.parse()?;
            for _ in 0..count {
                let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
                ensure!(mail.subject == "One of your tokens ends soon", "{}", mail.subject);
                let name = ["long", "week", "day", "gone"]
                    .into_iter()
                    .find(|name| mail.text.contains(&format!("token {name} ")));
                told.push((day, name.context("no name")?));
            }
            while server.sql("select count(*) from outbox").await?.as_deref() != Some("0") {}
            server.advance(DAY);
        }
        assert_eq!(told, [(6, "week"), (23, "long"), (29, "long")]);
        Ok(())
    })
}

/// From the acknowledged end to the last use that was accepted on any of three nodes that all remember the token.
#[test]
fn an_ended_token_is_refused_on_every_node_within_a_second_cl_08() -> Result<()> {
    let setup = Setup::default().on_system_clock().set("limits.otp_sends_per_address", "100000/60");
    setup.run(async |server| {
        let nodes: Vec<_> = (0..3)
            .map(|_| Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, &server.leaks))
            .collect::<Result<_>>()?;
        let worker = async |worker: usize| {
            let door = &nodes[worker % 3].door;
            let email = format!("ann{worker}@acme.test");
            let (otp_id, code) = request_code(door, &server.mailbox, &server.leaks, &email).await?;
            let ann = signed_in(&door.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?)?;
            let mut seen = Vec::new();
            for number in 0..50 {
                let made = door
                    .send(door.request(reqwest::Method::POST, PATH).bearer_auth(&ann.access_token).json(&json!({})))
                    .await?;
                let (id, token) = (made.field("id").to_owned(), made.field("access_token").to_owned());
                for node in &nodes {
                    ensure!(node.door.get("/v1/whoami", Some(&token)).await?.status == 200, "it does not work");
                }
                let path = format!("{PATH}/{id}");
                let ender = &nodes[number % 3].door;
                let ended =
                    ender.send(ender.request(reqwest::Method::DELETE, &path).bearer_auth(&ann.access_token)).await?;
                ensure!(ended.status == 204, "{}", ended.text);
                let acknowledged = Instant::now();
                let last = async |node: &Process| -> Result<Option<Instant>> {
                    let mut last = None;
                    loop {
                        let sent = Instant::now();
                        match node.door.get("/v1/whoami", Some(&token)).await?.status.as_u16() {
                            200 => last = Some(sent),
                            401 => return Ok(last),
                            other => anyhow::bail!("{other}"),
                        }
                        ensure!(acknowledged.elapsed() < Duration::from_secs(10), "accepted for ever");
                    }
                };
                let last = try_join_all(nodes.iter().map(last)).await?.into_iter().flatten().max();
                seen.push(last.map_or(Duration::ZERO, |last| last.saturating_duration_since(acknowledged)));
            }
            anyhow::Ok(seen)
        };
        let seen = try_join_all((0..4).map(worker)).await?;
        let mut seen: Vec<_> = seen.into_iter().flatten().collect();
        seen.sort_unstable();
        let (p50, p99, longest) = (seen[99], seen[197], seen[199]);
        let text = "tokens ended that three nodes remember; accepted after that";
        println!("{} {text}: p50 {p50:?}, p99 {p99:?}, longest {longest:?}", seen.len());
        assert!(p99 <= Duration::from_secs(1) && longest <= Duration::from_secs(5));
        Ok(())
    })
}
