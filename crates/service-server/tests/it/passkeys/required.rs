//! Requiring a passkey: a code alone no longer signs in, at no door.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_api::ids::Id as _;
use service_rules::signing::later;
use service_server::tasks::housekeeping;
use service_testkit::{
    authenticator::TestAuthenticator,
    response::TestResponse,
    server::{SignedIn, TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::{
    address_change::{NEW, change},
    authorize::{CALLBACK, asking, register},
    cli_tokens::{make, whoami},
    new_sign_ins::{ANN, next_report},
    otp::wrong,
    passkeys::{
        SECURITY, add, events, is_signed_out, options, remove_paths, sign_in, signed_in_tab, user_with_passkey,
    },
    sso::{self, company, user, with_provider},
    sso_sign_ins::sign_in_by_code,
};

const PATH: &str = "/v1/account/passkey-requirement";
const REQUIRE: &str = "/account/security/require-passkey";
const ALLOW: &str = "/account/security/allow-codes";
const DAY: i64 = 86_400;

/// A user with a passkey that counts, who has just signed in by it.
async fn user_by_passkey(server: &TestServer, email: &str) -> Result<(Tab, TestAuthenticator)> {
    let (_, mut laptop) = user_with_passkey(server, email).await?;
    server.advance(7 * DAY + 1);
    let tab = Tab::open(server)?;
    ensure!(sign_in(server, &tab, &mut laptop).await?.status == 303, "the passkey signs in");
    Ok((tab, laptop))
}

/// Opens the page and presses one of its buttons.
async fn press(tab: &Tab, path: &str) -> Result<Shown> {
    tab.get(SECURITY).await?;
    tab.submit(path, &[]).await
}

/// A user who requires a passkey.
async fn user_who_requires(server: &TestServer, email: &str) -> Result<(Tab, TestAuthenticator)> {
    let (tab, laptop) = user_by_passkey(server, email).await?;
    let required = press(&tab, REQUIRE).await?;
    let page = tab.get(required.next()?).await?;
    ensure!(page.text.contains("only a passkey or a recovery code signs you in"), "{}", page.text);
    Ok((tab, laptop))
}

/// Enters a right code in a new browser, and opens the page that asks for the passkey; returns the browser, its address and the page.
async fn enter_code(server: &TestServer, email: &str) -> Result<(Tab, String, Shown)> {
    server.advance(61);
    let tab = Tab::open(server)?;
    let path = sign_in_by_code(server, &tab, email).await?.next()?.to_owned();
    let page = tab.get(&path).await?;
    ensure!(is_signed_out(&tab).await?, "the code signs in");
    tab.get(&path).await?;
    Ok((tab, path, page))
}

async fn send(server: &TestServer, method: Method, who: &SignedIn) -> Result<TestResponse> {
    server.http.send(server.http.request(method, PATH).bearer_auth(&who.access_token)).await
}

async fn is_required(server: &TestServer) -> Result<bool> {
    Ok(server.sql("select count(*) from users where requires_passkey").await?.as_deref() == Some("1"))
}

#[test]
fn a_code_opens_no_session_of_a_user_who_requires_a_passkey_pk_47() -> Result<()> {
    with_server(async |server| {
        let (tab, _) = user_who_requires(server, ANN).await?;
        let live = "select count(*) from grants where revoked_at is null";
        let before = server.sql(live).await?;
        server.advance(61);
        let (otp_id, code) = server.request_code(ANN).await?;
        // A wrong code tells no stranger what the account requires.
        let guessed = server.exchange(&otp_id, &wrong(&code, 1)?, "read write").await?;
        assert_eq!((guessed.error(), &guessed.body["details"]), ("invalid_grant", &json!(null)), "{}", guessed.text);
        let refused = server.exchange(&otp_id, &code, "read write").await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (400, "invalid_grant"), "{}", refused.text);
        assert_eq!(refused.body["details"]["signInMethod"], "passkey", "{}", refused.text);
        let again = server.exchange(&otp_id, &code, "read write").await?;
        assert_eq!(again.body["details"], json!(null), "the code is used up: {}", again.text);
        assert_eq!(server.sql(live).await?, before);
        assert_eq!(events(server, "sign_in.passkey_awaited").await?, 1);
        // Until the user says otherwise.
        let allowed = press(&tab, ALLOW).await?;
        assert!(tab.get(allowed.next()?).await?.text.contains("signs you in again"));
        server.advance(61);
        server.sign_in(ANN, "read write").await?;
        Ok(())
    })
}

#[test]
fn in_a_browser_the_code_leads_to_the_passkey_and_to_nothing_else_pk_48() -> Result<()> {
    with_server(async |server| {
        let (own, mut laptop) = user_who_requires(server, ANN).await?;
        let client = register(server, "Harbour Planner", &[CALLBACK]).await?;
        let (tab, path, page) = enter_code(server, ANN).await?;
        assert!(page.text.contains("requires a passkey as well") && page.text.contains(ANN), "{}", page.text);
        assert!(tab.get(&asking(&client, &[])).await?.next()?.starts_with("/sign-in/"), "an app gets in");
        assert_eq!(
            server.sql("select count(*) from browser_sessions where user_id is not null").await?.as_deref(),
            Some("1")
        );
        // Nor does a code sign in that was entered before codes were allowed again.
        assert_eq!(press(&own, ALLOW).await?.status, 303);
        assert!(is_signed_out(&tab).await?);
        assert_eq!(press(&own, REQUIRE).await?.status, 303);
        let response = laptop.sign(&options(server, &tab.get(&path).await?)?)?;
        let signed_in = tab.submit(&format!("{path}/passkey"), &[("response", &response)]).await?;
        assert_eq!(signed_in.status, 303, "{}", signed_in.text);
        assert!(!is_signed_out(&tab).await?);
        Ok(())
    })
}

#[test]
fn a_recovery_code_stands_in_for_the_required_passkey_pk_49() -> Result<()> {
    with_server(async |server| {
        let (own, _) = user_who_requires(server, ANN).await?;
        let page = press(&own, "/account/security/recovery-codes").await?;
        let codes = page.text.split("<code>").skip(1).filter_map(|rest| rest.split("</code>").next());
        let codes: Vec<_> = codes.map(str::to_owned).collect();
        for code in &codes {
            server.leaks.register("recovery code", code);
        }
        let (tab, path, _) = enter_code(server, ANN).await?;
        let enter = async |code: &str| tab.submit(&format!("{path}/recovery-code"), &[("code", code)]).await;
        let wrong = enter("aaaa-aaaa-aaaa-aaaa").await?;
        assert!(wrong.status == 400 && wrong.text.contains("That recovery code is wrong"), "{}", wrong.text);
        assert!(is_signed_out(&tab).await?);
        tab.get(&path).await?;
        let used = enter(&codes[0]).await?;
        assert_eq!(used.status, 303, "{}", used.text);
        assert!(!is_signed_out(&tab).await?);
        // Only soon after the email code.
        let (tab, path, _) = enter_code(server, ANN).await?;
        server.sql(&format!("update sign_in_flows set code_entered_at = '{}'", later(server.now(), -901))).await?;
        let late = tab.submit(&format!("{path}/recovery-code"), &[("code", &codes[1])]).await?;
        assert!(late.status == 400 && late.text.contains("within 15 minutes"), "{}", late.text);
        assert!(is_signed_out(&tab).await?);
        Ok(())
    })
}

#[test]
fn requiring_a_passkey_signs_out_everywhere_else_and_tells_the_user_pk_50() -> Result<()> {
    with_server(async |server| {
        let (tab, _) = user_by_passkey(server, ANN).await?;
        let (session, browser) = (server.sign_in(ANN, "read write").await?, signed_in_tab(server, ANN).await?);
        server.sql(&format!("update grants set auth_time = '{}'", server.now())).await?;
        let (_, token) = make(server, &session, &json!({ "name": "ci", "scopes": ["read"] })).await?;
        // A session by code may have asked for these.
        let id = session.user_id.uuid();
        let recovery =
            format!("insert into passkey_recoveries select id, shard, now(), now() from users where id = '{id}'");
        server.sql(&recovery).await?;
        assert_eq!(change(server, &session, NEW).await?.status, 202);
        server.advance(1);
        assert_eq!(press(&tab, REQUIRE).await?.status, 303);
        for table in ["passkey_recoveries", "address_changes"] {
            assert_eq!(server.sql(&format!("select count(*) from {table}")).await?.as_deref(), Some("0"), "{table}");
        }
        assert_eq!(server.refresh(&session.refresh_token).await?.error(), "invalid_grant");
        assert!(is_signed_out(&browser).await? && !is_signed_out(&tab).await?);
        assert_eq!(whoami(server, &token).await?.status, 200, "the CLI token stays");
        loop {
            let mail = server.mailbox.next_mail_to(ANN).await?;
            if mail.subject == "Your account requires a passkey now" {
                assert!(mail.text.contains("127.0.0.1"), "{}", mail.text);
                break;
            }
        }
        assert_eq!(events(server, "account.passkey_required").await?, 1);
        // Once more changes nothing.
        assert_eq!(press(&tab, REQUIRE).await?.status, 303);
        assert_eq!(events(server, "account.passkey_required").await?, 1);
        Ok(())
    })
}

#[test]
fn a_code_at_the_same_moment_opens_no_session_that_stays_pk_51() -> Result<()> {
    with_server(async |server| {
        let (tab, _) = user_by_passkey(server, ANN).await?;
        for round in 0..8 {
            server.advance(61);
            server.sql(&format!("update browser_sessions set auth_time = '{}'", server.now())).await?;
            server.sql("delete from recent_hits").await?;
            let (otp_id, code) = server.request_code(ANN).await?;
            tab.get(SECURITY).await?;
            let (exchanged, required) =
                tokio::join!(server.exchange(&otp_id, &code, "read write"), tab.submit(REQUIRE, &[]));
            let (exchanged, required) = (exchanged?, required?);
            assert_eq!(required.status, 303, "round {round}: {}", required.text);
            if exchanged.status == 200 {
                server.leaks.register("refresh token", exchanged.field("refresh_token"));
                let refreshed = server.refresh(exchanged.field("refresh_token")).await?;
                assert_eq!(refreshed.error(), "invalid_grant", "round {round}: a session outlives the requirement");
            } else {
                assert_eq!(exchanged.error(), "invalid_grant", "round {round}: {}", exchanged.text);
            }
            assert_eq!(press(&tab, ALLOW).await?.status, 303);
        }
        Ok(())
    })
}

#[test]
fn only_a_recent_sign_in_by_passkey_changes_the_requirement_pk_52() -> Result<()> {
    with_server(async |server| {
        // Without a passkey, and with one that does not count yet.
        let ann = server.sign_in(ANN, "read write").await?;
        let none = send(server, Method::POST, &ann).await?;
        assert_eq!((none.status.as_u16(), none.error()), (409, "conflict"), "{}", none.text);
        server.advance(61);
        let (tab, _) = user_with_passkey(server, ANN).await?;
        assert!(!tab.get(SECURITY).await?.text.contains("Require a passkey"));
        assert_eq!(press(&tab, REQUIRE).await?.status, 409);
        server.advance(7 * DAY);
        let by_code = server.sign_in(ANN, "read write").await?;
        for method in [Method::POST, Method::DELETE] {
            let refused = send(server, method, &by_code).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (403, "insufficient_user_authentication"));
        }
        server.sql(&format!("update grants set auth_time = '{}'", server.now())).await?;
        let scopes = json!({ "name": "ci", "scopes": ["read", "write", "sessions:write"] });
        let (_, token) = make(server, &by_code, &scopes).await?;
        let by_token = server.http.send(server.http.request(Method::POST, PATH).bearer_auth(&token)).await?;
        assert_eq!((by_token.status.as_u16(), by_token.error()), (403, "forbidden"), "{}", by_token.text);
        server.advance(1);
        let required = send(server, Method::POST, &by_code).await?;
        assert!(is_signed_out(&tab).await?, "another browser stays");
        assert_eq!(
            (required.status.as_u16(), &required.body["requiresPasskey"]),
            (200, &json!(true)),
            "{}",
            required.text
        );
        assert_eq!(server.http.get("/v1/account", Some(&by_code.access_token)).await?.body["requiresPasskey"], true);
        assert_eq!(whoami(server, &by_code.access_token).await?.status, 200, "the session in use stays");
        assert_eq!(send(server, Method::DELETE, &by_code).await?.status, 204);
        assert_eq!(send(server, Method::DELETE, &by_code).await?.status, 204, "again changes nothing");
        assert!(!is_required(server).await?);
        for _ in 0..5 {
            send(server, Method::POST, &by_code).await?;
            send(server, Method::DELETE, &by_code).await?;
        }
        assert_eq!(send(server, Method::POST, &by_code).await?.status, 429);
        Ok(())
    })
}

#[test]
fn who_has_lost_every_passkey_gets_in_after_a_day_unless_the_owner_uses_one_pk_53() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_who_requires(server, ANN).await?;
        // A thief who reads the mailbox.
        let (thief, path, page) = enter_code(server, ANN).await?;
        assert!(page.text.contains("Lost every passkey?"), "{}", page.text);
        let lost = format!("{path}/lost-passkeys");
        assert_eq!(thief.submit(&lost, &[]).await?.next()?, path);
        assert!(thief.get(&path).await?.text.contains("All your passkeys will be removed on"));
        assert_eq!(thief.submit(&lost, &[]).await?.next()?, path, "it is under way");
        server.advance(DAY - 60);
        ensure!(sign_in(server, &Tab::open(server)?, &mut laptop).await?.status == 303, "the owner signs in");
        server.advance(60);
        assert!(housekeeping::clean_all(&server.app).await);
        assert!(is_required(server).await?);
        // The owner, who has lost it.
        let (own, path, _) = enter_code(server, ANN).await?;
        server.sql(&format!("update sign_in_flows set code_entered_at = '{}'", later(server.now(), -901))).await?;
        let late = own.submit(&format!("{path}/lost-passkeys"), &[]).await?;
        assert!(late.status == 400 && late.text.contains("Sign in with a code"), "{}", late.text);
        let (own, path, _) = enter_code(server, ANN).await?;
        own.submit(&format!("{path}/lost-passkeys"), &[]).await?.next()?;
        server.advance(DAY);
        assert!(housekeeping::clean_all(&server.app).await);
        assert!(!is_required(server).await?);
        assert_eq!(events(server, "account.passkey_not_required").await?, 1);
        server.sign_in(ANN, "read write").await?;
        Ok(())
    })
}

#[test]
fn the_requirement_ends_with_the_last_passkey_and_does_not_come_back_pk_54() -> Result<()> {
    with_server(async |server| {
        let (tab, _) = user_who_requires(server, ANN).await?;
        let path = remove_paths(&tab).await?.remove(0);
        tab.get(&path).await?;
        assert_eq!(tab.submit(&path, &[]).await?.status, 303);
        assert!(!is_required(server).await?);
        assert_eq!(events(server, "account.passkey_not_required").await?, 1);
        assert_eq!(add(server, &tab, &mut TestAuthenticator::new()?, "Phone").await?.status, 303);
        server.advance(7 * DAY + 1);
        server.sign_in(ANN, "read").await?;
        Ok(())
    })
}

#[test]
fn a_link_in_a_mail_that_removes_the_last_passkey_leaves_the_requirement_pk_56() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_by_passkey(server, ANN).await?;
        next_report(server).await?;
        // On a new computer the user adds its passkey, and removes the one before.
        let tab = Tab::open(server)?;
        ensure!(sign_in(server, &tab, &mut laptop).await?.status == 303, "the passkey signs in");
        let report = next_report(server).await?;
        ensure!(add(server, &tab, &mut TestAuthenticator::new()?, "New").await?.status == 303);
        let former = remove_paths(&tab).await?.pop().context("no passkey")?;
        tab.get(&former).await?;
        ensure!(tab.submit(&former, &[]).await?.status == 303);
        ensure!(press(&tab, REQUIRE).await?.status == 303);
        // Who reads the mailbox uses the link.
        ensure!(report.send(&Tab::open(server)?).await?.status == 200);
        assert_eq!(server.sql("select count(*) from passkeys").await?.as_deref(), Some("0"));
        assert!(is_required(server).await?, "the link ends the requirement");
        let (thief, path, _) = enter_code(server, ANN).await?;
        thief.submit(&format!("{path}/lost-passkeys"), &[]).await?.next()?;
        server.advance(DAY - 1);
        assert!(housekeeping::clean_all(&server.app).await);
        assert!(is_required(server).await?);
        server.advance(1);
        assert!(housekeeping::clean_all(&server.app).await);
        assert!(!is_required(server).await?, "no one can get in any more");
        Ok(())
    })
}

#[test]
fn a_company_that_does_not_require_single_sign_on_is_no_way_around_pk_55() -> Result<()> {
    const EVE: &str = "eve@elsewhere.test";
    with_provider(async |server, provider| {
        let (own, _) = user_who_requires(server, EVE).await?;
        let acme = company(server, provider, "elsewhere.test").await?;
        provider.sign_in_as(&user("eve-1", EVE));
        let link = async || {
            server.advance(61);
            let tab = Tab::open(server)?;
            let path = sso::sign_in(server, &tab, &acme.start()).await?.next()?.to_owned();
            tab.get(&path).await?;
            let code = server.mailbox.next_code_to(EVE).await?;
            server.leaks.register("otp code", &code);
            let answer = tab.submit(&path, &[("code", &code)]).await?;
            anyhow::Ok((tab, answer))
        };
        let (tab, refused) = link().await?;
        assert!(refused.status == 400 && refused.text.contains("Your account requires a passkey"), "{}", refused.text);
        assert!(is_signed_out(&tab).await?);
        assert_eq!(server.sql("select count(*) from identities").await?.as_deref(), Some("0"));
        // Nor does an identity that was linked before.
        server
            .sql(&format!("update browser_sessions set auth_time = '{}' where user_id is not null", server.now()))
            .await?;
        assert_eq!(press(&own, ALLOW).await?.status, 303);
        let (_, linked) = link().await?;
        assert_eq!(linked.status, 303, "{}", linked.text);
        server
            .sql(&format!("update browser_sessions set auth_time = '{}' where user_id is not null", server.now()))
            .await?;
        assert_eq!(press(&own, REQUIRE).await?.status, 303);
        let other = Tab::open(server)?;
        let refused = sso::sign_in(server, &other, &acme.start()).await?;
        assert!(refused.status == 403 && refused.text.contains("Your account requires a passkey"), "{}", refused.text);
        assert!(is_signed_out(&other).await?);
        // Where single sign-on is required, the company decides, and passkeys cannot be required.
        acme.require(server, &[]).await?;
        sso::sign_in(server, &other, &acme.start()).await?;
        assert!(!is_signed_out(&other).await?, "the company's users are shut out");
        server.sql("update users set requires_passkey = false").await?;
        let refused = press(&own, REQUIRE).await?;
        assert!(
            refused.status == 409 && refused.text.contains("single sign-on"),
            "{} {}",
            refused.status,
            refused.text
        );
        Ok(())
    })
}
