//! When an employee leaves, access ends: sessions have to sign in through the company again, and tokens wait for it.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_rules::lifetimes;
use service_server::{
    flows::sso::domain_checks::check_due, tasks::housekeeping::clean_once, tokens::cli_token_cache::CACHE_SECONDS,
};
use service_testkit::{
    dns_server::DnsServer,
    response::TestResponse,
    server::{Setup, SignedIn, TestServer, refresh_body, signed_in},
    tab::Tab,
};

use crate::support::{
    admin,
    authorize::{CALLBACK, register},
    cli_tokens,
    connections::txt,
    mcp_tokens,
    provider::{Fault, Provider, ProviderPort},
    sso::{
        Company, allowing, company, company_of, login_options, sign_in, sign_in_after_click, signed_in_as, user,
        with_provider, with_two_providers,
    },
    sso_sign_ins::{authorize_app, command_line, enter_code, sign_in_by_code},
    workspaces::send,
};

const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

#[track_caller]
fn check_sso_again(response: &TestResponse, status: u16, what: &str) {
    assert_eq!(response.status, status, "{what}: {}", response.text);
    assert_eq!(response.body["details"]["reason"], "sso_again", "{what}: {}", response.text);
    assert!(response.field("error_description").contains("Sign in with your company"), "{what}: {}", response.text);
}

#[test]
fn a_session_is_refreshed_for_the_hours_of_its_connection_and_not_revoked_then() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        let ann = command_line(server, &acme, &tab).await?;
        server.advance(12 * HOUR - 60);
        let refreshed = server.refresh(&ann.refresh_token).await?;
        assert_eq!(refreshed.status, 200, "{}", refreshed.text);
        assert_eq!(refreshed.body["expires_in"], 60, "an access token does not outlive the sign-in");
        let refresh_token = refreshed.field("refresh_token").to_owned();
        assert!(signed_in_as(&tab).await?.is_some());
        server.advance(60);
        let waiting = server.refresh(&refresh_token).await?;
        check_sso_again(&waiting, 400, "after twelve hours");
        assert_eq!(waiting.body["details"]["connectionId"], acme.connection_id.to_string());
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in", "the browser's session is over, too");
        assert_eq!(server.sql("select count(*) from grants where revoked_at is not null").await?.as_deref(), Some("0"));
        let expires = "select expires_at > sso_until + interval '30 days' from grants where sso_until is not null";
        assert_eq!(server.sql(expires).await?.as_deref(), Some("t"), "its own end is another");
        // The next sign-in through the connection brings it back.
        sign_in(server, &tab, &acme.start()).await?;
        let back = server.refresh(&refresh_token).await?;
        assert_eq!(back.status, 200, "{}", back.text);
        Ok(())
    })
}

#[test]
fn a_replayed_refresh_token_is_noticed_also_while_its_session_waits() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let ann = command_line(server, &acme, &Tab::open(server)?).await?;
        let second = server.refresh(&ann.refresh_token).await?.field("refresh_token").to_owned();
        let third = server.refresh(&second).await?.field("refresh_token").to_owned();
        server.advance(13 * HOUR);
        let replayed = server.refresh(&ann.refresh_token).await?;
        assert_eq!(replayed.body["details"]["reason"], "replayed", "{}", replayed.text);
        let after = server.refresh(&third).await?;
        assert_eq!(after.body["details"]["reason"], "replayed", "{}", after.text);
        Ok(())
    })
}

/// What a user has besides interactive sessions.
struct Tokens {
    cli_token: String,
    pair: SignedIn,
    app: SignedIn,
    client: String,
}

impl Tokens {
    async fn make(server: &TestServer, acme: &Company, tab: &Tab) -> Result<(Self, SignedIn)> {
        let session = command_line(server, acme, tab).await?;
        let (_, cli_token) = cli_tokens::make(server, &session, &json!({ "scopes": ["read"] })).await?;
        let pair = mcp_tokens::pair(server, &session, &json!({ "scope": "read" })).await?;
        let client = register(server, "Planner", &[CALLBACK]).await?;
        let app = authorize_app(server, tab, &client).await?;
        Ok((Self { cli_token, pair, app, client }, session))
    }

    /// Uses each of them; the answers, and the pairs that follow.
    async fn use_all(&mut self, server: &TestServer) -> Result<[TestResponse; 3]> {
        let cli = cli_tokens::whoami(server, &self.cli_token).await?;
        let pair = mcp_tokens::refresh(server, &self.pair.access_token, &self.pair.refresh_token).await?;
        let mut body = refresh_body(&self.app.refresh_token);
        body["client_id"] = self.client.as_str().into();
        let app = server.http.post("/oauth/token", &body).await?;
        if pair.status == 200 {
            self.pair = mcp_tokens::taken(&pair)?;
        }
        if app.status == 200 {
            self.app = signed_in(&app)?;
        }
        Ok([cli, pair, app])
    }
}

#[test]
fn tokens_wait_for_their_user_after_the_days_of_the_connection_and_come_back() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        acme.change(server, |connection| connection.token_days = 20).await?;
        provider.sign_in_as(&json!({
            "sub": "ann", "email": "ann@acme.test", "auth_time": server.now().as_second(),
        }));
        let tab = Tab::open(server)?;
        let (mut tokens, session) = Tokens::make(server, &acme, &tab).await?;
        // Longer than a session lasts.
        server.advance(13 * HOUR);
        check_sso_again(&server.refresh(&session.refresh_token).await?, 400, "the session");
        for response in tokens.use_all(server).await? {
            assert_eq!(response.status, 200, "{}", response.text);
        }
        server.advance(20 * DAY - 13 * HOUR - 60);
        for response in tokens.use_all(server).await? {
            assert_eq!(response.status, 200, "{}", response.text);
        }
        server.advance(60);
        let [cli, pair, app] = tokens.use_all(server).await?;
        check_sso_again(&cli, 401, "a CLI token, although this node has cached it");
        check_sso_again(&pair, 400, "an MCP token pair");
        check_sso_again(&app, 400, "an app");
        let revoked = "select (select count(*) from grants where revoked_at is not null) +
                       (select count(*) from cli_tokens where revoked_at is not null)";
        assert_eq!(server.sql(revoked).await?.as_deref(), Some("0"), "nothing is revoked");
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        sign_in(server, &tab, &acme.start()).await?;
        for response in tokens.use_all(server).await? {
            assert_eq!(response.status, 200, "{}", response.text);
        }
        Ok(())
    })
}

#[test]
fn other_users_are_not_affected() -> Result<()> {
    with_provider(async |server, provider| {
        company(server, provider, "acme.test").await?;
        let bob = server.sign_in("bob@other.test", "read write").await?;
        let (_, token) = cli_tokens::make(server, &bob, &json!({ "scopes": ["read"], "expiresInDays": 90 })).await?;
        server.advance(29 * DAY);
        let refreshed = server.refresh(&bob.refresh_token).await?;
        server.advance(20 * DAY);
        assert_eq!(cli_tokens::whoami(server, &token).await?.status, 200);
        assert_eq!(server.refresh(refreshed.field("refresh_token")).await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_waiting_token_is_inactive_for_services_that_ask() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let ann = command_line(server, &acme, &Tab::open(server)?).await?;
        let wanted = service_server::flows::clients::ClientToRegister {
            name: "Reports".into(),
            may_introspect: true,
            with_secret: true,
            ..Default::default()
        };
        let service = service_server::flows::clients::create(&server.app, &wanted).await?;
        let secret = service.secret.context("no secret")?.expose().to_owned();
        server.leaks.register("client secret", &secret);
        let ask = async || {
            let body = json!({ "token": ann.refresh_token });
            let request = server.http.request(Method::POST, "/oauth/introspect").basic_auth(&service.id, Some(&secret));
            server.http.send(request.json(&body)).await
        };
        assert_eq!(ask().await?.body["active"], true);
        server.advance(13 * HOUR);
        assert_eq!(ask().await?.body["active"], false);
        Ok(())
    })
}

/// A user of a company whose session and tokens wait for the next sign-in through the connection.
struct Waiting {
    tokens: Tokens,
    /// The refresh token of an interactive session.
    session: String,
}

impl Waiting {
    async fn make(server: &TestServer, provider: &Provider, acme: &Company) -> Result<Self> {
        acme.change(server, |connection| connection.token_days = 2).await?;
        let ann = json!({ "sub": "ann", "email": "ann@acme.test", "auth_time": server.now().as_second() });
        provider.sign_in_as(&ann);
        let (tokens, session) = Tokens::make(server, acme, &Tab::open(server)?).await?;
        let mut waiting = Self { tokens, session: session.refresh_token };
        server.advance(2 * DAY);
        waiting.check_waiting(server).await?;
        Ok(waiting)
    }

    async fn check_waiting(&mut self, server: &TestServer) -> Result<()> {
        check_sso_again(&server.refresh(&self.session).await?, 400, "the session");
        let [cli, pair, app] = self.tokens.use_all(server).await?;
        check_sso_again(&cli, 401, "a CLI token");
        check_sso_again(&pair, 400, "an MCP token pair");
        check_sso_again(&app, 400, "an app");
        Ok(())
    }

    async fn check_working(&mut self, server: &TestServer) -> Result<()> {
        let refreshed = server.refresh(&self.session).await?;
        assert_eq!(refreshed.status, 200, "the session: {}", refreshed.text);
        assert_eq!(refreshed.body["expires_in"], 900, "as long as ever");
        refreshed.field("refresh_token").clone_into(&mut self.session);
        for response in self.tokens.use_all(server).await? {
            assert_eq!(response.status, 200, "{}", response.text);
        }
        Ok(())
    }
}

/// A request of the company's owner, who has just signed in.
async fn as_owner(
    server: &TestServer,
    acme: &Company,
    method: &str,
    below: &str,
    body: &serde_json::Value,
) -> Result<()> {
    let owner = server.sign_in("owner@acme-test.example", "read write").await?;
    let path = format!("/v1/workspaces/{}/{below}", acme.workspace_id);
    let response = send(server, method, &path, &owner, Some(body).filter(|body| !body.is_null())).await?;
    ensure!(response.status.is_success(), "{method} {path}: {}", response.text);
    Ok(())
}

#[test]
fn a_connection_that_is_disabled_holds_no_credential_back_until_it_is_enabled_again() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let mut ann = Waiting::make(server, provider, &acme).await?;
        let connection = format!("connections/{}", acme.connection_id);
        as_owner(server, &acme, "PATCH", &connection, &json!({ "enabled": false })).await?;
        assert_eq!(Tab::open(server)?.get(&acme.start()).await?.status, 400, "no user can sign in through it");
        ann.check_working(server).await?;
        // A week later, too: nothing has a deadline.
        server.advance(7 * DAY);
        ann.check_working(server).await?;
        as_owner(server, &acme, "PATCH", &connection, &json!({ "enabled": true })).await?;
        server.advance(CACHE_SECONDS + 1);
        ann.check_waiting(server).await?;
        admin::run(server, &["connection", "disable", &acme.connection_id.to_string()])?;
        ann.check_working(server).await
    })
}

#[test]
fn a_connection_that_is_deleted_holds_no_credential_back() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let mut ann = Waiting::make(server, provider, &acme).await?;
        as_owner(server, &acme, "DELETE", &format!("connections/{}", acme.connection_id), &json!(null)).await?;
        ann.check_working(server).await?;
        // The row of the connection goes a month later.
        server.advance(lifetimes::ENDED_KEPT - DAY);
        ann.check_working(server).await?;
        server.advance(DAY);
        clean_once(&server.app).await?;
        assert_eq!(server.sql("select count(*) from connections").await?.as_deref(), Some("0"));
        ann.check_working(server).await
    })
}

#[test]
fn a_code_brings_credentials_back_when_the_domain_no_longer_leads_to_the_connection() -> Result<()> {
    let (port, dns) = (ProviderPort::bind()?, DnsServer::start()?);
    let setup = allowing(Setup::default(), &[&port]).set("dns.servers", &dns.address.to_string());
    setup.run(async |server| {
        let provider = port.serve(server)?;
        let acme = company(server, &provider, "acme.test").await?;
        let mut ann = Waiting::make(server, &provider, &acme).await?;
        // While the domain leads there, a code opens a session and brings nothing back.
        let by_code = server.sign_in("ann@acme.test", "read").await?;
        ann.check_waiting(server).await?;
        // The third weekly check without the record.
        dns.serve(&[txt("acme.test", "v=spf1 -all")])?;
        let due = format!("update workspace_domains set failures = 2, next_check_at = '{}'", server.now());
        server.sql(&due).await?;
        check_due(&server.app).await?;
        let options = login_options(server, "ann@acme.test").await?;
        assert_eq!(options.body["methods"][0]["type"], "otp", "{}", options.text);
        ann.check_waiting(server).await?;
        let tab = Tab::open(server)?;
        let refused = sign_in_after_click(server, &tab, &acme.start()).await?;
        assert_eq!(refused.status, 403, "the provider no longer decides about the account: {}", refused.text);
        server.sign_in("ann@acme.test", "read").await?;
        ann.check_working(server).await?;
        assert_eq!(server.refresh(&by_code.refresh_token).await?.status, 200);
        server.advance(7 * DAY);
        ann.check_working(server).await
    })
}

#[test]
fn a_code_brings_credentials_back_when_another_workspace_has_the_domain() -> Result<()> {
    with_two_providers(async |server, provider, other| {
        let acme = company(server, provider, "acme.test").await?;
        let mut ann = Waiting::make(server, provider, &acme).await?;
        let dock = company(server, other, "dock.test").await?;
        dock.take_domain(server, "acme.test").await?;
        ann.check_waiting(server).await?;
        let tab = Tab::open(server)?;
        sign_in_by_code(server, &tab, "ann@acme.test").await?;
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        ann.check_working(server).await
    })
}

#[test]
fn the_session_of_a_break_glass_owner_works_although_the_owners_tokens_wait() -> Result<()> {
    with_provider(async |server, provider| {
        let olga = server.sign_in("olga@acme.test", "read write").await?;
        let acme = company_of(server, provider, "acme.test", olga.user_id).await?;
        acme.change(server, |connection| connection.token_days = 2).await?;
        let claims = json!({ "sub": "olga", "email": "olga@acme.test", "auth_time": server.now().as_second() });
        provider.sign_in_as(&claims);
        let tab = Tab::open(server)?;
        let link = sign_in(server, &tab, &acme.start()).await?.next()?.to_owned();
        enter_code(server, &tab, &link, "olga@acme.test").await?;
        let (mut tokens, _) = Tokens::make(server, &acme, &tab).await?;
        acme.require(server, &[olga.user_id]).await?;
        server.advance(3 * DAY);
        provider.fail(Fault::Down);
        let mut session = server.sign_in("olga@acme.test", "read write").await?;
        for _ in 0..10 {
            let refreshed = server.refresh(&session.refresh_token).await?;
            assert_eq!(refreshed.status, 200, "{}", refreshed.text);
            session = signed_in(&refreshed)?;
            server.advance(DAY);
        }
        let [cli, pair, app] = tokens.use_all(server).await?;
        check_sso_again(&cli, 401, "a CLI token");
        check_sso_again(&pair, 400, "an MCP token pair");
        check_sso_again(&app, 400, "an app");
        Ok(())
    })
}
