//! Whatever is done to the record behind the service's back is found.

use anyhow::Result;

use crate::support::audit::{happen, problems, seal, without_limits};

/// What an attacker with write access does to the tables, and what verification reports. Event 5, counted from 0, is under seal 2.
const TAMPERING: &[(&str, &str, &str)] = &[
    ("changed", "update audit_events set event = 'otp.failed' where id = MIDDLE", "seal 2 of"),
    ("emptied", "update audit_events set address = null where id = MIDDLE", "seal 2 of"),
    ("deleted", "delete from audit_events where id = MIDDLE", "3 events were sealed, 2 were found"),
    (
        "swapped",
        "update audit_events set request_id = (select k.request_id from kept_events k where k.id <> audit_events.id
             and k.id in (select id from kept_events order by written_by limit 2))
         where id in (select id from kept_events order by written_by limit 2)",
        "was changed or moved",
    ),
    (
        "reordered",
        "with two as (select array_agg(written_by order by written_by) as w from
             (select written_by from audit_events order by written_by limit 2) first)
         update audit_events set written_by = case when written_by = w[1] then w[2] else w[1] end
           from two where written_by = any(w)",
        "was changed or moved",
    ),
    ("moved in time", "update audit_events set at = at + interval '1 s' where id = MIDDLE", "seal 2 of"),
    ("moved away", "update audit_events set at = at + interval '40 d' where id = MIDDLE", "2 were found"),
    ("hidden", "update audit_events set numbering = 7 where id = MIDDLE", "2 were found"),
    ("postponed", "update audit_events set written_by = 1e15 where id = MIDDLE", "2 were found"),
    ("added", "insert into audit_events select gen_random_uuid(), FORGED, numbering, written_by from kept_events limit 1", "4 were found"),
    ("added ahead", "insert into audit_events select gen_random_uuid(), FORGED, numbering, 1e15 from kept_events limit 1", "not sealed"),
    ("all deleted", "delete from audit_events", "0 were found"),
    ("seal changed", "update audit_seals set events = 2 where number = 2", "seal 2 was changed"),
    ("seal forged", "update audit_seals set mac = sha256('x') where number = 2", "seal 2 was changed"),
    ("seal deleted", "delete from audit_seals where number = 2", "before seal 3 is missing"),
    ("first seal deleted", "delete from audit_seals where number = 1", "before seal 2 is missing"),
    (
        "month said to be dropped",
        "insert into audit_seals select number + 1, month, true, numbering, from_transaction, to_transaction, 0, null, null, '',
             sealed_at, key_id, mac, link from audit_seals where number = 4;
         delete from audit_events",
        "seal 5 was changed",
    ),
];

#[test]
fn whatever_is_changed_behind_the_services_back_is_found() -> Result<()> {
    without_limits().run(async |server| {
        for number in 0..12 {
            happen(server, number).await?;
            if number % 3 == 1 {
                seal(server).await?;
            }
        }
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        server
            .sql("create table kept_events as table audit_events; create table kept_seals as table audit_seals")
            .await?;
        for (name, statement, said) in TAMPERING {
            let statement =
                statement.replace("MIDDLE", "(select id from audit_events order by written_by offset 5 limit 1)");
            let forged = "at, 'key.created', null, null, null, null, null, null, details";
            server.sql(&statement.replace("FORGED", forged)).await?;
            let found = problems(&server.app).await?.join("\n");
            assert!(found.contains(said), "{name}: {found}");
            server
                .sql(
                    "delete from audit_events; insert into audit_events select * from kept_events;
                     delete from audit_seals; insert into audit_seals select * from kept_seals",
                )
                .await?;
            assert_eq!(problems(&server.app).await?, Vec::<String>::new(), "after {name}");
        }
        Ok(())
    })
}
