//! Closing an account: who may, what it needs first, what it revokes, and what opens it again.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_api::{ids::Id as _, workspaces::Role};
use service_rules::email::Address;
use service_server::{
    flows::{
        account::deletion::{by_operator, erasure},
        operator::Operator,
        revocation,
    },
    tasks::housekeeping,
};
use service_testkit::{
    authenticator::TestAuthenticator,
    response::TestResponse,
    server::{SignedIn, TestServer, signed_in, with_server},
    tab::{Shown, Tab},
};

use crate::support::{
    authorize::{agree, asking, code, exchange},
    cli_tokens::{make, whoami},
    connections::Company,
    deletion::{DAY, KEEP, PAGE, delete, has_account, is_closed, link_in, next_link},
    mcp_tokens::pair,
    new_sign_ins::{ANN, next_report, settled},
    passkeys::{add, sign_in, signed_in_tab},
    step_up::check_stale,
    workspaces,
};

const BOB: &str = "bob@acme.test";
const LOOPBACK: &str = "http://127.0.0.1:7777/callback";

fn address() -> Result<Address> {
    Address::parse(ANN).map_err(|_| anyhow::anyhow!("{ANN} is no address"))
}

async fn works(server: &TestServer, token: &str) -> Result<bool> {
    Ok(whoami(server, token).await?.status == 200)
}

/// Whether Ann can sign in, a moment later.
async fn can_sign_in(server: &TestServer) -> Result<bool> {
    // What a revocation of all tokens of a user revokes was issued before the next second.
    server.advance(61);
    works(server, &server.sign_in(ANN, "read").await?.access_token).await
}

/// Ann, who has used the account for long enough that a mail about it comes alone.
async fn ann(server: &TestServer) -> Result<SignedIn> {
    settled(server).await?;
    let ann = server.sign_in(ANN, "read write").await?;
    next_report(server).await?;
    Ok(ann)
}

#[test]
fn closing_revokes_everything_at_once_and_names_the_day_ad_01() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        let other = server.sign_in(ANN, "read write").await?;
        let tab = signed_in_tab(server, ANN).await?;
        let (_, cli) = make(server, &ann, &json!({ "name": "ci" })).await?;
        let mcp = pair(server, &ann, &json!({})).await?;
        let closed = delete(server, &ann).await?;
        assert_eq!(closed.status, 202, "{}", closed.text);
        assert_eq!(closed.body, json!({ "erasedOn": "2027-01-29T09:00:00.000Z" }));
        for gone in [&ann.access_token, &other.access_token, &cli, &mcp.access_token] {
            assert!(!works(server, gone).await?);
        }
        assert_eq!(server.refresh(&other.refresh_token).await?.error(), "invalid_grant");
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        assert_eq!(delete(server, &ann).await?.status, 401);
        Ok(())
    })
}

#[test]
fn closing_needs_a_recent_sign_in_and_a_session_of_our_own_ad_02() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        let (_, cli) =
            make(server, &ann, &json!({ "name": "ci", "scopes": ["read", "write", "sessions:write"] })).await?;
        let refused = server.http.send(server.http.request(Method::DELETE, "/v1/account").bearer_auth(&cli)).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (403, "forbidden"));
        server.advance(901);
        check_stale(&delete(server, &ann).await?, "an old sign-in");
        let tab = signed_in_tab(server, ANN).await?;
        server.advance(901);
        tab.get(PAGE).await?;
        ensure!(tab.submit(PAGE, &[]).await?.next()?.starts_with("/sign-in/"), "an old sign-in closes the account");
        let foreign = Tab::open(server)?.submit(PAGE, &[]).await?;
        assert_eq!(foreign.status, 403);
        assert!(has_account(server).await?);
        Ok(())
    })
}

#[test]
fn a_code_is_not_enough_where_a_passkey_counts_ad_03() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in_tab(server, ANN).await?;
        let mut authenticator = TestAuthenticator::new()?;
        ensure!(add(server, &tab, &mut authenticator, "Laptop").await?.status == 303);
        server.advance(7 * DAY);
        let code = server.sign_in(ANN, "read write").await?;
        let refused = delete(server, &code).await?;
        assert_eq!(refused.status, 403);
        assert_eq!(refused.body["details"]["signInMethod"], "passkey");
        Ok(())
    })
}

#[test]
fn a_workspace_with_members_needs_another_enabled_owner_first_ad_04() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        let bob = server.sign_in(BOB, "read write").await?;
        let workspace =
            server.make_workspace("Harbour", &[(ann.user_id, Role::Owner), (bob.user_id, Role::Member)]).await?;
        server.make_workspace("Alone", &[(ann.user_id, Role::Owner)]).await?;
        let refused = delete(server, &ann).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (409, "conflict"));
        let said = refused.field("error_description");
        assert!(said.contains("Harbour") && !said.contains("Alone"), "{said}");
        let tab = signed_in_tab(server, ANN).await?;
        let page = tab.get(PAGE).await?;
        assert!(
            page.text.contains("These workspaces need another owner")
                && !page.text.contains("This signs you out everywhere")
        );
        assert_eq!(tab.submit(PAGE, &[]).await?.status, 409);
        assert!(works(server, &ann.access_token).await?);

        server.sql(&format!("update members set role = 'owner' where user_id = '{}'", bob.user_id.uuid())).await?;
        server.sql(&format!("update memberships set role = 'owner' where user_id = '{}'", bob.user_id.uuid())).await?;
        assert_eq!(delete(server, &ann).await?.status, 202);
        // Who closed the account no longer counts as an owner.
        let leaves = format!("/v1/workspaces/{workspace}/members/{}", bob.user_id);
        let leaves = workspaces::send(server, "DELETE", &leaves, &bob, None).await?;
        assert_eq!(leaves.status, 409, "{}", leaves.text);
        let refused = delete(server, &bob).await?;
        assert_eq!(refused.status, 409, "{}", refused.text);
        Ok(())
    })
}

#[test]
fn of_two_owners_who_leave_at_once_one_stays_ad_05() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (ann(server).await?, server.sign_in(BOB, "read write").await?);
        let eve = server.sign_in("eve@acme.test", "read write").await?;
        for name in ["Harbour", "Pier", "Dock"] {
            let members = [(ann.user_id, Role::Owner), (bob.user_id, Role::Owner), (eve.user_id, Role::Member)];
            server.make_workspace(name, &members).await?;
        }
        let (first, second) = tokio::try_join!(delete(server, &ann), delete(server, &bob))?;
        let mut statuses = [first.status.as_u16(), second.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [202, 409]);
        Ok(())
    })
}

/// The page behind a link.
async fn open(tab: &Tab, link: &str) -> Result<Shown> {
    tab.get(&format!("{KEEP}?token={link}")).await
}

#[test]
fn the_link_in_the_mail_shows_only_and_its_form_keeps_the_account_once_ad_06() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        let (_, cli) = make(server, &ann, &json!({ "name": "ci" })).await?;
        delete(server, &ann).await?;
        let link = next_link(server).await?;
        let tab = Tab::open(server)?;
        for _ in 0..2 {
            let page = open(&tab, &link).await?;
            assert!(page.status == 200 && page.text.contains("It will be erased on"), "{}", page.text);
        }
        assert!(is_closed(server).await?);
        let kept = tab.submit(KEEP, &[("token", &link)]).await?;
        assert!(kept.status == 200 && kept.text.contains("You can sign in again."), "{}", kept.text);
        assert!(tab.cookie().is_none(), "the link signs in");
        assert_eq!(server.mailbox.next_mail_to(ANN).await?.subject, "Your account was kept");
        // What was revoked stays revoked.
        assert!(!works(server, &cli).await? && !works(server, &ann.access_token).await?);
        assert!(can_sign_in(server).await?);
        for again in [open(&tab, &link).await?, tab.submit(KEEP, &[("token", &link)]).await?] {
            assert!(again.status == 404 && again.text.contains("This link no longer works"), "{}", again.text);
        }
        server.advance(15 * DAY);
        assert_eq!(erasure::erase_due(&server.app).await?, 0);
        assert!(has_account(server).await?);
        Ok(())
    })
}

#[test]
fn a_link_of_another_kind_or_from_another_site_keeps_nothing_ad_07() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        delete(server, &ann).await?;
        let link = next_link(server).await?;
        let tab = Tab::open(server)?;
        for wrong in ["", "svc_kac_", &link[..link.len() - 1], &link.replace("kac", "sir"), &ann.access_token] {
            assert_eq!(tab.submit(KEEP, &[("token", wrong)]).await?.status, 404, "{wrong}");
        }
        let unknown = service_api::token::Token::<service_api::token::KeepAccount>::from_body(&[7; 32]);
        assert_eq!(tab.submit(KEEP, &[("token", unknown.expose())]).await?.status, 404);
        let foreign = tab.request(Method::POST, KEEP).header("sec-fetch-site", "cross-site");
        assert_eq!(tab.send(foreign.form(&[("token", &link)])).await?.status, 403);
        assert!(is_closed(server).await?);
        Ok(())
    })
}

#[test]
fn who_signs_in_meanwhile_is_shown_the_link_and_not_signed_in_ad_08() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        delete(server, &ann).await?;
        let link = next_link(server).await?;
        let tab = Tab::open(server)?;
        let path = tab.get("/sign-in").await?.next()?.to_owned();
        tab.get(&path).await?;
        tab.submit(&path, &[("email", ANN)]).await?;
        let code = server.mailbox.next_code_to(ANN).await?;
        let wrong = tab.submit(&format!("{path}/code"), &[("code", "00000000")]).await?;
        assert_ne!(wrong.status, 303, "a wrong code tells something");
        let shown = tab.submit(&format!("{path}/code"), &[("code", &code)]).await?;
        assert_eq!(shown.next()?, format!("{KEEP}?token={link}"), "it is the link of the mail");
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");

        server.advance(61);
        let (otp_id, code) = server.request_code(ANN).await?;
        let refused = server.exchange(&otp_id, &code, "read").await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (400, "invalid_grant"));
        assert!(refused.field("error_description").contains("This account was closed"), "{}", refused.text);
        assert!(!refused.text.contains("svc_kac_"), "{}", refused.text);
        // A code that has shown the link does not sign in once the account is kept.
        assert_eq!(tab.submit(KEEP, &[("token", &link)]).await?.status, 200);
        let again = server.exchange(&otp_id, &code, "read").await?;
        assert_eq!((again.status.as_u16(), again.error()), (400, "invalid_grant"), "{}", again.text);
        Ok(())
    })
}

#[test]
fn a_passkey_of_a_closed_account_leads_to_the_link_ad_09() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in_tab(server, ANN).await?;
        let mut authenticator = TestAuthenticator::new()?;
        ensure!(add(server, &tab, &mut authenticator, "Laptop").await?.status == 303);
        tab.get(PAGE).await?;
        let closed = tab.submit(PAGE, &[]).await?;
        assert!(closed.status == 200 && closed.text.contains("Your account is closed"), "{}", closed.text);
        assert!(tab.cookie().is_none(), "the cookie stays");
        let entered = sign_in(server, &Tab::open(server)?, &mut authenticator).await?;
        assert!(entered.next()?.starts_with(&format!("{KEEP}?token=svc_kac_")), "{}", entered.text);
        Ok(())
    })
}

#[test]
fn reporting_the_sign_in_that_closed_the_account_opens_it_again_ad_10() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let thief = server.sign_in(ANN, "read write").await?;
        let report = next_report(server).await?;
        delete(server, &thief).await?;
        next_link(server).await?;
        assert_eq!(report.send(&Tab::open(server)?).await?.status, 200);
        assert_eq!(server.mailbox.next_mail_to(ANN).await?.subject, "Your account was kept");
        assert!(!is_closed(server).await?);
        assert!(can_sign_in(server).await?);
        Ok(())
    })
}

#[test]
fn a_session_that_the_reported_sign_in_created_and_that_closed_the_account_counts_as_it_ad_16() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        let thief = signed_in_tab(server, ANN).await?;
        let report = next_report(server).await?;
        let asked = [("redirect_uri", LOOPBACK), ("scope", "read write")];
        let shown = thief.get(&asking("service-cli", &asked)).await?;
        let done = agree(&thief, shown, &[("space", "personal")]).await?;
        let mut request = exchange("service-cli", &code(&done)?);
        request["redirect_uri"] = LOOPBACK.into();
        let tokens = server.http.post("/oauth/token", &request).await?;
        let session = signed_in(&tokens)?;
        assert_eq!(delete(server, &session).await?.status, 202);
        next_link(server).await?;
        assert_eq!(report.send(&Tab::open(server)?).await?.status, 200);
        assert!(!is_closed(server).await?);
        Ok(())
    })
}

#[test]
fn closing_stops_a_removal_of_all_passkeys_and_a_copied_passkey_leads_nowhere_ad_17() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in_tab(server, ANN).await?;
        let mut authenticator = TestAuthenticator::new()?;
        ensure!(add(server, &tab, &mut authenticator, "Laptop").await?.status == 303);
        tab.get("/account/security").await?;
        ensure!(tab.submit("/account/security/recovery", &[]).await?.status == 303);
        tab.get(PAGE).await?;
        assert_eq!(tab.submit(PAGE, &[]).await?.status, 200);
        server.advance(2 * DAY);
        assert!(housekeeping::clean_all(&server.app).await);
        assert_eq!(server.sql("select count(*) from passkeys").await?.as_deref(), Some("1"), "the passkey is gone");
        server.sql("update passkeys set counter = 1000000").await?;
        let entered = sign_in(server, &Tab::open(server)?, &mut authenticator).await?;
        assert!(entered.status == 400 && !entered.text.contains("svc_kac_"), "{} {}", entered.status, entered.text);
        Ok(())
    })
}

#[test]
fn a_workspace_that_members_can_join_by_single_sign_on_needs_another_owner_ad_18() -> Result<()> {
    with_server(async |server| {
        let company = Company::found(server, ANN).await?;
        company.connect(server).await?;
        let refused = delete(server, &company.owner).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (409, "conflict"));
        let deleted = format!("/v1/workspaces/{}", company.id);
        assert_eq!(workspaces::send(server, "DELETE", &deleted, &company.owner, None).await?.status, 204);
        assert_eq!(delete(server, &company.owner).await?.status, 202);
        Ok(())
    })
}

#[test]
fn a_leaked_link_is_replaced_when_it_is_reported_ad_19() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        delete(server, &ann).await?;
        let leaked = next_link(server).await?;
        let report = server.http.post("/v1/token-leaks", &json!({ "tokens": [leaked] })).await?;
        assert_eq!(report.status, 202, "{}", report.text);
        let mail = server.mailbox.next_mail_to(ANN).await?;
        assert_eq!(mail.subject, "A new link to keep your account");
        // Neither who found it nor that anyone closed the account just now.
        assert!(!mail.text.contains("127.0.0.1") && !mail.text.contains("Someone closed"), "{}", mail.text);
        let link = link_in(server, &mail)?.context("no link")?;
        assert_ne!(link, leaked);
        let tab = Tab::open(server)?;
        assert_eq!(tab.submit(KEEP, &[("token", &leaked)]).await?.status, 404);
        assert_eq!(tab.submit(KEEP, &[("token", &link)]).await?.status, 200);
        Ok(())
    })
}

#[test]
fn reporting_another_sign_in_leaves_the_account_closed_ad_11() -> Result<()> {
    with_server(async |server| {
        settled(server).await?;
        server.sign_in(ANN, "read write").await?;
        let report = next_report(server).await?;
        let own = server.sign_in(ANN, "read write").await?;
        next_report(server).await?;
        delete(server, &own).await?;
        assert_eq!(report.send(&Tab::open(server)?).await?.status, 200);
        assert!(is_closed(server).await?);
        Ok(())
    })
}

#[test]
fn an_operator_who_disables_a_closed_account_keeps_it_from_being_erased_ad_12() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        delete(server, &ann).await?;
        let link = next_link(server).await?;
        let (operator, address) = (Operator::default(), address()?);
        revocation::disable_user(&server.app, &operator, &address).await?;
        assert_eq!(Tab::open(server)?.submit(KEEP, &[("token", &link)]).await?.status, 404, "the user opens it again");
        server.advance(15 * DAY);
        assert_eq!(erasure::erase_due(&server.app).await?, 0);
        revocation::enable_user(&server.app, &operator, &address).await?;
        assert!(can_sign_in(server).await?);
        // An erasure that an operator requested gives way to another operator's doubt.
        by_operator::erase_user(&server.app, &operator, &address).await?;
        revocation::disable_user(&server.app, &operator, &address).await?;
        server.advance(2 * DAY);
        assert_eq!(erasure::erase_due(&server.app).await?, 0);
        assert!(has_account(server).await?);
        Ok(())
    })
}

#[test]
fn an_operator_who_enables_a_closed_account_keeps_it_ad_13() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        delete(server, &ann).await?;
        revocation::enable_user(&server.app, &Operator::default(), &address()?).await?;
        assert!(!is_closed(server).await?);
        assert!(can_sign_in(server).await?);
        Ok(())
    })
}

#[test]
fn a_user_closes_the_account_three_times_a_day_ad_14() -> Result<()> {
    with_server(async |server| {
        ann(server).await?;
        server.sql("delete from sign_in_reports").await?;
        let mut last: Option<TestResponse> = None;
        for _ in 0..4 {
            server.advance(61);
            let ann = server.sign_in(ANN, "read write").await?;
            let closed = delete(server, &ann).await?;
            if closed.status == 202 {
                let link = next_link(server).await?;
                assert_eq!(Tab::open(server)?.submit(KEEP, &[("token", &link)]).await?.status, 200);
            }
            last = Some(closed);
        }
        let last = last.context("nothing was sent")?;
        assert_eq!((last.status.as_u16(), last.error()), (429, "rate_limited"));
        Ok(())
    })
}

#[test]
fn housekeeping_erases_when_it_is_due_and_not_before_ad_15() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        delete(server, &ann).await?;
        let link = next_link(server).await?;
        server.advance(14 * DAY - 1);
        assert!(housekeeping::clean_all(&server.app).await);
        assert!(has_account(server).await?);
        server.advance(1);
        assert!(housekeeping::clean_all(&server.app).await);
        assert!(!has_account(server).await?);
        assert_eq!(server.mailbox.next_mail_to(ANN).await?.subject, "Your account was erased");
        assert_eq!(Tab::open(server)?.submit(KEEP, &[("token", &link)]).await?.status, 404);
        // The address begins a new account.
        let anew = server.sign_in(ANN, "read").await?;
        assert_ne!(anew.user_id, ann.user_id);
        Ok(())
    })
}
