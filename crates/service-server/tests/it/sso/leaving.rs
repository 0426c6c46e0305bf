//! When an employee leaves, access ends: sessions have to sign in through the company again, and tokens wait for it.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::json;
use service_api::oauth::SERVICE_CLI;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, refresh_body, signed_in},
    tab::Tab,
};

use crate::support::{
    authorize::{CALLBACK, VERIFIER, agree, asking, code, exchange, register},
    cli_tokens, mcp_tokens,
    sso::{Company, at_provider, company, sign_in, signed_in_as, user, with_provider},
};

const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;
const LOOPBACK: &str = "http://127.0.0.1:7777/callback";

/// Signs in to the command line through a connection.
async fn command_line(server: &TestServer, acme: &Company, tab: &Tab) -> Result<SignedIn> {
    let asked = asking(SERVICE_CLI, &[("redirect_uri", LOOPBACK), ("scope", "read write")]);
    let start = asked.replace("/oauth/authorize?", &format!("{}&", acme.start()));
    let begun = tab.get(&start).await?;
    let shown = if begun.status == 200 {
        let back = tab.get(&at_provider(server, &begun).await?).await?;
        tab.get(back.next()?).await?
    } else {
        begun
    };
    let done = agree(tab, shown, &[("space", "personal")]).await?;
    let body = json!({
        "grant_type": "authorization_code", "client_id": SERVICE_CLI, "code": code(&done)?,
        "redirect_uri": LOOPBACK, "code_verifier": VERIFIER,
    });
    signed_in(&server.http.post("/oauth/token", &body).await?)
}

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
        let done = agree(tab, tab.get(&asking(&client, &[])).await?, &[("space", "personal")]).await?;
        let app = signed_in(&server.http.post("/oauth/token", &exchange(&client, &code(&done)?)).await?)?;
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
