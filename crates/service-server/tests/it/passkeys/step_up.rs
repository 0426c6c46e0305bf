//! Step-up of users who have a passkey: a code signs in, and is not enough for more.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use service_testkit::{
    authenticator::TestAuthenticator,
    response::TestResponse,
    server::{TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::{
    authorize::{CALLBACK, asking, register},
    cli_tokens::{PATH, post},
    passkeys::{NEW, SECURITY, add, options, remove_paths, sign_in, signed_in_tab, user_with_passkey},
    step_up::{CHALLENGE, check_stale},
};

const WEEK: i64 = 7 * 86_400;

async fn create_token(server: &TestServer, access_token: &str) -> Result<TestResponse> {
    post(server, PATH, access_token, &json!({ "name": "ci" })).await
}

/// Opens the page of passkeys, and presses the button that adds one.
async fn press_add(tab: &Tab) -> Result<Shown> {
    tab.get(SECURITY).await?;
    tab.submit(NEW, &[]).await
}

#[test]
fn a_code_is_not_enough_for_a_user_who_has_a_passkey_pk_35() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        server.advance(WEEK + 1);
        let by_code = server.sign_in("ann@acme.test", "read write").await?;
        let refused = create_token(server, &by_code.access_token).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (403, "insufficient_user_authentication"));
        assert_eq!(refused.header("www-authenticate"), Some(CHALLENGE));
        assert_eq!(refused.body["details"], json!({ "maxAge": 900, "signInMethod": "passkey" }));
        // The page says so too, and takes the passkey.
        server.advance(61);
        let tab = signed_in_tab(server, "ann@acme.test").await?;
        server.advance(1);
        let asked = press_add(&tab).await?;
        let path = asked.next()?.to_owned();
        let page = tab.get(&path).await?;
        assert!(page.text.contains("Use your passkey to confirm it’s you."), "{}", page.text);
        let response = laptop.sign(&options(server, &page)?)?;
        let confirmed = tab.submit(&format!("{path}/passkey"), &[("response", &response)]).await?;
        assert_eq!(confirmed.next()?, path, "{}", confirmed.text);
        assert_eq!(press_add(&tab).await?.status, 200);
        // A user without a passkey needs none.
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        assert_eq!(create_token(server, &bob.access_token).await?.status, 201);
        Ok(())
    })
}

#[test]
fn a_new_passkey_does_not_restrict_codes_pk_38() -> Result<()> {
    with_server(async |server| {
        // An attacker with one stolen code adds a passkey.
        user_with_passkey(server, "ann@acme.test").await?;
        server.advance(WEEK - 60);
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        assert_eq!(create_token(server, &ann.access_token).await?.status, 201);
        // After the week, they do.
        server.advance(120);
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        check_stale_passkey(&create_token(server, &ann.access_token).await?);
        Ok(())
    })
}

#[track_caller]
fn check_stale_passkey(response: &TestResponse) {
    assert_eq!((response.status.as_u16(), response.error()), (403, "insufficient_user_authentication"));
    assert_eq!(response.body["details"]["signInMethod"], "passkey", "{}", response.body);
}

#[test]
fn a_passkey_is_a_recent_sign_in_for_fifteen_minutes() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        server.advance(WEEK + 1);
        let tab = Tab::open(server)?;
        assert_eq!(sign_in(server, &tab, &mut laptop).await?.status, 303);
        server.advance(900);
        assert_eq!(press_add(&tab).await?.status, 200);
        server.advance(1);
        assert!(press_add(&tab).await?.next()?.starts_with("/sign-in/"));
        Ok(())
    })
}

#[test]
fn a_client_that_asks_for_a_recent_sign_in_gets_a_session_by_code_that_is_not_enough() -> Result<()> {
    with_server(async |server| {
        user_with_passkey(server, "ann@acme.test").await?;
        server.advance(WEEK + 1);
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = signed_in_tab(server, "ann@acme.test").await?;
        server.advance(1);
        let begun = tab.get(&asking(&client, &[("max_age", "900")])).await?;
        let path = begun.next()?.to_owned();
        assert!(path.starts_with("/sign-in/"), "{path}");
        server.advance(61);
        // A user who has only the mailbox is not sent around in circles.
        let entered = tab.sign_in(&server.mailbox, &path, "ann@acme.test").await?;
        assert!(entered.next()?.starts_with("/consent/"), "{:?}", entered.location);
        Ok(())
    })
}

#[test]
fn a_session_of_a_user_without_a_passkey_is_told_of_no_passkey() -> Result<()> {
    with_server(async |server| {
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        server.advance(901);
        let bob = server.refresh(&bob.refresh_token).await?;
        check_stale(&create_token(server, bob.field("access_token")).await?, "no passkey");
        Ok(())
    })
}

#[test]
fn revoking_the_session_that_added_a_passkey_leaves_the_passkey_after_a_week_pk_42() -> Result<()> {
    with_server(async |server| {
        user_with_passkey(server, "ann@acme.test").await?;
        server.advance(WEEK + 1);
        // An attacker with one phished code revokes everything.
        let thief = server.sign_in("ann@acme.test", "read write").await?;
        let path = "/v1/sessions/revoke-others?made=revoke";
        let request = server.http.request(Method::POST, path).bearer_auth(&thief.access_token);
        let revoked = server.http.send(request).await?;
        assert!(revoked.status.is_success(), "{}", revoked.text);
        assert_eq!(server.sql("select count(*) from passkeys").await?.as_deref(), Some("1"));
        server.advance(61);
        let again = server.sign_in("ann@acme.test", "read write").await?;
        check_stale_passkey(&create_token(server, &again.access_token).await?);
        Ok(())
    })
}

#[test]
fn a_copied_passkey_does_not_keep_its_owner_from_removing_it_pk_43() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        server.advance(WEEK + 1);
        let mut copy = laptop.clone();
        for _ in 0..2 {
            assert_eq!(sign_in(server, &Tab::open(server)?, &mut copy).await?.status, 303);
        }
        assert_eq!(sign_in(server, &Tab::open(server)?, &mut laptop).await?.status, 400);
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        assert_eq!(create_token(server, &ann.access_token).await?.status, 201);
        Ok(())
    })
}

#[test]
fn a_passkey_that_was_added_with_the_help_of_another_counts_at_once_pk_45() -> Result<()> {
    with_server(async |server| {
        let (_, mut old) = user_with_passkey(server, "ann@acme.test").await?;
        server.advance(WEEK + 1);
        let tab = Tab::open(server)?;
        assert_eq!(sign_in(server, &tab, &mut old).await?.status, 303);
        assert_eq!(add(server, &tab, &mut TestAuthenticator::new()?, "New phone").await?.status, 303);
        let paths = remove_paths(&tab).await?;
        tab.submit(&paths[1], &[]).await?.next()?;
        assert_eq!(server.sql("select name from passkeys").await?.as_deref(), Some("New phone"));
        let by_code = server.sign_in("ann@acme.test", "read write").await?;
        check_stale_passkey(&create_token(server, &by_code.access_token).await?);
        Ok(())
    })
}
