//! An owner tries a connection before it counts: what the provider sends is shown, and no user is signed in.

use anyhow::Result;
use serde_json::{Value, json};
use service_api::workspaces::Role;
use service_testkit::{
    server::TestServer,
    tab::{Shown, Tab},
};

use crate::support::{
    provider::{Fault, Provider},
    sso::{Company, at_provider, company_of, signed_in_as, user, with_provider},
};

/// A company whose connection is a draft, and its owner in a browser.
async fn draft(server: &TestServer, provider: &Provider) -> Result<(Company, Tab)> {
    let owner = server.sign_in("owner@bolt.test", "read write").await?;
    let acme = company_of(server, provider, "acme.test", owner.user_id).await?;
    acme.change(server, |connection| (connection.tried_at, connection.enabled_at) = (None, None)).await?;
    let tab = Tab::open(server)?;
    let begun = tab.get("/sign-in").await?;
    tab.sign_in(&server.mailbox, begun.next()?, "owner@bolt.test").await?;
    tab.get("/account").await?;
    Ok((acme, tab))
}

fn path(acme: &Company) -> String {
    format!("/workspaces/{}/connections/{}/try", acme.workspace_id, acme.connection_id)
}

async fn try_it(server: &TestServer, acme: &Company, tab: &Tab) -> Result<Shown> {
    tab.get("/account").await?;
    let shown = tab.submit(&path(acme), &[]).await?;
    tab.get(&at_provider(server, &shown).await?).await
}

async fn tried(server: &TestServer) -> Result<Option<String>> {
    server.sql("select tried_at is not null from connections").await
}

#[test]
fn what_the_provider_sends_is_shown_in_plain_words_and_signs_no_one_in() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, tab) = draft(server, provider).await?;
        let cases: [(Value, &str, &str); 5] = [
            (user("o", "olga@acme.test"), "The connection works", "olga@acme.test"),
            (json!({ "sub": "o", "email": "olga@acme.test" }), "The connection works", "Not stated"),
            (json!({ "sub": "o", "email": "olga@acme.test", "email_verified": false }), "isn’t verified", "No<"),
            (user("o", "olga@elsewhere.test"), "isn’t in a verified domain", "acme.test"),
            (json!({ "sub": "o" }), "no usable email address", "Not sent"),
        ];
        for (claims, sentence, fact) in cases {
            provider.sign_in_as(&claims);
            let shown = try_it(server, &acme, &tab).await?;
            assert_eq!(shown.status, 200, "{}", shown.text);
            assert!(shown.text.contains(sentence) && shown.text.contains(fact), "{sentence} {fact}: {}", shown.text);
        }
        assert_eq!(tried(server).await?.as_deref(), Some("t"));
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("owner@bolt.test"), "still the owner");
        assert_eq!(server.sql("select count(*) from identities").await?.as_deref(), Some("0"));
        let events = "select count(*) from audit_events where event = 'connection.tried'";
        assert_eq!(server.sql(events).await?.as_deref(), Some("5"));
        Ok(())
    })
}

#[test]
fn a_connection_that_does_not_work_says_why_and_is_not_tried() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, tab) = draft(server, provider).await?;
        provider.sign_in_as(&user("o", "olga@acme.test"));
        for (fault, text) in [
            (Fault::TokenError(401, "invalid_client"), "client ID, or the client secret or key"),
            (Fault::Claims(|claims| drop(claims.insert("aud".into(), json!("other")))), "for another client"),
            (Fault::AuthorizationError("unauthorized_client"), "unauthorized_client"),
        ] {
            provider.fail(fault);
            let shown = try_it(server, &acme, &tab).await?;
            assert!(shown.status == 400 && shown.text.contains(text), "{text}: {}", shown.text);
        }
        assert_eq!(tried(server).await?.as_deref(), Some("f"));
        Ok(())
    })
}

#[test]
fn only_an_owner_tries_a_connection() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, _) = draft(server, provider).await?;
        for (email, role, status) in [("member@bolt.test", Some(Role::Member), 403), ("stranger@bolt.test", None, 404)]
        {
            let who = server.sign_in(email, "read").await?;
            if let Some(role) = role {
                server.add_member(acme.workspace_id, who.user_id, role).await?;
            }
            let tab = Tab::open(server)?;
            let begun = tab.get("/sign-in").await?;
            tab.sign_in(&server.mailbox, begun.next()?, email).await?;
            tab.get("/account").await?;
            assert_eq!(tab.submit(&path(&acme), &[]).await?.status, status, "{email}");
        }
        assert_eq!(provider.requests(), 0);
        // A draft signs no user in, whatever link leads to it.
        assert_eq!(Tab::open(server)?.get(&acme.start()).await?.status, 400);
        Ok(())
    })
}

#[test]
fn an_owner_who_is_none_any_longer_finishes_no_try() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, tab) = draft(server, provider).await?;
        provider.sign_in_as(&user("o", "olga@acme.test"));
        let shown = tab.submit(&path(&acme), &[]).await?;
        let callback = at_provider(server, &shown).await?;
        server.sql("update memberships set role = 'viewer'; update members set role = 'viewer'").await?;
        assert_eq!(tab.get(&callback).await?.status, 400);
        assert_eq!(tried(server).await?.as_deref(), Some("f"));
        Ok(())
    })
}
