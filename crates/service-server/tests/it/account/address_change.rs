//! Changing the email address: who may, what both addresses confirm, what stops it, and what is left.

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_rules::email::Address;
use service_server::{
    flows::{account::address_change::due, operator::Operator, revocation},
    tasks::housekeeping,
};
use service_testkit::{
    authenticator::TestAuthenticator,
    server::{SignedIn, TestServer, with_server},
    tab::Tab,
};

use crate::support::{
    address_change::{LINK, Links, NEW, PAGE, PATH, address_of, answer, change, count, next_link, open, stop},
    cli_tokens::{make, whoami},
    deletion::{DAY, delete},
    new_sign_ins::{ANN, next_report, settled},
    passkeys::{add, signed_in_tab},
    sso::{company, with_provider},
    step_up::check_stale,
};

/// Ann, who has used the account for long enough that a mail about it comes alone.
async fn ann(server: &TestServer) -> Result<SignedIn> {
    settled(server).await?;
    let ann = server.sign_in(ANN, "read write").await?;
    next_report(server).await?;
    Ok(ann)
}

/// Makes the changes that are due after a day; returns how many these are.
async fn a_day_later(server: &TestServer) -> Result<u64> {
    server.advance(DAY);
    due::change_due(&server.app).await
}

#[test]
fn an_address_changes_a_day_after_both_have_confirmed_and_sessions_stay_ac_01() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        let requested = change(server, &ann, " Ann.Lee@Harbour.test ").await?;
        assert_eq!(requested.status, 202, "{}", requested.text);
        assert_eq!(requested.field("email"), NEW);
        let links = Links::next(server).await?;
        links.confirm(server).await?;
        let state = server.http.get(PATH, Some(&ann.access_token)).await?;
        assert_eq!(state.body["confirmedByCurrentAddress"], true);
        assert_eq!(state.body["changedOn"], "2027-01-16T09:00:00.000Z", "{}", state.text);
        let told = server.mailbox.next_mail_to(ANN).await?;
        assert!(told.subject == "Your email address will change" && told.text.contains(NEW), "{}", told.text);
        server.advance(DAY - 1);
        assert!(housekeeping::clean_all(&server.app).await);
        assert_eq!(address_of(server, &ann).await?.as_deref(), Some(ANN));
        server.advance(1);
        assert!(housekeeping::clean_all(&server.app).await);
        assert_eq!(address_of(server, &ann).await?.as_deref(), Some(NEW));
        for address in [ANN, NEW] {
            assert_eq!(server.mailbox.next_mail_to(address).await?.subject, "Your email address was changed");
        }
        let refreshed = server.refresh(&ann.refresh_token).await?;
        assert_eq!(refreshed.status, 200, "{}", refreshed.text);
        assert_eq!(server.sign_in(NEW, "read").await?.user_id, ann.user_id);
        assert_ne!(server.sign_in(ANN, "read").await?.user_id, ann.user_id, "the former address signs in");
        assert_eq!(server.http.get(PATH, Some(refreshed.field("access_token"))).await?.status, 404);
        Ok(())
    })
}

#[test]
fn a_change_needs_a_recent_sign_in_and_a_session_of_our_own_ac_02() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        let (_, cli) =
            make(server, &ann, &json!({ "name": "ci", "scopes": ["read", "write", "sessions:write"] })).await?;
        let request = server.http.request(Method::POST, PATH).bearer_auth(&cli).json(&json!({ "email": NEW }));
        let refused = server.http.send(request).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (403, "forbidden"));
        server.advance(901);
        check_stale(&change(server, &ann, NEW).await?, "an old sign-in");
        let tab = signed_in_tab(server, ANN).await?;
        server.advance(901);
        tab.get(PAGE).await?;
        let asked = tab.submit(PAGE, &[("email", NEW)]).await?;
        ensure!(asked.next()?.starts_with("/sign-in/"), "an old sign-in requests a change");
        assert_eq!(Tab::open(server)?.submit(PAGE, &[("email", NEW)]).await?.status, 403);
        assert_eq!(count(server).await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn a_code_is_not_enough_where_a_passkey_counts_ac_03() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in_tab(server, ANN).await?;
        let mut authenticator = TestAuthenticator::new()?;
        ensure!(add(server, &tab, &mut authenticator, "Laptop").await?.status == 303);
        server.advance(7 * DAY);
        let code = server.sign_in(ANN, "read write").await?;
        let refused = change(server, &code, NEW).await?;
        assert_eq!(refused.status, 403);
        assert_eq!(refused.body["details"]["signInMethod"], "passkey");
        Ok(())
    })
}

#[test]
fn one_confirmation_is_not_enough_and_a_day_later_a_link_confirms_nothing_ac_04() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let tab = Tab::open(server)?;
        for confirms_current in [true, false] {
            let ann = server.sign_in(ANN, "read write").await?;
            let links = Links::request(server, &ann).await?;
            let (one, other) =
                if confirms_current { (&links.current, &links.new) } else { (&links.new, &links.current) };
            for _ in 0..2 {
                let confirmed = answer(&tab, one, "confirm").await?;
                assert!(confirmed.text.contains("The other one hasn’t"), "{}", confirmed.text);
            }
            assert_eq!(a_day_later(server).await?, 0);
            for link in [one, other] {
                assert_eq!(answer(&tab, link, "confirm").await?.status, 404);
            }
            assert!(housekeeping::clean_all(&server.app).await);
            assert_eq!(count(server).await?.as_deref(), Some("0"));
            assert_eq!(address_of(server, &ann).await?.as_deref(), Some(ANN));
        }
        Ok(())
    })
}

#[test]
fn every_session_and_both_links_stop_a_change_until_it_is_made_ac_05() -> Result<()> {
    with_server(async |server| {
        let (first, tab) = (settled(server).await?, Tab::open(server)?);
        for way in ["another session", "current", "new"] {
            server.sql("delete from recent_hits").await?;
            let ann = server.sign_in(ANN, "read write").await?;
            let links = Links::request(server, &ann).await?;
            links.confirm(server).await?;
            match way {
                "current" => ensure!(answer(&tab, &links.current, "stop").await?.status == 200),
                "new" => ensure!(answer(&tab, &links.new, "stop").await?.status == 200),
                _ => {
                    let other = server.sign_in(ANN, "read write").await?;
                    server.sql("update grants set auth_time = null").await?;
                    ensure!(stop(server, &other).await?.status == 204, "a sign-in that is not recent");
                    assert_eq!(stop(server, &other).await?.status, 404);
                }
            }
            let told = loop {
                let mail = server.mailbox.next_mail_to(ANN).await?;
                if mail.subject == "Your email address stays" {
                    break mail;
                }
            };
            assert!(told.text.contains(NEW), "{}", told.text);
            for link in [&links.current, &links.new] {
                assert_eq!(open(&tab, link).await?.status, 404);
                assert_eq!(answer(&tab, link, "confirm").await?.status, 404);
            }
            assert_eq!(a_day_later(server).await?, 0);
        }
        assert_eq!(address_of(server, &first).await?.as_deref(), Some(ANN));
        Ok(())
    })
}

#[test]
fn an_address_with_an_account_gets_no_link_and_the_answer_does_not_tell_ac_06() -> Result<()> {
    with_server(async |server| {
        let bob = server.sign_in(NEW, "read").await?;
        let ann = ann(server).await?;
        let (taken, free) = (change(server, &ann, NEW).await?, change(server, &ann, "free@harbour.test").await?);
        let shape = |body: &serde_json::Value| {
            let mut body = body.clone();
            body["email"] = serde_json::Value::Null;
            body
        };
        assert_eq!((taken.status, shape(&taken.body)), (free.status, shape(&free.body)));
        let mail = server.mailbox.next_mail_to(NEW).await?;
        assert_eq!(mail.subject, "This address already has an account");
        assert!(!mail.text.contains("svc_adl_") && !mail.text.contains(ANN), "{}", mail.text);
        assert_eq!(address_of(server, &bob).await?.as_deref(), Some(NEW));
        Ok(())
    })
}

#[test]
fn an_address_that_gets_an_account_meanwhile_is_not_taken_from_it_ac_07() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        Links::request(server, &ann).await?.confirm(server).await?;
        let bob = server.sign_in(NEW, "read").await?;
        assert_eq!(a_day_later(server).await?, 0);
        assert_eq!(address_of(server, &ann).await?.as_deref(), Some(ANN));
        assert_eq!(server.sign_in(NEW, "read").await?.user_id, bob.user_id);
        assert_eq!(server.sign_in(ANN, "read").await?.user_id, ann.user_id);
        let subjects: Vec<_> = server.mailbox.mails().into_iter().map(|mail| mail.subject).collect();
        assert!(subjects.iter().any(|subject| subject == "Your email address was not changed"), "{subjects:?}");
        assert_eq!(count(server).await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn where_single_sign_on_is_required_no_address_changes_ac_08() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let eve = server.sign_in("eve@elsewhere.test", "read write").await?;
        let requested = change(server, &eve, "eve@harbour.test").await?;
        ensure!(requested.status == 202, "{}", requested.text);
        for to in ["eve@elsewhere.test", "eve@harbour.test"] {
            let link = next_link(server, to).await?;
            ensure!(answer(&Tab::open(server)?, &link, "confirm").await?.status == 200);
        }
        // Both what is requested now and what was confirmed before it became required.
        acme.take_domain(server, "elsewhere.test").await?;
        acme.require(server, &[acme.owner_id]).await?;
        server.advance(DAY);
        assert_eq!(due::change_due(&server.app).await?, 0);
        assert_eq!(address_of(server, &eve).await?.as_deref(), Some("eve@elsewhere.test"));
        let bob = server.sign_in("bob@free.test", "read write").await?;
        for (who, email) in [(&bob, "bob@elsewhere.test")] {
            let refused = change(server, who, email).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (409, "conflict"), "{}", refused.text);
            assert!(refused.text.contains("elsewhere.test"), "{}", refused.text);
        }
        Ok(())
    })
}

#[test]
fn what_shuts_a_thief_out_stops_the_change_of_the_thief_ac_09() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        for way in ["report", "secure", "revoke", "operator", "close", "leak"] {
            server.sql("delete from recent_hits").await?;
            server.advance(61);
            server.mailbox.clear();
            let thief = server.sign_in(ANN, "read write").await?;
            let report = next_report(server).await?;
            let links = Links::request(server, &thief).await?;
            links.confirm(server).await?;
            let owner = server.sign_in(ANN, "read write").await?;
            let of_owner = |method, path: &str| server.http.request(method, path).bearer_auth(&owner.access_token);
            match way {
                "report" => ensure!(report.send(&Tab::open(server)?).await?.status == 200),
                "secure" => {
                    let secured =
                        server.http.send(of_owner(Method::POST, "/v1/account/secure").json(&json!({}))).await?;
                    ensure!(secured.status == 200, "{}", secured.text);
                }
                "revoke" => {
                    let path = format!("/v1/sessions/{}", thief.grant_id);
                    ensure!(server.http.send(of_owner(Method::DELETE, &path)).await?.status.is_success());
                }
                "operator" => {
                    let address = Address::parse(ANN).map_err(|_| anyhow::anyhow!("no address"))?;
                    revocation::sign_out_user(&server.app, &Operator::default(), &address).await?;
                }
                "close" => ensure!(delete(server, &owner).await?.status == 202),
                _ => {
                    let leaked = json!({ "tokens": [links.new] });
                    ensure!(server.http.post("/v1/token-leaks", &leaked).await?.status == 202);
                }
            }
            assert_eq!(count(server).await?.as_deref(), Some("0"), "{way}");
            assert_eq!(answer(&Tab::open(server)?, &links.current, "confirm").await?.status, 404, "{way}");
            if way == "close" {
                let address = Address::parse(ANN).map_err(|_| anyhow::anyhow!("no address"))?;
                revocation::enable_user(&server.app, &Operator::default(), &address).await?;
            }
        }
        Ok(())
    })
}

#[test]
fn signing_out_of_the_session_that_requested_it_leaves_a_change_as_it_is_ac_10() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        Links::request(server, &ann).await?.confirm(server).await?;
        let body = json!({ "token": ann.refresh_token, "client_id": "service-cli" });
        server.http.post("/oauth/revoke", &body).await?;
        assert_ne!(whoami(server, &ann.access_token).await?.status, 200, "the session goes on");
        assert_eq!(a_day_later(server).await?, 1);
        assert_eq!(address_of(server, &ann).await?.as_deref(), Some(NEW));
        Ok(())
    })
}

#[test]
fn a_user_requests_three_changes_a_day_and_an_address_gets_five_ac_11() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        for number in 0..4 {
            let requested = change(server, &ann, &format!("ann{number}@harbour.test")).await?;
            assert_eq!(requested.status, if number < 3 { 202 } else { 429 }, "{}", requested.text);
        }
        for number in 0..6 {
            let user = server.sign_in(&format!("user{number}@acme.test"), "read write").await?;
            let requested = change(server, &user, NEW).await?;
            assert_eq!(requested.status, if number < 5 { 202 } else { 429 }, "{}", requested.text);
        }
        Ok(())
    })
}

#[test]
fn what_is_no_other_address_is_refused_and_the_longest_one_is_taken_ac_12() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        for email in
            ["", "ann", "ann@", "ann@harbour.test, eve@acme.test", "ann@harbour.test\r\nBcc: eve@acme.test", ANN]
        {
            let refused = change(server, &ann, email).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (422, "validation_failed"), "{email}");
        }
        let longest = format!("{}@{}.{}.{}.test", "a".repeat(64), "b".repeat(60), "c".repeat(60), "d".repeat(60));
        let taken = change(server, &ann, &longest).await?;
        assert_eq!((taken.status.as_u16(), taken.field("email")), (202, &*longest), "{}", taken.text);
        Ok(())
    })
}

#[test]
fn a_link_only_shows_signs_no_user_in_and_no_other_secret_does_its_work_ac_13() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        let (links, tab) = (Links::request(server, &ann).await?, Tab::open(server)?);
        for (link, other) in [(&links.current, NEW), (&links.new, NEW)] {
            for _ in 0..2 {
                let page = open(&tab, link).await?;
                assert!(page.status == 200 && page.text.contains(other), "{}", page.text);
            }
        }
        // Who gets a mail by a slip of the pen does not learn whose it is.
        assert!(!open(&tab, &links.new).await?.text.contains(ANN));
        let confirmed = server.sql("select count(*) from address_changes where current_confirmed_at is null").await?;
        assert_eq!(confirmed.as_deref(), Some("1"));
        let link = &links.current;
        for wrong in ["", "svc_adl_", &link[..link.len() - 1], &link.replace("adl", "kac"), &ann.access_token] {
            for sent in ["confirm", "stop"] {
                assert_eq!(answer(&tab, wrong, sent).await?.status, 404, "{wrong}");
            }
        }
        let foreign = tab.request(Method::POST, LINK).header("sec-fetch-site", "cross-site");
        assert_eq!(tab.send(foreign.form(&[("token", link.as_str()), ("answer", "confirm")])).await?.status, 403);
        answer(&tab, link, "confirm").await?;
        assert!(tab.cookie().is_none(), "the link signs in");
        assert_eq!(server.http.get(PATH, Some(link)).await?.status, 401);
        Ok(())
    })
}

#[test]
fn a_later_request_replaces_the_one_before_and_its_confirmations_ac_14() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        let first = Links::request(server, &ann).await?;
        first.confirm(server).await?;
        let second = change(server, &ann, "ann@pier.test").await?;
        assert_eq!(second.body["confirmedByNewAddress"], false, "{}", second.text);
        for link in [&first.current, &first.new] {
            assert_eq!(answer(&Tab::open(server)?, link, "confirm").await?.status, 404);
        }
        assert_eq!(a_day_later(server).await?, 0);
        Ok(())
    })
}

#[test]
fn a_change_and_what_stops_it_at_the_same_time_have_one_outcome_ac_15() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        for round in 0..8 {
            server.sql("delete from recent_hits").await?;
            server.sql(&format!("update grants set auth_time = '{}'", server.now())).await?;
            server.sql(&format!("update users set email = '{ANN}'")).await?;
            server.sql("delete from emails").await?;
            server.sql(&format!("update address_changes set due_at = '{}'", server.now())).await?;
            let links = Links::request(server, &ann).await?;
            links.confirm(server).await?;
            server.sql(&format!("update address_changes set due_at = '{}'", server.now())).await?;
            let tab = Tab::open(server)?;
            let (changed, again, stopped) = tokio::join!(
                due::change_due(&server.app),
                due::change_due(&server.app),
                answer(&tab, &links.current, "stop")
            );
            let (changed, stopped) = (changed? + again?, stopped?.status == 200);
            assert_eq!((changed, stopped), if stopped { (0, true) } else { (1, false) }, "round {round}");
            let expected = if stopped { ANN } else { NEW };
            assert_eq!(address_of(server, &ann).await?.as_deref(), Some(expected));
        }
        Ok(())
    })
}

#[test]
fn who_does_not_want_an_address_to_be_used_stops_it_and_the_requester_learns_nothing_ac_19() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        let (links, tab) = (Links::request(server, &ann).await?, Tab::open(server)?);
        let before = server.http.get(PATH, Some(&ann.access_token)).await?;
        assert_eq!(answer(&tab, &links.new, "stop").await?.status, 200);
        assert_eq!(answer(&tab, &links.new, "confirm").await?.status, 404);
        assert_eq!(server.http.get(PATH, Some(&ann.access_token)).await?.body, before.body);
        answer(&tab, &links.current, "confirm").await?;
        assert_eq!(a_day_later(server).await?, 0);
        Ok(())
    })
}

#[test]
fn whoami_shows_the_new_address_within_a_minute_and_devices_are_forgotten_ac_20() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        Links::request(server, &ann).await?.confirm(server).await?;
        server.advance(DAY - 60);
        let refreshed = server.refresh(&ann.refresh_token).await?;
        let token = refreshed.field("access_token");
        assert_eq!(whoami(server, token).await?.body["user"]["email"], ANN);
        server.advance(60);
        assert_eq!(due::change_due(&server.app).await?, 1);
        assert_eq!(whoami(server, token).await?.body["user"]["email"], NEW);
        assert_eq!(server.sql("select count(*) from devices").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn codes_of_both_addresses_end_with_the_change_ac_16() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        Links::request(server, &ann).await?.confirm(server).await?;
        server.advance(DAY - 60);
        let former = server.request_code(ANN).await?;
        let new = server.request_code(NEW).await?;
        server.advance(60);
        assert_eq!(due::change_due(&server.app).await?, 1);
        for (otp_id, code) in [former, new] {
            assert_eq!(server.exchange(&otp_id, &code, "read").await?.error(), "invalid_grant");
        }
        Ok(())
    })
}

#[test]
fn the_account_page_requests_shows_and_stops_a_change_ac_17() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in_tab(server, ANN).await?;
        assert!(tab.get("/account").await?.text.contains("href=\"/account/address\""));
        tab.get(PAGE).await?;
        let refused = tab.submit(PAGE, &[("email", ANN)]).await?;
        assert!(refused.status == 400 && refused.text.contains("This is already your address."), "{}", refused.text);
        let next = tab.submit(PAGE, &[("email", NEW)]).await?.next()?.to_owned();
        let page = tab.get(&next).await?;
        assert!(page.text.contains("We’ve sent a link to both addresses.") && page.text.contains(NEW), "{}", page.text);
        let next = tab.submit(&format!("{PAGE}/stop"), &[]).await?.next()?.to_owned();
        assert!(tab.get(&next).await?.text.contains("The change is stopped."));
        assert_eq!(tab.submit(&format!("{PAGE}/stop"), &[]).await?.status, 404);
        Ok(())
    })
}
