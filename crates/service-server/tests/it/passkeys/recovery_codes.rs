//! Recovery codes: creating them, and using one in place of a lost passkey.

use anyhow::{Context as _, Result};
use service_server::tasks::housekeeping;
use service_testkit::{
    authenticator::TestAuthenticator,
    server::{TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::passkeys::{NEW, SECURITY, add, events, remove_paths, sign_in, signed_in_tab, user_with_passkey};

const ANN: &str = "ann@acme.test";
const CREATE: &str = "/account/security/recovery-codes";
const WEEK: i64 = 7 * 86_400;
const WRONG: &str = "That recovery code is wrong or was already used. Check it, or enter another one.";

/// Opens the page and creates codes there.
async fn press(tab: &Tab) -> Result<Shown> {
    tab.get(SECURITY).await?;
    tab.submit(CREATE, &[]).await
}

/// Creates codes; returns them.
async fn create(server: &TestServer, tab: &Tab) -> Result<Vec<String>> {
    let page = press(tab).await?;
    let codes = page.text.split("<code>").skip(1).filter_map(|rest| rest.split("</code>").next());
    let codes: Vec<String> = codes.map(str::to_owned).collect();
    for code in &codes {
        server.leaks.register("recovery code", code);
    }
    Ok(codes)
}

/// A user with a passkey that counts: the browser that it has just signed in, and recovery codes.
async fn user_with_codes(server: &TestServer, email: &str) -> Result<(Tab, TestAuthenticator, Vec<String>)> {
    let (_, mut laptop) = user_with_passkey(server, email).await?;
    server.advance(WEEK + 1);
    let tab = Tab::open(server)?;
    assert_eq!(sign_in(server, &tab, &mut laptop).await?.status, 303);
    let codes = create(server, &tab).await?;
    assert_eq!(codes.len(), 10);
    Ok((tab, laptop, codes))
}

/// Tries to add a passkey, which leads to the sign-in page; returns its address.
async fn asked(tab: &Tab) -> Result<String> {
    tab.get(SECURITY).await?;
    let path = tab.submit(NEW, &[]).await?.next()?.to_owned();
    assert!(path.starts_with("/sign-in/"), "{path}");
    Ok(path)
}

/// Enters a recovery code on the sign-in page.
async fn enter(tab: &Tab, code: &str) -> Result<Shown> {
    let path = asked(tab).await?;
    tab.get(&path).await?;
    tab.submit(&format!("{path}/recovery-code"), &[("code", code)]).await
}

async fn left(server: &TestServer) -> Result<String> {
    let counted = "select coalesce(sum(cardinality(digests)), 0) from recovery_codes";
    Ok(server.sql(counted).await?.unwrap_or_default())
}

/// Whether a change that needs a passkey is possible in this browser.
async fn is_stepped_up(tab: &Tab) -> Result<bool> {
    tab.get(SECURITY).await?;
    Ok(tab.submit(NEW, &[]).await?.status == 200)
}

#[test]
fn ten_codes_are_shown_once_and_replace_earlier_ones_rc_01() -> Result<()> {
    with_server(async |server| {
        let (tab, _, first) = user_with_codes(server, ANN).await?;
        let page = tab.get(SECURITY).await?;
        assert!(page.text.contains("10 recovery codes left, created"), "{}", page.text);
        assert!(!first.iter().any(|code| page.text.contains(code.as_str())), "{}", page.text);
        let second = create(server, &tab).await?;
        assert!(second.iter().all(|code| !first.contains(code) && code.len() == 19));
        assert_eq!(left(server).await?, "10");
        let own = signed_in_tab(server, ANN).await?;
        let refused = enter(&own, &first[0]).await?;
        assert!(refused.status == 400 && refused.text.contains(WRONG), "{}", refused.text);
        assert_eq!(enter(&own, &second[0]).await?.status, 303);
        Ok(())
    })
}

#[test]
fn a_passkey_that_counts_is_needed_to_create_codes_rc_02() -> Result<()> {
    with_server(async |server| {
        let (tab, _) = user_with_passkey(server, ANN).await?;
        let page = tab.get(SECURITY).await?;
        assert!(!page.text.contains("Create new recovery codes"), "{}", page.text);
        let refused = press(&tab).await?;
        assert!(refused.status == 409 && refused.text.contains("Add a passkey first"), "{}", refused.text);
        server.advance(WEEK + 1);
        let by_code = signed_in_tab(server, ANN).await?;
        assert!(press(&by_code).await?.next()?.starts_with("/sign-in/"), "a code is not enough");
        assert_eq!(press(&Tab::open(server)?).await?.status, 403, "no user is signed in");
        assert_eq!(left(server).await?, "0");
        Ok(())
    })
}

#[test]
fn a_code_stands_in_for_a_lost_passkey_once_rc_03() -> Result<()> {
    with_server(async |server| {
        let (_, _, codes) = user_with_codes(server, ANN).await?;
        let own = signed_in_tab(server, ANN).await?;
        server.advance(1);
        let cookie = own.cookie();
        let page = own.get(&asked(&own).await?).await?;
        assert!(page.text.contains("Enter one of your recovery codes"), "{}", page.text);
        let typed = codes[3].to_uppercase().replace('-', " ");
        assert_eq!(enter(&own, &typed).await?.status, 303);
        assert_ne!(own.cookie(), cookie, "the cookie is that of the sign-in by code");
        assert!(is_stepped_up(&own).await?);
        assert_eq!(left(server).await?, "9");
        // So the user adds a passkey, which counts at once, and removes the lost one.
        let mut new = TestAuthenticator::new()?;
        assert_eq!(add(server, &own, &mut new, "New laptop").await?.status, 303);
        let path = remove_paths(&own).await?.remove(1);
        own.get(&path).await?;
        assert_eq!(own.submit(&path, &[]).await?.status, 303);
        assert!(!is_stepped_up(&signed_in_tab(server, ANN).await?).await?, "a code is enough again");
        assert_eq!(left(server).await?, "9");
        Ok(())
    })
}

#[test]
fn a_used_code_is_refused_rc_04() -> Result<()> {
    with_server(async |server| {
        let (_, _, codes) = user_with_codes(server, ANN).await?;
        assert_eq!(enter(&signed_in_tab(server, ANN).await?, &codes[0]).await?.status, 303);
        let again = enter(&signed_in_tab(server, ANN).await?, &codes[0]).await?;
        assert!(again.status == 400 && again.text.contains(WRONG), "{}", again.text);
        Ok(())
    })
}

#[test]
fn a_code_needs_a_sign_in_by_email_code_of_the_last_fifteen_minutes_rc_05() -> Result<()> {
    with_server(async |server| {
        let (_, _, codes) = user_with_codes(server, ANN).await?;
        let stolen = signed_in_tab(server, ANN).await?;
        server.advance(901);
        let page = stolen.get(&asked(&stolen).await?).await?;
        assert!(page.text.contains("Then you can use a recovery code."), "{}", page.text);
        let refused = enter(&stolen, &codes[0]).await?;
        assert!(
            refused.status == 400 && refused.text.contains("Sign in with a code from your email first."),
            "{}",
            refused.text
        );
        assert!(!is_stepped_up(&stolen).await?);
        // Nor after a sign-in by passkey or by another recovery code: its cookie may be stolen, too.
        let own = signed_in_tab(server, ANN).await?;
        let path = format!("{}/recovery-code", asked(&own).await?);
        own.get("/account").await?;
        assert_eq!(own.submit(&path, &[("code", &codes[1])]).await?.status, 303);
        own.get("/account").await?;
        let refused = own.submit(&path, &[("code", &codes[2])]).await?;
        assert_eq!(refused.status, 400, "{}", refused.text);
        // Nor in a browser in which no user is signed in.
        let stranger = Tab::open(server)?;
        let path = stranger.get("/sign-in").await?.next()?.to_owned();
        let page = stranger.get(&path).await?;
        assert!(!page.text.contains("recovery code"), "a stranger learns that there are some");
        assert_eq!(stranger.submit(&format!("{path}/recovery-code"), &[("code", &codes[0])]).await?.status, 400);
        assert_eq!(left(server).await?, "9");
        Ok(())
    })
}

#[test]
fn codes_of_others_and_what_is_no_code_get_one_response_rc_06() -> Result<()> {
    with_server(async |server| {
        let (_, _, codes) = user_with_codes(server, ANN).await?;
        let (_, _, others) = user_with_codes(server, "bob@acme.test").await?;
        let own = signed_in_tab(server, ANN).await?;
        for wrong in [others[0].as_str(), "0000-0000-0000-0000", "x", "", &codes[0][..18]] {
            let refused = enter(&own, wrong).await?;
            assert!(refused.status == 400 && refused.text.contains(WRONG), "{wrong}: {}", refused.text);
        }
        assert_eq!(left(server).await?, "20");
        Ok(())
    })
}

#[test]
fn of_several_requests_with_one_code_one_uses_it_rc_07() -> Result<()> {
    with_server(async |server| {
        let (_, _, codes) = user_with_codes(server, ANN).await?;
        let mut tabs = Vec::new();
        for _ in 0..5 {
            tabs.push(signed_in_tab(server, ANN).await?);
            server.advance(61);
        }
        let entered = futures_util::future::try_join_all(tabs.iter().map(|tab| enter(tab, &codes[0]))).await?;
        let signed_in = entered.iter().filter(|page| page.status == 303).count();
        assert_eq!((signed_in, left(server).await?.as_str()), (1, "9"));
        Ok(())
    })
}

#[test]
fn wrong_codes_are_limited_and_a_right_one_works_all_the_same_rc_08() -> Result<()> {
    with_server(async |server| {
        let (_, _, codes) = user_with_codes(server, ANN).await?;
        let own = signed_in_tab(server, ANN).await?;
        for _ in 0..10 {
            assert_eq!(enter(&own, "0000-0000-0000-0000").await?.status, 400);
        }
        let limited = enter(&own, "0000-0000-0000-0000").await?;
        assert_eq!(limited.status, 429, "{}", limited.text);
        // Otherwise an attacker in the mailbox could keep the owner from using one.
        assert_eq!(enter(&own, &codes[0]).await?.status, 303);
        Ok(())
    })
}

#[test]
fn creating_and_using_codes_is_mailed_and_recorded_rc_09() -> Result<()> {
    with_server(async |server| {
        let (_, _, codes) = user_with_codes(server, ANN).await?;
        while server.mailbox.next_mail_to(ANN).await?.subject != "New recovery codes created" {}
        enter(&signed_in_tab(server, ANN).await?, &codes[0]).await?.next()?;
        let used = loop {
            let mail = server.mailbox.next_mail_to(ANN).await?;
            if mail.subject == "A recovery code was used" {
                break mail.text;
            }
        };
        assert!(used.contains("9 recovery codes are left.") && used.contains("127.0.0.1"), "{used}");
        let recorded = (events(server, "recovery_codes.created").await?, events(server, "recovery_code.used").await?);
        assert_eq!(recorded, (1, 1));
        let metrics = server.ops.get("/metrics", None).await?.text;
        assert!(metrics.contains("service_recovery_codes_used_total 1\n"), "{metrics}");
        Ok(())
    })
}

#[test]
fn codes_go_with_the_passkeys_and_the_session_that_made_them_rc_10() -> Result<()> {
    with_server(async |server| {
        // With the last passkey.
        let (tab, mut laptop, _) = user_with_codes(server, ANN).await?;
        let path = remove_paths(&tab).await?.remove(0);
        tab.get(&path).await?;
        assert_eq!(tab.submit(&path, &[]).await?.status, 303);
        assert_eq!(left(server).await?, "0");
        assert_eq!(sign_in(server, &Tab::open(server)?, &mut laptop).await?.status, 400);
        while server.mailbox.next_mail_to(ANN).await?.subject != "Your recovery codes no longer work" {}
        // With a removal of all passkeys, which takes a day.
        user_with_codes(server, "bob@acme.test").await?;
        let bob = signed_in_tab(server, "bob@acme.test").await?;
        bob.get(SECURITY).await?;
        assert_eq!(bob.submit("/account/security/recovery", &[]).await?.status, 303);
        server.advance(86_400);
        assert!(housekeeping::clean_all(&server.app).await);
        assert_eq!(left(server).await?, "0");
        // When the account is secured.
        let (cleo, ..) = user_with_codes(server, "cleo@acme.test").await?;
        cleo.get("/account/secure").await?;
        assert_eq!(cleo.submit("/account/secure", &[]).await?.status, 303);
        assert_eq!(left(server).await?, "0");
        // With the session that created them, if that was within the last seven days.
        for (days, expected) in [(6, "0"), (8, "10")] {
            let email = format!("dora{days}@acme.test");
            let (dora, _, _) = user_with_codes(server, &email).await?;
            server.advance(days * 86_400);
            let cookie = dora.cookie().context("no cookie")?;
            let reported = server.http.post("/v1/token-leaks", &serde_json::json!({ "tokens": [cookie] })).await?;
            assert_eq!(reported.status, 202, "{}", reported.text);
            assert_eq!(left(server).await?, expected, "after {days} days");
        }
        Ok(())
    })
}

#[test]
fn a_recovery_code_stops_a_removal_of_all_passkeys_rc_11() -> Result<()> {
    with_server(async |server| {
        let (_, _, codes) = user_with_codes(server, ANN).await?;
        let thief = signed_in_tab(server, ANN).await?;
        thief.get(SECURITY).await?;
        assert_eq!(thief.submit("/account/security/recovery", &[]).await?.status, 303);
        assert_eq!(enter(&signed_in_tab(server, ANN).await?, &codes[0]).await?.status, 303);
        server.advance(86_400);
        assert!(housekeeping::clean_all(&server.app).await);
        assert_eq!(server.sql("select count(*) from passkeys").await?.as_deref(), Some("1"));
        assert_eq!(events(server, "passkey.recovery_stopped").await?, 1);
        Ok(())
    })
}
