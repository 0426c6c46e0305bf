//! A company with single sign-on: its workspace, connection and domain, and sign-ins through its provider.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_api::{
    connections::{AuthMethod, ConnectionHealth},
    ids::{ConnectionId, Id as _, IssuerId, UserId, WorkspaceId},
    workspaces::Role,
};
use service_server::{
    crypto::random,
    flows::sign_in::email_key::domain_key,
    issuers::trusted_issuer::TrustedIssuer,
    store::{self, connections::StoredConnection, routed_domains::Route, workspace_domains::StoredDomain},
};
use service_testkit::{
    response::TestResponse,
    server::{Setup, TestServer},
    settings::BASE_URL,
    tab::{Shown, Tab},
};

use crate::support::provider::{CLIENT_ID, CLIENT_SECRET, Provider, ProviderPort};

/// Runs a test with a server that may connect to a provider on this machine.
pub(crate) fn with_provider(test: impl AsyncFnOnce(&TestServer, &Provider) -> Result<()>) -> Result<()> {
    let port = ProviderPort::bind()?;
    allowing(Setup::default(), &[&port]).run(async |server| test(server, &port.serve(server)?).await)
}

/// Runs a test with a server and two providers.
pub(crate) fn with_two_providers(
    test: impl AsyncFnOnce(&TestServer, &Provider, &Provider) -> Result<()>,
) -> Result<()> {
    let (one, other) = (ProviderPort::bind()?, ProviderPort::bind()?);
    allowing(Setup::default(), &[&one, &other])
        .run(async |server| test(server, &one.serve(server)?, &other.serve(server)?).await)
}

/// A setup that allows providers of this machine.
pub(crate) fn allowing(setup: Setup, ports: &[&ProviderPort]) -> Setup {
    let allowed: Vec<_> = ports.iter().map(|port| format!("{}=127.0.0.0/8", port.issuer)).collect();
    setup.set("sso.allowed_issuers", &allowed.join(", "))
}

/// A workspace with an enabled connection, and an owner.
#[expect(clippy::struct_field_names, reason = "ids of three kinds")]
pub(crate) struct Company {
    pub(crate) workspace_id: WorkspaceId,
    pub(crate) connection_id: ConnectionId,
    pub(crate) owner_id: UserId,
}

/// Creates a workspace whose verified domain signs in at a provider. Its owner has an address elsewhere.
pub(crate) async fn company(server: &TestServer, provider: &Provider, domain: &str) -> Result<Company> {
    let owner = server.sign_in(&format!("owner@{}.example", domain.replace('.', "-")), "read write").await?;
    company_of(server, provider, domain, owner.user_id).await
}

pub(crate) async fn company_of(
    server: &TestServer,
    provider: &Provider,
    domain: &str,
    owner_id: UserId,
) -> Result<Company> {
    let workspace_id = server.make_workspace("Acme", &[(owner_id, Role::Owner)]).await?;
    let now = server.now();
    let connection_id: ConnectionId = random::id_in(workspace_id.shard(), now)?;
    let issuer_id: IssuerId = random::id_in(workspace_id.shard(), now)?;
    let place = StoredConnection::secret_place(connection_id);
    let connection = StoredConnection {
        id: connection_id,
        workspace_id,
        issuer: TrustedIssuer {
            id: issuer_id,
            issuer: provider.issuer.clone(),
            jwks: None,
            algorithms: vec!["ES256".into()],
            purposes: vec!["sign_in".into()],
        },
        health: ConnectionHealth::default(),
        name: "Acme ID".into(),
        client_id: Some(CLIENT_ID.into()),
        auth_method: AuthMethod::ClientSecretBasic,
        client_secret: Some(server.app.root_keys.seal(&place, CLIENT_SECRET.as_bytes())?),
        default_role: Role::Member,
        session_hours: 12,
        token_days: 30,
        break_glass: Vec::new(),
        created_by: owner_id,
        created_at: now,
        tried_at: Some(now),
        enabled_at: Some(now),
        required_at: None,
        revoke_existing: false,
        revoke_before: None,
        limit_from: None,
    };
    let db = server.app.database.begin().await?;
    store::trusted_issuers::insert(&db, workspace_id, &connection.issuer, now).await?;
    store::connections::insert(&db, &connection).await?;
    store::connections::update(&db, &connection).await?;
    db.commit().await?;
    let company = Company { workspace_id, connection_id, owner_id };
    company.take_domain(server, domain).await?;
    Ok(company)
}

impl Company {
    /// Lets the company's workspace have a domain, and no other workspace.
    pub(crate) async fn take_domain(&self, server: &TestServer, domain: &str) -> Result<()> {
        let now = server.now();
        let claimed = StoredDomain {
            workspace_id: self.workspace_id,
            domain: domain.into(),
            connection_id: Some(self.connection_id),
            created_by: self.owner_id,
            created_at: now,
            verified_at: Some(now),
            checked_at: Some(now),
            next_check_at: None,
            failures: 0,
            last_error: None,
        };
        let before = format!("update workspace_domains set verified_at = null where domain = '{domain}'");
        server.sql(&format!("{before}; delete from routed_domains where domain = '{domain}'")).await?;
        let db = server.app.database.begin().await?;
        store::workspace_domains::insert(&db, &claimed).await?;
        store::workspace_domains::update_check(&db, &claimed).await?;
        self.route(server, &db, domain, false).await?;
        Ok(db.commit().await?)
    }

    async fn route(
        &self,
        server: &TestServer,
        db: &service_server::database::Connection,
        domain: &str,
        required: bool,
    ) -> Result<()> {
        let (workspace_id, connection_id) = (self.workspace_id, self.connection_id);
        let route = Route { workspace_id, connection_id, name: "Acme ID".into(), required };
        let key = domain_key(&server.app, db, domain).await?;
        let taken = store::routed_domains::replace(db, key, workspace_id, Some(&route), server.now()).await?;
        ensure!(taken, "another workspace has the domain");
        Ok(())
    }

    /// Changes the connection.
    pub(crate) async fn change(&self, server: &TestServer, change: impl FnOnce(&mut StoredConnection)) -> Result<()> {
        let db = server.app.database.begin().await?;
        let found = store::connections::find(&db, self.connection_id).await?;
        let mut connection = found.context("the connection is gone")?;
        change(&mut connection);
        store::connections::update(&db, &connection).await?;
        let required = connection.required_at.is_some();
        let domains = store::workspace_domains::verified_domains_of(&db, self.connection_id, self.workspace_id).await?;
        for domain in domains {
            self.route(server, &db, &domain, required).await?;
        }
        Ok(db.commit().await?)
    }

    /// Makes single sign-on required, with these break-glass owners.
    pub(crate) async fn require(&self, server: &TestServer, break_glass: &[UserId]) -> Result<()> {
        let now = server.now();
        self.change(server, |connection| {
            connection.required_at = Some(now);
            connection.break_glass = break_glass.to_vec();
        })
        .await
    }

    /// Why sign-ins were refused, oldest first, as the owners of the workspace read it.
    pub(crate) async fn refusals(&self, server: &TestServer) -> Result<String> {
        let (id, workspace_id) = (self.connection_id, self.workspace_id.uuid());
        let of_company = format!("subject = '{id}' and workspace_id = '{workspace_id}' and user_id is null");
        let reasons = "select string_agg(details->>'reason', ' ' order by written_by) from audit_events where event = 'sso.refused'";
        Ok(server.sql(&format!("{reasons} and {of_company}")).await?.unwrap_or_default())
    }

    /// The address that begins a sign-in to the account pages.
    pub(crate) fn start(&self) -> String {
        format!("/sso/start?connection={}", self.connection_id)
    }
}

/// The sign-in methods of an address.
pub(crate) async fn login_options(server: &TestServer, email: &str) -> Result<TestResponse> {
    server.http.post("/v1/login-options", &json!({ "email": email })).await
}

/// A user of the company's provider with a verified address.
pub(crate) fn user(subject: &str, email: &str) -> Value {
    json!({ "sub": subject, "email": email, "email_verified": true })
}

/// The address of the provider that a hand-off page leads to.
pub(crate) fn provider_address(shown: &Shown) -> Result<String> {
    ensure!(shown.status == 200, "{}: {}", shown.status, shown.text);
    let (_, rest) = shown.text.split_once("<meta http-equiv=\"refresh\" content=\"0; url=").context("no hand-off")?;
    let address = rest.split('"').next().unwrap_or_default().replace("&amp;", "&").replace("&#38;", "&");
    ensure!(shown.text.matches(rest.split('"').next().unwrap_or_default()).count() == 2, "the link is another one");
    Ok(address)
}

/// Follows a hand-off page to the provider, which signs its user in; returns the path of our callback.
pub(crate) async fn at_provider(server: &TestServer, shown: &Shown) -> Result<String> {
    let address = provider_address(shown)?;
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build()?;
    let answer = client.get(&address).send().await?;
    let location = answer.headers().get("location").context("the provider sends the browser nowhere")?.to_str()?;
    let url = reqwest::Url::parse(location)?;
    for (name, value) in url.query_pairs().chain(reqwest::Url::parse(&address)?.query_pairs()) {
        if ["state", "nonce", "code"].contains(&name.as_ref()) {
            let secret = value.split_once('.').map_or(value.as_ref(), |(_, secret)| secret);
            server.leaks.register("secret of a sign-in", secret);
        }
    }
    Ok(location.strip_prefix(BASE_URL).context("not to us")?.to_owned())
}

/// Signs in through a connection, from an address that hands off at once. Returns what the callback shows.
pub(crate) async fn sign_in(server: &TestServer, tab: &Tab, start: &str) -> Result<Shown> {
    let shown = tab.get(start).await?;
    tab.get(&at_provider(server, &shown).await?).await
}

/// Signs in through a connection, from an address that names the provider first. Returns what the callback shows.
pub(crate) async fn sign_in_after_click(server: &TestServer, tab: &Tab, start: &str) -> Result<Shown> {
    let begun = tab.get(start).await?;
    let path = begun.next()?.to_owned();
    let page = tab.get(&path).await?;
    ensure!(page.text.contains("You’ll sign in at <strong><bdi>127.0.0.1</bdi>"), "{}", page.text);
    let clicked = tab.submit(&format!("{path}/sso"), &[("decision", "continue")]).await?;
    tab.get(&at_provider(server, &clicked).await?).await
}

/// The email address of the user who is signed in with a tab.
pub(crate) async fn signed_in_as(tab: &Tab) -> Result<Option<String>> {
    let page = tab.get("/account").await?;
    let named = page.text.split_once("Signed in as <strong><bdi>").or_else(|| page.text.split_once("<bdi>"));
    Ok(named
        .and_then(|(_, rest)| rest.split_once("</bdi>"))
        .map(|(email, _)| email.to_owned())
        .filter(|_| page.status == 200))
}
