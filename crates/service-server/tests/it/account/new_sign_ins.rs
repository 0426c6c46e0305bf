//! Mails about sign-ins on new devices and with new apps, and the link by which their user undoes one.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use service_api::oauth::SERVICE_CLI;
use service_testkit::{
    authenticator::TestAuthenticator,
    server::{TestServer, signed_in, with_server},
    tab::Tab,
};

use crate::support::{
    authorize::{CALLBACK, agree, asking, code, exchange, go_through, register},
    cli_tokens::{make, whoami},
    mcp_tokens::{pair, refresh},
    new_sign_ins::{ANN, HOUR, count_reports, next_app_report, next_report, settled},
    passkeys::{add, sign_in, signed_in_tab},
};

const LOOPBACK: &str = "http://127.0.0.1:7777/callback";
const WEEK: i64 = 7 * 86_400;

async fn works(server: &TestServer, token: &str) -> Result<bool> {
    Ok(whoami(server, token).await?.status == 200)
}

#[test]
fn a_sign_in_on_a_new_device_is_mailed_and_one_on_a_known_device_is_not_nd_01() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let tab = signed_in_tab(server, ANN).await?;
        let report = next_report(server).await?;
        assert!(
            report.text.contains("127.0.0.1") && report.text.contains("been used with it before"),
            "{}",
            report.text
        );
        assert_eq!(count_reports(server).await?, "1");
        tab.get("/account").await?;
        assert_eq!(tab.submit("/sign-out", &[]).await?.next()?, "/sign-in");
        let path = tab.get("/sign-in").await?.next()?.to_owned();
        tab.sign_in(&server.mailbox, &path, ANN).await?;
        assert_eq!(tab.get("/account").await?.status, 200);
        assert_eq!(count_reports(server).await?, "1", "the device is known");
        Ok(())
    })
}

#[test]
fn in_the_first_hour_of_an_account_no_sign_in_is_mailed_nd_02() -> Result<()> {
    with_server(async |server| {
        server.sign_in(ANN, "read").await?;
        server.advance(HOUR - 1);
        signed_in_tab(server, ANN).await?;
        assert_eq!(count_reports(server).await?, "0");
        server.advance(1);
        signed_in_tab(server, ANN).await?;
        assert_eq!(count_reports(server).await?, "1");
        Ok(())
    })
}

#[test]
fn the_link_shows_the_sign_in_and_changes_nothing_nd_03() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let thief = server.sign_in(ANN, "read write").await?;
        make(server, &thief, &json!({ "name": "left behind" })).await?;
        let report = next_report(server).await?;
        let tab = Tab::open(server)?;
        for _ in 0..2 {
            let page = report.open(&tab).await?;
            assert_eq!(page.status, 200);
            for expected in ["Was this you?", "Service command line", "It created 1 token", "This wasn’t me"] {
                assert!(page.text.contains(expected), "{expected}: {}", page.text);
            }
            // Programs that scan mails open links, too.
            assert!(!page.text.contains("left behind"), "{}", page.text);
        }
        let head = server.http.request(Method::HEAD, &format!("/sign-in-report?token={}", report.token));
        assert_eq!(server.http.send(head).await?.status, 200);
        assert!(works(server, &thief.access_token).await?);
        Ok(())
    })
}

#[test]
fn the_form_revokes_the_session_and_what_it_created_and_nothing_else_nd_04() -> Result<()> {
    with_server(async |server| {
        let own = settled(server).await?;
        let kept = server.sign_in(ANN, "read write").await?;
        next_report(server).await?;
        let (_, own_token) = make(server, &kept, &json!({ "name": "ci" })).await?;
        let thief = server.sign_in(ANN, "read write").await?;
        let (_, token) = make(server, &thief, &json!({ "name": "left behind" })).await?;
        let mcp = pair(server, &thief, &json!({})).await?;
        let report = next_report(server).await?;
        let devices = "select count(*) from devices";
        assert_eq!(server.sql(devices).await?.as_deref(), Some("3"));
        let page = report.send(&Tab::open(server)?).await?;
        assert!(page.status == 200 && page.text.contains("Signed out"), "{}", page.text);
        for gone in [&thief.access_token, &token] {
            assert!(!works(server, gone).await?);
        }
        let refreshed = server.refresh(&thief.refresh_token).await?;
        assert_eq!((refreshed.status.as_u16(), refreshed.error()), (400, "invalid_grant"));
        assert_eq!(refresh(server, &mcp.access_token, &mcp.refresh_token).await?.status, 401);
        for stays in [&kept.access_token, &own_token] {
            assert!(works(server, stays).await?);
        }
        assert_eq!(server.refresh(&own.refresh_token).await?.status, 200);
        assert_eq!(server.sql(devices).await?.as_deref(), Some("2"), "the device is forgotten");
        let events = "select count(*) from audit_events where event = 'sign_in.reported'";
        assert_eq!(server.sql(events).await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn a_browser_is_signed_out_by_the_link_about_it_nd_05() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let (own, thief) = (signed_in_tab(server, ANN).await?, signed_in_tab(server, ANN).await?);
        next_report(server).await?;
        let report = next_report(server).await?;
        let page = report.open(&own).await?;
        assert!(page.text.contains("Unknown browser") || page.text.contains("browser"), "{}", page.text);
        assert_eq!(report.send(&own).await?.status, 200);
        assert_eq!(thief.get("/account").await?.next()?, "/sign-in");
        assert_eq!(own.get("/account").await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_link_works_once_and_for_seven_days_nd_06() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let (first, second) = (server.sign_in(ANN, "read").await?, server.sign_in(ANN, "read").await?);
        let (once, late) = (next_report(server).await?, next_report(server).await?);
        let tab = Tab::open(server)?;
        assert_eq!(once.send(&tab).await?.status, 200);
        for page in [once.open(&tab).await?, once.send(&tab).await?] {
            assert!(page.status == 404 && page.text.contains("This link no longer works"), "{}", page.text);
        }
        server.advance(WEEK - 1);
        assert_eq!(late.open(&tab).await?.status, 200);
        server.advance(1);
        for page in [late.open(&tab).await?, late.send(&tab).await?] {
            assert_eq!(page.status, 404, "{}", page.text);
        }
        assert_eq!(server.refresh(&first.refresh_token).await?.status, 400);
        assert_eq!(server.refresh(&second.refresh_token).await?.status, 200);
        Ok(())
    })
}

#[test]
fn of_several_who_send_the_form_at_once_one_revokes_nd_07() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        server.sign_in(ANN, "read").await?;
        let report = next_report(server).await?;
        let tabs = [Tab::open(server)?, Tab::open(server)?, Tab::open(server)?];
        let sent = futures_util::future::try_join_all(tabs.iter().map(|tab| report.send(tab))).await?;
        let mut statuses: Vec<_> = sent.iter().map(|page| page.status.as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 404, 404]);
        Ok(())
    })
}

#[test]
fn other_links_are_all_answered_alike_nd_08() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        server.sign_in(ANN, "read").await?;
        let report = next_report(server).await?;
        let tab = Tab::open(server)?;
        let gone = |text: &str| text.contains("This link no longer works");
        let unknown = service_api::token::Token::<service_api::token::SignInReport>::from_body(&[7; 32]);
        let cut = &report.token[..report.token.len() - 1];
        for token in ["", "x", cut, unknown.expose(), "svc_sir_", "%00"] {
            let page = tab.get(&format!("/sign-in-report?token={token}")).await?;
            assert!(page.status == 404 && gone(&page.text) || page.status == 400, "{token}: {}", page.text);
            let page = tab.submit("/sign-in-report", &[("token", token)]).await?;
            assert!(page.status == 404 && gone(&page.text), "{token}: {}", page.text);
        }
        assert_eq!(report.open(&tab).await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_link_signs_no_user_in_nd_09() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        server.sign_in(ANN, "read").await?;
        let report = next_report(server).await?;
        let tab = Tab::open(server)?;
        report.open(&tab).await?;
        report.send(&tab).await?;
        assert_eq!((tab.cookie(), tab.device()), (None, None));
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        assert_eq!(whoami(server, &report.token).await?.status, 401);
        assert_eq!(server.refresh(&report.token).await?.status, 400);
        tab.set_cookie(Some(report.token.clone()));
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        Ok(())
    })
}

#[test]
fn a_form_of_another_site_is_refused_nd_10() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let session = server.sign_in(ANN, "read").await?;
        let report = next_report(server).await?;
        for (name, value) in [("origin", "https://evil.test"), ("sec-fetch-site", "cross-site")] {
            let request = server.http.request(Method::POST, "/sign-in-report").header(name, value);
            let request = request.form(&[("token", report.token.as_str())]);
            assert_eq!(server.http.send(request).await?.status, 403, "{name}");
        }
        assert!(works(server, &session.access_token).await?);
        Ok(())
    })
}

#[test]
fn twenty_sign_ins_a_day_are_mailed_and_more_still_succeed_nd_11() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        for _ in 0..22 {
            server.sign_in(ANN, "read").await?;
            server.advance(61);
        }
        assert_eq!(count_reports(server).await?, "20");
        server.advance(86_400);
        server.sign_in(ANN, "read").await?;
        assert_eq!(count_reports(server).await?, "21");
        Ok(())
    })
}

#[test]
fn a_new_app_is_mailed_once_and_removed_by_the_link_nd_12() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = signed_in_tab(server, ANN).await?;
        let mut sessions = Vec::new();
        for _ in 0..2 {
            let done = go_through(server, &tab, &asking(&client, &[]), ANN).await?;
            let tokens = server.http.post("/oauth/token", &exchange(&client, &code(&done)?)).await?;
            sessions.push(tokens.field("access_token").to_owned());
        }
        let report = next_app_report(server).await?;
        // Others chose the name of the app.
        assert!(report.text.contains("app.test") && !report.text.contains("Web app"), "{}", report.text);
        assert_eq!(count_reports(server).await?, "2", "one of the browser, one of the app");
        assert_eq!(report.send(&Tab::open(server)?).await?.status, 200);
        for gone in &sessions {
            assert!(!works(server, gone).await?, "the mail was about the app, not about one of its sessions");
        }
        assert_eq!(server.sql("select count(*) from consents").await?.as_deref(), Some("0"));
        // When it is let in again, the user is told again.
        let done = go_through(server, &tab, &asking(&client, &[]), ANN).await?;
        assert_eq!(server.http.post("/oauth/token", &exchange(&client, &code(&done)?)).await?.status, 200);
        next_app_report(server).await?;
        Ok(())
    })
}

#[test]
fn a_sign_in_by_passkey_on_a_new_device_is_mailed_nd_13() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let tab = signed_in_tab(server, ANN).await?;
        let mut phone = TestAuthenticator::new()?;
        add(server, &tab, &mut phone, "Phone").await?;
        next_report(server).await?;
        let other = Tab::open(server)?;
        assert_eq!(sign_in(server, &other, &mut phone).await?.status, 303);
        let report = next_report(server).await?;
        assert_eq!(report.send(&Tab::open(server)?).await?.status, 200);
        assert_eq!(other.get("/account").await?.next()?, "/sign-in");
        Ok(())
    })
}

#[test]
fn a_leaked_link_is_reported_and_works_no_more_nd_14() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let session = server.sign_in(ANN, "read").await?;
        let report = next_report(server).await?;
        let reported = server.http.post("/v1/token-leaks", &json!({ "tokens": [report.token] })).await?;
        assert_eq!(reported.status, 202, "{}", reported.text);
        assert_eq!(report.send(&Tab::open(server)?).await?.status, 404);
        assert!(works(server, &session.access_token).await?);
        Ok(())
    })
}

#[test]
fn a_device_of_another_account_is_new_to_this_one_nd_15() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let thief = signed_in_tab(server, "eve@evil.test").await?;
        for reports in ["1", "2"] {
            thief.get("/account").await?;
            assert_eq!(thief.submit("/sign-out", &[]).await?.next()?, "/sign-in");
            let path = thief.get("/sign-in").await?.next()?.to_owned();
            thief.sign_in(&server.mailbox, &path, ANN).await?;
            let report = next_report(server).await?;
            assert_eq!(report.send(&Tab::open(server)?).await?.status, 200);
            assert_eq!(thief.get("/account").await?.next()?, "/sign-in");
            let mailed = "select count(*) from audit_events where event = 'sign_in.reported'";
            assert_eq!(server.sql(mailed).await?.as_deref(), Some(reports), "the device was not forgotten");
            let path = thief.get("/sign-in").await?.next()?.to_owned();
            thief.sign_in(&server.mailbox, &path, "eve@evil.test").await?;
        }
        Ok(())
    })
}

#[test]
fn what_a_session_created_that_has_ended_is_revoked_too_nd_16() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let thief = signed_in_tab(server, ANN).await?;
        let report = next_report(server).await?;
        let asked = asking(SERVICE_CLI, &[("redirect_uri", LOOPBACK), ("scope", "read write")]);
        let shown = thief.get(&asked).await?;
        let done = agree(&thief, shown, &[("space", "personal")]).await?;
        let mut body = exchange(SERVICE_CLI, &code(&done)?);
        body["redirect_uri"] = json!(LOOPBACK);
        let session = signed_in(&server.http.post("/oauth/token", &body).await?)?;
        let (_, token) = make(server, &session, &json!({ "name": "left behind" })).await?;
        // The session signs itself out, which revokes nothing that it created.
        let revoked = server
            .http
            .post("/oauth/revoke", &json!({ "token": session.refresh_token, "client_id": SERVICE_CLI }))
            .await?;
        assert_eq!(revoked.status, 200, "{}", revoked.text);
        assert!(works(server, &token).await? && !works(server, &session.access_token).await?);
        assert_eq!(report.send(&Tab::open(server)?).await?.status, 200);
        assert!(!works(server, &token).await?);
        Ok(())
    })
}
