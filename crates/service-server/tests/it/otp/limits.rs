//! How many codes are sent and how many wrong ones are taken, by address, by network and altogether.

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use jiff::SignedDuration;
use reqwest::Method;
use service_server::config::SETTINGS;
use service_testkit::server::{Setup, TestServer, otp_exchange};

use crate::support::otp::assert_limited;
use crate::support::otp::{ask, assert_refused, count, wrong};

/// What the service does unless it is told otherwise; the test kit tells it otherwise.
fn default_of(key: &str) -> Result<&'static str> {
    SETTINGS.iter().find(|setting| setting.key == key).and_then(|setting| setting.default).context("no such default")
}

/// The limits on sending codes that a server has unless it is told otherwise.
fn with_sending_limits() -> Result<Setup> {
    let keys = ["context", "address_and_network", "address"].map(|of| format!("limits.otp_sends_per_{of}"));
    keys.iter().try_fold(Setup::default(), |setup, key| Ok(setup.set(key, default_of(key)?)))
}

/// Each address gets a code now.
async fn assert_sent(server: &TestServer, emails: &[&str]) -> Result<()> {
    for email in emails {
        assert_eq!(ask(server, email).await?.status, 201, "{email}");
    }
    Ok(())
}

#[test]
fn an_address_gets_one_code_a_minute_five_an_hour_ten_a_day_from_a_network_ot_12() -> Result<()> {
    with_sending_limits()?.run(async |server| {
        server.sign_in("known@acme.test", "read").await?;
        server.advance(86_400);
        let both = ["known@acme.test", "unknown@acme.test"];
        let limited = async |quota, window, seconds| {
            for email in both {
                let response = ask(server, email).await?;
                assert_eq!(assert_limited(&response, "otp-address-network", quota, window), seconds, "{email}");
            }
            anyhow::Ok(())
        };
        assert_sent(server, &both).await?;
        for email in both {
            assert_eq!(assert_limited(&ask(server, email).await?, "otp-context", 1, 60), 60, "{email}");
        }
        server.advance(60);
        for left in [4, 5] {
            for _ in 0..left {
                assert_sent(server, &both).await?;
                server.advance(60);
            }
            server.advance(3_300);
        }
        // Twice five in two hours, and the first hour's have left their window.
        limited(10, 86_400, 79_200).await?;
        server.advance(79_199);
        limited(10, 86_400, 1).await?;
        server.advance(1);
        assert_sent(server, &both).await
    })
}

#[test]
fn the_fifth_code_of_an_hour_waits_for_the_first_to_leave_it_ot_12() -> Result<()> {
    with_sending_limits()?.run(async |server| {
        for _ in 0..5 {
            assert_sent(server, &["ann@acme.test"]).await?;
            server.advance(60);
        }
        let wait = assert_limited(&ask(server, "ann@acme.test").await?, "otp-address-network", 5, 3_600);
        assert_eq!(wait, 3_300);
        server.advance(wait - 1);
        assert_eq!(assert_limited(&ask(server, "ann@acme.test").await?, "otp-address-network", 5, 3_600), 1);
        server.advance(1);
        assert_sent(server, &["ann@acme.test"]).await?;
        // The second leaves a minute after the first.
        server.advance(59);
        assert_eq!(assert_limited(&ask(server, "ann@acme.test").await?, "otp-context", 1, 60), 1);
        server.advance(1);
        assert_sent(server, &["ann@acme.test"]).await?;
        // Others are not held up by it.
        assert_sent(server, &["bob@acme.test"]).await
    })
}

#[test]
fn retry_after_is_long_enough_between_whole_milliseconds_ot_12() -> Result<()> {
    for (limit, value) in [("limits.otp_sends_per_context", "1/60"), ("limits.otp_sends_per_network", "1+60")] {
        Setup::default().set(limit, value).run(async |server| {
            let advance = |micros| server.app.clock.advance(SignedDuration::from_micros(micros));
            advance(999);
            assert_sent(server, &["ann@acme.test"]).await?;
            advance(10_000_000 - 999);
            let response = ask(server, "ann@acme.test").await?;
            assert_refused(&response, 429, "rate_limited");
            server.advance(response.header("retry-after").context("it says nothing")?.parse()?);
            assert_sent(server, &["ann@acme.test"]).await
        })?;
    }
    Ok(())
}

#[test]
fn a_network_gets_a_hundred_codes_at_once_and_three_hundred_an_hour_ot_12() -> Result<()> {
    let default = default_of("limits.otp_sends_per_network")?;
    Setup::default().set("limits.otp_sends_per_network", default).run(async |server| {
        for number in 0..100 {
            assert_sent(server, &[&format!("person{number}@acme.test")]).await?;
        }
        let wait = assert_limited(&ask(server, "next@acme.test").await?, "otp-network", 300, 3_600);
        assert_eq!((wait, count(server, "otps").await?), (12, 100));
        server.advance(wait - 1);
        assert_limited(&ask(server, "next@acme.test").await?, "otp-network", 300, 3_600);
        server.advance(1);
        assert_sent(server, &["next@acme.test"]).await?;
        assert_limited(&ask(server, "one-more@acme.test").await?, "otp-network", 300, 3_600);
        server.advance(120);
        for number in 0..10 {
            assert_sent(server, &[&format!("later{number}@acme.test")]).await?;
        }
        assert_limited(&ask(server, "one-more@acme.test").await?, "otp-network", 300, 3_600);
        Ok(())
    })
}

#[test]
fn a_burst_is_whole_also_when_the_hour_does_not_divide_evenly_ot_12() -> Result<()> {
    for (burst, per_hour) in [(10, 13), (7, 7), (10, 1_700)] {
        let rate = format!("{burst}+{per_hour}");
        Setup::default().set("limits.otp_sends_per_network", &rate).run(async |server| {
            for number in 0..burst {
                assert_sent(server, &[&format!("person{number}@acme.test")]).await?;
            }
            for number in 0..3 {
                let email = format!("next{number}@acme.test");
                let wait = assert_limited(&ask(server, &email).await?, "otp-network", per_hour, 3_600);
                server.advance(wait);
                assert_sent(server, &[&email]).await?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Asks for a code and tries so many wrong ones; each is refused as wrong.
async fn fail(server: &TestServer, email: &str, times: u32) -> Result<()> {
    let (otp_id, code) = server.request_code(email).await?;
    for step in 1..=times {
        assert_refused(&server.exchange(&otp_id, &wrong(&code, step)?, "read").await?, 400, "invalid_grant");
    }
    Ok(())
}

#[test]
fn wrong_codes_for_an_address_are_counted_across_codes_ot_12() -> Result<()> {
    Setup::default().run(async |server| {
        // Ten in an hour: then not even the right code is looked at.
        for (quota, window, wait) in [(10, 3_600, 3_600), (20, 86_400, 82_800)] {
            fail(server, "ann@acme.test", 5).await?;
            fail(server, "ann@acme.test", 5).await?;
            let (otp_id, code) = server.request_code("ann@acme.test").await?;
            let response = server.exchange(&otp_id, &code, "read").await?;
            assert_eq!(assert_limited(&response, "otp-failures-address-network", quota, window), wait);
            // Nothing was tried, so nothing of the code is used up.
            assert_eq!(count(server, "otps where attempts = 0 and consumed_at is null").await?, 1);
            server.sign_in(&format!("other{quota}@acme.test"), "read").await?;

            server.advance(wait - 1);
            let (otp_id, code) = server.request_code("ann@acme.test").await?;
            let response = server.exchange(&otp_id, &code, "read").await?;
            assert_eq!(assert_limited(&response, "otp-failures-address-network", quota, window), 1);
            server.advance(1);
            assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200);
        }
        Ok(())
    })
}

#[test]
fn right_codes_cost_nothing_of_the_budget_for_wrong_ones_ot_12() -> Result<()> {
    Setup::default().set("limits.otp_failures_per_address", "4/3600").run(async |server| {
        fail(server, "ann@acme.test", 3).await?;
        for _ in 0..6 {
            server.sign_in("ann@acme.test", "read").await?;
        }
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        assert_refused(&server.exchange(&otp_id, &wrong(&code, 1)?, "read").await?, 400, "invalid_grant");
        let response = server.exchange(&otp_id, &wrong(&code, 2)?, "read").await?;
        assert_limited(&response, "otp-failures-address", 4, 3_600);
        Ok(())
    })
}

#[test]
fn wrong_codes_of_all_users_have_a_ceiling_ot_12() -> Result<()> {
    let setup = Setup::default().set("limits.otp_failures", "3+60").set("limits.otp_failures_percent", "0");
    setup.run(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        for stranger in ["bob@acme.test", "eve@acme.test", "joe@acme.test"] {
            fail(server, stranger, 1).await?;
        }
        // A code can still be tried once, so that an attacker cannot switch sign-in off for all.
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200);
        let (otp_id, code) = server.request_code("cay@acme.test").await?;
        assert_refused(&server.exchange(&otp_id, &wrong(&code, 1)?, "read").await?, 400, "invalid_grant");
        let response = server.exchange(&otp_id, &code, "read").await?;
        assert_eq!(assert_limited(&response, "otp-failures", 60, 3_600), 60);
        server.advance(59);
        assert_limited(&server.exchange(&otp_id, &code, "read").await?, "otp-failures", 60, 3_600);
        server.advance(1);
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200);
        Ok(())
    })
}

#[test]
fn the_global_budget_is_taken_before_anything_is_compared_rv_30() -> Result<()> {
    let setup = Setup::default().set("limits.otp_failures", "8+1").set("database.deadline_seconds", "4.9");
    setup.run(async |server| {
        let mut codes = Vec::new();
        for number in 0..6 {
            let (otp_id, code) = server.request_code(&format!("person{number}@acme.test")).await?;
            assert_refused(&server.exchange(&otp_id, &wrong(&code, 1)?, "read").await?, 400, "invalid_grant");
            codes.push((otp_id, code));
        }
        // Two places are left; all other tries come at once.
        let tries: Vec<_> =
            codes.iter().flat_map(|(id, code)| (2..=5).map(move |step| (id, wrong(code, step)))).collect();
        let fired = tries.into_iter().map(async |(id, code)| server.exchange(id, &code?, "read").await);
        let responses = try_join_all(fired).await?;
        let with_status = |status: u16| responses.iter().filter(|response| response.status == status).count();
        assert_eq!((with_status(400), with_status(429)), (2, 22));
        assert_eq!(count(server, "audit_events where event = 'otp.failed'").await?, 8);
        Ok(())
    })
}

#[test]
fn right_codes_cost_nothing_of_the_global_and_the_networks_budget_rv_30() -> Result<()> {
    let setup = Setup::default().set("limits.otp_failures", "2+1").set("limits.otp_failures_per_network", "2+1");
    setup.run(async |server| {
        for _ in 0..5 {
            server.sign_in("ann@acme.test", "read").await?;
        }
        fail(server, "ann@acme.test", 2).await?;
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        assert_limited(&server.exchange(&otp_id, &code, "read").await?, "otp-failures-network", 1, 3_600);
        Ok(())
    })
}

#[test]
fn a_network_that_guesses_is_stopped_and_others_are_not_ot_12() -> Result<()> {
    let limit = default_of("limits.otp_failures_per_network")?;
    let setup = Setup::default().set("limits.otp_failures_per_network", limit);
    setup.set("http.trusted_proxies", "127.0.0.1/32").run(async |server| {
        for number in 0..60 {
            fail(server, &format!("person{number}@acme.test"), 1).await?;
        }
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let response = server.exchange(&otp_id, &code, "read").await?;
        let wait = assert_limited(&response, "otp-failures-network", 200, 3_600);
        assert_eq!((wait, count(server, "otps where attempts = 0").await?), (18, 1), "nothing is tried or counted");

        let request = server.http.request(Method::POST, "/oauth/token").header("X-Forwarded-For", "203.0.113.9");
        let elsewhere = request.json(&otp_exchange(&otp_id, &wrong(&code, 1)?, "read"));
        assert_refused(&server.http.send(elsewhere).await?, 400, "invalid_grant");
        server.advance(wait - 1);
        assert_limited(&server.exchange(&otp_id, &code, "read").await?, "otp-failures-network", 200, 3_600);
        server.advance(1);
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200);
        Ok(())
    })
}
