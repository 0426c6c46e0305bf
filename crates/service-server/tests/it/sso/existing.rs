//! What users have when single sign-on becomes required: it is counted, and revoked if the owner says so.

use std::path::Path;

use anyhow::{Result, ensure};
use futures_util::future::try_join;
use serde_json::{Value, json};
use service_server::flows::sso::required;
use service_testkit::{
    process::Process,
    response::TestResponse,
    server::{Setup, SignedIn, TestServer, otp_exchange, refresh_body},
    tab::Tab,
};

use crate::support::{
    authorize::{CALLBACK, register},
    cli_tokens, mcp_tokens,
    provider::ProviderPort,
    sso::{Company, allowing, company, company_of, signed_in_as, with_provider},
    sso_sign_ins::{authorize_app, command_line, sign_in_by_code},
    workspaces::send,
};

/// What a user has: a session, a CLI token, an MCP pair, an app with access, and a browser.
struct Belongings {
    session: SignedIn,
    cli_token: String,
    pair: SignedIn,
    app: SignedIn,
    client: String,
    tab: Tab,
}

impl Belongings {
    /// Of a user who signs in by code.
    async fn by_code(server: &TestServer, email: &str) -> Result<Self> {
        let tab = Tab::open(server)?;
        sign_in_by_code(server, &tab, email).await?;
        let session = server.sign_in(email, "read write").await?;
        Self::of(server, session, tab).await
    }

    async fn of(server: &TestServer, session: SignedIn, tab: Tab) -> Result<Self> {
        let (_, cli_token) = cli_tokens::make(server, &session, &json!({ "scopes": ["read"] })).await?;
        let pair = mcp_tokens::pair(server, &session, &json!({ "scope": "read" })).await?;
        let client = register(server, "Planner", &[CALLBACK]).await?;
        let app = authorize_app(server, &tab, &client).await?;
        Ok(Self { session, cli_token, pair, app, client, tab })
    }

    /// Whether each of them works: session, CLI token, MCP pair, app, browser.
    async fn work(&mut self, server: &TestServer) -> Result<[bool; 5]> {
        let works = |response: &TestResponse| response.status == 200;
        let session = works(&server.http.get("/v1/whoami", Some(&self.session.access_token)).await?);
        let token = works(&cli_tokens::whoami(server, &self.cli_token).await?);
        let pair = mcp_tokens::refresh(server, &self.pair.access_token, &self.pair.refresh_token).await?;
        if works(&pair) {
            self.pair = mcp_tokens::taken(&pair)?;
        }
        let mut body = refresh_body(&self.app.refresh_token);
        body["client_id"] = self.client.as_str().into();
        let app = server.http.post("/oauth/token", &body).await?;
        if works(&app) {
            app.field("refresh_token").clone_into(&mut self.app.refresh_token);
        }
        Ok([session, token, works(&pair), works(&app), signed_in_as(&self.tab).await?.is_some()])
    }
}

/// What the company's owner is shown before single sign-on is required.
async fn impact(server: &TestServer, owner: &SignedIn, acme: &Company) -> Result<Value> {
    let path = format!("/v1/workspaces/{}/connections/{}/impact", acme.workspace_id, acme.connection_id);
    Ok(send(server, "GET", &path, owner, None).await?.body)
}

async fn change(server: &TestServer, owner: &SignedIn, acme: &Company, body: &Value) -> Result<()> {
    let path = format!("/v1/workspaces/{}/connections/{}", acme.workspace_id, acme.connection_id);
    let changed = send(server, "PATCH", &path, owner, Some(body)).await?;
    ensure!(changed.status == 200, "{}", changed.text);
    Ok(())
}

/// A request that makes single sign-on required.
fn requiring(acme: &Company, existing: &str) -> Value {
    json!({ "required": true, "existing": existing, "breakGlass": [acme.owner_id] })
}

#[test]
fn what_users_have_is_counted_and_revoked_unless_it_comes_from_the_company() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let owner = server.sign_in("owner@acme-test.example", "read write").await?;
        let mut ann = Belongings::by_code(server, "ann@acme.test").await?;
        let mut bob = Belongings::by_code(server, "bob@other.test").await?;
        let counted = |users: u64| {
            json!({
                "domains": ["acme.test"], "users": users, "sessions": 2,
                "cliTokens": 1, "mcpTokens": 1, "appGrants": 1,
            })
        };
        assert_eq!(impact(server, &owner, &acme).await?, counted(1));
        // Carla came through the connection, and what her session and her browser create comes from that.
        let carla = json!({ "sub": "carla", "email": "carla@acme.test", "auth_time": server.now().as_second() });
        provider.sign_in_as(&carla);
        let tab = Tab::open(server)?;
        let session = command_line(server, &acme, &tab).await?;
        let mut carla = Belongings::of(server, session, tab).await?;
        assert_eq!(impact(server, &owner, &acme).await?, counted(2), "nothing of hers");
        change(server, &owner, &acme, &requiring(&acme, "keep")).await?;
        required::revoke_existing(&server.app).await?;
        assert_eq!(ann.work(server).await?, [true; 5], "kept");
        change(server, &owner, &acme, &json!({ "required": false })).await?;
        change(server, &owner, &acme, &requiring(&acme, "revoke")).await?;
        required::revoke_existing(&server.app).await?;
        assert_eq!(ann.work(server).await?, [false; 5], "users of the domain");
        assert_eq!(bob.work(server).await?, [true; 5], "other users");
        assert_eq!(carla.work(server).await?, [true; 5], "a user who came through the connection");
        let refreshed = server.refresh(&ann.session.refresh_token).await?;
        assert_eq!(refreshed.body["details"]["reason"], "sso_required", "{}", refreshed.text);
        let done = "select (select count(*) from connections where revoke_before is not null) || ' ' ||
                    (select count(*) from audit_events where event = 'sso.logged_out')";
        assert_eq!(server.sql(done).await?.as_deref(), Some("0 1"));
        assert_eq!(required::revoke_existing(&server.app).await?, 0, "once");
        Ok(())
    })
}

#[test]
fn what_a_break_glass_owner_has_since_is_kept() -> Result<()> {
    with_provider(async |server, provider| {
        let olga = server.sign_in("olga@acme.test", "read write").await?;
        let acme = company_of(server, provider, "acme.test", olga.user_id).await?;
        let (_, token) = cli_tokens::make(server, &olga, &json!({ "scopes": ["read"] })).await?;
        server.advance(1);
        change(server, &olga, &acme, &requiring(&acme, "revoke")).await?;
        server.advance(1);
        let since = server.sign_in("olga@acme.test", "read write").await?;
        required::revoke_existing(&server.app).await?;
        assert_eq!(cli_tokens::whoami(server, &token).await?.status, 401);
        assert_eq!(server.refresh(&olga.refresh_token).await?.status, 400);
        assert_eq!(server.refresh(&since.refresh_token).await?.status, 200);
        Ok(())
    })
}

const ROUNDS: usize = 24;

/// A code that is right and not too late must either be refused, or open a session that is revoked with the others.
#[test]
fn no_session_by_code_outlives_a_requirement_that_comes_at_the_same_time() -> Result<()> {
    let port = ProviderPort::bind()?;
    let setup = allowing(Setup::default().on_system_clock(), &[&port])
        .set("limits.otp_sends_per_address", "100000/60")
        .set("limits.otp_sends_per_network", "100000+100000");
    setup.run(async |server| {
        let node = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, &server.leaks)?;
        let provider = port.serve(server)?;
        let acme = company(server, &provider, "acme.test").await?;
        let owner = server.sign_in("owner@acme-test.example", "read write").await?;
        let (mut opened, mut refused) = (0, 0);
        for round in 0..ROUNDS {
            let email = format!("user{round}@acme.test");
            // Every second user has an account already.
            if round % 2 == 0 {
                server.sign_in(&email, "read").await?;
            }
            let (otp_id, code) = server.request_code(&email).await?;
            let body = otp_exchange(&otp_id, &code, "read");
            // Every third one signs in over the node that requires.
            let door = if round % 3 == 0 { &server.http } else { &node.http };
            // The sessions are revoked as soon as it is required: one that is opened later would live on.
            let require = async {
                change(server, &owner, &acme, &requiring(&acme, "revoke")).await?;
                required::revoke_existing(&server.app).await.map(drop)
            };
            let ((), entered) = try_join(require, door.post("/oauth/token", &body)).await?;
            if entered.status == 200 {
                opened += 1;
                let live = server.refresh(entered.field("refresh_token")).await?;
                assert_eq!(live.body["details"]["reason"], "sso_required", "round {round}: {}", live.text);
            } else {
                refused += 1;
                assert_eq!(entered.body["details"]["reason"], "sso_required", "round {round}: {}", entered.text);
            }
            let living = "select count(*) from grants g join users u on u.id = g.user_id
                           where u.email like '%@acme.test' and g.revoked_at is null";
            assert_eq!(server.sql(living).await?.as_deref(), Some("0"), "round {round}");
            change(server, &owner, &acme, &json!({ "required": false })).await?;
        }
        ensure!(!server.cluster.log()?.contains("deadlock detected"), "deadlocks");
        println!("{ROUNDS} rounds: {opened} sessions were opened and revoked, {refused} codes were refused");
        Ok(())
    })
}
