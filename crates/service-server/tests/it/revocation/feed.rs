//! The revocation feed on one node: everything that ends a credential, at every level.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use service_api::{
    ids::{GrantId, Id as _},
    workspaces::Role,
};
use service_rules::{
    email::Address,
    revocation::{Subject, position::FeedPosition},
};
use service_server::flows::operator::Operator;
use service_server::{
    crypto::random,
    flows::revocation::{self, RevocationTransaction},
    store,
    tasks::revocation_feed::read_lanes,
};
use service_testkit::server::{Setup, SignedIn, TestServer, with_server};

use crate::support::{
    access::{claims, signed},
    refresh::check_refused,
    revocations::{insert_in_lane, write_as_another_node},
};

/// No revocation takes longer, ever; how long they usually take is measured in `revocation_latency.rs`.
const AT_MOST: Duration = Duration::from_secs(5);

async fn check_dead(server: &TestServer, token: &str, reason: &str) -> Result<()> {
    let response = server.http.get("/v1/whoami?workspaceId=personal", Some(token)).await?;
    ensure!((response.status.as_u16(), response.error()) == (401, "invalid_token"), "{}", response.text);
    ensure!(response.body["details"]["reason"] == reason, "{}", response.text);
    Ok(())
}

async fn check_alive(server: &TestServer, token: &str) -> Result<()> {
    let response = server.http.get("/v1/whoami?workspaceId=personal", Some(token)).await?;
    ensure!(response.status == 200, "{}", response.text);
    Ok(())
}

/// Waits until the token is refused; how long that took.
async fn refused_after(server: &TestServer, token: &str) -> Result<Duration> {
    let began = Instant::now();
    while server.http.get("/v1/whoami?workspaceId=personal", Some(token)).await?.status == 200 {
        ensure!(began.elapsed() < Duration::from_secs(10), "it is accepted for ever");
    }
    Ok(began.elapsed())
}

fn address(text: &str) -> Result<Address> {
    Address::parse(text).ok().context("no address")
}

/// Deleting a session must end its tokens too, wherever sessions are kept (authentik, CVE-2025-29928).
#[test]
fn every_way_to_end_a_credential_ends_it_br_18() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "read").await?, server.sign_in("bob@acme.test", "read").await?);
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner), (bob.user_id, Role::Member)]).await?;
        let other = server.make_workspace("Other", &[(ann.user_id, Role::Owner)]).await?;
        let token = |session: &SignedIn, workspace| {
            let mut claims = claims(server, session.user_id, "read")?;
            (claims.grant, claims.workspace) = (session.grant_id, workspace);
            signed(server, &claims)
        };
        let (anns_acme, anns_other, bobs_acme) =
            (token(&ann, Some(acme))?, token(&ann, Some(other))?, token(&bob, Some(acme))?);

        revocation::remove_member(&server.app, &Operator::default(), bob.user_id, acme).await?;
        check_dead(server, &bobs_acme, "workspace_removed").await?;
        for alive in [&anns_acme, &anns_other, &ann.access_token, &bob.access_token] {
            check_alive(server, alive).await?;
        }
        revocation::delete_workspace(&server.app, &Operator::default(), acme).await?;
        check_dead(server, &anns_acme, "workspace_removed").await?;
        check_alive(server, &anns_other).await?;
        revocation::disable_user(&server.app, &Operator::default(), &address("ann@acme.test")?).await?;
        for dead in [&anns_other, &ann.access_token] {
            check_dead(server, dead, "user_disabled").await?;
        }
        check_alive(server, &bob.access_token).await?;
        revocation::sign_out_user(&server.app, &Operator::default(), &address("bob@acme.test")?).await?;
        check_dead(server, &bob.access_token, "revoked_by_admin").await?;
        check_refused(&server.refresh(&bob.refresh_token).await?, Some("revoked_by_admin"));
        server.advance(61);
        let eve = server.sign_in("eve@acme.test", "read").await?;
        check_alive(server, &eve.access_token).await?;
        revocation::bump_epoch(&server.app, &Operator::default()).await?;
        check_dead(server, &eve.access_token, "revoked_by_admin").await
    })
}

/// A level that says little must not hide one that says more (Keycloak, CVE-2026-8922).
#[test]
fn of_two_levels_neither_hides_the_other_br_18() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        revocation::bump_epoch(&server.app, &Operator::default()).await?;
        server.advance(61);
        let again = server.sign_in("ann@acme.test", "read").await?;
        check_alive(server, &again.access_token).await?;
        revocation::sign_out_user(&server.app, &Operator::default(), &address("ann@acme.test")?).await?;
        check_dead(server, &again.access_token, "revoked_by_admin").await?;
        server.advance(61);
        let third = server.sign_in("ann@acme.test", "read").await?;
        check_alive(server, &third.access_token).await?;
        revocation::bump_epoch(&server.app, &Operator::default()).await?;
        for session in [&ann, &again, &third] {
            check_dead(server, &session.access_token, "revoked_by_admin").await?;
        }
        Ok(())
    })
}

#[test]
fn what_another_node_ended_is_read_br_18() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        for kind in ["grant", "user", "all_users"] {
            let session = server.sign_in(&format!("{kind}@acme.test"), "read").await?;
            check_alive(server, &session.access_token).await?;
            let subject = match kind {
                "grant" => session.grant_id.to_string(),
                "user" => session.user_id.to_string(),
                _ => String::new(),
            };
            write_as_another_node(server, kind, &subject).await?;
            let took = refused_after(server, &session.access_token).await?;
            assert!(took < AT_MOST, "{kind} took {took:?}");
        }
        Ok(())
    })
}

/// A transaction holds its lane until it commits. Those in other lanes do not wait for it.
#[test]
fn a_transaction_that_commits_twenty_seconds_late_is_not_skipped() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let late = server.sign_in("late@acme.test", "read").await?;
        let (client, connection) =
            tokio_postgres::connect(&server.cluster.url(&server.database), tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        let insert = insert_in_lane(0, random::id(server.now())?, "grant", &late.grant_id.to_string());
        client.batch_execute(&format!("begin; {insert}")).await?;
        let (began, mut others) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(20) {
            // Others come and go, and do not wait for the late one.
            let session = server.sign_in(&format!("other{others}@acme.test"), "read").await?;
            write_as_another_node(server, "grant", &session.grant_id.to_string()).await?;
            let took = refused_after(server, &session.access_token).await?;
            ensure!(took < AT_MOST, "one beside the late one took {took:?}");
            check_alive(server, &late.access_token).await?;
            others += 1;
        }
        client.batch_execute("commit").await?;
        let took = refused_after(server, &late.access_token).await?;
        println!("{others} endings were read meanwhile; the late one was read {took:?} after its commit");
        assert!(took < AT_MOST && others > 10);
        Ok(())
    })
}

/// The database answers, and only what was ended cannot be read: that alone is reason enough.
#[test]
fn a_node_that_cannot_read_the_revocations_accepts_nothing_after_thirty_seconds() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        check_alive(server, &ann.access_token).await?;
        let (client, connection) =
            tokio_postgres::connect(&server.cluster.url(&server.database), tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute("begin; lock table revocation_lanes in access exclusive mode").await?;
        let began = Instant::now();
        let refused = loop {
            let response = server.http.get("/v1/whoami", Some(&ann.access_token)).await?;
            if response.status != 200 {
                break response;
            }
            ensure!(began.elapsed() < Duration::from_secs(32), "still accepted after {:?}", began.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!((refused.status.as_u16(), refused.error()), (503, "temporarily_unavailable"));
        assert!(began.elapsed() > Duration::from_secs(25), "refused after {:?} already", began.elapsed());
        let ready = server.ops.get("/readyz", None).await?;
        assert!(ready.status == 503 && ready.text.contains("revocations"), "{}", ready.text);
        client.batch_execute("rollback").await?;
        let mended = Instant::now();
        while server.http.get("/v1/whoami", Some(&ann.access_token)).await?.status != 200 {
            ensure!(mended.elapsed() < Duration::from_secs(5), "it does not recover");
        }
        Ok(())
    })
}

/// Returns what is new since the position, and how many rows were read for it.
async fn read_new(server: &TestServer, position: &mut FeedPosition) -> Result<usize> {
    let database = &server.app.feed_databases[0];
    let heads = store::revocations::poll(&database.connect().await?).await?;
    let mut found = 0;
    read_lanes(database, &heads, position, |revocations| found += revocations.len()).await?;
    Ok(found)
}

#[test]
fn a_read_goes_on_where_the_last_one_ended() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let mut position = FeedPosition::default();
        assert_eq!(read_new(server, &mut position).await?, 0);
        write_as_another_node(server, "client", "a").await?;
        assert_eq!(read_new(server, &mut position).await?, 1);
        assert_eq!(read_new(server, &mut position).await?, 0);
        write_as_another_node(server, "client", "b").await?;
        // The last one is read again, to see that it is still there.
        assert_eq!(read_new(server, &mut position).await?, 2);
        // Rows that expired are deleted, also the last one of a lane.
        server.sql("delete from revocations").await?;
        assert_eq!(read_new(server, &mut position).await?, 0);
        write_as_another_node(server, "client", "c").await?;
        assert_eq!(read_new(server, &mut position).await?, 1);
        Ok(())
    })
}

/// Behind one address there are two servers. The one that answers second lags behind the first.
#[test]
fn what_was_read_before_a_read_failed_is_not_lost() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let database = &server.app.feed_databases[0];
        for subject in ["a", "b"] {
            write_as_another_node(server, "client", subject).await?;
        }
        let mut ahead = store::revocations::poll(&database.connect().await?).await?;
        let head = ahead[1].as_mut().context("the lane is empty")?;
        (head.number, head.id) = (5, random::id(server.now())?);
        let (mut position, mut found) = (FeedPosition::default(), 0);
        let read = read_lanes(database, &ahead, &mut position, |revocations| found += revocations.len()).await;
        assert!(read.is_err_and(|error| error.to_string().contains("lags")));
        assert_eq!(found, 2, "the position moved on, and the revocations were dropped");
        assert_eq!(read_new(server, &mut position).await?, 0);
        Ok(())
    })
}

/// A failover lost a commit, and the lane assigned its number again.
#[test]
fn a_lane_that_was_set_back_is_read_again_rv_10() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let mut position = FeedPosition::default();
        for subject in ["a", "b", "c"] {
            write_as_another_node(server, "client", subject).await?;
        }
        assert_eq!(read_new(server, &mut position).await?, 3);
        let set_back = "with gone as (delete from revocations where number > 1)
                        update revocation_lanes l set last = 1, last_id = r.id from revocations r
                         where l.lane = 1 and (r.lane, r.number) = (1, 1)";
        for subjects in [&["d"][..], &["d", "e"], &["d", "e", "f"]] {
            let mut behind = position.clone();
            server.sql(set_back).await?;
            for subject in subjects {
                write_as_another_node(server, "client", subject).await?;
            }
            assert_eq!(read_new(server, &mut behind).await?, 1 + subjects.len(), "{subjects:?}");
        }
        Ok(())
    })
}

#[test]
fn an_ending_that_was_not_committed_ended_nothing() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let mut transaction = RevocationTransaction::begin(&server.app, server.now()).await?;
        let because = service_api::errors::Reason::RevokedByUser;
        assert!(transaction.revoke_grant(ann.grant_id, because).await?);
        transaction.revoke(Subject::User(ann.user_id), because)?;
        drop(transaction);
        check_alive(server, &ann.access_token).await?;
        crate::support::refresh::refreshed(server, &ann.refresh_token).await.map(drop)
    })
}

#[test]
fn endings_are_forgotten_when_nothing_they_concern_can_live() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let path = format!("/v1/sessions/{}", ann.grant_id);
        let request = server.http.request(Method::DELETE, &path).bearer_auth(&ann.access_token);
        assert_eq!(server.http.send(request).await?.status, 204);
        assert_eq!(server.app.revocations.count(), 1);
        server.advance(2 * 3_600);
        service_server::tasks::housekeeping::clean_once(&server.app).await?;
        assert_eq!(server.sql("select count(*) from revocations").await?.as_deref(), Some("0"));
        let began = Instant::now();
        while server.app.revocations.count() > 0 {
            ensure!(began.elapsed() < Duration::from_secs(5), "it is remembered for ever");
            tokio::task::yield_now().await;
        }
        let metrics = server.ops.get("/metrics", None).await?.text;
        assert!(metrics.contains("service_revocations 0\n"), "{metrics}");
        // Known to the grant's row for as long as that is kept.
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("revoked_by_user"));
        let unheard: GrantId = random::id(server.now())?;
        assert_eq!(crate::support::refresh::column(server, unheard, "1").await?, None);
        Ok(())
    })
}

/// A remembered token is a remembered signature and nothing more.
#[test]
fn a_remembered_token_is_judged_anew_for_every_endpoint_br_20() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "projects:read").await?;
        let others = "/v1/sessions/revoke-others";
        for _ in 0..3 {
            assert_eq!(server.http.get("/v1/projects", Some(&ann.access_token)).await?.status, 200);
            assert_eq!(server.http.get("/v1/sessions", Some(&ann.access_token)).await?.status, 403);
            let request = server.http.request(Method::POST, others).bearer_auth(&ann.access_token);
            let response = server.http.send(request).await?;
            assert_eq!((response.status.as_u16(), response.error()), (403, "insufficient_scope"));
        }
        // The same claims under a signature that is one character off.
        let last = if ann.access_token.ends_with('A') { "B" } else { "A" };
        let changed = format!("{}{last}", &ann.access_token[..ann.access_token.len() - 1]);
        assert_eq!(server.http.get("/v1/projects", Some(&changed)).await?.status, 401);
        Ok(())
    })
}

/// Nodes of two versions run side by side during an upgrade. The older one cannot read what the newer one revokes, but
/// it can read what the newer one changed in the tables.
#[test]
fn a_revocation_of_an_unknown_kind_makes_tokens_be_looked_up_rv_33() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "read write").await?, server.sign_in("bob@acme.test", "read").await?);
        let request = server.http.request(Method::POST, "/v1/cli/tokens").bearer_auth(&ann.access_token);
        let made = server.http.send(request.json(&serde_json::json!({ "name": "CI" }))).await?;
        let cli_token = made.field("access_token").to_owned();
        for token in [&ann.access_token, &bob.access_token, &cli_token] {
            check_alive(server, token).await?;
        }
        // As the newer version's migration and nodes would.
        server.sql("alter table revocations drop constraint revocations_kind_check").await?;
        let revoke = |table: &str| {
            format!(
                "update {table} set revoked_at = created_at, revoked_because = 'leaked' where user_id = '{}'",
                ann.user_id.uuid()
            )
        };
        server.sql(&revoke("grants")).await?;
        server.sql(&revoke("cli_tokens")).await?;
        check_alive(server, &ann.access_token).await?;
        write_as_another_node(server, "device", "device_of_ann").await?;
        for token in [&ann.access_token, &cli_token] {
            let took = refused_after(server, token).await?;
            assert!(took < AT_MOST, "{took:?}");
            check_dead(server, token, "leaked").await?;
        }
        // No other user notices: neither by a refusal, nor by 503 when the row has been there for a while.
        check_alive(server, &bob.access_token).await?;
        // A subject that cannot be read is as good as a kind that is not known.
        write_as_another_node(server, "grant", "not an id").await?;
        let bobs_end = server.sign_in("eve@acme.test", "read").await?;
        write_as_another_node(server, "grant", &bobs_end.grant_id.to_string()).await?;
        assert!(refused_after(server, &bobs_end.access_token).await? < AT_MOST, "the feed stands still");
        check_alive(server, &bob.access_token).await?;
        assert_eq!(server.ops.get("/readyz", None).await?.status, 200);
        Ok(())
    })
}
