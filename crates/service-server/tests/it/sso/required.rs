//! Where single sign-on is required, nothing else signs a user in, except break-glass owners.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use service_api::{
    ids::{Id as _, UserId},
    workspaces::Role,
};
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer},
    tab::{Shown, Tab},
};

use crate::support::{
    otp::wrong,
    provider::Fault,
    sso::{Company, at_provider, company, company_of, provider_address, signed_in_as, user, with_provider},
    sso_sign_ins::{enter_code, sign_in_by_code},
};

const DAY: i64 = 86_400;

#[track_caller]
fn check_sso_required(response: &TestResponse, what: &str) {
    assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_grant"), "{what}: {}", response.text);
    assert_eq!(response.body["details"]["reason"], "sso_required", "{what}");
}

/// A company of which the owners Olga and Otto have addresses in its own domain. Olga can break the glass.
async fn strict_company(
    server: &TestServer,
    provider: &crate::support::provider::Provider,
) -> Result<(Company, SignedIn, SignedIn)> {
    let olga = server.sign_in("olga@acme.test", "read write").await?;
    let otto = server.sign_in("otto@acme.test", "read write").await?;
    let acme = company_of(server, provider, "acme.test", olga.user_id).await?;
    server.add_member(acme.workspace_id, otto.user_id, Role::Owner).await?;
    acme.require(server, &[olga.user_id]).await?;
    Ok((acme, olga, otto))
}

async fn request(server: &TestServer, email: &str) -> Result<(TestResponse, String)> {
    let response = server.http.post("/v1/otp-tokens", &json!({ "email": email })).await?;
    let id = response.field("otpId").to_owned();
    Ok((response, id))
}

#[test]
fn a_code_is_answered_as_ever_and_the_mail_holds_none() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, ..) = strict_company(server, provider).await?;
        let (elsewhere, _) = request(server, "zoe@other.test").await?;
        server.mailbox.next_code_to("zoe@other.test").await?;
        for email in ["ann@acme.test", "otto@acme.test"] {
            let (response, id) = request(server, email).await?;
            assert_eq!(response.status, 201);
            let shape = |response: &TestResponse| response.text.replace(response.field("otpId"), "");
            assert_eq!(shape(&response), shape(&elsewhere), "{email}");
            let mail = server.mailbox.next_mail_to(email).await?;
            assert_eq!(mail.subject, "Sign in with your company");
            assert!(mail.text.contains("Sign in with Acme ID"), "{}", mail.text);
            assert!(mail.text.contains(&format!("/sso/start?connection={}", acme.connection_id)), "{}", mail.text);
            let digits = mail.text.split_whitespace().filter(|word| word.len() == 4 && word.parse::<u32>().is_ok());
            assert!(digits.count() < 2, "{}", mail.text);
            for step in 0..5 {
                check_sso_required(&server.exchange(&id, &wrong("12345678", step)?, "read").await?, email);
            }
        }
        let waiting = "select count(*) from otps where address like '%acme.test' and consumed_at is null";
        assert_eq!(server.sql(waiting).await?.as_deref(), Some("2"), "the rows are written all the same");
        Ok(())
    })
}

#[test]
fn a_code_from_before_signs_no_user_in_when_single_sign_on_becomes_required_so_18() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        server.sign_in("ann@acme.test", "read").await?;
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        // On the page as well.
        let tab = Tab::open(server)?;
        let path = tab.get("/sign-in").await?.next()?.to_owned();
        tab.get(&path).await?;
        tab.submit(&path, &[("email", "ann@acme.test")]).await?;
        tab.get(&path).await?;
        let code_path = tab.submit(&format!("{path}/sso"), &[("decision", "code")]).await?.next()?.to_owned();
        let on_page = server.mailbox.next_code_to("ann@acme.test").await?;
        server.leaks.register("otp code", &on_page);
        acme.require(server, &[acme.owner_id]).await?;
        check_sso_required(&server.exchange(&otp_id, &code, "read").await?, "the right code");
        tab.get(&code_path).await?;
        let refused = tab.submit(&code_path, &[("code", &on_page)]).await?;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains("requires you to sign in with <bdi>Acme ID</bdi>"), "{}", refused.text);
        assert!(!refused.text.contains("Email me a code"), "{}", refused.text);
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        // The page goes on with the company.
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let shown = tab.submit(&format!("{path}/sso"), &[("decision", "continue")]).await?;
        let back = tab.get(&at_provider(server, &shown).await?).await?;
        let link = back.next()?.to_owned();
        tab.get(&link).await?;
        // Linking an account needs a code also here, and such a code works.
        let code = server.mailbox.next_code_to("ann@acme.test").await?;
        server.leaks.register("otp code", &code);
        tab.submit(&link, &[("code", &code)]).await?;
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        Ok(())
    })
}

#[test]
fn the_sign_in_page_offers_nothing_else() -> Result<()> {
    with_provider(async |server, provider| {
        strict_company(server, provider).await?;
        let tab = Tab::open(server)?;
        let path = tab.get("/sign-in").await?.next()?.to_owned();
        tab.get(&path).await?;
        tab.submit(&path, &[("email", "ann@acme.test")]).await?;
        let page = tab.get(&path).await?;
        assert!(page.text.contains("Continue with <bdi>Acme ID</bdi>") && !page.text.contains("code"), "{}", page.text);
        Ok(())
    })
}

#[test]
fn a_break_glass_owner_signs_in_by_code_three_times_a_month_and_all_owners_hear_of_it() -> Result<()> {
    with_provider(async |server, provider| {
        let (_, olga, _) = strict_company(server, provider).await?;
        for _ in 0..3 {
            let (otp_id, code) = server.request_code("olga@acme.test").await?;
            // A wrong code of hers is answered as any other.
            check_sso_required(&server.exchange(&otp_id, &wrong(&code, 1)?, "read").await?, "wrong");
            let response = server.exchange(&otp_id, &code, "read").await?;
            assert_eq!(response.status, 200, "{}", response.text);
            for owner in ["olga@acme.test", "otto@acme.test"] {
                let mail = server.mailbox.next_mail_to(owner).await?;
                assert_eq!(mail.subject, "An owner signed in without single sign-on");
                assert!(mail.text.contains("olga@acme.test") && mail.text.contains("Acme ID"), "{}", mail.text);
            }
        }
        let used = "select count(*) from audit_events where event = 'break_glass.used'";
        assert_eq!(server.sql(used).await?.as_deref(), Some("3"), "{}", olga.user_id);
        let (otp_id, code) = server.request_code("olga@acme.test").await?;
        check_sso_required(&server.exchange(&otp_id, &code, "read").await?, "a fourth time");
        server.advance(30 * DAY + 1);
        let (otp_id, code) = server.request_code("olga@acme.test").await?;
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200);
        Ok(())
    })
}

#[test]
fn the_code_of_a_break_glass_owner_who_has_a_passkey_is_enough_for_step_up_pk_46() -> Result<()> {
    with_provider(async |server, provider| {
        let (_, olga, _) = strict_company(server, provider).await?;
        server.make_passkey(olga.user_id, "Security key").await?;
        server.advance(8 * DAY);
        let (otp_id, code) = server.request_code("olga@acme.test").await?;
        let session = server.exchange(&otp_id, &code, "read write").await?;
        let request = server.http.request(Method::POST, "/v1/cli/tokens").bearer_auth(session.field("access_token"));
        let made = server.http.send(request.json(&json!({ "name": "ci" }))).await?;
        assert_eq!(made.status, 201, "{}", made.text);
        Ok(())
    })
}

/// Enters a break-glass owner's code on the page for emergencies.
async fn break_glass_on_page(server: &TestServer, tab: &Tab) -> Result<Shown> {
    let emergency = format!("{}/emergency", tab.get("/sign-in").await?.next()?);
    tab.get(&emergency).await?;
    let code_path = tab.submit(&emergency, &[("email", "olga@acme.test")]).await?.next()?.to_owned();
    enter_code(server, tab, &code_path, "olga@acme.test").await
}

#[test]
fn a_break_glass_owner_has_three_sign_ins_on_the_page_too() -> Result<()> {
    with_provider(async |server, provider| {
        strict_company(server, provider).await?;
        provider.fail(Fault::Down);
        for number in 1..=3 {
            let tab = Tab::open(server)?;
            let entered = break_glass_on_page(server, &tab).await?;
            assert_eq!(entered.status, 303, "{number}: {}", entered.text);
            assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("olga@acme.test"), "{number}");
        }
        let tab = Tab::open(server)?;
        let refused = break_glass_on_page(server, &tab).await?;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains("requires you to sign in with <bdi>Acme ID</bdi>"), "{}", refused.text);
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        // Codes over the API and on the page are counted together.
        let (otp_id, code) = server.request_code("olga@acme.test").await?;
        check_sso_required(&server.exchange(&otp_id, &code, "read").await?, "a fifth time, over the API");
        server.advance(30 * DAY + 1);
        assert_eq!(break_glass_on_page(server, &Tab::open(server)?).await?.status, 303);
        Ok(())
    })
}

#[test]
fn a_break_glass_owner_reaches_the_code_on_the_page_when_the_provider_fails() -> Result<()> {
    with_provider(async |server, provider| {
        strict_company(server, provider).await?;
        let tab = Tab::open(server)?;
        let path = tab.get("/sign-in").await?.next()?.to_owned();
        tab.get(&path).await?;
        provider.fail(Fault::Down);
        let failed = tab.submit(&path, &[("email", "olga@acme.test")]).await?;
        assert_eq!(failed.status, 503, "{}", failed.text);
        let emergency = format!("{path}/emergency");
        assert!(failed.text.contains(&emergency), "{}", failed.text);
        for (email, works) in [("otto@acme.test", false), ("olga@acme.test", true)] {
            tab.get(&emergency).await?;
            let sent = tab.submit(&emergency, &[("email", email)]).await?;
            let code_path = sent.next()?.to_owned();
            tab.get(&code_path).await?;
            let code = if works { server.mailbox.next_code_to(email).await? } else { "12345678".to_owned() };
            server.leaks.register("otp code", &code);
            let entered = tab.submit(&code_path, &[("code", &code)]).await?;
            assert_eq!(entered.status.as_u16(), if works { 303 } else { 400 }, "{email}: {}", entered.text);
        }
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("olga@acme.test"));
        Ok(())
    })
}

#[test]
fn an_owner_who_is_not_named_or_no_longer_owner_cannot_break_the_glass() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, olga, _) = strict_company(server, provider).await?;
        let (_, id) = request(server, "otto@acme.test").await?;
        check_sso_required(&server.exchange(&id, "12345678", "read").await?, "not named");
        let (otp_id, code) = server.request_code("olga@acme.test").await?;
        let (workspace, owner) = (acme.workspace_id.uuid(), olga.user_id.uuid());
        let demote = "update memberships set role = 'member' where workspace_id";
        server.sql(&format!("{demote} = '{workspace}' and user_id = '{owner}'")).await?;
        check_sso_required(&server.exchange(&otp_id, &code, "read").await?, "no longer an owner");
        Ok(())
    })
}

#[test]
fn the_last_break_glass_owner_cannot_leave_be_removed_or_demoted_so_19() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, olga, otto) = strict_company(server, provider).await?;
        let member = |id: UserId| format!("/v1/workspaces/{}/members/{id}", acme.workspace_id);
        let send = async |method: reqwest::Method, path: &str, who: &SignedIn, body: serde_json::Value| {
            let request = server.http.request(method, path).bearer_auth(&who.access_token).json(&body);
            server.http.send(request).await
        };
        let conflicts = [
            send(Method::DELETE, &member(olga.user_id), &olga, json!({})).await?,
            send(Method::DELETE, &member(olga.user_id), &otto, json!({})).await?,
            send(Method::PATCH, &member(olga.user_id), &otto, json!({ "role": "member" })).await?,
        ];
        for response in conflicts {
            assert_eq!((response.status.as_u16(), response.error()), (409, "conflict"), "{}", response.text);
            assert!(response.field("error_description").contains("break-glass"), "{}", response.text);
        }
        // With another one, she can go.
        acme.require(server, &[olga.user_id, otto.user_id]).await?;
        let demoted = send(Method::PATCH, &member(olga.user_id), &otto, json!({ "role": "member" })).await?;
        assert_eq!(demoted.status, 200, "{}", demoted.text);
        let last = send(Method::DELETE, &member(otto.user_id), &otto, json!({})).await?;
        assert_eq!(last.status, 409, "{}", last.text);
        Ok(())
    })
}

#[test]
fn only_the_company_steps_up() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (tab, fields) =
            (Tab::open(server)?, [("name", "CI"), ("read", "true"), ("days", "9"), ("space", "personal")]);
        sign_in_by_code(server, &tab, "ann@acme.test").await?;
        server.advance(16 * 60);
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        acme.require(server, &[acme.owner_id]).await?;
        // Over the API, with a code that was mailed when codes still worked.
        let refreshed = server.refresh(&ann.refresh_token).await?;
        let create = server.http.request(Method::POST, "/v1/cli/tokens").bearer_auth(refreshed.field("access_token"));
        let refused = server.http.send(create.json(&json!({ "scopes": ["read"] }))).await?;
        assert_eq!(refused.error(), "insufficient_user_authentication", "{}", refused.text);
        check_sso_required(&server.exchange(&otp_id, &code, "read write").await?, "a code that was mailed before");
        // In the browser: the page sends the user to the provider, and to nothing else.
        tab.get("/account/tokens").await?;
        let path = tab.submit("/account/tokens", &fields).await?.next()?.to_owned();
        assert!(path.starts_with("/sign-in/"), "{path}");
        tab.get(&path).await?;
        let hand_off = tab.submit(&path, &[("email", "ann@acme.test")]).await?;
        assert!(provider_address(&hand_off)?.starts_with(&provider.issuer), "{}", hand_off.text);
        let offered = tab.get(&path).await?;
        assert!(offered.text.contains("Continue with <bdi>Acme ID</bdi>"), "{}", offered.text);
        assert!(!offered.text.contains("code") && !offered.text.contains("emergency"), "{}", offered.text);
        // Asked for all the same, the code is not sent: the mail leads to the company.
        let code_path = tab.submit(&format!("{path}/sso"), &[("decision", "code")]).await?.next()?.to_owned();
        assert_eq!(server.mailbox.next_mail_to("ann@acme.test").await?.subject, "Sign in with your company");
        tab.get(&code_path).await?;
        let refused = tab.submit(&code_path, &[("code", "12345678")]).await?;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains("requires you to sign in with <bdi>Acme ID</bdi>"), "{}", refused.text);
        tab.get("/account/tokens").await?;
        assert!(tab.submit("/account/tokens", &fields).await?.next()?.starts_with("/sign-in/"), "no step-up");
        Ok(())
    })
}
