//! A company whose users sign in at an identity provider on this machine: a workspace with a connection and a domain.

use anyhow::{Context as _, Result, ensure};
use reqwest::Url;
use serde_json::json;
use service_api::{
    connections::{AuthMethod, ConnectionHealth},
    ids::{ConnectionId, Id as _, UserId, WorkspaceId},
    workspaces::Role,
};
use service_server::{
    crypto::random,
    flows::sign_in::email_key::domain_key,
    issuers::trusted_issuer::TrustedIssuer,
    store::{self, connections::StoredConnection, routed_domains::Route, workspace_domains::StoredDomain},
};

use crate::{
    identity_provider::{IdentityProvider, TOKEN, UnstartedProvider},
    server::TestServer,
    tab::{Shown, Tab},
};

const CLIENT_ID: &str = "service";
const NAME: &str = "Acme ID";

/// A company with an enabled connection.
pub struct Company {
    pub connection_id: ConnectionId,
    workspace_id: WorkspaceId,
    domain: String,
    provider: IdentityProvider,
}

/// The value of `sso.allowed_issuers` with which a server connects to a provider of this machine.
#[must_use]
pub fn allowed_issuers(provider: &UnstartedProvider) -> String {
    format!("{}=127.0.0.1/32", provider.issuer())
}

impl Company {
    /// Creates a workspace whose verified domain signs in at a provider.
    pub async fn found(server: &TestServer, provider: UnstartedProvider, domain: &str) -> Result<Self> {
        let provider = provider.start(None)?;
        let owner = server.sign_in(&format!("owner@{}.example", domain.replace('.', "-")), "read write").await?;
        let workspace_id = server.make_workspace("Acme", &[(owner.user_id, Role::Owner)]).await?;
        let connection = enabled_connection(server, workspace_id, owner.user_id, &provider.issuer)?;
        let (now, connection_id) = (server.now(), connection.id);
        let claimed = StoredDomain {
            workspace_id,
            domain: domain.into(),
            connection_id: Some(connection_id),
            created_by: owner.user_id,
            created_at: now,
            verified_at: Some(now),
            checked_at: Some(now),
            next_check_at: None,
            failures: 0,
            last_error: None,
        };
        let db = server.app.database.begin().await?;
        store::trusted_issuers::insert(&db, workspace_id, &connection.issuer, now).await?;
        store::connections::insert(&db, &connection).await?;
        store::connections::update(&db, &connection).await?;
        store::workspace_domains::insert(&db, &claimed).await?;
        store::workspace_domains::update_check(&db, &claimed).await?;
        db.commit().await?;
        let company = Self { connection_id, workspace_id, domain: domain.to_owned(), provider };
        company.route(server, false).await?;
        Ok(company)
    }

    /// Makes single sign-on required.
    pub async fn require(&self, server: &TestServer) -> Result<()> {
        let db = server.app.database.begin().await?;
        let found = store::connections::find(&db, self.connection_id).await?;
        let mut connection = found.context("the connection is gone")?;
        connection.required_at = Some(server.now());
        store::connections::update(&db, &connection).await?;
        db.commit().await?;
        self.route(server, true).await
    }

    async fn route(&self, server: &TestServer, required: bool) -> Result<()> {
        let (workspace_id, connection_id) = (self.workspace_id, self.connection_id);
        let route = Route { workspace_id, connection_id, name: NAME.into(), required };
        let db = server.app.database.connect().await?;
        let key = domain_key(&server.app, &db, &self.domain).await?;
        let now = server.now();
        let taken = store::routed_domains::replace(&db, key, workspace_id, Some(&route), now).await?;
        ensure!(taken, "another workspace has the domain");
        Ok(())
    }

    /// Opens an address of the service that leads to the provider, and signs in there. Returns what the service answers.
    pub async fn sign_in(&self, server: &TestServer, tab: &Tab, address: &str, email: &str) -> Result<Shown> {
        let path = address.strip_prefix(&server.http.url).context("the address is not of this server")?;
        let hand_off = tab.get(path).await?;
        let (_, rest) = hand_off.text.split_once("content=\"0; url=").context("no page of the provider")?;
        let asked = rest.split('"').next().unwrap_or_default().replace("&amp;", "&").replace("&#38;", "&");
        let asked = Url::parse(&asked)?;
        let find =
            |name: &str| asked.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
        let (state, nonce) = (find("state").context("no state")?, find("nonce").context("no nonce")?);
        server.leaks.register("secret of a sign-in", state.rsplit('.').next().unwrap_or_default());
        server.leaks.register("secret of a sign-in", &nonce);
        let now = server.now().as_second();
        let claims = json!({
            "iss": self.provider.issuer, "aud": CLIENT_ID, "sub": email, "email": email, "email_verified": true,
            "nonce": nonce, "iat": now, "exp": now + 300, "auth_time": now,
        });
        let tokens = json!({
            "id_token": self.provider.sign(&claims)?, "access_token": "unused", "token_type": "Bearer", "expires_in": 300,
        });
        self.provider.publish(TOKEN, &tokens);
        let callback = format!("{}/sso/callback/{}", server.http.url, self.connection_id);
        let issuer = self.provider.issuer.as_str();
        let parameters = [("code", "a-code-of-the-provider"), ("state", state.as_str()), ("iss", issuer)];
        let callback = Url::parse_with_params(&callback, parameters)?;
        tab.get(callback.as_str().strip_prefix(&server.http.url).context("not of this server")?).await
    }

    /// Opens the URL of a client of the service, signs in at the provider, and consents. Returns the URL that the browser then
    /// requests from the client, without its fragment.
    pub async fn agree_to(&self, server: &TestServer, tab: &Tab, address: &str, email: &str) -> Result<String> {
        let back = self.sign_in(server, tab, address, email).await?;
        let consent = tab.get(back.next()?).await?.next()?.to_owned();
        tab.get(&consent).await?;
        let done = tab.submit(&consent, &[("decision", "allow"), ("space", "personal")]).await?;
        Ok(done.next()?.split('#').next().unwrap_or_default().to_owned())
    }
}

/// A connection that is tried and enabled.
fn enabled_connection(
    server: &TestServer,
    workspace_id: WorkspaceId,
    owner_id: UserId,
    issuer: &str,
) -> Result<StoredConnection> {
    let now = server.now();
    let connection_id: ConnectionId = random::id_in(workspace_id.shard(), now)?;
    let place = StoredConnection::secret_place(connection_id);
    Ok(StoredConnection {
        id: connection_id,
        workspace_id,
        issuer: TrustedIssuer {
            id: random::id_in(workspace_id.shard(), now)?,
            issuer: issuer.to_owned(),
            jwks: None,
            algorithms: vec!["ES256".into()],
            purposes: vec![store::trusted_issuers::SIGN_IN.into()],
        },
        health: ConnectionHealth::default(),
        name: NAME.into(),
        client_id: Some(CLIENT_ID.into()),
        auth_method: AuthMethod::ClientSecretBasic,
        client_secret: Some(server.app.root_keys.seal(&place, b"a secret of the company")?),
        default_role: Role::Member,
        session_hours: 12,
        token_days: 30,
        break_glass: vec![owner_id],
        created_by: owner_id,
        created_at: now,
        tried_at: Some(now),
        enabled_at: Some(now),
        required_at: None,
        revoke_existing: false,
        revoke_before: None,
        limit_from: None,
    })
}
