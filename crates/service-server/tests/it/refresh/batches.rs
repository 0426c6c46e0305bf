//! Refreshes that arrive together share statements. Each caller gets its own result, whatever happens to the others.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::{join_all, try_join_all};
use service_api::ids::Id as _;
use service_rules::rotation::Generations;
use service_server::store::{self, grant_batches::WantedRotation, grants::GrantRotation};
use service_testkit::{
    fault_proxy::FaultProxy,
    process::Process,
    response::TestResponse,
    server::{Setup, SignedIn, TestServer, refresh_body, signed_in, with_server},
};

use crate::support::{
    batches::{metric, together},
    refresh::{check_refused, column, refreshed},
};

const USERS: usize = 20;
/// PostgreSQL's response to the statement that rotates grants. It is sent after the commit.
const ROTATIONS_COMMITTED: &[u8] = b"UPDATE 1";

fn setup() -> Setup {
    Setup::default().set("limits.otp_sends_per_context", "1000/60").set("limits.otp_sends_per_network", "1000+1000")
}

async fn users(server: &TestServer) -> Result<Vec<SignedIn>> {
    try_join_all((0..USERS).map(async |number| server.sign_in(&format!("ann{number}@acme.test"), "read").await)).await
}

async fn refresh_together(server: &TestServer, tokens: &[&str]) -> Result<Vec<TestResponse>> {
    together(server, tokens.iter().map(|token| server.refresh(token)).collect()).await?.into_iter().collect()
}

fn tokens(sessions: &[SignedIn]) -> Vec<&str> {
    sessions.iter().map(|session| session.refresh_token.as_str()).collect()
}

/// How many statements rotated grants, and how many grants they rotated.
fn batches(server: &TestServer) -> Result<(usize, usize)> {
    Ok((metric(server, "service_refresh_batch_size_count ")?, metric(server, "service_refresh_batch_size_sum ")?))
}

#[test]
fn refreshes_of_many_users_share_statements_and_each_gets_its_own_pair() -> Result<()> {
    setup().run(async |server| {
        let sessions = users(server).await?;
        let responses = refresh_together(server, &tokens(&sessions)).await?;
        for (before, response) in sessions.iter().zip(&responses) {
            let after = signed_in(response)?;
            assert_eq!((after.grant_id, after.user_id), (before.grant_id, before.user_id));
            assert_eq!(column(server, before.grant_id, "base || ' ' || issued").await?.as_deref(), Some("1 2"));
            refreshed(server, &after.refresh_token).await?;
        }
        let (statements, rotations) = batches(server)?;
        // Those after the first round come alone.
        assert_eq!(rotations, 2 * USERS, "something was rotated twice");
        ensure!(statements <= USERS + USERS / 2, "{statements} statements: nothing was shared");
        Ok(())
    })
}

#[test]
fn a_hundred_uses_of_one_token_in_a_batch_are_one_rotation() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let responses = refresh_together(server, &[ann.refresh_token.as_str(); 100]).await?;
        let pairs = responses.iter().map(signed_in).collect::<Result<Vec<_>>>()?;
        let successors: BTreeSet<_> = pairs.into_iter().map(|pair| pair.refresh_token).collect();
        assert_eq!(successors.len(), 1);
        assert_eq!(column(server, ann.grant_id, "base || ' ' || issued").await?.as_deref(), Some("1 2"));
        refreshed(server, successors.first().context("no successor")?).await.map(drop)
    })
}

#[test]
fn a_replay_in_a_batch_ends_its_own_grant_only() -> Result<()> {
    setup().run(async |server| {
        let mut sessions = users(server).await?;
        let old = sessions[0].refresh_token.clone();
        for _ in 0..2 {
            sessions[0] = refreshed(server, &sessions[0].refresh_token).await?;
        }
        let mut presented = tokens(&sessions);
        presented.push(&old);
        let responses = refresh_together(server, &presented).await?;
        check_refused(responses.last().context("no response")?, Some("replayed"));
        for response in &responses[1..USERS] {
            signed_in(response)?;
        }
        // The newest token of the same grant was before the replay, or is refused with it.
        let newest = signed_in(&responses[0]).map_or(sessions[0].refresh_token.clone(), |pair| pair.refresh_token);
        check_refused(&server.refresh(&newest).await?, Some("replayed"));
        let ended = server.sql("select count(*) from grants where revoked_at is not null").await?;
        assert_eq!(ended.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn a_grant_that_another_transaction_holds_delays_only_its_own_refresh() -> Result<()> {
    setup().run(async |server| {
        let sessions = users(server).await?;
        let locked = &sessions[USERS / 2];
        let held = server.app.content_database.begin().await?;
        held.execute("select from grants where id = $1 for update", &[&locked.grant_id.uuid()]).await?;
        // It is released when all others have their responses.
        let (held, left) = (RefCell::new(Some(held)), Cell::new(USERS - 1));
        let refresh = async |session: &SignedIn| {
            let response = server.refresh(&session.refresh_token).await?;
            if session.grant_id != locked.grant_id {
                left.set(left.get() - 1);
            }
            if left.get() == 0 {
                drop(held.take());
            }
            signed_in(&response).map(drop)
        };
        together(server, sessions.iter().map(refresh).collect()).await?.into_iter().collect()
    })
}

/// Lets refreshes read their grants, and keeps their rotations waiting. Returns what came of the refreshes.
async fn between_the_statements(
    server: &TestServer,
    sessions: &[SignedIn],
    meanwhile: impl AsyncFnOnce(service_server::database::Connection) -> Result<()>,
) -> Result<Vec<TestResponse>> {
    let held = server.app.content_database.begin().await?;
    held.execute("lock table grants in share mode", &[]).await?;
    let waiting = async {
        // The first alone, and the rest in a batch.
        let waits = "select count(*) > 1 from pg_locks where not granted and relation = 'grants'::regclass";
        while server.sql(waits).await?.as_deref() != Some("t") {
            tokio::task::yield_now().await;
        }
        meanwhile(held).await
    };
    let (responses, ()) =
        tokio::try_join!(try_join_all(sessions.iter().map(|session| server.refresh(&session.refresh_token))), waiting)?;
    Ok(responses)
}

#[test]
fn a_grant_that_is_revoked_between_read_and_rotation_is_not_rotated() -> Result<()> {
    setup().run(async |server| {
        let sessions = users(server).await?;
        let revoked: Vec<_> = sessions[..USERS / 2].iter().map(|session| session.grant_id.uuid()).collect();
        let responses = between_the_statements(server, &sessions, async |held| {
            let sql =
                "update grants set revoked_at = created_at, revoked_because = 'revoked_by_user' where id = any ($1)";
            held.execute(sql, &[&revoked]).await?;
            Ok(held.commit().await?)
        })
        .await?;
        for response in &responses[..USERS / 2] {
            check_refused(response, Some("revoked_by_user"));
        }
        responses[USERS / 2..].iter().try_for_each(|response| signed_in(response).map(drop))?;
        let advanced = server.sql("select count(*) from grants where issued > 1 and revoked_at is not null").await?;
        assert_eq!(advanced.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn a_connection_that_dies_before_the_commit_costs_503_and_rotates_nothing() -> Result<()> {
    setup().run(async |server| {
        let sessions = users(server).await?;
        let responses = between_the_statements(server, &sessions, async |held| {
            let kill =
                "select pg_terminate_backend(pid) from pg_locks where not granted and relation = 'grants'::regclass";
            server.sql(kill).await?;
            drop(held);
            Ok(())
        })
        .await?;
        let failed = responses.iter().filter(|response| response.status == 503).count();
        assert_eq!(failed, USERS, "not all of them were asked for before the connections died");
        let rotated = server.sql("select count(*) from grants where issued > 1").await?;
        assert_eq!(rotated, Some((USERS - failed).to_string()), "a refresh that failed has written");
        for (session, response) in sessions.iter().zip(&responses) {
            ensure!(response.status == 503 || signed_in(response).is_ok(), "{}", response.text);
            refreshed(server, &session.refresh_token).await?;
        }
        Ok(())
    })
}

#[test]
fn a_response_that_is_lost_after_the_commit_costs_503_and_the_retry_gets_the_successor() -> Result<()> {
    setup().on_system_clock().run(async |server| {
        let sessions = users(server).await?;
        let proxy = FaultProxy::start(([127, 0, 0, 1], server.cluster.port()).into())?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &server.cluster.service_url_at(proxy.address.port(), &server.database));
        let node = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &server.leaks)?;
        let refresh =
            async |session: &SignedIn| node.http.post("/oauth/token", &refresh_body(&session.refresh_token)).await;
        let (responses, ()) =
            tokio::join!(try_join_all(sessions.iter().map(refresh)), proxy.hold_back(ROTATIONS_COMMITTED));
        let responses = responses?;
        ensure!(responses.iter().any(|response| response.status == 503), "no response was lost");
        for (session, response) in sessions.iter().zip(&responses) {
            ensure!(response.status == 503 || signed_in(response).is_ok(), "{}", response.text);
            signed_in(&refresh(session).await?)?;
            assert_eq!(column(server, session.grant_id, "base || ' ' || issued").await?.as_deref(), Some("1 2"));
        }
        Ok(())
    })
}

#[test]
fn a_row_that_postgresql_refuses_to_write_fails_its_own_refresh_only() -> Result<()> {
    setup().run(async |server| {
        let sessions = users(server).await?;
        let refused = &sessions[USERS - 1];
        let id = refused.grant_id.uuid();
        server.sql(&format!("alter table grants add constraint refused check (issued < 2 or id <> '{id}')")).await?;
        let responses = refresh_together(server, &tokens(&sessions)).await?;
        let (last, others) = responses.split_last().context("no response")?;
        assert_eq!(last.status, 500, "{}", last.text);
        others.iter().try_for_each(|response| signed_in(response).map(drop))
    })
}

#[test]
fn a_batch_rotates_no_grant_that_was_rotated_since_it_was_read() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "read").await?, server.sign_in("bob@acme.test", "read").await?);
        server.sql(&format!("update grants set base = 2, issued = 3 where id = '{}'", ann.grant_id.uuid())).await?;
        let seen = Generations { base: 0, issued: 1 };
        let wanted = [ann.grant_id, bob.grant_id, bob.grant_id].map(|id| {
            let to = Generations { base: 1, issued: 2 };
            let rotation = GrantRotation { to, issued_key: 1, at: server.now(), from: "127.0.0.1".to_owned() };
            WantedRotation { id, seen, rotation }
        });
        let rotated = store::grant_batches::rotate(&server.app.database.connect().await?, &wanted).await?;
        assert_eq!(rotated, [false, true, false]);
        assert_eq!(column(server, ann.grant_id, "base || ' ' || issued").await?.as_deref(), Some("2 3"));
        assert_eq!(column(server, bob.grant_id, "base || ' ' || issued").await?.as_deref(), Some("1 2"));
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("replayed"));
        Ok(())
    })
}

#[test]
fn a_row_that_cannot_be_read_fails_its_own_refresh_only() -> Result<()> {
    setup().run(async |server| {
        let sessions = users(server).await?;
        let id = sessions[0].grant_id.uuid();
        let poison = "update grants set revoked_at = created_at, revoked_because = 'nonsense' where id = ";
        server.sql(&format!("{poison}'{id}'")).await?;
        let responses = refresh_together(server, &tokens(&sessions)).await?;
        assert_eq!(responses[0].status, 500, "{}", responses[0].text);
        responses[1..].iter().try_for_each(|response| signed_in(response).map(drop))
    })
}

#[test]
fn a_client_that_closes_its_connection_disturbs_no_other() -> Result<()> {
    setup().run(async |server| {
        let sessions = users(server).await?;
        let (leaving, staying) = sessions.split_at(USERS / 2);
        let connections = server.app.config.database.credential_connections;
        let held = try_join_all((0..connections).map(|_| server.app.database.connect())).await?;
        let free = server.app.in_flight.available_permits();
        let arrived = async {
            while server.app.in_flight.available_permits() + USERS > free {
                tokio::task::yield_now().await;
            }
        };
        {
            let leave = join_all(leaving.iter().map(|session| server.refresh(&session.refresh_token)));
            let stay = join_all(staying.iter().map(|session| server.refresh(&session.refresh_token)));
            tokio::pin!(stay);
            tokio::select! {
                _ = leave => anyhow::bail!("answered without a connection"),
                _ = &mut stay => anyhow::bail!("answered without a connection"),
                () = arrived => {}
            }
            drop(held);
            for response in stay.await {
                signed_in(&response?)?;
            }
        }
        for session in leaving {
            refreshed(server, &session.refresh_token).await?;
        }
        Ok(())
    })
}
