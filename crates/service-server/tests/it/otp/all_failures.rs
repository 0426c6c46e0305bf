//! The limit on wrong codes of all callers: stored in parts, enforced over all of them, and larger when more codes are right.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::try_join_all;
use service_api::Timestamp;
use service_rules::limits::{MAX_OTP_FAILURE_PARTS, MIN_OTP_FAILURE_BURST, Rate};
use service_server::{
    crypto::{digest::sha256, random},
    store,
};
use service_testkit::server::{Setup, TestServer};

use crate::support::otp::{assert_limited, assert_refused, wrong};

const CLIENTS: usize = 32;

/// Enters a wrong code for a new address until the limit on all callers refuses one; returns how many were compared.
async fn guess(server: &TestServer, email: &str) -> Result<u32> {
    let (otp_id, code) = server.request_code(email).await?;
    for step in 1..=5 {
        let response = server.exchange(&otp_id, &wrong(&code, step)?, "read").await?;
        if response.status == 429 {
            assert!(step > 1, "the first try of a code needs no room");
            return Ok(step - 1);
        }
        assert_refused(&response, 400, "invalid_grant");
    }
    Ok(5)
}

#[test]
fn the_parts_of_the_limit_together_allow_no_more_than_it_ot_12() -> Result<()> {
    let (rate, codes) = (Rate { burst: 32, per_hour: 32 }, 60);
    assert_eq!(rate.divide(MAX_OTP_FAILURE_PARTS, MIN_OTP_FAILURE_BURST).0, 4);
    Setup::default().set("limits.otp_failures", "32+32").run(async |server| {
        let mut compared = Vec::new();
        for number in 0..codes {
            compared.push(guess(server, &format!("person{number}@acme.test")).await?);
        }
        let beyond_the_first: u32 = compared.iter().map(|tries| tries - 1).sum();
        assert!((1..=rate.burst).contains(&beyond_the_first), "{compared:?}");
        assert_eq!(compared.last(), Some(&1), "{compared:?}");
        Ok(())
    })
}

#[test]
fn four_right_codes_make_room_for_a_wrong_one_ot_12() -> Result<()> {
    for (percent, right, room) in [("20", 3, 0), ("20", 4, 1), ("20", 8, 2), ("50", 2, 2), ("0", 8, 0)] {
        let setup = Setup::default().set("limits.otp_failures", "8+1").set("limits.otp_failures_percent", percent);
        setup.run(async |server| {
            assert_eq!(guess(server, "eve@acme.test").await?, 5);
            assert_eq!(guess(server, "joe@acme.test").await?, 3);
            for number in 0..right {
                server.sign_in(&format!("person{number}@acme.test"), "read").await?;
            }
            let (otp_id, code) = server.request_code("cay@acme.test").await?;
            // The first try takes room if there is some, and passes if there is none.
            for step in 1..=room.max(1) {
                assert_refused(&server.exchange(&otp_id, &wrong(&code, step)?, "read").await?, 400, "invalid_grant");
            }
            assert_limited(&server.exchange(&otp_id, &code, "read").await?, "otp-failures", 1, 3_600);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn right_codes_add_no_room_beyond_the_burst_ot_12() -> Result<()> {
    Setup::default().set("limits.otp_failures", "8+1").run(async |server| {
        guess(server, "eve@acme.test").await?;
        for number in 0..40 {
            server.sign_in(&format!("person{number}@acme.test"), "read").await?;
        }
        assert_eq!((guess(server, "joe@acme.test").await?, guess(server, "cay@acme.test").await?), (5, 3));
        Ok(())
    })
}

/// Counts this many attempts of each client, each in a transaction, and returns how many a second.
async fn attempts_per_second(
    server: &TestServer,
    key: impl Fn(usize) -> Result<Vec<u8>>,
    now: Timestamp,
) -> Result<f64> {
    let rate = Rate { burst: 1_000_000_000, per_hour: 3_600_000_000 };
    let (key, began, mut counted) = (&key, Instant::now(), 0_u32);
    let until = began + Duration::from_millis(600);
    let clients = (0..CLIENTS).map(async |client| {
        let mut attempts = 0;
        while Instant::now() < until {
            let db = server.app.database.begin().await?;
            anyhow::ensure!(store::rates::take(&db, &key(client)?, rate, now).await?.is_some(), "there was no room");
            db.commit().await?;
            attempts += 1;
        }
        anyhow::Ok(attempts)
    });
    for attempts in try_join_all(clients).await? {
        counted += attempts;
    }
    Ok(f64::from(counted) / began.elapsed().as_secs_f64())
}

#[test]
fn many_clients_with_wrong_codes_do_not_wait_in_one_line_ot_12() -> Result<()> {
    let setup = Setup::default().set("database.connections", "64").set("database.deadline_seconds", "4.9");
    setup.run(async |server| {
        let now = server.now();
        let drawn =
            |_| Ok(sha256((u32::from_be_bytes(random::bytes()?) % MAX_OTP_FAILURE_PARTS).to_be_bytes()).to_vec());
        let own = |client: usize| Ok(sha256(client.to_string()).to_vec());
        let same = |_| Ok(sha256("one row").to_vec());
        let (mut in_parts, mut distinct) = (0.0, 0.0);
        // In turns, so that what else the machine does concerns both.
        for _ in 0..4 {
            in_parts += attempts_per_second(server, drawn, now).await? / 4.0;
            distinct += attempts_per_second(server, own, now).await? / 4.0;
        }
        let one_row = attempts_per_second(server, same, now).await?;
        let ratio = in_parts / distinct;
        println!(
            "{CLIENTS} clients: {distinct:.0}/s in rows of their own, {in_parts:.0}/s in {MAX_OTP_FAILURE_PARTS} parts \
             ({ratio:.2}), {one_row:.0}/s in one row"
        );
        assert!(ratio >= 0.5, "{ratio:.2} of the throughput of distinct rows");
        Ok(())
    })
}
