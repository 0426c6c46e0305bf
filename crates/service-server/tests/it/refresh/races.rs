//! Refreshing at once, over several processes, and while they are killed: one lineage, whatever happens.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use service_api::ids::Id as _;
use service_testkit::{
    faults,
    leaks::Leaks,
    process::Process,
    response::{TestClient, TestResponse},
    rounds::rounds,
    server::{Setup, TestServer, otp_exchange, refresh_body, request_code, signed_in, with_server},
};

use crate::support::refresh::{check_refused, column, refreshed};

const SERVICED: &str = env!("CARGO_BIN_EXE_serviced");

const AT_ONCE: usize = 100;

fn start(server: &TestServer, count: usize) -> Result<Vec<Process>> {
    (0..count).map(|_| Process::start(Path::new(SERVICED), &server.settings, &server.leaks)).collect()
}

/// One row on a line: what the client holds is what the database says is the youngest.
fn successors(responses: &[TestResponse]) -> Result<BTreeSet<String>> {
    responses.iter().map(|response| Ok(signed_in(response)?.refresh_token)).collect()
}

/// A check and an update that are not one (Keycloak, CVE-2026-1035; better-auth, GHSA-392p) would leave two lineages.
#[test]
fn a_hundred_uses_at_once_over_three_nodes_leave_one_lineage_rf_05() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let (nodes, rounds) = (start(server, 3)?, rounds(40, 200));
        let (otp_id, code) = request_code(&nodes[0].http, &server.mailbox, &server.leaks, "ann@acme.test").await?;
        let ann = signed_in(&nodes[0].http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read")).await?)?;
        let mut token = ann.refresh_token.clone();
        // Thousands of tokens are too many to search for; the first and the last are searched for.
        let unsearched = |node: &Process| TestClient::new(node.http.url.clone(), Leaks::default());
        let clients = nodes.iter().map(unsearched).collect::<Result<Vec<_>>>()?;
        for round in 0..rounds {
            let body = refresh_body(&token);
            let uses = (0..AT_ONCE).map(|number| clients[number % clients.len()].post("/oauth/token", &body));
            let responses = try_join_all(uses).await?;
            let next = successors(&responses).with_context(|| format!("round {round}"))?;
            ensure!(next.len() == 1, "round {round}: {} successors", next.len());
            token = next.into_iter().next().context("no successor")?;
        }
        server.leaks.register("refresh token", &token);
        let issued = column(server, ann.grant_id, "issued").await?;
        assert_eq!(issued.as_deref(), Some((rounds + 1).to_string().as_str()));
        assert_eq!(column(server, ann.grant_id, "revoked_at").await?, None);
        let log = server.cluster.log()?;
        assert!(!log.contains("deadlock detected"), "deadlocks");
        println!("{rounds} rounds of {AT_ONCE} uses at once over {} processes: one successor each", nodes.len());
        for node in &nodes {
            server.leaks.assert_clean("a node's log", &node.log());
        }
        Ok(())
    })
}

#[test]
fn a_node_killed_between_commit_and_response_costs_no_user_a_sign_in() -> Result<()> {
    Setup::default()
        .on_system_clock()
        .run(async |server| faults::kill_between_commit_and_answer(server, Path::new(SERVICED), 50, |_| {}).await)
}

/// What was known about old tokens is in the database, not in a process (Keycloak, CVE-2026-9802).
#[test]
fn a_restart_of_all_nodes_forgets_nothing_about_old_tokens_rf_11() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let nodes = start(server, 2)?;
        let http = nodes[0].http.clone();
        let (otp_id, code) = request_code(&http, &server.mailbox, &server.leaks, "ann@acme.test").await?;
        let first = signed_in(&http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read")).await?)?;
        let second = signed_in(&http.post("/oauth/token", &refresh_body(&first.refresh_token)).await?)?;
        let third = signed_in(&http.post("/oauth/token", &refresh_body(&second.refresh_token)).await?)?;
        drop(nodes);
        let nodes = start(server, 2)?;
        check_refused(
            &nodes[0].http.post("/oauth/token", &refresh_body(&first.refresh_token)).await?,
            Some("replayed"),
        );
        drop(nodes);
        let nodes = start(server, 2)?;
        check_refused(
            &nodes[1].http.post("/oauth/token", &refresh_body(&third.refresh_token)).await?,
            Some("replayed"),
        );
        let whoami = nodes[1].http.get("/v1/whoami", Some(&third.access_token)).await?;
        assert_eq!((whoami.status.as_u16(), whoami.error()), (401, "invalid_token"));
        Ok(())
    })
}

/// What it has read is old by the time it writes: it must look again, and not write what follows from the old.
#[test]
fn a_rotation_that_had_to_wait_judges_what_is_there_then_rf_06() -> Result<()> {
    with_server(async |server| {
        let cases = [
            ("revoked_at = created_at, revoked_because = 'revoked_by_user'", Some("revoked_by_user")),
            ("base = 2, issued = 3", Some("replayed")),
            ("base = 0, issued = 2", Some("superseded")),
            ("base = 1, issued = 2, issued_key = 1", None),
        ];
        for (number, (meanwhile, expected)) in cases.into_iter().enumerate() {
            let ann = server.sign_in(&format!("ann{number}@acme.test"), "read").await?;
            let held = server.app.database.begin().await?;
            let id = ann.grant_id.uuid();
            held.execute(&format!("update grants set {meanwhile} where id = $1"), &[&id]).await?;
            let waiting = async {
                while server.sql("select count(*) from pg_locks where not granted").await?.as_deref() == Some("0") {
                    tokio::task::yield_now().await;
                }
                Ok(held.commit().await?)
            };
            let (response, ()) = tokio::try_join!(server.refresh(&ann.refresh_token), waiting)?;
            match expected {
                Some(reason) => check_refused(&response, Some(reason)),
                // Another process rotated the same token: the same successor, and nothing written twice.
                None => {
                    assert_eq!(column(server, ann.grant_id, "base || ' ' || issued").await?.as_deref(), Some("1 2"));
                }
            }
        }
        Ok(())
    })
}

/// A replay while a rotation is under way: whichever commits first, the grant is over (better-auth, issue 11317).
#[test]
fn a_replay_during_a_rotation_ends_the_grant_whichever_commits_first_rf_06() -> Result<()> {
    with_server(async |server| {
        for round in 0..20 {
            let first = server.sign_in(&format!("ann{round}@acme.test"), "read").await?;
            let second = refreshed(server, &first.refresh_token).await?;
            let third = refreshed(server, &second.refresh_token).await?;
            // Both have read the row, and wait for it.
            let held = server.app.database.begin().await?;
            let id = first.grant_id.uuid();
            held.execute("select from grants where id = $1 for update", &[&id]).await?;
            let waiting = async {
                let both = "select count(*) from pg_locks where not granted and locktype in ('transactionid', 'tuple')
                              and pid in (select pid from pg_stat_activity where datname = current_database())";
                while server.sql(both).await?.as_deref() != Some("2") {
                    tokio::task::yield_now().await;
                }
                drop(held);
                anyhow::Ok(())
            };
            let rotation = server.refresh(&third.refresh_token);
            let replay = server.refresh(&first.refresh_token);
            let (rotated, replayed, ()) = if round % 2 == 0 {
                tokio::try_join!(rotation, replay, waiting)?
            } else {
                let (replayed, rotated, waited) = tokio::try_join!(replay, rotation, waiting)?;
                (rotated, replayed, waited)
            };
            check_refused(&replayed, Some("replayed"));
            assert_eq!(column(server, first.grant_id, "revoked_because").await?.as_deref(), Some("replayed"));
            let fourth = signed_in(&rotated).ok();
            for token in [&third.refresh_token].into_iter().chain(fourth.as_ref().map(|pair| &pair.refresh_token)) {
                check_refused(&server.refresh(token).await?, Some("replayed"));
            }
            for pair in fourth.iter().chain([&third]) {
                assert_eq!(server.http.get("/v1/whoami", Some(&pair.access_token)).await?.status, 401, "round {round}");
            }
        }
        Ok(())
    })
}
