//! What the service insists on: a database that keeps what was committed, and secrets that are secret.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use service_server::{clock::Clock, database::migrations, server::Server, tasks::housekeeping};
use service_testkit::{
    postgres::Cluster,
    process::{Process, command},
    server::{Setup, config, fresh_database, with_server},
    settings::Settings,
};

/// Whether `check-config` accepts the settings, and what it says.
fn check_config(settings: &Settings) -> Result<(bool, String)> {
    let output = command(Path::new(env!("CARGO_BIN_EXE_serviced")), settings, "check-config").output()?;
    Ok((output.status.success(), String::from_utf8([output.stdout, output.stderr].concat())?))
}

#[test]
fn commits_wait_whatever_the_role_or_the_database_say_rv_27() -> Result<()> {
    with_server(async |server| {
        server.sql(&format!("alter database {} set synchronous_commit = off", server.database)).await?;
        let db = server.app.heartbeat_database.connect().await?;
        drop(db);
        let fresh = service_server::app::App::new(config(&server.settings)?, Clock::System)?;
        let row = fresh.database.connect().await?.query("select current_setting('synchronous_commit')", &[]).await?;
        assert_eq!(row.first().context("no row")?.get::<_, &str>(0), "on");
        migrations::check_durability(&fresh.config.database).await?;
        for (setting, waits) in [("on", true), ("remote_apply", true), ("off", false), ("local", false)] {
            assert_eq!(service_server::database::commits_wait(setting), waits, "{setting}");
        }
        Ok(())
    })
}

#[test]
fn a_database_that_does_not_sync_is_refused_rv_27() -> Result<()> {
    with_server(async |server| {
        let cluster = Cluster::start_unsafe()?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &cluster.service_url(&fresh_database(&cluster).await?));
        let refused = Server::start(config(&settings)?, Clock::System).await.err().context("it starts")?;
        assert!(refused.to_string().contains("fsync is off"), "{refused:#}");
        Ok(())
    })
}

#[test]
fn an_address_beside_the_name_does_not_slip_past_encryption_rv_42() -> Result<()> {
    with_server(async |server| {
        let check = |url: &str| -> Result<String> {
            let mut settings = server.settings.clone();
            settings.set("database.url", url);
            let app = service_server::app::App::new(config(&settings)?, Clock::System);
            Ok(app.err().map(|error| error.to_string()).unwrap_or_default())
        };
        let local = "host=localhost user=serviced dbname=service sslmode=disable";
        assert_eq!(check(local)?, "");
        assert_eq!(check(&format!("{local} hostaddr=127.0.0.1"))?, "");
        let refused = check(&format!("{local} hostaddr=192.0.2.1"))?;
        assert!(refused.contains("disables TLS to another machine"), "{refused}");
        let refused = check(&format!("{local} hostaddr=2001:db8::1"))?;
        assert!(refused.contains("disables TLS to another machine"), "{refused}");
        Ok(())
    })
}

#[test]
fn a_root_key_that_was_never_drawn_is_refused_rv_41() -> Result<()> {
    with_server(async |server| {
        for byte in [0, 0xff] {
            let mut settings = server.settings.clone();
            settings.set("secrets.root_keys", &format!("1:{}", BASE64_STANDARD.encode([byte; 32])));
            let (success, text) = check_config(&settings)?;
            assert!(!success && text.contains("is not id:key pairs"), "{text}");
        }
        Ok(())
    })
}

#[test]
fn two_root_keys_under_one_id_are_noticed_rv_41() -> Result<()> {
    with_server(async |server| {
        let own = server.settings.get("secrets.root_keys").context("no root key")?.to_owned();
        let other = Settings::random_root_key()?;
        server.leaks.register("root key", &other);
        // Behind the one in use, where nothing else would tell.
        for (keys, refused) in [
            (format!("{own},2:{other}"), false),
            (format!("{own},2:{other}"), false),
            (format!("{own},2:{}", Settings::random_root_key()?), true),
            (format!("1:{other}"), true),
        ] {
            let mut settings = server.settings.clone();
            settings.set("secrets.root_keys", &keys);
            let started = Server::start(config(&settings)?, Clock::System).await;
            assert_eq!(started.is_err(), refused);
            match started {
                Ok(running) => running.stop().await,
                Err(error) => assert!(error.to_string().contains("is not the root key"), "{error:#}"),
            }
        }
        Ok(())
    })
}

#[test]
fn a_world_writable_secret_is_refused_and_a_world_readable_one_warned_of_rv_41() -> Result<()> {
    with_server(async |server| {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("root-keys");
        fs::write(&file, server.settings.get("secrets.root_keys").context("no root key")?)?;
        let mut settings = Settings::default();
        server
            .settings
            .iter()
            .filter(|(key, _)| *key != "secrets.root_keys")
            .for_each(|(key, value)| settings.set(key, value));
        for (mode, success, warned) in
            [(0o600, true, false), (0o640, true, false), (0o644, true, true), (0o606, false, false)]
        {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
            let mut command = command(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, "check-config");
            let output = command.env("SERVICED_SECRETS_ROOT_KEYS_FILE", &file).output()?;
            let text = String::from_utf8([output.stdout, output.stderr].concat())?;
            ensure!(output.status.success() == success, "{mode:o}: {text}");
            ensure!(text.contains("other users can read") == warned, "{mode:o}: {text}");
            ensure!(text.contains("can write to") != success, "{mode:o}: {text}");
        }
        Ok(())
    })
}

#[test]
fn a_role_that_owns_the_schema_is_warned_of_and_one_that_does_not_is_not_rv_40() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let owner = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, &server.leaks)?;
        assert!(String::from_utf8(owner.log())?.contains("The role in database.url owns tables"));
        let role = format!("runs_{}", server.database);
        server
            .sql(&format!(
                "create role {role} login; grant usage on schema public to {role};
                 grant select, insert, update, delete on all tables in schema public to {role};
                 revoke update, delete on audit_events, audit_seals from {role};
                 grant execute on function audit_month_begin(date), audit_month_end(date) to {role}"
            ))
            .await?;
        let mut settings = server.settings.clone();
        settings.set(
            "database.url",
            &server.cluster.service_url(&server.database).replace("serviced@", &format!("{role}@")),
        );
        let node = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &server.leaks)?;
        assert!(!String::from_utf8(node.log())?.contains("owns tables"));
        assert_eq!(node.ops.get("/readyz", None).await?.status, 200);
        drop((owner, node));
        server.sql(&format!("drop owned by {role}; drop role {role}")).await.map(drop)
    })
}

#[test]
fn a_table_that_cannot_be_cleaned_keeps_no_other_from_it_rv_39() -> Result<()> {
    with_server(async |server| {
        server.sign_in("ann@acme.test", "read").await?;
        server.advance(40 * 86_400);
        let expired = "select count(*) from otps";
        assert_eq!(server.sql(expired).await?.as_deref(), Some("1"));
        server.sql("insert into node_heartbeats values (gen_random_uuid(), '2020-01-01Z')").await?;
        // The first and some in the middle: together they take longer than one deadline.
        let held = server.app.database.begin().await?;
        held.execute("lock table otps, outbox, revocations, clients in access exclusive mode", &[]).await?;
        let failed = housekeeping::clean_once(&server.app).await.err().context("nothing failed")?;
        assert!(failed.to_string().contains("could not delete expired rows of otps"), "{failed:#}");
        drop(held);
        let silent = "select count(*) from node_heartbeats where beat_at < '2021-01-01Z'";
        assert_eq!(server.sql(silent).await?.as_deref(), Some("0"), "the last table was not reached");
        housekeeping::clean_once(&server.app).await?;
        assert_eq!(server.sql(expired).await?.as_deref(), Some("0"));
        Ok(())
    })
}
