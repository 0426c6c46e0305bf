//! Securing an account: everything but the session in use is revoked at once.

use anyhow::Result;
use serde_json::{Value, json};
use service_api::ids::PasskeyId;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::{
    authorize::{CALLBACK, asking, code, exchange, go_through, register},
    cli_tokens::{make, post, whoami},
    mcp_tokens::{pair, refresh},
    new_sign_ins::{ANN, HOUR, count_reports, next_report, settled},
    passkeys::{sign_in, signed_in_tab, user_with_passkey},
};

const PATH: &str = "/v1/account/secure";
const PAGE: &str = "/account/secure";
const WEEK: i64 = 7 * 86_400;

async fn secure(server: &TestServer, session: &SignedIn, body: &Value) -> Result<TestResponse> {
    post(server, PATH, &session.access_token, body).await
}

async fn works(server: &TestServer, token: &str) -> Result<bool> {
    Ok(whoami(server, token).await?.status == 200)
}

/// An app that Ann uses in a browser; its access token.
async fn app(server: &TestServer, tab: &Tab) -> Result<String> {
    let client = register(server, "Web app", &[CALLBACK]).await?;
    let done = go_through(server, tab, &asking(&client, &[]), ANN).await?;
    let tokens = server.http.post("/oauth/token", &exchange(&client, &code(&done)?)).await?;
    Ok(tokens.field("access_token").to_owned())
}

async fn passkeys(server: &TestServer) -> Result<String> {
    let names = "select coalesce(string_agg(name, ',' order by name), '') from passkeys";
    Ok(server.sql(names).await?.unwrap_or_default())
}

#[test]
fn everything_but_the_session_in_use_is_revoked_se_01() -> Result<()> {
    with_server(async |server| {
        let thief = server.sign_in(ANN, "read write").await?;
        let workspace = server.make_workspace("Acme", &[(thief.user_id, service_api::workspaces::Role::Owner)]).await?;
        let (_, token) = make(server, &thief, &json!({ "name": "left behind" })).await?;
        let mcp = pair(server, &thief, &json!({})).await?;
        let invitations = format!("/v1/workspaces/{workspace}/invitations");
        let eve = json!({ "email": "eve@evil.test", "role": "member" });
        assert_eq!(post(server, &invitations, &thief.access_token, &eve).await?.status, 201);
        let browser = signed_in_tab(server, ANN).await?;
        let app = app(server, &browser).await?;
        let own = server.sign_in(ANN, "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;

        let done = secure(server, &own, &json!({})).await?;
        assert_eq!(done.status, 200, "{}", done.text);
        let expected = json!({
            "sessions": 3, "browsers": 1, "cliTokens": 1, "apps": 1, "invitations": 1, "passkeys": 0,
        });
        assert_eq!(done.body, expected);
        for gone in [&thief.access_token, &token, &app] {
            assert!(!works(server, gone).await?);
        }
        assert_eq!(server.refresh(&thief.refresh_token).await?.status, 400);
        assert_eq!(refresh(server, &mcp.access_token, &mcp.refresh_token).await?.status, 401);
        assert_eq!(browser.get("/account").await?.next()?, "/sign-in");
        for table in ["consents", "invitations", "sent_invitations"] {
            assert_eq!(server.sql(&format!("select count(*) from {table}")).await?.as_deref(), Some("0"), "{table}");
        }
        let devices = format!("select count(*) from user_devices where user_id = '{}'", uuid(&own));
        assert_eq!(server.sql(&devices).await?.as_deref(), Some("0"));
        assert!(works(server, &own.access_token).await?);
        assert_eq!(server.refresh(&own.refresh_token).await?.status, 200);
        assert!(works(server, &bob.access_token).await?, "another user is not concerned");
        Ok(())
    })
}

fn uuid(session: &SignedIn) -> uuid::Uuid {
    use service_api::ids::Id as _;
    session.user_id.uuid()
}

#[test]
fn securing_is_mailed_and_recorded_se_02() -> Result<()> {
    with_server(async |server| {
        let own = server.sign_in(ANN, "read write").await?;
        let events = "select coalesce(string_agg(details->'revoked'->>'sessions', ','), '') from audit_events \
                      where event = 'account.secured'";
        assert_eq!(secure(server, &own, &json!({})).await?.status, 200);
        assert_eq!(server.sql(events).await?.as_deref(), Some(""), "there was nothing to revoke");
        server.sign_in(ANN, "read").await?;
        assert_eq!(secure(server, &own, &json!({})).await?.status, 200);
        let mail = server.mailbox.next_mail_to(ANN).await?;
        assert_eq!(mail.subject, "Your account was secured");
        assert!(mail.text.contains("127.0.0.1"), "{}", mail.text);
        assert_eq!(server.sql(events).await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn at_most_five_mails_a_day_say_so_and_no_more_than_that_is_limited_se_10() -> Result<()> {
    with_server(async |server| {
        let own = server.sign_in(ANN, "read write").await?;
        for _ in 0..7 {
            let other = server.sign_in(ANN, "read").await?;
            assert_eq!(secure(server, &own, &json!({})).await?.body["sessions"], 1);
            assert!(!works(server, &other.access_token).await?);
        }
        for _ in 0..5 {
            assert_eq!(server.mailbox.next_mail_to(ANN).await?.subject, "Your account was secured");
        }
        server.sign_in("bob@acme.test", "read").await?;
        assert_eq!(server.sql("select count(*) from outbox").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn codes_and_links_that_were_sent_before_no_longer_work_se_11() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let thief = server.sign_in(ANN, "read write").await?;
        let report = next_report(server).await?;
        let own = server.sign_in(ANN, "read write").await?;
        let (otp_id, code) = server.request_code(ANN).await?;
        assert_eq!(secure(server, &own, &json!({})).await?.status, 200);
        let refused = server.exchange(&otp_id, &code, "read").await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (400, "invalid_grant"));
        assert_eq!(report.send(&Tab::open(server)?).await?.status, 404);
        assert!(!works(server, &thief.access_token).await?);
        Ok(())
    })
}

#[test]
fn copies_of_the_cookie_and_of_the_device_secret_no_longer_work_se_12() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let own = signed_in_tab(server, ANN).await?;
        next_report(server).await?;
        let copy = Tab::open(server)?;
        copy.set_cookie(own.cookie());
        copy.set_device(own.device());
        server.sign_in(ANN, "read").await?;
        next_report(server).await?;
        own.get(PAGE).await?;
        assert_eq!(own.submit(PAGE, &[]).await?.status, 303);
        assert_eq!(own.get("/account").await?.status, 200);
        assert_eq!(copy.get("/account").await?.next()?, "/sign-in");
        // The copy's device is as new to the account as any other; the browser's own is known.
        copy.set_cookie(None);
        let path = copy.get("/sign-in").await?.next()?.to_owned();
        copy.sign_in(&server.mailbox, &path, ANN).await?;
        next_report(server).await?;
        assert_eq!(own.submit("/sign-out", &[]).await?.next()?, "/sign-in");
        let path = own.get("/sign-in").await?.next()?.to_owned();
        own.sign_in(&server.mailbox, &path, ANN).await?;
        assert_eq!(count_reports(server).await?, "1", "the browser's device is not known");
        Ok(())
    })
}

#[test]
fn an_old_sign_in_secures_nothing_se_03() -> Result<()> {
    with_server(async |server| {
        let (own, other) = (server.sign_in(ANN, "read write").await?, server.sign_in(ANN, "read write").await?);
        let tab = signed_in_tab(server, ANN).await?;
        server.advance(901);
        let refused = secure(server, &own, &json!({})).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (403, "insufficient_user_authentication"));
        tab.get(PAGE).await?;
        assert!(tab.submit(PAGE, &[]).await?.next()?.starts_with("/sign-in/"));
        assert_eq!(server.refresh(&other.refresh_token).await?.status, 200);
        Ok(())
    })
}

#[test]
fn new_passkeys_are_removed_and_older_ones_stay_se_04() -> Result<()> {
    with_server(async |server| {
        let first = server.sign_in(ANN, "read write").await?;
        server.make_passkey(first.user_id, "Old").await?;
        server.advance(WEEK);
        server.make_passkey(first.user_id, "New").await?;
        server.sql("update passkeys set counts_from = counts_from + interval '1 year'").await?;
        let own = server.sign_in(ANN, "read write").await?;
        let done = secure(server, &own, &json!({})).await?;
        assert_eq!(done.body["passkeys"], 1, "{}", done.text);
        assert_eq!(passkeys(server).await?, "Old");
        Ok(())
    })
}

#[test]
fn of_the_passkeys_exactly_those_stay_that_the_user_keeps_se_05() -> Result<()> {
    with_server(async |server| {
        let own = server.sign_in(ANN, "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read").await?;
        let foreign = server.make_passkey(bob.user_id, "Bob’s").await?;
        let mut kept: Vec<PasskeyId> = Vec::new();
        for name in ["Kept", "Strange"] {
            kept.push(server.make_passkey(own.user_id, name).await?);
        }
        let body = json!({ "keepPasskeys": [kept[0], foreign] });
        server.sql("update passkeys set counts_from = counts_from + interval '1 year'").await?;
        assert_eq!(secure(server, &own, &body).await?.body["passkeys"], 1);
        assert_eq!(passkeys(server).await?, "Bob’s,Kept");
        let many = vec![kept[0]; 21];
        assert_eq!(secure(server, &own, &json!({ "keepPasskeys": many })).await?.status, 422);
        assert_eq!(secure(server, &own, &json!({ "keepPasskeys": ["passkey_x"] })).await?.status, 400);
        assert_eq!(secure(server, &own, &json!({ "keepPasskeys": [] })).await?.body["passkeys"], 1);
        assert_eq!(passkeys(server).await?, "Bob’s");
        Ok(())
    })
}

#[test]
fn a_removal_of_all_passkeys_that_someone_asked_for_is_stopped_se_06() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_with_passkey(server, ANN).await?;
        server.advance(WEEK + 1);
        let thief = signed_in_tab(server, ANN).await?;
        thief.get("/account/security").await?;
        assert_eq!(thief.submit("/account/security/recovery", &[]).await?.status, 303);
        // A passkey that counts would stop it, too: this one does not yet.
        server.sql("update passkeys set counts_from = counts_from + interval '1 year'").await?;
        let own = Tab::open(server)?;
        assert_eq!(sign_in(server, &own, &mut laptop).await?.status, 303);
        let pending = "select count(*) from passkey_recoveries";
        assert_eq!(server.sql(pending).await?.as_deref(), Some("1"));
        let page = own.get(PAGE).await?;
        assert!(page.text.contains("Laptop"), "{}", page.text);
        assert_eq!(submit_with_boxes(&own, &page).await?.status, 303);
        assert_eq!(server.sql(pending).await?.as_deref(), Some("0"));
        assert_eq!(passkeys(server).await?, "Laptop");
        Ok(())
    })
}

/// Sends the form of the page as it is shown: with the boxes that are checked.
async fn submit_with_boxes(tab: &Tab, page: &Shown) -> Result<Shown> {
    let boxes: Vec<_> = page.text.split("<input type=\"checkbox\" name=\"").skip(1).collect();
    let checked = boxes.iter().filter_map(|rest| {
        let (name, rest) = rest.split_once('"')?;
        rest.split('>').next()?.contains("checked").then_some((name, "true"))
    });
    tab.submit(PAGE, &checked.collect::<Vec<_>>()).await
}

#[test]
fn the_page_lists_what_is_signed_in_and_keeps_this_browser_only_se_07() -> Result<()> {
    with_server(async |server| {
        let session = server.sign_in(ANN, "read write").await?;
        make(server, &session, &json!({ "name": "build server" })).await?;
        let (own, other) = (signed_in_tab(server, ANN).await?, signed_in_tab(server, ANN).await?);
        let app = app(server, &other).await?;
        let page = own.get(PAGE).await?;
        for expected in ["Service command line", "build server", "Web app", "Revoke everything else"] {
            assert!(page.text.contains(expected), "{expected}: {}", page.text);
        }
        let done = own.submit(PAGE, &[]).await?;
        let shown = own.get(done.next()?).await?;
        assert!(shown.text.contains("Everything else was signed out"), "{}", shown.text);
        assert_eq!(other.get("/account").await?.next()?, "/sign-in");
        for gone in [&session.access_token, &app] {
            assert!(!works(server, gone).await?);
        }
        assert!(own.get(PAGE).await?.text.contains("Nothing else is signed in."));
        assert_eq!(Tab::open(server)?.get(PAGE).await?.next()?, "/sign-in");
        Ok(())
    })
}

#[test]
fn what_other_sessions_create_at_the_same_time_is_revoked_or_refused_se_08() -> Result<()> {
    with_server(async |server| {
        for round in 0..20 {
            let (own, thief) = (server.sign_in(ANN, "read write").await?, server.sign_in(ANN, "read write").await?);
            let body = json!({ "name": format!("left behind {round}") });
            let none = json!({});
            let (secured, made) =
                tokio::join!(secure(server, &own, &none), post(server, "/v1/cli/tokens", &thief.access_token, &body));
            assert_eq!(secured?.status, 200);
            let made = made?;
            assert!([201, 401].contains(&made.status.as_u16()), "{}", made.text);
            if made.status == 201 {
                server.leaks.register("access_token", made.field("access_token"));
                assert!(!works(server, made.field("access_token")).await?, "round {round}");
            }
            server.advance(HOUR);
        }
        Ok(())
    })
}

#[test]
fn a_session_that_was_revoked_meanwhile_secures_nothing_se_09() -> Result<()> {
    with_server(async |server| {
        let (own, other) = (server.sign_in(ANN, "read write").await?, server.sign_in(ANN, "read write").await?);
        let none = json!({});
        let (first, second) = tokio::join!(secure(server, &own, &none), secure(server, &other, &none));
        let mut statuses = [first?.status.as_u16(), second?.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 401], "both would sign everyone out");
        Ok(())
    })
}
