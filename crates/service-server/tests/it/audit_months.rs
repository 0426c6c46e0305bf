//! The months of the record: begun ahead of time, and dropped when they need not be kept any longer.

use anyhow::Result;
use service_server::flows::audit_months;
use service_testkit::server::{Setup, with_server};

use crate::audit_seals::{problems, seal};

const MONTHS: &str =
    "select string_agg(relname, ' ' order by relname) from pg_class where relname ~ '^audit_events_2[0-9_]+$'";

#[test]
fn months_begin_ahead_of_time_and_take_in_what_came_early() -> Result<()> {
    with_server(async |server| {
        server.sign_in("ann@acme.test", "read").await?;
        seal(server).await?;
        audit_months::keep(&server.app).await?;
        let expected = "audit_events_2027_01 audit_events_2027_02 audit_events_2027_03";
        assert_eq!(server.sql(MONTHS).await?.as_deref(), Some(expected));
        // A node that was away for long writes all the same.
        server.advance(86_400 * 100);
        server.sign_in("bob@acme.test", "read").await?;
        assert_ne!(server.sql("select count(*) from audit_events_of_no_month").await?.as_deref(), Some("0"));
        audit_months::keep(&server.app).await?;
        assert_eq!(server.sql("select count(*) from audit_events_of_no_month").await?.as_deref(), Some("0"));
        assert!(server.sql("select count(*) from audit_events_2027_04").await?.is_some_and(|rows| rows != "0"));
        seal(server).await?;
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        Ok(())
    })
}

#[test]
fn a_month_that_need_not_be_kept_is_dropped_and_the_chain_says_so() -> Result<()> {
    Setup::default().set("audit.keep_days", "400").run(async |server| {
        let old = "insert into audit_events (id, at, event, details) select gen_random_uuid(), at, 'user.created', '{}'
                     from unnest(array['2025-10-31T23:59:59Z', '2025-11-01', '2025-12-31T23:59:59Z']::timestamptz[]) at";
        server.sql(old).await?;
        audit_months::keep(&server.app).await?;
        seal(server).await?;
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        // 400 days before 15 January 2027 it is 11 December 2025.
        audit_months::keep(&server.app).await?;
        let months = server.sql(MONTHS).await?.unwrap_or_default();
        assert!(months.starts_with("audit_events_2025_12 audit_events_2027_01"), "{months}");
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        server.sql("drop table audit_events_2025_12").await?;
        let found = problems(&server.app).await?.join("");
        assert!(found.contains("1 events were sealed, 0 are there"), "{found}");
        Ok(())
    })
}
