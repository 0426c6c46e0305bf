//! What becomes of passkeys when the browser session that added them is revoked.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::json;
use service_api::sessions::MadeTreatment;
use service_rules::{
    email::Address,
    lineage::{Event, Made, consequence},
    signing::later,
};
use service_server::flows::{operator::Operator, revocation, support};
use service_testkit::{
    authenticator::TestAuthenticator,
    server::{SignedIn, TestServer, with_server},
    tab::Tab,
};

use crate::support::passkeys::{REFUSED, add, check_refused, events, sign_in, signed_in_tab};

const OLD_DAYS: i64 = 40;

/// What happens to a browser session. Browser sessions are not refreshed, so they are neither replayed nor superseded.
const EVENTS: [Event; 7] = [
    Event::Leaked,
    Event::RevokedByUser(MadeTreatment::Recommended),
    Event::RevokedByUser(MadeTreatment::Revoke),
    Event::RevokedByUser(MadeTreatment::Keep),
    Event::SignedOut,
    Event::RevokedByOperator,
    Event::SingledOutByOperator,
];

/// Lets something happen to the session of a browser.
async fn happen(server: &TestServer, event: Event, tab: &Tab, other: &SignedIn, email: &str) -> Result<()> {
    let made_by = "select made_by from passkeys order by id desc limit 1";
    let session = server.sql(made_by).await?.context("no passkey")?;
    match event {
        Event::Leaked => {
            let cookie = tab.cookie().context("no cookie")?;
            let response = server.http.post("/v1/token-leaks", &json!({ "tokens": [cookie] })).await?;
            assert_eq!(response.status, 202, "{}", response.text);
        }
        Event::RevokedByUser(made) => {
            let path = format!("/v1/sessions/{session}?made={}", made.as_str());
            let request = server.http.request(Method::DELETE, &path).bearer_auth(&other.access_token);
            let response = server.http.send(request).await?;
            assert_eq!(response.status, 204, "{}", response.text);
        }
        Event::SignedOut => {
            tab.get("/account").await?;
            assert_eq!(tab.submit("/sign-out", &[]).await?.status, 303);
        }
        Event::RevokedByOperator => {
            let address = Address::parse(email).ok().context("no address")?;
            revocation::sign_out_user(&server.app, &Operator::default(), &address).await?;
        }
        Event::SingledOutByOperator => {
            let operator = Operator::default().because("ticket 4711").and_then(support::SupportOperator::new);
            support::sessions::revoke(&server.app, &operator.context("no reason")?, &session).await?;
        }
        Event::Replayed | Event::Superseded | Event::Expired => anyhow::bail!("not of a browser"),
    }
    Ok(())
}

#[test]
fn what_becomes_of_passkeys_is_what_the_table_says_rv_05() -> Result<()> {
    with_server(async |server| {
        for (number, event) in EVENTS.into_iter().enumerate() {
            let email = format!("user{number}@acme.test");
            let other = server.sign_in(&email, "read write").await?;
            server.advance(120);
            let tab = signed_in_tab(server, &email).await?;
            let mut passkeys = Vec::new();
            for name in ["new", "used", "old"] {
                let mut passkey = TestAuthenticator::new()?;
                assert_eq!(add(server, &tab, &mut passkey, &format!("{name} {number}")).await?.status, 303);
                passkeys.push(passkey);
            }
            assert_eq!(sign_in(server, &Tab::open(server)?, &mut passkeys[1]).await?.status, 303);
            let age = format!("update passkeys set created_at = created_at - interval '{OLD_DAYS} days'");
            server.sql(&format!("{age} where name = 'old {number}'")).await?;
            let removed = events(server, "passkey.removed").await?;
            happen(server, event, &tab, &other, &email).await?;
            let now = server.now();
            let mut expected = removed;
            for (place, (made_at, used_at)) in
                [(now, None), (now, Some(now)), (later(now, -OLD_DAYS * 86_400), None)].into_iter().enumerate()
            {
                let gone = consequence(event, Made::Passkey).revokes(made_at, used_at, now);
                let tab = Tab::open(server)?;
                let shown = sign_in(server, &tab, &mut passkeys[place]).await?;
                assert_eq!(shown.status.as_u16(), if gone { 400 } else { 303 }, "{event:?}: {place}: {}", shown.text);
                if gone {
                    check_refused(&tab, &shown, REFUSED).await?;
                    expected += 1;
                }
            }
            assert_eq!(events(server, "passkey.removed").await?, expected, "{event:?}");
            server.advance(120);
        }
        let counts = "select (select count(*) from passkeys) = (select count(*) from passkey_credentials)";
        assert_eq!(server.sql(counts).await?.as_deref(), Some("t"));
        Ok(())
    })
}

#[test]
fn the_page_says_which_passkeys_a_browser_added_before_it_is_signed_out_rv_05() -> Result<()> {
    with_server(async |server| {
        let thief = signed_in_tab(server, "ann@acme.test").await?;
        add(server, &thief, &mut TestAuthenticator::new()?, "Backdoor").await?;
        server.advance(120);
        let ann = signed_in_tab(server, "ann@acme.test").await?;
        let page = ann.get("/account/sessions").await?;
        assert!(page.text.contains("Passkey Backdoor, added on"), "{}", page.text);
        let end = page.text.split("href=\"/account/sessions/sess_").nth(1).and_then(|rest| rest.split('"').next());
        let path = format!("/account/sessions/sess_{}", end.context("no link")?);
        let question = ann.get(&path).await?;
        assert!(question.text.contains("Passkey Backdoor, added on"), "{}", question.text);
        ann.submit(&path, &[("made", "revoke")]).await?;
        assert_eq!(server.sql("select count(*) from passkeys").await?.as_deref(), Some("0"));
        Ok(())
    })
}
