//! The chain of seals: whatever is done to the record behind the service's back is found.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use service_server::{app::App, flows::audit::sealing, tasks::housekeeping};
use service_testkit::server::{config, with_server};

use crate::support::admin;
use crate::support::audit::{happen, problems, seal, without_limits};

#[test]
fn an_operator_verifies_and_an_anchor_finds_a_chain_that_was_cut_off() -> Result<()> {
    without_limits().on_system_clock().run(async |server| {
        happen(server, 0).await?;
        seal(server).await?;
        let printed = admin::run(server, &["audit", "verify"])?;
        assert!(printed.contains("The audit log is intact up to seal 1"), "{printed}");
        happen(server, 1).await?;
        seal(server).await?;
        let printed = admin::run(server, &["audit", "verify"])?;
        let anchor = printed.lines().find_map(|line| line.split_once("--anchor ")).map_or("", |(_, anchor)| anchor);
        admin::run(server, &["audit", "verify", "--anchor", anchor])?;
        server
            .sql(
                "delete from audit_events where written_by >= (select max(from_transaction) from audit_seals);
                 delete from audit_seals where number = 2",
            )
            .await?;
        admin::run(server, &["audit", "verify"])?;
        let (success, printed) = admin::admin(server, &["audit", "verify", "--anchor", anchor])?;
        assert!(!success && printed.contains("seals were removed"), "{printed}");
        server.sql("update audit_events set event = 'x'").await?;
        let (success, printed) = admin::admin(server, &["audit", "verify"])?;
        assert!(!success && printed.contains("PROBLEM: seal 1 of"), "{printed}");
        Ok(())
    })
}

#[test]
fn writers_at_once_and_two_who_seal_leave_one_unbroken_chain() -> Result<()> {
    without_limits().set("database.connections", "40").run(async |server| {
        let other = App::new(config(&server.settings)?, server.app.clock.clone())?;
        let writing = async {
            let all = (0..1_000).map(|number| happen(server, number));
            let mut all = futures_util::stream::iter(all);
            futures_util::StreamExt::for_each_concurrent(&mut all, 100, async |writer| {
                writer.await.unwrap_or_default();
            })
            .await;
        };
        let sealing = async |app: &App| loop {
            drop(sealing::seal(app).await);
            tokio::task::yield_now().await;
        };
        tokio::select! {
            () = writing => {}
            () = sealing(&server.app) => {}
            () = sealing(&other) => {}
        }
        seal(server).await?;
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        let sealed = server.sql("select sum(events) from audit_seals").await?;
        assert_eq!(sealed, server.sql("select count(*) from audit_events").await?);
        let seals: u32 = server.sql("select count(*) from audit_seals").await?.unwrap_or_default().parse()?;
        println!("1000 events by 100 writers at once, under {seals} seals");
        assert!(seals > 3);
        Ok(())
    })
}

#[test]
fn a_transaction_that_commits_late_is_sealed_late_and_delays_no_other() -> Result<()> {
    without_limits().run(async |server| {
        let url = server.cluster.url(&server.database);
        let (mut slow, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
        let driving = tokio::spawn(connection);
        let late = slow.transaction().await?;
        let insert = "insert into audit_events (id, at, event, details)
                      values (gen_random_uuid(), '2027-01-15T08:00:00Z', 'user.created', '{}')";
        late.execute(insert, &[]).await?;
        for number in 0..3 {
            happen(server, number).await?;
        }
        housekeeping::seal_all(&server.app).await?;
        let unsealed =
            || server.sql("select count(*) - coalesce((select sum(events) from audit_seals), 0) from audit_events");
        assert_eq!(unsealed().await?.as_deref(), Some("3"), "what a running transaction may add to was sealed");
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        late.commit().await?;
        seal(server).await?;
        assert_eq!(unsealed().await?.as_deref(), Some("0"));
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        drop(slow);
        driving.await??;
        Ok(())
    })
}

#[test]
fn the_chain_goes_on_where_a_dump_was_restored_and_transactions_are_numbered_anew() -> Result<()> {
    without_limits().run(async |server| {
        happen(server, 0).await?;
        seal(server).await?;
        happen(server, 1).await?;
        // Another database numbers from the beginning: what it writes has lower numbers than what came along.
        server
            .sql(
                "update audit_numbering set numbering = 42;
                 alter table audit_events alter column written_by set default 5",
            )
            .await?;
        happen(server, 2).await?;
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        seal(server).await?;
        assert_eq!(
            server.sql("select sum(events) from audit_seals").await?,
            server.sql("select count(*) from audit_events").await?
        );
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        Ok(())
    })
}

#[test]
fn a_seal_is_proved_under_the_root_key_that_made_it() -> Result<()> {
    with_server(async |server| {
        happen(server, 0).await?;
        seal(server).await?;
        let old = server.settings.get("secrets.root_keys").unwrap_or_default().to_owned();
        let new = format!(
            "9:{}",
            base64::Engine::encode(&base64::prelude::BASE64_STANDARD, b"a root key of thirty-two letters")
        );
        let with = |keys: &str| -> Result<App> {
            let mut settings = server.settings.clone();
            settings.set("secrets.root_keys", keys);
            App::new(config(&settings)?, server.app.clock.clone())
        };
        let both = with(&format!("{new},{old}"))?;
        happen(server, 1).await?;
        seal(server).await?;
        happen(server, 2).await?;
        let began = Instant::now();
        while housekeeping::seal_all(&both).await?.is_none() {
            ensure!(began.elapsed() < Duration::from_secs(30), "nothing is sealed");
        }
        assert_eq!(problems(&both).await?, Vec::<String>::new());
        // A later seal proves those before it, whose key may be gone.
        assert_eq!(problems(&with(&new)?).await?, Vec::<String>::new());
        let lost = problems(&with(&old)?).await?.join("");
        assert!(lost.contains("root key 9"), "the lost key is not named: {lost}");
        Ok(())
    })
}

#[test]
fn what_is_recorded_as_of_long_ago_is_found() -> Result<()> {
    without_limits().run(async |server| {
        happen(server, 0).await?;
        seal(server).await?;
        for (at, name) in [("at - interval '8 months'", "past"), ("at + interval '2 days'", "future")] {
            let forged = format!(
                "insert into audit_events (id, at, event, details)
                 select gen_random_uuid(), {at}, 'user.enabled', '{{}}' from audit_events limit 1"
            );
            server.sql(&forged).await?;
            seal(server).await?;
            let found = problems(&server.app).await?.join("\n");
            assert!(found.contains("cannot have been recorded then"), "{name}: {found}");
        }
        Ok(())
    })
}

#[test]
fn a_node_builds_on_no_chain_that_was_cut_off_or_forged() -> Result<()> {
    without_limits().run(async |server| {
        for number in 0..2 {
            happen(server, number).await?;
            seal(server).await?;
        }
        server.sql("create table kept_seals as table audit_seals; delete from audit_seals where number = 2").await?;
        assert!(sealing::seal(&server.app).await.is_err(), "an older end is built on");
        server.sql("insert into audit_seals select * from kept_seals where number = 2").await?;
        sealing::seal(&server.app).await?;
        server.sql("update audit_seals set to_transaction = 9e18 where number = 2").await?;
        assert!(sealing::seal(&server.app).await.is_err(), "a forged end is built on");
        Ok(())
    })
}

#[test]
fn unsealed_events_are_reported() -> Result<()> {
    with_server(async |server| {
        happen(server, 0).await?;
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        seal(server).await?;
        server.sql("delete from audit_seals").await?;
        server.advance(3_601);
        let found = problems(&server.app).await?.join("\n");
        assert!(found.contains("are not sealed"), "{found}");
        Ok(())
    })
}
