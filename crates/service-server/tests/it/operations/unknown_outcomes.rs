//! When the outcome of a write is unknown: 503, never success, and nothing is lost by asking again.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    postgres::Cluster,
    process::Process,
    response::TestResponse,
    server::{Setup, fresh_database, otp_exchange, refresh_body, request_code, signed_in},
};
use tokio_postgres::{Client, NoTls};

const WAITING: &str = "select pid from pg_stat_activity where wait_event = 'SyncRep'";

async fn connect(cluster: &Cluster, database: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(&cluster.url(database), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Makes commits wait for a standby that there is not, or lets them go again.
async fn wait_for_standby(client: &Client, waits: bool) -> Result<()> {
    let names = if waits { "absent" } else { "" };
    client.batch_execute(&format!("alter system set synchronous_standby_names = '{names}'")).await?;
    client.batch_execute("select pg_reload_conf()").await?;
    let wanted = names.to_owned();
    while client.query_one("show synchronous_standby_names", &[]).await?.get::<_, String>(0) != wanted {}
    Ok(())
}

/// Returns when commits do wait: the checkpointer decides that, some time after the setting was changed.
async fn see_one_wait(operator: &Client, probe: &Client) -> Result<()> {
    let pid: i32 = probe.query_one("select pg_backend_pid()", &[]).await?.get(0);
    loop {
        let commit = probe.batch_execute("insert into probe values (1)");
        let waits = async {
            while !operator.query(WAITING, &[]).await?.iter().any(|row| row.get::<_, i32>(0) == pid) {}
            operator.execute("select pg_cancel_backend($1)", &[&pid]).await?;
            anyhow::Ok(())
        };
        tokio::pin!(commit, waits);
        tokio::select! {
            done = &mut commit => done?,
            seen = &mut waits => {
                seen?;
                return Ok(commit.await?);
            }
        }
    }
}

#[track_caller]
fn check_unknown(response: &TestResponse) {
    assert_eq!((response.status.as_u16(), response.error()), (503, "temporarily_unavailable"), "{}", response.text);
    assert!(response.header("retry-after").is_some());
}

#[test]
fn a_commit_that_no_standby_confirmed_is_not_a_success() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let cluster = Cluster::start()?;
        let database = fresh_database(&cluster).await?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &cluster.service_url(&database));
        settings.set("database.deadline_seconds", "2");
        let node = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &server.leaks)?;
        let http = &node.http;
        let sign_in = async |email| {
            let (otp_id, code) = request_code(http, &server.mailbox, &server.leaks, email).await?;
            signed_in(&http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?)
        };
        let (ann, bob) = (sign_in("ann@acme.test").await?, sign_in("bob@acme.test").await?);
        let operator = connect(&cluster, &database).await?;
        // A wait of the operator's own, such as for the checkpoint, must not be in the way.
        operator.batch_execute("set synchronous_commit = local").await?;
        let body = refresh_body(&ann.refresh_token);

        let probe = connect(&cluster, &database).await?;
        probe.batch_execute("create table probe (number int)").await?;
        wait_for_standby(&operator, true).await?;
        see_one_wait(&operator, &probe).await?;
        let asked = Instant::now();
        check_unknown(&http.post("/oauth/token", &body).await?);
        let took = asked.elapsed();
        assert!(took > Duration::from_millis(1_500) && took < Duration::from_millis(4_000), "answered after {took:?}");

        // An operator cancels the wait: PostgreSQL warns, and then says that all went well. It did not.
        let before: Vec<i32> = operator.query(WAITING, &[]).await?.iter().map(|row| row.get(0)).collect();
        let cancel = async {
            let deadline = Instant::now() + Duration::from_secs(5);
            loop {
                let waiting: Vec<i32> = operator.query(WAITING, &[]).await?.iter().map(|row| row.get(0)).collect();
                if let Some(pid) = waiting.iter().find(|pid| !before.contains(pid)) {
                    operator.execute("select pg_cancel_backend($1)", &[pid]).await?;
                    return anyhow::Ok(());
                }
                ensure!(Instant::now() < deadline, "no commit waits");
            }
        };
        let path = format!("/v1/sessions/{}", bob.grant_id);
        let revoke = http.send(http.request(reqwest::Method::DELETE, &path).bearer_auth(&bob.access_token));
        let asked = Instant::now();
        let (response, ()) = tokio::try_join!(revoke, cancel)?;
        check_unknown(&response);
        assert!(asked.elapsed() < Duration::from_millis(1_900), "the deadline answered, not the warning");
        let deadline = Instant::now() + Duration::from_secs(5);
        while !String::from_utf8(node.log())?.contains("A commit was not confirmed by a standby") {
            ensure!(Instant::now() < deadline, "the warning was not noticed");
        }

        wait_for_standby(&operator, false).await?;
        // Both had been written here after all; asking again says so, and no user is signed out by it.
        let again = http.send(http.request(reqwest::Method::DELETE, &path).bearer_auth(&bob.access_token)).await?;
        assert!(matches!(again.status.as_u16(), 204 | 401), "{}", again.text);
        let refused = http.post("/oauth/token", &refresh_body(&bob.refresh_token)).await?;
        assert_eq!(refused.body["details"]["reason"], "revoked_by_user", "{}", refused.text);
        let next = signed_in(&http.post("/oauth/token", &body).await?)?;
        signed_in(&http.post("/oauth/token", &refresh_body(&next.refresh_token)).await?)?;
        sign_in("eve@acme.test").await.context("no recovery").map(drop)
    })
}
