//! Recovery: removing all passkeys without having one.

use anyhow::Result;
use service_server::tasks::housekeeping;
use service_testkit::{
    authenticator::TestAuthenticator,
    server::{TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::passkeys::{SECURITY, add, events, sign_in, signed_in_tab, user_with_passkey};

const BEGIN: &str = "/account/security/recovery";
const STOP: &str = "/account/security/recovery/stop";
const DAY: i64 = 86_400;

/// Runs the background task that ends recoveries; returns how many passkeys there are.
async fn end_due(server: &TestServer) -> Result<String> {
    assert!(housekeeping::clean_all(&server.app).await);
    Ok(server.sql("select count(*) from passkeys").await?.unwrap_or_default())
}

/// Opens the page and presses one of its buttons.
async fn press(tab: &Tab, path: &str) -> Result<Shown> {
    tab.get(SECURITY).await?;
    tab.submit(path, &[]).await
}

/// A mail to Ann with this subject, after others.
async fn mail(server: &TestServer, subject: &str) -> Result<String> {
    loop {
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        if mail.subject == subject {
            return Ok(mail.text);
        }
    }
}

/// Ann has a passkey for a week, and an attacker has signed in with her mailbox.
async fn mailbox_only(server: &TestServer) -> Result<(Tab, TestAuthenticator)> {
    let (_, laptop) = user_with_passkey(server, "ann@acme.test").await?;
    server.advance(7 * DAY + 1);
    Ok((signed_in_tab(server, "ann@acme.test").await?, laptop))
}

#[test]
fn a_user_who_has_lost_every_passkey_removes_them_after_a_day() -> Result<()> {
    with_server(async |server| {
        let (tab, mut laptop) = mailbox_only(server).await?;
        let page = tab.get(SECURITY).await?;
        assert!(page.text.contains("Lost your passkeys?"), "{}", page.text);
        let begun = press(&tab, BEGIN).await?;
        assert!(tab.get(begun.next()?).await?.text.contains("Keep my passkeys"));
        let text = mail(server, "Your passkeys will be removed in 24 hours").await?;
        assert!(text.contains("/account/security") && text.contains("127.0.0.1"), "{text}");
        assert_eq!(press(&tab, BEGIN).await?.status, 404, "it is under way");
        server.advance(DAY - 1);
        assert_eq!(end_due(server).await?, "1");
        server.advance(1);
        assert_eq!(end_due(server).await?, "0");
        assert!(mail(server, "Your passkeys were removed").await?.contains("Laptop"));
        assert_eq!(server.sql("select count(*) from passkey_credentials").await?.as_deref(), Some("0"));
        assert_eq!(sign_in(server, &Tab::open(server)?, &mut laptop).await?.status, 400);
        // A code is enough again.
        let again = signed_in_tab(server, "ann@acme.test").await?;
        assert_eq!(add(server, &again, &mut TestAuthenticator::new()?, "New laptop").await?.status, 303);
        assert_eq!((events(server, "passkey.recovery_begun").await?, events(server, "passkey.removed").await?), (1, 1));
        Ok(())
    })
}

#[test]
fn a_recovery_that_is_stopped_removes_nothing_pk_39() -> Result<()> {
    with_server(async |server| {
        let (thief, mut laptop) = mailbox_only(server).await?;
        let owner = Tab::open(server)?;
        assert_eq!(sign_in(server, &owner, &mut laptop).await?.status, 303);
        // In a browser, however long ago the user signed in.
        press(&thief, BEGIN).await?.next()?;
        server.advance(DAY / 2);
        assert!(owner.get(SECURITY).await?.text.contains("All your passkeys will be removed on"));
        let stopped = press(&owner, STOP).await?;
        assert!(owner.get(stopped.next()?).await?.text.contains("Your passkeys stay."));
        assert!(mail(server, "Your passkeys stay").await?.contains("127.0.0.1"));
        server.advance(DAY);
        assert_eq!(end_due(server).await?, "1");
        assert_eq!(press(&owner, STOP).await?.status, 404, "none is under way");
        // By signing in with the passkey.
        let thief = signed_in_tab(server, "ann@acme.test").await?;
        press(&thief, BEGIN).await?.next()?;
        assert_eq!(sign_in(server, &Tab::open(server)?, &mut laptop).await?.status, 303);
        server.advance(DAY);
        assert_eq!(end_due(server).await?, "1");
        assert_eq!(events(server, "passkey.recovery_stopped").await?, 2);
        Ok(())
    })
}

#[test]
fn a_new_passkey_stops_no_recovery_pk_40() -> Result<()> {
    with_server(async |server| {
        // A thief with one stolen code adds a passkey, and the owner has only the mailbox.
        let (_, mut of_thief) = user_with_passkey(server, "ann@acme.test").await?;
        server.advance(61);
        let owner = signed_in_tab(server, "ann@acme.test").await?;
        press(&owner, BEGIN).await?.next()?;
        assert_eq!(sign_in(server, &Tab::open(server)?, &mut of_thief).await?.status, 303);
        server.advance(DAY);
        assert_eq!(end_due(server).await?, "0");
        Ok(())
    })
}

#[test]
fn a_recovery_needs_a_recent_sign_in_and_is_begun_three_times_a_day_pk_41() -> Result<()> {
    with_server(async |server| {
        let (tab, _) = mailbox_only(server).await?;
        for _ in 0..3 {
            press(&tab, BEGIN).await?.next()?;
            press(&tab, STOP).await?.next()?;
        }
        assert_eq!(press(&tab, BEGIN).await?.status, 429);
        server.advance(901);
        assert!(press(&tab, BEGIN).await?.next()?.starts_with("/sign-in/"));
        assert!(press(&tab, STOP).await?.status == 404, "stopping needs no recent sign-in");
        let stranger = Tab::open(server)?;
        stranger.get("/sign-in").await?;
        let refused = stranger.submit(BEGIN, &[]).await?;
        assert!(refused.location.as_deref() == Some("/sign-in") || refused.status == 403, "{}", refused.status);
        Ok(())
    })
}

#[test]
fn a_recovery_leaves_passkeys_that_were_added_after_it_began_pk_44() -> Result<()> {
    with_server(async |server| {
        user_with_passkey(server, "ann@acme.test").await?;
        server.advance(61);
        let tab = signed_in_tab(server, "ann@acme.test").await?;
        press(&tab, BEGIN).await?.next()?;
        server.advance(1);
        assert_eq!(add(server, &tab, &mut TestAuthenticator::new()?, "New laptop").await?.status, 303);
        server.advance(DAY);
        assert_eq!(end_due(server).await?, "1");
        assert_eq!(server.sql("select name from passkeys").await?.as_deref(), Some("New laptop"));
        Ok(())
    })
}
