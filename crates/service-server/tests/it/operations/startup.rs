//! Starting on a database: its schema, its keys, and what the operator is told when something does not fit.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::future::try_join_all;
use serde_json::json;
use service_server::{app::App, clock::Clock, flows::audit::partitions, server::Server, tasks::housekeeping};
use service_testkit::{
    documents,
    process::{Process, command},
    server::{Setup, TestServer, config, fresh_database, otp_exchange, request_code, signed_in, with_server},
    settings::Settings,
};
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

/// The advisory lock that a migration holds.
const MIGRATION_LOCK: i64 = 0x5e72_1ce0_0001;

struct Outcome {
    success: bool,
    text: String,
}

fn serviced(settings: &Settings, subcommand: &str) -> Command {
    command(Path::new(env!("CARGO_BIN_EXE_serviced")), settings, subcommand)
}

/// Waits until the program has ended, and not for ever: one that should refuse to start might start.
async fn finish(server: &TestServer, command: Command) -> Result<Outcome> {
    let mut command = tokio::process::Command::from(command);
    let ended = timeout(Duration::from_secs(20), command.kill_on_drop(true).output());
    let output = ended.await.context("it did not end")??;
    let bytes = [output.stdout, output.stderr].concat();
    server.leaks.assert_clean("what was printed", &bytes);
    let code = output.status.code();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    ensure!(matches!(code, Some(0 | 1)), "it ended with {code:?}: {text}");
    Ok(Outcome { success: code == Some(0), text })
}

async fn check_refused(server: &TestServer, settings: &Settings, subcommand: &str, expected: &[&str]) -> Result<()> {
    let Outcome { success, text } = finish(server, serviced(settings, subcommand)).await?;
    ensure!(!success && expected.iter().all(|part| text.contains(part)), "{subcommand}: {text}");
    Ok(())
}

fn check_starts(server: &TestServer, settings: &Settings) -> Result<()> {
    let mut node = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), settings, &server.leaks)?;
    ensure!(node.terminate()? == Some(0), "it did not stop in order");
    Ok(())
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The server's settings, but for a database without a schema.
async fn on_empty_database(server: &TestServer) -> Result<Settings> {
    let mut settings = server.settings.clone();
    settings.set("database.url", &server.cluster.create_database(&format!("{}_empty", server.database), None).await?);
    Ok(settings)
}

fn run(test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
    Setup::default().on_system_clock().run(test)
}

#[test]
fn a_role_that_bypasses_row_level_security_is_refused() -> Result<()> {
    with_server(async |server| {
        let mut settings = server.settings.clone();
        settings.set("database.url", &server.cluster.url(&server.database));
        let refused = Server::start(config(&settings)?, Clock::System).await.err().context("it starts")?;
        assert!(refused.to_string().contains("row-level security does not apply"), "{refused:#}");
        Ok(())
    })
}

#[test]
fn a_database_that_lacks_a_migration_is_refused_and_the_way_out_is_named() -> Result<()> {
    run(async |server| {
        let settings = on_empty_database(server).await?;
        for subcommand in ["run", "keys list", "keys rotate"] {
            check_refused(server, &settings, subcommand, &["version 0", "run `serviced migrate` first"]).await?;
        }
        let migrated = finish(server, serviced(&settings, "migrate")).await?;
        assert!(migrated.success && migrated.text.contains("applied "), "{}", migrated.text);
        let applied: Vec<_> = migrated.text.lines().filter_map(|line| line.strip_prefix("applied ")).collect();
        for (number, name) in (1..).zip(&applied) {
            let announced = format!("Applying {name} ({number} of {}) …\n", applied.len());
            assert!(migrated.text.contains(&announced), "{}", migrated.text);
        }
        let again = finish(server, serviced(&settings, "migrate")).await?;
        assert!(again.success && again.text == "The schema is up to date.\n", "{}", again.text);
        check_starts(server, &settings)?;

        let client = connect(settings.get("database.url").context("no database")?).await?;
        let last = "select max(version) from refinery_schema_history";
        let newest: i32 = client.query_one(last, &[]).await?.try_get(0)?;
        // During a rolling upgrade the schema is ahead of the older nodes.
        let ahead = "insert into refinery_schema_history select version + 1, 'ahead', applied_on, checksum
                     from refinery_schema_history where version = $1";
        client.execute(ahead, &[&newest]).await?;
        check_starts(server, &settings)?;
        client.execute("delete from refinery_schema_history where version >= $1", &[&newest]).await?;
        let before: i32 = client.query_one(last, &[]).await?.try_get(0)?;
        let (behind, needed) = (format!("version {before}"), format!("needs {newest}"));
        check_refused(server, &settings, "run", &[&behind, &needed, "serviced migrate"]).await
    })
}

#[test]
fn of_several_that_migrate_at_once_one_does() -> Result<()> {
    run(async |server| {
        let settings = on_empty_database(server).await?;
        let outcomes = try_join_all((0..4).map(|_| finish(server, serviced(&settings, "migrate")))).await?;
        for outcome in &outcomes {
            assert!(outcome.success, "{}", outcome.text);
        }
        assert_eq!(outcomes.iter().filter(|outcome| outcome.text.contains("applied ")).count(), 1);
        check_starts(server, &settings)
    })
}

#[test]
fn a_migration_waits_for_one_that_takes_its_time() -> Result<()> {
    run(async |server| {
        let settings = on_empty_database(server).await?;
        let client = connect(settings.get("database.url").context("no database")?).await?;
        client.execute("select pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await?;
        // Longer than a request of the service would wait for a lock.
        let other = async {
            client.execute("select pg_sleep(3)", &[]).await?;
            ensure!(client.execute("select pg_advisory_unlock($1)", &[&MIGRATION_LOCK]).await? == 1);
            Ok(())
        };
        let (outcome, ()) = tokio::try_join!(finish(server, serviced(&settings, "migrate")), other)?;
        assert!(outcome.success && outcome.text.contains("Waiting for another migration"), "{}", outcome.text);
        Ok(())
    })
}

#[test]
fn a_wrong_root_key_is_noticed_before_it_does_harm() -> Result<()> {
    run(async |server| {
        let mut settings = server.settings.clone();
        settings.set("database.url", &server.cluster.service_url(&fresh_database(server.cluster).await?));
        check_starts(server, &settings)?;
        let client = connect(settings.get("database.url").context("no database")?).await?;
        let other = BASE64_STANDARD.encode(b"a root key of thirty-two letters");
        let right = settings.get("secrets.root_keys").context("no root key")?.to_owned();
        for (keys, expected) in
            [(format!("1:{other}"), "root key"), (format!("2:{other}"), "root key 1, which is not configured")]
        {
            let mut wrong = settings.clone();
            wrong.set("secrets.root_keys", &keys);
            for subcommand in ["run", "keys rotate"] {
                let Outcome { success, text } = finish(server, serviced(&wrong, subcommand)).await?;
                ensure!(!success && text.contains(expected) && !text.contains(&other), "{subcommand}: {text}");
                let count: i64 = client.query_one("select count(*) from signing_keys", &[]).await?.try_get(0)?;
                ensure!(count == 1, "{subcommand} made a key that no other node can open");
            }
        }
        check_starts(server, &settings)?;
        // A new root key in front of the old one is how keys are replaced.
        settings.set("secrets.root_keys", &format!("2:{other},{right}"));
        check_starts(server, &settings)
    })
}

#[test]
fn what_keeps_a_node_from_starting_is_said_without_secrets() -> Result<()> {
    run(async |server| {
        server.leaks.register("password", "canary-password");
        let changed = |key: &str, value: &str| {
            let mut settings = server.settings.clone();
            settings.set(key, value);
            settings
        };
        let taken = server.address.to_string();
        for key in ["http.listen", "http.ops_listen"] {
            check_refused(server, &changed(key, &taken), "run", &[&format!("cannot listen on {taken}")]).await?;
        }
        let port = server.cluster.port();
        for (url, may_wait) in [
            ("postgres://service:canary-password@127.0.0.1:1/service".to_owned(), true),
            ("postgres://service:canary-password@nowhere.invalid/service".to_owned(), true),
            (format!("postgres://service:canary-password@127.0.0.1:{port}/nothing_here"), false),
            (format!("postgres://service:canary-password@127.0.0.1:{port}/{}?sslmode=require", server.database), false),
        ] {
            let subcommands = if may_wait { &["migrate", "keys list"][..] } else { &["run", "migrate", "keys list"] };
            for subcommand in subcommands {
                check_refused(server, &changed("database.url", &url), subcommand, &["database.url"]).await?;
            }
        }
        Ok(())
    })
}

/// The grants that docs/operating.md gives the role of nodes, for another role.
fn documented_grants(role: &str) -> Result<String> {
    let blocks = documents::read("docs/operating.md")?.blocks();
    let block = blocks.iter().find(|block| block.text.contains("create role serviced_owner"));
    let statements = block.context("docs/operating.md creates no roles")?.text.lines();
    let grants = statements.filter(|line| line.starts_with("grant ") || line.starts_with("revoke "));
    Ok(grants.map(|line| line.replace(" serviced;", &format!(" {role}; "))).collect())
}

#[test]
fn a_node_needs_no_more_of_the_database_than_its_rows() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let role = format!("plain_{}", server.database);
        let grants = documented_grants(&role)?;
        server.sql(&format!("create role {role} login; grant usage on schema public to {role}; {grants}")).await?;
        let mut settings = server.settings.clone();
        let url = server.cluster.service_url(&server.database).replace("serviced@", &format!("{role}@"));
        settings.set("database.url", &url);
        let node = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &server.leaks)?;
        let (otp_id, code) = request_code(&node.http, &server.mailbox, &server.leaks, "ann@acme.test").await?;
        let ann = signed_in(&node.http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?)?;
        let pack = json!({ "type": "context", "name": "Tides", "text": "High water comes twice a day." });
        let search = json!({ "type": "context", "query": "tides" });
        for (path, body, expected) in [("/v1/packs", pack, 201), ("/v1/packs/search", search, 200)] {
            let request = node.http.request(reqwest::Method::POST, path).bearer_auth(&ann.access_token);
            let response = node.http.send(request.json(&body)).await?;
            ensure!(response.status == expected, "{path}: {}", response.text);
        }
        let path = format!("/v1/sessions/{}", ann.grant_id);
        let request = node.http.request(reqwest::Method::DELETE, &path).bearer_auth(&ann.access_token);
        assert_eq!(node.http.send(request).await?.status, 204);
        assert_eq!(node.ops.get("/readyz", None).await?.status, 200);
        drop(node);
        // Nor to seal what happened, and to begin and drop months of it.
        let app = App::new(config(&settings)?, Clock::System)?;
        server.sql("select audit_month_begin('2020-01-01')").await?;
        partitions::keep(&app).await?;
        assert_eq!(server.sql("select to_regclass('audit_events_2020_01')::text").await?, None);
        assert!(housekeeping::seal_all(&app).await?.is_some());
        for forbidden in ["update audit_events set event = ''", "delete from audit_events", "delete from audit_seals"] {
            let refused = server.sql(&format!("set role {role}; {forbidden}")).await;
            assert!(refused.is_err(), "{forbidden}");
        }
        let recent = "select audit_month_end(clock_timestamp()::date)";
        assert!(server.sql(&format!("set role {role}; {recent}")).await.is_err());
        drop(app);
        server.sql(&format!("drop owned by {role}; drop role {role}")).await.map(drop)
    })
}
