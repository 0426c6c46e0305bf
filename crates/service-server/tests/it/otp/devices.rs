//! Devices that signed in before: limits of their own, which no stranger uses up; and codes that are bound to the device that asked.

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::Method;
use serde_json::json;
use service_server::flows::operator::Operator;
use service_server::{crypto::random, flows::revocation, tasks::housekeeping};
use service_testkit::{
    server::{Setup, TestServer, with_server},
    tab::Tab,
};

use crate::support::devices::{Caller, with_default_limits};
use crate::support::{
    otp::{assert_limited, assert_refused, count, wrong},
    otp_kinds::outline,
};

const ANN: &str = "ann@acme.test";

const HOUR: i64 = 3_600;

const DAY: i64 = 86_400;

/// What a stranger achieved in one round: codes sent, and wrong codes taken.
async fn hammer(strangers: &[Caller<'_>]) -> Result<(u32, u32)> {
    let (mut sent, mut taken) = (0, 0);
    for stranger in strangers {
        let asked = stranger.ask(ANN).await?;
        if asked.status != 201 {
            assert_limited(&asked, "otp-address", 30, 86_400);
            continue;
        }
        sent += 1;
        let code = stranger.server.mailbox.next_mail_to(ANN).await?.code().context("the mail holds no code")?;
        stranger.server.leaks.register("otp code", &code);
        for step in 1..=5 {
            let response = stranger.enter(asked.field("otpId"), &wrong(&code, step)?).await?;
            if response.status == 400 {
                taken += 1;
            } else {
                assert_limited(&response, "otp-failures-address", 60, 86_400);
            }
        }
    }
    Ok((sent, taken))
}

#[test]
fn a_day_of_hammering_from_a_hundred_networks_keeps_no_known_device_out_rv_08() -> Result<()> {
    with_default_limits().run(async |server| {
        let mut owner = Caller::at(server, "198.51.100.7");
        owner.sign_in(ANN).await?;
        assert!(owner.device.as_deref().is_some_and(|secret| secret.starts_with("svc_dev_")));
        server.advance(DAY);
        let strangers: Vec<_> = (0..100).map(|n| Caller::at(server, &format!("203.{n}.113.9"))).collect();
        let (mut sent, mut taken, mut signed_in) = (0, 0, 0);
        for round in 0..12 {
            // The stranger is first, and again between the owner's request and the owner's code.
            let (more, wrong_ones) = hammer(&strangers[..50]).await?;
            (sent, taken) = (sent + more, taken + wrong_ones);
            if round < 10 {
                let (otp_id, code) = owner.get_code(ANN).await?;
                let (more, wrong_ones) = hammer(&strangers[50..]).await?;
                (sent, taken) = (sent + more, taken + wrong_ones);
                assert_eq!(owner.enter(&otp_id, &code).await?.status, 200, "round {round}");
                signed_in += 1;
            }
            server.advance(2 * HOUR - 1);
            // What remains: without a known device the address gets no code today.
            let newcomer = Caller::at(server, "192.0.2.1");
            let wait = assert_limited(&newcomer.ask(ANN).await?, "otp-address", 30, 86_400);
            assert_eq!(wait, DAY - (round + 1) * 2 * HOUR + 1);
            server.advance(1);
        }
        // Thirty mails and sixty guesses in a day, from however many networks; ten sign-ins at the first try.
        assert_eq!((sent, taken, signed_in), (30, 60, 10));
        Caller::at(server, "192.0.2.1").sign_in(ANN).await.map(drop)
    })
}

#[test]
fn one_network_locks_an_address_out_of_that_network_only_rv_08() -> Result<()> {
    with_default_limits().run(async |server| {
        let stranger = Caller::at(server, "203.0.113.9");
        for _ in 0..5 {
            stranger.get_code(ANN).await?;
            server.advance(60);
        }
        assert_eq!(assert_limited(&stranger.ask(ANN).await?, "otp-address-network", 5, 3_600), 3_300);
        let mut owner = Caller::at(server, "198.51.100.7");
        owner.sign_in(ANN).await?;
        // The device has an hour and a day of its own, wherever it is.
        owner.address = "203.0.113.9".to_owned();
        for _ in 0..5 {
            server.advance(60);
            owner.sign_in(ANN).await?;
        }
        server.advance(60);
        assert_eq!(assert_limited(&owner.ask(ANN).await?, "otp-device", 5, 3_600), 3_300);
        Ok(())
    })
}

#[test]
fn a_known_device_has_wrong_codes_of_its_own_rv_08() -> Result<()> {
    with_default_limits().set("limits.otp_failures", "1+1").run(async |server| {
        let mut owner = Caller::at(server, "198.51.100.7");
        owner.sign_in(ANN).await?;
        server.advance(60);
        for round in 0..2 {
            let (otp_id, code) = owner.get_code(ANN).await?;
            for step in 1..=5 {
                assert_refused(&owner.enter(&otp_id, &wrong(&code, step)?).await?, 400, "invalid_grant");
            }
            server.advance(60 + round);
        }
        let (otp_id, code) = owner.get_code(ANN).await?;
        assert_limited(&owner.enter(&otp_id, &code).await?, "otp-failures-device", 10, 3_600);
        // It costs no other user anything.
        Caller::at(server, "192.0.2.1").sign_in(ANN).await.map(drop)
    })
}

#[test]
fn a_request_neither_replaces_nor_uses_up_the_code_of_another_context_rv_08() -> Result<()> {
    with_server_behind_proxy(async |server| {
        let mut known = Caller::at(server, "198.51.100.7");
        known.sign_in(ANN).await?;
        // The same person in a browser, on the command line, and on a known device; and a stranger.
        let tab = Tab::open(server)?;
        let path = tab.get("/sign-in").await?.next()?.to_owned();
        tab.get(&path).await?;
        assert_eq!(tab.submit(&path, &[("email", ANN)]).await?.status, 303);
        let in_browser = server.mailbox.next_mail_to(ANN).await?.code().context("no code")?;
        server.leaks.register("otp code", &in_browser);
        let (command, stranger) = (Caller::at(server, "192.0.2.1"), Caller::at(server, "203.0.113.9"));
        let (on_command, on_device) = (command.get_code(ANN).await?, known.get_code(ANN).await?);
        let foreign = stranger.get_code(ANN).await?;
        let other_tab = Tab::open(server)?;
        let other_path = other_tab.get("/sign-in").await?.next()?.to_owned();
        other_tab.get(&other_path).await?;
        other_tab.submit(&other_path, &[("email", ANN)]).await?;
        let last = server.mailbox.next_mail_to(ANN).await?.code().context("no code")?;
        server.leaks.register("otp code", &last);
        assert_eq!(count(server, "otps where consumed_at is null and attempts = 0").await?, 5);
        for step in 1..=5 {
            assert_refused(&stranger.enter(&foreign.0, &wrong(&foreign.1, step)?).await?, 400, "invalid_grant");
        }
        // No code is sent twice, and each works where it was asked for.
        let codes = std::collections::BTreeSet::from([&in_browser, &on_command.1, &on_device.1, &foreign.1, &last]);
        assert_eq!(codes.len(), 5);
        let entered = tab.submit(&format!("{path}/code"), &[("code", &in_browser)]).await?;
        assert_eq!(entered.status, 303, "{}", entered.text);
        assert_eq!(command.enter(&on_command.0, &on_command.1).await?.status, 200);
        assert_eq!(known.enter(&on_device.0, &on_device.1).await?.status, 200);
        assert_refused(&stranger.enter(&foreign.0, &foreign.1).await?, 400, "invalid_grant");
        // Within one context the new code takes the place of the old.
        let (old, new) = (command.get_code(ANN).await?, command.get_code(ANN).await?);
        assert_refused(&command.enter(&old.0, &old.1).await?, 400, "invalid_grant");
        assert_eq!(command.enter(&new.0, &new.1).await?.status, 200);
        Ok(())
    })
}

fn with_server_behind_proxy(test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
    Setup::default().set("http.trusted_proxies", "127.0.0.1/32").run(test)
}

#[test]
fn an_unknown_or_foreign_device_secret_changes_nothing_rv_08() -> Result<()> {
    with_default_limits().run(async |server| {
        let mut bob = Caller::at(server, "198.51.100.7");
        bob.sign_in("bob@acme.test").await?;
        let unknown = random::device_secret()?.expose().to_owned();
        server.leaks.register("device secret", &unknown);
        let (known, nonsense) = (bob.device.clone(), Some("svc_dev_nothing".to_owned()));
        let kinds = [None, Some(unknown), known, nonsense, Some(String::new())];
        let mut told: Vec<Vec<String>> = vec![Vec::new(); kinds.len()];
        for (place, device) in kinds.into_iter().enumerate() {
            let email = format!("person{place}@acme.test");
            let caller = Caller { device, ..Caller::at(server, &format!("192.0.2.{place}")) };
            // Sent; too early; and the hour's last, and one more.
            told[place].push(outline(&caller.ask(&email).await?));
            told[place].push(outline(&caller.ask(&email).await?));
            for _ in 0..5 {
                server.advance(60);
                told[place].push(outline(&caller.ask(&email).await?));
            }
            assert!(told[place][5].starts_with("201") && told[place][6].contains("otp-address-network"), "{told:?}");
            server.advance(DAY);
        }
        for other in &told {
            assert_eq!(*other, told[0]);
        }
        Ok(())
    })
}

#[test]
fn a_device_is_known_for_400_days_after_its_last_sign_in_and_to_whom_signed_in_there_rv_08() -> Result<()> {
    with_default_limits().run(async |server| {
        let mut caller = Caller::at(server, "198.51.100.7");
        let first = caller.sign_in(ANN).await?;
        let secret = caller.device.clone().context("no device secret")?;
        assert_eq!(first.field("device"), secret);
        // Signing in again on the device gives no other, and neither does another person who signs in there.
        server.advance(399 * DAY);
        assert_eq!(caller.sign_in(ANN).await?.body.get("device"), None);
        assert_eq!(caller.sign_in("bob@acme.test").await?.body.get("device"), None);
        assert_eq!(count(server, "devices").await?, 2);
        server.advance(399 * DAY);
        housekeeping::clean_once(&server.app).await?;
        assert_eq!(caller.sign_in(ANN).await?.body.get("device"), None);
        server.advance(400 * DAY);
        housekeeping::clean_once(&server.app).await?;
        assert_eq!(count(server, "devices").await?, 0);
        let renewed = caller.sign_in(ANN).await?;
        assert!(renewed.field("device").starts_with("svc_dev_") && renewed.field("device") != secret);
        // A secret that we did not give is never taken over.
        let unknown = random::device_secret()?.expose().to_owned();
        server.leaks.register("device secret", &unknown);
        let mut planted = Caller { device: Some(unknown.clone()), ..Caller::at(server, "192.0.2.1") };
        planted.sign_in(ANN).await?;
        assert_ne!(planted.device.as_deref(), Some(unknown.as_str()));
        Ok(())
    })
}

#[test]
fn disabling_a_user_and_reporting_the_secret_revoke_a_device_rv_08() -> Result<()> {
    with_server(async |server| {
        let mut caller = Caller::at(server, "198.51.100.7");
        caller.sign_in(ANN).await?;
        caller.sign_in("bob@acme.test").await?;
        assert_eq!(count(server, "devices").await?, 2);
        let ann = service_rules::email::Address::parse(ANN).map_err(|_| anyhow::anyhow!("not an address"))?;
        revocation::disable_user(&server.app, &Operator::default(), &ann).await?;
        assert_eq!(count(server, "devices").await?, 1);

        let secret = caller.device.clone().context("no device secret")?;
        let reported = server.http.post("/v1/token-leaks", &json!({ "tokens": [secret] })).await?;
        assert_eq!(reported.status, 202);
        assert_eq!(count(server, "devices").await?, 0);
        let mail = server.mailbox.next_mail_to("bob@acme.test").await?;
        assert!(mail.text.contains("device secret"), "{}", mail.text);
        assert_eq!(count(server, "audit_events where event = 'token.leaked'").await?, 1);
        // Known nowhere, it is replaced at the next sign-in.
        caller.sign_in("bob@acme.test").await?;
        assert_ne!(caller.device, Some(secret.clone()));

        // As content it is refused, and its owner is told.
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let leaked = caller.device.clone().context("no device secret")?;
        let body = json!({ "name": format!("notes {leaked}") });
        let request = server.http.request(Method::POST, "/v1/projects").bearer_auth(&bob.access_token).json(&body);
        let refused = server.http.send(request).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (422, "credential_in_content"));
        Ok(())
    })
}

#[test]
fn signing_out_everywhere_leaves_this_browser_known_and_an_operator_leaves_none_rv_08() -> Result<()> {
    with_server(async |server| {
        let ann = service_rules::email::Address::parse(ANN).map_err(|_| anyhow::anyhow!("not an address"))?;
        let mut command = Caller::at(server, "198.51.100.7");
        command.sign_in(ANN).await?;
        command.sign_in("bob@acme.test").await?;
        server.advance(61);
        let tab = Tab::open(server)?;
        let path = tab.get("/sign-in").await?.next()?.to_owned();
        tab.sign_in(&server.mailbox, &path, ANN).await?;
        let digest = |secret: Option<String>| {
            BASE64_STANDARD.encode(service_server::crypto::digest::sha256(secret.unwrap_or_default()))
        };
        let (own, other) = (digest(tab.device()), digest(command.device.clone()));
        let known = "select string_agg(encode(digest, 'base64'), ' ' order by created_at) from devices";
        assert_eq!(server.sql(known).await?, Some(format!("{other} {other} {own}")));
        tab.get("/account/sessions").await?;
        assert_eq!(tab.submit("/account/sessions/end-all", &[]).await?.next()?, "/sign-in");
        // The command stays known to the other user who signed in there.
        assert_eq!(server.sql(known).await?, Some(format!("{other} {own}")));
        assert_eq!(Some(&own), tab.device().map(|secret| digest(Some(secret))).as_ref(), "the cookie is gone");
        revocation::sign_out_user(&server.app, &Operator::default(), &ann).await?;
        assert_eq!(server.sql(known).await?, Some(other));
        Ok(())
    })
}

#[test]
fn a_browser_keeps_its_device_when_it_signs_out_rv_08_rv_50() -> Result<()> {
    let setup = with_default_limits().set("limits.otp_sends_per_address", "2/86400");
    setup.run(async |server| {
        let tab = Tab::open(server)?;
        let path = tab.get("/sign-in").await?.next()?.to_owned();
        tab.get(&path).await?;
        tab.submit(&path, &[("email", ANN)]).await?;
        let code = server.mailbox.next_mail_to(ANN).await?.code().context("no code")?;
        server.leaks.register("otp code", &code);
        let entered = tab.submit(&format!("{path}/code"), &[("code", &code)]).await?;
        let cookies: Vec<_> = entered.headers.get_all("set-cookie").iter().filter_map(|c| c.to_str().ok()).collect();
        let device = cookies.iter().find(|cookie| cookie.starts_with("__Host-device=svc_dev_")).context("no device")?;
        for part in ["; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax", "; Max-Age=34560000"] {
            assert!(device.contains(part), "{part}");
        }
        tab.get("/account").await?;
        let out = tab.submit("/sign-out", &[]).await?;
        assert_eq!(out.headers["clear-site-data"], "\"cache\", \"storage\"");
        assert!(tab.device().is_some() && tab.cookie().is_none());
        // A stranger uses up the address; the browser signs in all the same.
        server.advance(60);
        Caller::at(server, "203.0.113.9").get_code(ANN).await?;
        assert_limited(&Caller::at(server, "203.0.113.10").ask(ANN).await?, "otp-address", 2, 86_400);
        let path = tab.get("/sign-in").await?.next()?.to_owned();
        tab.sign_in(&server.mailbox, &path, ANN).await?;
        assert!(tab.get("/account").await?.text.contains(ANN));
        Ok(())
    })
}

#[test]
fn an_office_behind_one_address_signs_in_on_monday_morning_rv_08() -> Result<()> {
    with_default_limits().run(async |server| {
        // Two hundred people in half an hour; every tenth mistypes a code.
        for person in 0..200 {
            let email = format!("person{person}@acme.test");
            let colleague = Caller::at(server, "198.51.100.7");
            let (otp_id, code) = colleague.get_code(&email).await?;
            if person % 10 == 0 {
                let response = colleague.enter(&otp_id, &wrong(&code, 1)?).await?;
                assert_refused(&response, 400, "invalid_grant");
            }
            assert_eq!(colleague.enter(&otp_id, &code).await?.status, 200, "{email}");
            server.advance(9);
        }
        Ok(())
    })
}
