//! The months of the record: begun ahead of time, and dropped when they need not be kept any longer.

use anyhow::Result;
use service_rules::Timestamp;
use service_server::{clock::Clock, flows::audit::partitions};
use service_testkit::server::{Setup, with_server};

use crate::support::audit::{problems, seal};

const MONTHS: &str =
    "select string_agg(relname, ' ' order by relname) from pg_class where relname ~ '^audit_events_2[0-9_]+$'";

#[test]
fn months_begin_ahead_of_time_and_take_in_what_came_early() -> Result<()> {
    with_server(async |server| {
        server.sign_in("ann@acme.test", "read").await?;
        seal(server).await?;
        partitions::keep(&server.app).await?;
        let expected = "audit_events_2027_01 audit_events_2027_02 audit_events_2027_03";
        assert!(server.sql(MONTHS).await?.is_some_and(|months| months.ends_with(expected)));
        // A node that was away for long writes all the same.
        server.advance(86_400 * 100);
        server.sign_in("bob@acme.test", "read").await?;
        assert_ne!(server.sql("select count(*) from audit_events_of_no_month").await?.as_deref(), Some("0"));
        partitions::keep(&server.app).await?;
        assert_eq!(server.sql("select count(*) from audit_events_of_no_month").await?.as_deref(), Some("0"));
        assert!(server.sql("select count(*) from audit_events_2027_04").await?.is_some_and(|rows| rows != "0"));
        seal(server).await?;
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        Ok(())
    })
}

#[test]
fn a_month_that_need_not_be_kept_is_dropped_and_the_chain_says_so() -> Result<()> {
    // It is the last second of October 2025.
    let clock = Clock::manual(Timestamp::from_second(1_761_955_199)?);
    Setup::default().set("audit.keep_days", "400").on_clock(clock).run(async |server| {
        // In October, November and December of 2025, and 400 days later.
        for (place, days) in [1, 40, 0].into_iter().enumerate() {
            server.sign_in(&format!("person{place}@acme.test"), "read").await?;
            seal(server).await?;
            server.advance(86_400 * days);
            partitions::keep(&server.app).await?;
        }
        let months = server.sql(MONTHS).await?.unwrap_or_default();
        assert!(months.starts_with("audit_events_2025_10 audit_events_2025_11 audit_events_2025_12"), "{months}");
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        server.advance(86_400 * 400);
        partitions::keep(&server.app).await?;
        let months = server.sql(MONTHS).await?.unwrap_or_default();
        assert!(months.starts_with("audit_events_2025_12"), "{months}");
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        server.sql("drop table audit_events_2025_12").await?;
        let found = problems(&server.app).await?.join("");
        assert!(found.contains("3 events were sealed, 0 were found"), "{found}");
        Ok(())
    })
}

#[test]
fn the_partition_functions_do_not_lend_the_rights_of_their_owner() -> Result<()> {
    with_server(async |server| {
        let role = format!("months_{}", server.database);
        server.sql(&format!("create role {role}; grant temporary on database {} to {role}", server.database)).await?;
        let as_role = async |sql: &str| server.sql(&format!("set role {role}; {sql}")).await;
        assert!(as_role("select audit_month_begin('2031-01-01')").await.is_err(), "any role may create a partition");
        server
            .sql(&format!("grant execute on function audit_month_begin(date), audit_month_end(date) to {role}"))
            .await?;
        // Tables of the caller's own are not taken for those of the schema.
        let trap = "create temp table audit_events_of_no_month (at timestamptz);
                    create function pg_temp.trap() returns trigger language plpgsql as
                        $$ begin raise exception 'as %', current_user; end $$;
                    create trigger trap before delete on audit_events_of_no_month for each statement execute function pg_temp.trap()";
        as_role(&format!("{trap}; select audit_month_begin('2031-01-01')")).await?;
        // A date before Christ is of no month, and what happened lately stays.
        for month in ["'2026-11-01 BC'", "clock_timestamp()::date"] {
            assert!(as_role(&format!("select audit_month_end({month})")).await.is_err(), "{month}");
        }
        server.sql(&format!("grant select, update, delete on all tables in schema public to {role}")).await?;
        for table in ["audit_events", "audit_events_2027_01", "audit_seals"] {
            server.sign_in(&format!("{table}@acme.test"), "read").await?;
            seal(server).await?;
            assert!(as_role(&format!("delete from {table}")).await.is_err(), "{table} can be emptied");
        }
        server.sql(&format!("drop owned by {role}; drop role {role}")).await.map(drop)
    })
}
