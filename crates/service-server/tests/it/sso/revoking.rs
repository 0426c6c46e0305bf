//! What an owner's decision to require single sign-on, or to shorten sessions, does to credentials that exist.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use service_api::oauth::SERVICE_CLI;
use service_server::flows::sso::required;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, signed_in},
    tab::{Shown, Tab},
};

use crate::support::{
    authorize::{CALLBACK, VERIFIER, agree, asking, code, register},
    cli_tokens, connections, mcp_tokens,
    provider::Provider,
    sso::{Company, company_of, sign_in, sign_in_after_click, signed_in_as, user, with_provider},
};

const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;
const LOOPBACK: &str = "http://127.0.0.1:7777/callback";

/// A company and its owner, who has an address elsewhere and can break the glass.
async fn owned(server: &TestServer, provider: &Provider, domain: &str) -> Result<(Company, SignedIn)> {
    let owner = server.sign_in(&format!("olga@{}.example", domain.replace('.', "-")), "read write").await?;
    Ok((company_of(server, provider, domain, owner.user_id).await?, owner))
}

/// The owner changes the connection through the API.
async fn change(server: &TestServer, company: &Company, owner: &SignedIn, body: &Value) -> Result<()> {
    let path = format!("/v1/workspaces/{}/connections/{}", company.workspace_id, company.connection_id);
    let request = server.http.request(Method::PATCH, &path).bearer_auth(&owner.access_token).json(body);
    let changed = server.http.send(request).await?;
    ensure!(changed.status == 200, "{}", changed.text);
    Ok(())
}

async fn require(server: &TestServer, company: &Company, owner: &SignedIn, existing: &str) -> Result<()> {
    let body = json!({ "required": true, "existing": existing, "breakGlass": [owner.user_id] });
    change(server, company, owner, &body).await
}

/// Signs a user in by a code, in a domain whose users can choose.
async fn by_code(server: &TestServer, tab: &Tab, email: &str) -> Result<()> {
    let path = tab.get("/sign-in").await?.next()?.to_owned();
    tab.get(&path).await?;
    tab.submit(&path, &[("email", email)]).await?;
    tab.get(&path).await?;
    let code_path = tab.submit(&format!("{path}/sso"), &[("decision", "code")]).await?.next()?.to_owned();
    enter_code(server, tab, &code_path, email).await?;
    ensure!(signed_in_as(tab).await?.as_deref() == Some(email), "{email} is not signed in");
    Ok(())
}

async fn enter_code(server: &TestServer, tab: &Tab, path: &str, email: &str) -> Result<Shown> {
    let code = server.mailbox.next_code_to(email).await?;
    server.leaks.register("otp code", &code);
    tab.get(path).await?;
    tab.submit(path, &[("code", &code)]).await
}

/// Signs an existing user in through the connection for the first time. A browser that is signed in by a code has to click.
async fn link(server: &TestServer, tab: &Tab, company: &Company, email: &str) -> Result<()> {
    let is_signed_in = signed_in_as(tab).await?.is_some();
    let back = if is_signed_in {
        sign_in_after_click(server, tab, &company.start()).await?
    } else {
        sign_in(server, tab, &company.start()).await?
    };
    let path = back.next()?.to_owned();
    tab.get(&path).await?;
    enter_code(server, tab, &path, email).await?;
    Ok(())
}

/// Asks for access of the command-line client.
async fn authorize(tab: &Tab) -> Result<Shown> {
    let shown = tab.get(&asking(SERVICE_CLI, &[("redirect_uri", LOOPBACK), ("scope", "read write")])).await?;
    agree(tab, shown, &[("space", "personal")]).await
}

async fn redeem(server: &TestServer, code: &str) -> Result<TestResponse> {
    let body = json!({
        "grant_type": "authorization_code", "client_id": SERVICE_CLI, "code": code,
        "redirect_uri": LOOPBACK, "code_verifier": VERIFIER,
    });
    server.http.post("/oauth/token", &body).await
}

async fn open_session(server: &TestServer, tab: &Tab) -> Result<SignedIn> {
    signed_in(&redeem(server, &code(&authorize(tab).await?)?).await?)
}

async fn works(server: &TestServer, token: &str) -> Result<bool> {
    Ok(server.http.get("/v1/whoami", Some(token)).await?.status == 200)
}

#[test]
fn what_a_session_makes_until_it_is_revoked_is_revoked_with_it() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, owner) = owned(server, provider, "acme.test").await?;
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        server.advance(60);
        require(server, &acme, &owner, "revoke").await?;
        // The task has not come to this user yet.
        server.advance(1);
        let (_, cli_token) = cli_tokens::make(server, &ann, &json!({ "scopes": ["read"] })).await?;
        let pair = mcp_tokens::pair(server, &ann, &json!({ "scope": "read" })).await?;
        required::revoke_existing(&server.app).await?;
        assert!(!works(server, &ann.access_token).await?, "the session");
        assert!(!works(server, &cli_token).await?, "the CLI token");
        let pair = mcp_tokens::refresh(server, &pair.access_token, &pair.refresh_token).await?;
        assert_ne!(pair.status, 200, "the MCP pair");
        Ok(())
    })
}

#[test]
fn a_sign_in_with_a_fast_clock_counts_as_before() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, owner) = owned(server, provider, "acme.test").await?;
        server.advance(20);
        let tab = Tab::open(server)?;
        by_code(server, &tab, "ann@acme.test").await?;
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        server.advance(-20);
        require(server, &acme, &owner, "revoke").await?;
        server.advance(25);
        required::revoke_existing(&server.app).await?;
        assert!(!works(server, &ann.access_token).await?);
        assert_eq!(signed_in_as(&tab).await?, None);
        Ok(())
    })
}

#[test]
fn a_browser_from_before_opens_no_session_where_single_sign_on_is_required() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, owner) = owned(server, provider, "acme.test").await?;
        let tab = Tab::open(server)?;
        by_code(server, &tab, "ann@acme.test").await?;
        let ann = open_session(server, &tab).await?;
        let app = register(server, "Planner", &[CALLBACK]).await?;
        let known = agree(&tab, tab.get(&asking(&app, &[])).await?, &[("space", "personal")]).await?;
        code(&known)?;
        let waiting = code(&authorize(&tab).await?)?;
        server.advance(10);
        require(server, &acme, &owner, "keep").await?;
        required::revoke_existing(&server.app).await?;
        assert!(works(server, &ann.access_token).await?, "sessions are kept");
        let redeemed = redeem(server, &waiting).await?;
        assert_eq!((redeemed.status.as_u16(), redeemed.error()), (400, "invalid_grant"), "{}", redeemed.text);
        let refused = authorize(&tab).await?;
        let path = refused.next()?.to_owned();
        assert!(path.starts_with("/sign-in/"), "{path}");
        let silent = tab.get(&asking(&app, &[("prompt", "none")])).await?;
        assert_eq!(silent.parameter("error").as_deref(), Some("login_required"), "{:?}", silent.location);
        // Through the company it goes on.
        tab.get(&path).await?;
        tab.submit(&path, &[("email", "ann@acme.test")]).await?;
        let page = tab.get(&path).await?;
        assert!(!page.text.contains("Email me a code"), "{}", page.text);
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        link(server, &tab, &acme, "ann@acme.test").await?;
        open_session(server, &tab).await?;
        Ok(())
    })
}

#[test]
fn a_break_glass_owner_opens_sessions_after_signing_in_by_code() -> Result<()> {
    with_provider(async |server, provider| {
        let olga = server.sign_in("olga@acme.test", "read write").await?;
        let acme = company_of(server, provider, "acme.test", olga.user_id).await?;
        server.advance(60);
        require(server, &acme, &olga, "revoke").await?;
        server.advance(60);
        required::revoke_existing(&server.app).await?;
        assert!(!works(server, &olga.access_token).await?);
        let again = server.sign_in("olga@acme.test", "read write").await?;
        change(server, &acme, &again, &json!({ "breakGlass": [olga.user_id] })).await?;
        let (_, cli_token) = cli_tokens::make(server, &again, &json!({ "scopes": ["read"] })).await?;
        acme.change(server, |connection| connection.revoke_before = connection.required_at).await?;
        required::revoke_existing(&server.app).await?;
        assert!(works(server, &again.access_token).await? && works(server, &cli_token).await?, "from after it");
        Ok(())
    })
}

#[test]
fn what_a_browser_made_by_code_is_not_spared_because_it_came_through_the_company_later() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, owner) = owned(server, provider, "acme.test").await?;
        let tab = Tab::open(server)?;
        by_code(server, &tab, "ann@acme.test").await?;
        let by_code = open_session(server, &tab).await?;
        server.advance(60);
        provider.sign_in_as(&json!({
            "sub": "ann", "email": "ann@acme.test", "email_verified": true, "auth_time": server.now().as_second(),
        }));
        link(server, &tab, &acme, "ann@acme.test").await?;
        let through = open_session(server, &tab).await?;
        let (_, cli_token) = cli_tokens::make(server, &through, &json!({ "scopes": ["read"] })).await?;
        let pair = mcp_tokens::pair(server, &through, &json!({ "scope": "read" })).await?;
        server.advance(60);
        require(server, &acme, &owner, "revoke").await?;
        required::revoke_existing(&server.app).await?;
        assert!(!works(server, &by_code.access_token).await?, "by code");
        assert!(works(server, &through.access_token).await?, "through the company");
        assert!(works(server, &cli_token).await?, "made by that session");
        let refreshed = mcp_tokens::refresh(server, &pair.access_token, &pair.refresh_token).await?;
        assert_eq!(refreshed.status, 200, "{}", refreshed.text);
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        Ok(())
    })
}

#[test]
fn a_user_who_cannot_be_signed_out_does_not_keep_others_in() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, olga) = owned(server, provider, "acme.test").await?;
        let (dock, otto) = owned(server, provider, "dock.test").await?;
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let bob = server.sign_in("bob@acme.test", "read").await?;
        let dan = server.sign_in("dan@dock.test", "read").await?;
        server.advance(60);
        require(server, &acme, &olga, "revoke").await?;
        server.advance(1);
        require(server, &dock, &otto, "revoke").await?;
        let broken = format!(
            "create function refuse() returns trigger language plpgsql as $$ begin raise 'broken'; end $$;
             create trigger refuse before update on grants for each row when (new.user_id = '{}')
                 execute function refuse()",
            service_api::ids::Id::uuid(ann.user_id)
        );
        server.sql(&broken).await?;
        assert!(required::revoke_existing(&server.app).await.is_err(), "the failure is reported");
        assert!(works(server, &ann.access_token).await?);
        assert!(!works(server, &bob.access_token).await?, "another user of the connection");
        assert!(!works(server, &dan.access_token).await?, "another connection");
        server.sql("drop trigger refuse on grants").await?;
        assert_eq!(required::revoke_existing(&server.app).await?, 1, "it is tried again");
        assert!(!works(server, &ann.access_token).await?);
        Ok(())
    })
}

#[track_caller]
fn check_sso_again(response: &TestResponse) {
    assert_eq!(response.body["details"]["reason"], "sso_again", "{}", response.text);
}

#[test]
fn tokens_of_users_who_never_came_through_the_company_wait_for_it() -> Result<()> {
    with_provider(async |server, provider| {
        let olga = server.sign_in("olga@acme.test", "read write").await?;
        let acme = company_of(server, provider, "acme.test", olga.user_id).await?;
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let body = json!({ "scopes": ["read"], "expiresInDays": 300 });
        let (_, of_ann) = cli_tokens::make(server, &ann, &body).await?;
        let (_, of_olga) = cli_tokens::make(server, &olga, &body).await?;
        require(server, &acme, &olga, "keep").await?;
        required::revoke_existing(&server.app).await?;
        server.advance(29 * DAY);
        assert!(works(server, &of_ann).await?);
        server.advance(2 * DAY);
        check_sso_again(&cli_tokens::whoami(server, &of_ann).await?);
        assert!(works(server, &of_olga).await?, "a break-glass owner");
        let olga = server.sign_in("olga@acme.test", "read write").await?;
        change(server, &acme, &olga, &json!({ "tokenDays": 60 })).await?;
        assert!(works(server, &of_ann).await?, "the new limit counts");
        change(server, &acme, &olga, &json!({ "tokenDays": 30 })).await?;
        // Nodes cache a token for a moment.
        server.advance(6 * 60);
        check_sso_again(&cli_tokens::whoami(server, &of_ann).await?);
        change(server, &acme, &olga, &json!({ "required": false })).await?;
        assert!(works(server, &of_ann).await?, "it is not required any longer");
        // The next sign-in brings them back.
        require(server, &acme, &olga, "keep").await?;
        required::revoke_existing(&server.app).await?;
        server.advance(31 * DAY);
        check_sso_again(&cli_tokens::whoami(server, &of_ann).await?);
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        link(server, &Tab::open(server)?, &acme, "ann@acme.test").await?;
        assert!(works(server, &of_ann).await?);
        Ok(())
    })
}

#[test]
fn the_choice_counts_for_domains_that_join_later() -> Result<()> {
    connections::with_dns(async |server, dns| {
        let acme = connections::Company::found(server, "olga@elsewhere.example").await?;
        let (connection, other) = (acme.connect(server).await?, acme.connect(server).await?);
        let first = acme.claim_for(server, "acme.test", &connection).await?;
        let second = acme.claim_for(server, "dock.test", &connection).await?;
        let third = acme.claim_for(server, "port.test", &other).await?;
        dns.serve(&[
            connections::txt("acme.test", &first),
            connections::txt("dock.test", &second),
            connections::txt("port.test", &third),
        ])?;
        for domain in ["acme.test", "port.test"] {
            ensure!(acme.verify(server, domain).await?.field("status") == "verified", "{domain}");
        }
        let body = json!({ "required": true, "existing": "revoke", "breakGlass": [acme.owner.user_id] });
        ensure!(acme.change(server, &connection, &body).await?.status == 200);
        required::revoke_existing(&server.app).await?;
        server.advance(60);
        let dan = server.sign_in("dan@dock.test", "read").await?;
        let pia = server.sign_in("pia@port.test", "read").await?;
        server.advance(60);
        ensure!(acme.verify(server, "dock.test").await?.field("status") == "verified");
        required::revoke_existing(&server.app).await?;
        assert!(!works(server, &dan.access_token).await?, "a domain that is verified later");
        assert!(works(server, &pia.access_token).await?, "a domain of another connection");
        let moved = json!({ "connectionId": connection });
        ensure!(acme.send(server, "PATCH", "domains/port.test", Some(&moved)).await?.status == 200);
        required::revoke_existing(&server.app).await?;
        assert!(!works(server, &pia.access_token).await?, "a domain that is moved");
        Ok(())
    })
}

#[test]
fn shorter_hours_count_for_sessions_that_exist() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, owner) = owned(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        sign_in(server, &tab, &acme.start()).await?;
        let ann = open_session(server, &tab).await?;
        change(server, &acme, &owner, &json!({ "sessionHours": 2 })).await?;
        server.advance(2 * HOUR - 60);
        let refreshed = server.refresh(&ann.refresh_token).await?;
        assert_eq!(refreshed.status, 200, "{}", refreshed.text);
        assert!(signed_in_as(&tab).await?.is_some());
        server.advance(60);
        check_sso_again(&server.refresh(refreshed.field("refresh_token")).await?);
        assert_eq!(signed_in_as(&tab).await?, None);
        // Longer hours count from the next sign-in.
        let owner = server.sign_in("olga@acme-test.example", "read write").await?;
        change(server, &acme, &owner, &json!({ "sessionHours": 12 })).await?;
        check_sso_again(&server.refresh(refreshed.field("refresh_token")).await?);
        Ok(())
    })
}

#[test]
fn a_record_from_an_earlier_claim_proves_nothing() -> Result<()> {
    connections::with_dns(async |server, dns| {
        let acme = connections::Company::found(server, "ann@acme.test").await?;
        let value = connections::record_value(&acme.claim(server, "acme.test").await?);
        dns.serve(&[connections::txt("acme.test", &value)])?;
        ensure!(acme.verify(server, "acme.test").await?.field("status") == "verified");
        server.advance(1);
        assert_eq!(acme.send(server, "DELETE", "domains/acme.test", None).await?.status, 204);
        let again = connections::record_value(&acme.claim(server, "acme.test").await?);
        assert_ne!(again, value);
        assert_eq!(acme.verify(server, "acme.test").await?.field("status"), "pending");
        dns.serve(&[connections::txt("acme.test", &again)])?;
        let verified = acme.verify(server, "acme.test").await?;
        assert_eq!(verified.field("status"), "verified", "{}", verified.text);
        verified.body["record"]["value"].as_str().filter(|shown| *shown == again).context("another record is shown")?;
        Ok(())
    })
}
