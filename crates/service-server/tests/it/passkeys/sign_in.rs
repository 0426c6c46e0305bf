//! Signing in by a passkey, and what it leaves behind.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_testkit::{
    authenticator::{CAN_BE_BACKED_UP, IS_BACKED_UP, TestAuthenticator, USER_PRESENT, USER_VERIFIED},
    server::{Setup, with_server},
    tab::Tab,
};

use crate::support::{
    authorize::{CALLBACK, agree, asking, code, exchange, register},
    passkeys::{
        NEW, REFUSED, SECURITY, add, begin, check_refused, events, is_signed_out, options, sign_in, signed_in_tab,
        user_with_passkey,
    },
    sso::signed_in_as,
};

#[test]
fn a_user_signs_in_by_a_passkey_in_another_browser() -> Result<()> {
    with_server(async |server| {
        let (tab, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let elsewhere = Tab::open(server)?;
        let begun = begin(server, &elsewhere).await?;
        let before = elsewhere.cookie();
        let response = laptop.sign(&begun.options)?;
        let shown = begun.send(&elsewhere, &response).await?;
        assert_eq!(shown.next()?, begun.path, "{}", shown.text);
        assert_ne!(elsewhere.cookie(), before, "the cookie stays the same");
        assert_eq!(elsewhere.get(&begun.path).await?.next()?, "/account");
        assert_eq!(signed_in_as(&elsewhere).await?.as_deref(), Some("ann@acme.test"));
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"), "the other browser stays signed in");
        // No code was requested, and the browser is remembered as a device of the user.
        assert_eq!(server.mailbox.mails().iter().filter(|mail| mail.code().is_some()).count(), 1);
        assert!(elsewhere.device().is_some());
        let how = "select details->>'method' from audit_events where event = 'sign_in.succeeded'
                    order by written_by desc limit 1";
        assert_eq!(server.sql(how).await?.as_deref(), Some("passkey"));
        let named = "select count(*) from audit_events a join passkeys p on a.user_id = p.user_id
                      where a.event = 'sign_in.succeeded' and a.details->>'passkeyId' like 'passkey_%'";
        assert_eq!(server.sql(named).await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn both_passkeys_of_a_user_sign_in_and_those_of_two_users_stay_apart() -> Result<()> {
    with_server(async |server| {
        let (ann, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let mut manager = TestAuthenticator::synchronized()?;
        assert_eq!(add(server, &ann, &mut manager, "Password manager").await?.status, 303);
        assert_eq!(manager.user_handle, laptop.user_handle, "a user has one handle");
        let (_, mut of_bob) = user_with_passkey(server, "bob@acme.test").await?;
        assert_ne!(of_bob.user_handle, laptop.user_handle);
        for (authenticator, email) in
            [(&mut laptop, "ann@acme.test"), (&mut manager, "ann@acme.test"), (&mut of_bob, "bob@acme.test")]
        {
            for _ in 0..2 {
                let tab = Tab::open(server)?;
                assert_eq!(sign_in(server, &tab, authenticator).await?.status, 303);
                assert_eq!(signed_in_as(&tab).await?.as_deref(), Some(email));
            }
        }
        Ok(())
    })
}

#[test]
fn a_sign_in_by_a_passkey_goes_on_with_the_request_of_an_app() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let path = tab.get(&asking(&client, &[])).await?.next()?.to_owned();
        let response = laptop.sign(&options(server, &tab.get(&path).await?)?)?;
        let used = tab.submit(&format!("{path}/passkey"), &[("response", &response)]).await?;
        let next = tab.get(used.next()?).await?;
        let done = agree(&tab, next, &[("space", "personal")]).await?;
        let tokens = server.http.post("/oauth/token", &exchange(&client, &code(&done)?)).await?;
        assert_eq!(tokens.status, 200, "{}", tokens.text);
        let who = server.http.get("/v1/whoami", Some(tokens.field("access_token"))).await?;
        assert_eq!(who.body["user"]["email"], "ann@acme.test", "{}", who.text);
        Ok(())
    })
}

#[test]
fn a_sign_in_by_a_passkey_is_a_recent_one() -> Result<()> {
    with_server(async |server| {
        let (tab, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        server.advance(16 * 60);
        tab.get(SECURITY).await?;
        let path = tab.submit(NEW, &[]).await?.next()?.to_owned();
        assert!(path.starts_with("/sign-in/flow_"), "{path}");
        let response = laptop.sign(&options(server, &tab.get(&path).await?)?)?;
        assert_eq!(tab.submit(&format!("{path}/passkey"), &[("response", &response)]).await?.status, 303);
        assert_eq!(tab.get(&path).await?.next()?, "/account");
        let mut phone = TestAuthenticator::new()?;
        assert_eq!(add(server, &tab, &mut phone, "Phone").await?.status, 303);
        Ok(())
    })
}

#[test]
fn the_page_says_when_a_passkey_was_used_last_and_where_it_is_saved() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in_tab(server, "ann@acme.test").await?;
        let mut manager = TestAuthenticator::synchronized()?;
        manager.flags = USER_PRESENT | USER_VERIFIED | CAN_BE_BACKED_UP;
        add(server, &tab, &mut manager, "Password manager").await?;
        let page = tab.get(SECURITY).await?.text;
        assert!(page.contains("<dd>Never</dd>") && !page.contains("In your password manager"), "{page}");
        server.advance(3_600);
        manager.flags |= IS_BACKED_UP;
        assert_eq!(sign_in(server, &Tab::open(server)?, &mut manager).await?.status, 303);
        server.advance(180);
        let page = tab.get(SECURITY).await?.text;
        assert!(!page.contains("<dd>Never</dd>") && page.contains("3 minutes ago</time>"), "{page}");
        assert!(page.contains("<dd>In your password manager</dd>"), "{page}");
        // It is also possible that a user stops synchronizing it.
        manager.flags &= !IS_BACKED_UP;
        assert_eq!(sign_in(server, &Tab::open(server)?, &mut manager).await?.status, 303);
        assert!(!tab.get(SECURITY).await?.text.contains("In your password manager"));
        Ok(())
    })
}

#[test]
fn a_passkey_does_not_become_one_that_can_be_synchronized() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        laptop.flags |= CAN_BE_BACKED_UP;
        let tab = Tab::open(server)?;
        let shown = sign_in(server, &tab, &mut laptop).await?;
        check_refused(&tab, &shown, REFUSED).await
    })
}

#[test]
fn sign_ins_by_passkeys_are_counted() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let mut copy = laptop.clone();
        for _ in 0..2 {
            sign_in(server, &Tab::open(server)?, &mut laptop).await?;
        }
        sign_in(server, &Tab::open(server)?, &mut copy).await?;
        for _ in 0..3 {
            sign_in(server, &Tab::open(server)?, &mut TestAuthenticator::new()?).await?;
        }
        let metrics = server.ops.get("/metrics", None).await?.text;
        for (outcome, count) in [("signed_in", 2), ("copied", 1), ("refused", 3), ("sso_required", 0), ("error", 0)] {
            let line = format!("service_passkey_sign_ins_total{{outcome=\"{outcome}\"}} {count}\n");
            assert!(metrics.contains(&line), "{line}: {metrics}");
        }
        assert_eq!(events(server, "passkey.copied").await?, 1);
        Ok(())
    })
}

#[test]
fn wrong_passkeys_slow_their_network_down_but_never_a_right_one() -> Result<()> {
    Setup::default().set("limits.otp_failures_per_network", "3+1").run(async |server| {
        let (_, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let tab = Tab::open(server)?;
        let mut statuses = Vec::new();
        for _ in 0..6 {
            let shown = sign_in(server, &tab, &mut TestAuthenticator::new()?).await?;
            let has_wait = shown.headers.contains_key("retry-after");
            assert_eq!(has_wait, shown.status == 429, "{}", shown.text);
            statuses.push(shown.status.as_u16());
        }
        let first = statuses.iter().position(|status| *status == 429).context("there is no limit")?;
        assert!(first > 0 && statuses[first..].iter().all(|status| *status == 429), "{statuses:?}");
        assert_eq!(sign_in(server, &tab, &mut laptop).await?.status, 303);
        Ok(())
    })
}

#[test]
fn at_an_ip_address_there_are_no_passkeys_and_the_pages_say_so() -> Result<()> {
    Setup::default().set("base_url", "http://127.0.0.1:8080").run(async |server| {
        let tab = Tab::open(server)?;
        let path = tab.get("/sign-in").await?.next()?.to_owned();
        let page = tab.get(&path).await?;
        assert!(!page.text.contains("data-passkey") && !page.text.contains("<script"), "{}", page.text);
        let response = json!({ "id": "AA", "response": {} }).to_string();
        let used = tab.submit(&format!("{path}/passkey"), &[("response", &response)]).await?;
        assert_eq!(used.status, 400, "{}", used.text);
        assert!(is_signed_out(&tab).await?);
        let tab = signed_in_tab(server, "ann@acme.test").await?;
        let page = tab.get(SECURITY).await?.text;
        assert!(page.contains("Passkeys aren’t available") && !page.contains("Add a passkey"), "{page}");
        assert_eq!(tab.submit(NEW, &[]).await?.status, 404);
        Ok(())
    })
}

#[test]
fn the_script_is_the_only_one_that_the_pages_allow() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let page = tab.get(&begin(server, &tab).await?.path).await?;
        let policy = page.headers.get("content-security-policy").context("no policy")?.to_str()?;
        let script = page.text.split_once("<script>").and_then(|(_, rest)| rest.split_once("</script>"));
        let script = script.context("no script")?.0;
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, script.as_bytes());
        let digest = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, digest.as_ref());
        assert_eq!(policy.matches("script-src").count(), 1, "{policy}");
        assert!(policy.contains(&format!("script-src 'sha256-{digest}'")) && !policy.contains("unsafe"), "{policy}");
        let other = tab.get("/docs").await?;
        let policy = other.headers.get("content-security-policy").context("no policy")?.to_str()?;
        assert!(!policy.contains("script-src") && policy.contains("default-src 'none'"), "{policy}");
        Ok(())
    })
}
