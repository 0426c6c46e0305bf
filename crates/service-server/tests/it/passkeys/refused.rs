//! Passkeys that do not sign in: forged, used before, of another user, or where they must not.

use anyhow::{Context as _, Result};
use reqwest::Method;
use service_rules::email::Address;
use service_server::flows::{operator::Operator, revocation};
use service_testkit::{
    authenticator::{TestAuthenticator, USER_PRESENT, USER_VERIFIED},
    server::{TestServer, with_server},
    tab::Tab,
};

use crate::support::{
    authorize::{CALLBACK, asking, register},
    passkeys::{
        ADD, NEW, REFUSED, add, begin, check_refused, events, is_signed_out, options, remove_paths, sign_in,
        signed_in_tab, user_with_passkey,
    },
    sso::{company, signed_in_as, with_provider},
};

const COPIED: &str = "because another device seems to have a copy of it";
const WARNING: &str = "A copy of your passkey was used";

/// A user with a passkey that does not count, so that only its challenge is good for one sign-in.
async fn user_with_synchronized(server: &TestServer, email: &str) -> Result<(Tab, TestAuthenticator)> {
    let (tab, mut authenticator) = (signed_in_tab(server, email).await?, TestAuthenticator::synchronized()?);
    assert_eq!(add(server, &tab, &mut authenticator, "Password manager").await?.status, 303);
    Ok((tab, authenticator))
}

async fn sign_ins(server: &TestServer) -> Result<Option<String>> {
    server.sql("select count(*) from audit_events where details->>'method' = 'passkey'").await
}

#[test]
fn a_challenge_that_was_used_does_not_work_again_pk_22() -> Result<()> {
    with_server(async |server| {
        let (_, mut manager) = user_with_synchronized(server, "ann@acme.test").await?;
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let begun = begin(server, &tab).await?;
        let (cookie, csrf) = (tab.cookie(), tab.csrf());
        let response = manager.sign(&begun.options)?;
        assert_eq!(begun.send(&tab, &response).await?.status, 303);
        assert_eq!(sign_ins(server).await?.as_deref(), Some("1"));
        // In the same browser, which has another cookie now: on the old page, and where it has to sign in again.
        tab.get("/account").await?;
        server.advance(1);
        let again = tab.get(&asking(&client, &[("prompt", "login")])).await?.next()?.to_owned();
        for path in [&begun.path, &again] {
            let refused = tab.submit(&format!("{path}/passkey"), &[("response", &response)]).await?;
            assert!(matches!(refused.status.as_u16(), 400 | 403), "{path}: {}", refused.status);
        }
        // With the cookie from before, which a thief may have kept.
        let thief = Tab::open(server)?;
        thief.set_cookie(cookie);
        let form = [("csrf", csrf.as_str()), ("response", response.as_str())];
        let request = thief.request(Method::POST, &format!("{}/passkey", begun.path)).form(&form);
        assert_eq!(thief.send(request).await?.status, 403);
        assert_eq!(sign_ins(server).await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn another_browsers_response_is_refused_pk_23() -> Result<()> {
    with_server(async |server| {
        let (_, mut manager) = user_with_synchronized(server, "ann@acme.test").await?;
        let (victim, thief) = (Tab::open(server)?, Tab::open(server)?);
        let begun = begin(server, &victim).await?;
        let response = manager.sign(&begun.options)?;
        let own = begin(server, &thief).await?;
        let refused = own.send(&thief, &response).await?;
        check_refused(&thief, &refused, REFUSED).await?;
        // Nor can another browser answer on the page of this one.
        thief.get(&own.path).await?;
        assert_eq!(begun.send(&thief, &response).await?.status, 403);
        assert_eq!(begun.send(&victim, &response).await?.status, 303, "the refusal used the challenge up");
        Ok(())
    })
}

#[test]
fn a_response_for_another_flow_of_the_same_browser_is_refused_pk_24() -> Result<()> {
    with_server(async |server| {
        let (_, mut manager) = user_with_synchronized(server, "ann@acme.test").await?;
        let tab = Tab::open(server)?;
        let (first, second) = (begin(server, &tab).await?, begin(server, &tab).await?);
        assert_ne!(first.options["challenge"], second.options["challenge"]);
        let response = manager.sign(&first.options)?;
        let refused = second.send(&tab, &response).await?;
        check_refused(&tab, &refused, REFUSED).await?;
        assert_eq!(first.send(&tab, &response).await?.status, 303);
        Ok(())
    })
}

#[test]
fn another_users_credential_id_with_ones_own_signature_is_refused_pk_25() -> Result<()> {
    with_server(async |server| {
        let (_, laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let (_, evil) = user_with_passkey(server, "mallory@evil.test").await?;
        let (id, handle) = (laptop.credential_id.clone(), laptop.user_handle.clone());
        let tab = Tab::open(server)?;
        for mut forged in [
            TestAuthenticator { credential_id: id.clone(), counter: Some(9), ..evil.clone() },
            TestAuthenticator { credential_id: id, user_handle: handle, counter: Some(9), ..evil.clone() },
        ] {
            let refused = sign_in(server, &tab, &mut forged).await?;
            check_refused(&tab, &refused, REFUSED).await?;
        }
        Ok(())
    })
}

#[test]
fn a_passkey_that_names_another_user_or_none_is_refused() -> Result<()> {
    with_server(async |server| {
        let (_, laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let (_, evil) = user_with_passkey(server, "mallory@evil.test").await?;
        let tab = Tab::open(server)?;
        for user_handle in [laptop.user_handle, None, Some(Vec::new())] {
            let mut forged = TestAuthenticator { user_handle, ..evil.clone() };
            let refused = sign_in(server, &tab, &mut forged).await?;
            check_refused(&tab, &refused, REFUSED).await?;
        }
        Ok(())
    })
}

#[test]
fn an_unknown_credential_id_and_a_wrong_signature_get_the_same_response_pk_27() -> Result<()> {
    with_server(async |server| {
        let (_, laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let tab = Tab::open(server)?;
        let begun = begin(server, &tab).await?;
        let unknown = TestAuthenticator { user_handle: laptop.user_handle.clone(), ..TestAuthenticator::new()? };
        let wrong = TestAuthenticator { credential_id: laptop.credential_id.clone(), ..unknown.clone() };
        let unnamed = TestAuthenticator { user_handle: None, ..laptop.clone() };
        let mut answers = Vec::new();
        for mut authenticator in [unknown, wrong, unnamed] {
            authenticator.counter = Some(9);
            let response = authenticator.sign(&begun.options)?;
            let mut shown = begun.send(&tab, &response).await?;
            for varying in ["x-request-id", "date"] {
                shown.headers.remove(varying);
            }
            answers.push((shown.status, shown.headers, shown.text));
        }
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[0], answers[2]);
        assert!(answers[0].2.contains(REFUSED), "{}", answers[0].2);
        Ok(())
    })
}

#[test]
fn a_counter_that_goes_back_is_refused_recorded_and_mailed_once_a_day_pk_28() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let copy = laptop.clone();
        for _ in 0..2 {
            assert_eq!(sign_in(server, &Tab::open(server)?, &mut laptop).await?.status, 303);
        }
        let tab = Tab::open(server)?;
        let stored = "select counter from passkeys";
        let before = server.sql(stored).await?;
        let equal = laptop.counter.map(|counter| counter - 1);
        for counter in [copy.counter, equal, Some(0)] {
            let refused = sign_in(server, &tab, &mut TestAuthenticator { counter, ..copy.clone() }).await?;
            check_refused(&tab, &refused, COPIED).await?;
        }
        // A passkey that counts does not stop to.
        let refused = sign_in(server, &tab, &mut TestAuthenticator { counter: None, ..copy.clone() }).await?;
        check_refused(&tab, &refused, COPIED).await?;
        assert_eq!(server.sql(stored).await?, before);
        let mail = loop {
            let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
            if mail.subject == WARNING {
                break mail;
            }
        };
        assert!(mail.text.contains("Laptop") && mail.text.contains("127.0.0.1"), "{}", mail.text);
        assert_eq!(events(server, "passkey.copied").await?, 1);
        assert_eq!(sign_in(server, &tab, &mut laptop).await?.status, 303, "the right one is locked out");
        server.advance(86_401);
        let stranger = Tab::open(server)?;
        sign_in(server, &stranger, &mut copy.clone()).await?;
        while server.mailbox.next_mail_to("ann@acme.test").await?.subject != WARNING {}
        assert_eq!(events(server, "passkey.copied").await?, 2);
        assert_eq!(server.mailbox.mails().iter().filter(|mail| mail.subject == WARNING).count(), 2);
        Ok(())
    })
}

#[test]
fn a_passkey_of_a_disabled_user_does_not_sign_in_pk_30() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let address = Address::parse("ann@acme.test").ok().context("no address")?;
        revocation::disable_user(&server.app, &Operator::default(), &address).await?;
        let mut copy = laptop.clone();
        let tab = Tab::open(server)?;
        let refused = sign_in(server, &tab, &mut laptop).await?;
        check_refused(&tab, &refused, REFUSED).await?;
        // Nor does the user get mail.
        copy.counter = None;
        let refused = sign_in(server, &tab, &mut copy).await?;
        check_refused(&tab, &refused, REFUSED).await?;
        assert_eq!(events(server, "passkey.copied").await?, 0);
        Ok(())
    })
}

#[test]
fn a_passkey_does_not_sign_in_where_single_sign_on_is_required_pk_31() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let (mut laptops, emails) = (Vec::new(), ["ann@elsewhere.test", "bob@elsewhere.test"]);
        for email in emails {
            laptops.push(user_with_passkey(server, email).await?.1);
        }
        // Ann's address comes to be in the domain of the company, and single sign-on is required there.
        acme.take_domain(server, "elsewhere.test").await?;
        let tab = Tab::open(server)?;
        assert_eq!(sign_in(server, &tab, &mut laptops[0]).await?.status, 303, "it is not required yet");
        acme.require(server, &[acme.owner_id]).await?;
        let stored = server.sql("select sum(counter) from passkeys").await?;
        let tab = Tab::open(server)?;
        for laptop in &mut laptops {
            let refused = sign_in(server, &tab, laptop).await?;
            check_refused(&tab, &refused, "Your company requires single sign-on.").await?;
        }
        assert_eq!(server.sql("select sum(counter) from passkeys").await?, stored);
        let metrics = server.ops.get("/metrics", None).await?.text;
        assert!(metrics.contains("service_passkey_sign_ins_total{outcome=\"sso_required\"} 2\n"), "{metrics}");
        // An outsider learns of the rule only with the passkey.
        let mut forged =
            TestAuthenticator { credential_id: laptops[0].credential_id.clone(), ..TestAuthenticator::new()? };
        let refused = sign_in(server, &tab, &mut forged).await?;
        check_refused(&tab, &refused, REFUSED).await
    })
}

#[test]
fn the_form_without_the_browsers_token_is_refused_pk_33() -> Result<()> {
    with_server(async |server| {
        let (ann, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let foreign = signed_in_tab(server, "mallory@evil.test").await?;
        foreign.get("/account").await?;
        let foreign = foreign.csrf();
        let new = TestAuthenticator::new()?.create(&options(server, &ann.submit(NEW, &[]).await?)?)?;
        let remove = remove_paths(&ann).await?.remove(0);
        let tab = Tab::open(server)?;
        let begun = begin(server, &tab).await?;
        let response = laptop.sign(&begun.options)?;
        let sign_in_path = format!("{}/passkey", begun.path);
        for (tab, path, response) in [
            (&tab, sign_in_path.as_str(), response.as_str()),
            (&ann, NEW, ""),
            (&ann, ADD, new.as_str()),
            (&ann, remove.as_str(), ""),
        ] {
            let csrf = tab.csrf();
            let form = |csrf: &str| {
                let fields = [("csrf", csrf), ("name", "Phone"), ("response", response)];
                tab.request(Method::POST, path).form(&fields)
            };
            let without = tab.request(Method::POST, path).form(&[("name", "Phone"), ("response", response)]);
            let elsewhere = form(&csrf).header("sec-fetch-site", "cross-site");
            for request in [without, form(""), form(&foreign), elsewhere] {
                assert_eq!(tab.send(request).await?.status, 403, "{path}");
            }
        }
        assert!(is_signed_out(&tab).await?);
        assert_eq!(server.sql("select count(*) from passkeys").await?.as_deref(), Some("1"));
        assert_eq!(begun.send(&tab, &response).await?.status, 303);
        Ok(())
    })
}

#[test]
fn what_an_authenticator_says_wrongly_does_not_sign_in() -> Result<()> {
    with_server(async |server| {
        let (_, laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let tab = Tab::open(server)?;
        let evil = Some("evil.test".to_owned());
        for (what, mut wrong) in [
            ("not verified", TestAuthenticator { flags: USER_PRESENT, ..laptop.clone() }),
            ("not present", TestAuthenticator { flags: USER_VERIFIED, ..laptop.clone() }),
            ("another origin", TestAuthenticator { origin: "https://evil.test".into(), ..laptop.clone() }),
            ("in a frame", TestAuthenticator { cross_origin: true, ..laptop.clone() }),
            ("another relying party", TestAuthenticator { relying_party: evil, ..laptop.clone() }),
        ] {
            let refused = sign_in(server, &tab, &mut wrong).await?;
            check_refused(&tab, &refused, REFUSED).await.context(what)?;
        }
        // What is no response of an authenticator does not sign in.
        let begun = begin(server, &tab).await?;
        for response in ["", "{}", "[]", "{\"id\":\"\"}", &"A".repeat(30_000)] {
            assert!(begun.send(&tab, response).await?.status.is_client_error(), "{response}");
        }
        assert!(is_signed_out(&tab).await?);
        assert_eq!(sign_in(server, &tab, &mut laptop.clone()).await?.status, 303);
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        Ok(())
    })
}
