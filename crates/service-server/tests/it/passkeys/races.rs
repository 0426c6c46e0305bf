//! Requests at the same moment.

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc};

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use service_server::flows::{
    RequestMeta,
    oauth::authorize,
    sign_in::{
        browser_session,
        passkey::{self, PasskeySignInError},
    },
};
use service_testkit::{
    authenticator::TestAuthenticator,
    server::{TestServer, with_server},
    tab::Tab,
};

use crate::support::passkeys::{ADD, add, ask_for_new, begin, signed_in_tab, user_with_passkey};

async fn count(server: &TestServer, what: &str) -> Result<Option<String>> {
    server.sql(&format!("select count(*) from {what}")).await
}

#[test]
fn of_a_hundred_concurrent_requests_with_one_assertion_one_signs_in_pk_34() -> Result<()> {
    with_server(async |server| {
        let ann = signed_in_tab(server, "ann@acme.test").await?;
        for (place, mut passkey) in
            [TestAuthenticator::new()?, TestAuthenticator::synchronized()?].into_iter().enumerate()
        {
            add(server, &ann, &mut passkey, "Laptop").await?;
            let tab = Tab::open(server)?;
            let begun = begin(server, &tab).await?;
            let response = passkey.sign(&begun.options)?;
            let shown = try_join_all((0..100).map(|_| begun.send(&tab, &response))).await?;
            let mut statuses = BTreeMap::new();
            for shown in &shown {
                *statuses.entry(shown.status.as_u16()).or_insert(0) += 1;
            }
            println!("a passkey that counts: {}, {statuses:?}", place == 0);
            assert_eq!(statuses.get(&303), Some(&1), "{statuses:?}");
            // 503: the browser's cookie was replaced meanwhile.
            assert!(statuses.keys().all(|status| [303, 400, 403, 503].contains(status)), "{statuses:?}");
            let signed_in = count(server, "audit_events where details->>'method' = 'passkey'").await?;
            assert_eq!(signed_in, Some((place + 1).to_string()));
        }
        assert_eq!(count(server, "audit_events where event = 'passkey.copied'").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn of_a_passkey_and_its_copies_with_one_counter_one_signs_in_pk_28_pk_34() -> Result<()> {
    with_server(async |server| {
        let (_, laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let (mut tabs, mut sent) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            let tab = Tab::open(server)?;
            let begun = begin(server, &tab).await?;
            let response = laptop.clone().sign(&begun.options)?;
            tabs.push((tab, begun, response));
        }
        for (tab, begun, response) in &tabs {
            sent.push(begun.send(tab, response));
        }
        let shown = try_join_all(sent).await?;
        assert_eq!(shown.iter().filter(|shown| shown.status == 303).count(), 1);
        assert!(shown.iter().all(|shown| [303, 400].contains(&shown.status.as_u16())));
        let signed_in = count(server, "audit_events where details->>'method' = 'passkey'").await?;
        assert_eq!(signed_in.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn a_response_that_is_sent_twice_is_no_copy_pk_28_pk_34() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let (app, tab) = (&server.app, Tab::open(server)?);
        let begun = begin(server, &tab).await?;
        let response = laptop.sign(&begun.options)?;
        // The second request finds its browser before the first signs in, and the passkey afterwards.
        let mut browser = browser_session::find(app, tab.cookie().as_deref()).await?.context("no browser")?;
        let id = begun.path.rsplit('/').next().unwrap_or_default();
        let flow = authorize::find_flow(app, &browser, id).await?.context("no flow")?;
        assert_eq!(begun.send(&tab, &response).await?.status, 303);
        let meta = RequestMeta::new(Ipv4Addr::LOCALHOST.into(), "second".into(), Arc::clone(&app.audit_keys), None);
        let second = passkey::sign_in(app, &meta, &mut browser, &flow, &response).await;
        assert!(matches!(second, Err(PasskeySignInError::Unknown)), "{second:?}");
        assert_eq!(count(server, "audit_events where event = 'passkey.copied'").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn of_concurrent_requests_that_add_one_passkey_one_adds_it() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in_tab(server, "ann@acme.test").await?;
        let options = ask_for_new(server, &tab).await?;
        let response = TestAuthenticator::new()?.create(&options)?;
        let other = TestAuthenticator::new()?.create(&options)?;
        let sent = (0..20).map(async |number| {
            let response = if number % 2 == 0 { &response } else { &other };
            tab.submit(ADD, &[("name", "Laptop"), ("response", response)]).await
        });
        let shown = try_join_all(sent).await?;
        assert_eq!(shown.iter().filter(|shown| shown.status == 303).count(), 1);
        assert_eq!(count(server, "passkeys").await?.as_deref(), Some("1"));
        assert_eq!(count(server, "passkey_credentials").await?.as_deref(), Some("1"));
        assert_eq!(count(server, "audit_events where event = 'passkey.added'").await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn two_browsers_do_not_add_a_twenty_first_passkey() -> Result<()> {
    with_server(async |server| {
        let one = signed_in_tab(server, "ann@acme.test").await?;
        for number in 1..20 {
            add(server, &one, &mut TestAuthenticator::new()?, &format!("Passkey {number}")).await?;
        }
        let other = signed_in_tab(server, "ann@acme.test").await?;
        let mut sent = Vec::new();
        for tab in [&one, &other] {
            let response = TestAuthenticator::new()?.create(&ask_for_new(server, tab).await?)?;
            sent.push(async move { tab.submit(ADD, &[("name", "Laptop"), ("response", &response)]).await });
        }
        let shown = try_join_all(sent).await?;
        assert_eq!(shown.iter().filter(|shown| shown.status == 303).count(), 1);
        assert_eq!(count(server, "passkeys").await?.as_deref(), Some("20"));
        Ok(())
    })
}

#[test]
fn two_users_who_add_one_credential_id_at_once_do_not_share_it() -> Result<()> {
    with_server(async |server| {
        let passkey = TestAuthenticator::new()?;
        let (mut tabs, mut sent) = (Vec::new(), Vec::new());
        for email in ["ann@acme.test", "mallory@evil.test"] {
            let tab = signed_in_tab(server, email).await?;
            let response = passkey.clone().create(&ask_for_new(server, &tab).await?)?;
            tabs.push((tab, response));
        }
        for (tab, response) in &tabs {
            sent.push(async move { tab.submit(ADD, &[("name", "Laptop"), ("response", response)]).await });
        }
        let shown = try_join_all(sent).await?;
        let mut statuses: Vec<_> = shown.iter().map(|shown| shown.status.as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [303, 409]);
        assert_eq!(count(server, "passkeys").await?.as_deref(), Some("1"));
        Ok(())
    })
}
