//! A separate service for each test: with its own database, mailbox, clock and log. Every test is also a leak test.
//!
//! The server runs in this process, behind real sockets. After a test has passed, every secret that was issued is
//! searched for in the log at TRACE, in PostgreSQL's log, in every error response and in a dump of the tables.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result};
use jiff::SignedDuration;
use serde_json::json;
use service_api::{
    Timestamp,
    contents::Kind,
    ids::{GrantId, Id as _, PasskeyId, ProjectId, UserId, WorkspaceId},
    oauth::{OTP_GRANT, REFRESH_GRANT, SERVICE_CLI},
    workspaces::Role,
};
use service_rules::{display_name::DisplayName, passkeys::NewPasskey, space::Space, step_up};
use service_server::{
    app::App,
    clock::Clock,
    config::{Config, Sources},
    crypto::random,
    database::migrations,
    server::Server,
    store::{
        self,
        contents::{NewContent, SpaceOwner},
        passkeys::PasskeyToStore,
    },
};

use crate::{
    leaks::Leaks,
    log::Log,
    mailbox::Mailbox,
    partitions, ports,
    postgres::Cluster,
    response::{TestClient, TestResponse},
    settings::Settings,
};

/// The time at which tests begin, in seconds: far from any special date.
const START_SECONDS: i64 = 1_800_000_000;

/// The setup of a test's server.
#[derive(Clone, Default)]
pub struct Setup {
    settings: Settings,
    /// `None`: a clock that stands still.
    clock: Option<Clock>,
}

/// A server with everything around it.
pub struct TestServer {
    pub http: TestClient,
    pub ops: TestClient,
    pub app: App,
    pub mailbox: Mailbox,
    pub leaks: Leaks,
    pub settings: Settings,
    pub cluster: &'static Cluster,
    pub database: String,
    pub address: SocketAddr,
    /// The address of the support listener, if the settings turn it on.
    pub support_address: Option<SocketAddr>,
}

/// A signed-in user with tokens.
#[derive(Clone)]
pub struct SignedIn {
    pub access_token: String,
    pub refresh_token: String,
    pub user_id: UserId,
    pub grant_id: GrantId,
}

/// Runs `test` against a server with default settings.
pub fn with_server(test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
    Setup::default().run(test)
}

impl Setup {
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.set(key, value);
        self
    }

    /// Uses the system's clock, for tests that also start processes.
    #[must_use]
    pub fn on_system_clock(self) -> Self {
        self.on_clock(Clock::System)
    }

    #[must_use]
    pub fn on_clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Gives the server the name `localhost`, under which browsers reach it. Passkeys need a name.
    pub fn at_localhost(self) -> Result<Self> {
        let port = ports::free()?;
        let setup = self.set("http.listen", &format!("127.0.0.1:{port}"));
        Ok(setup.set("base_url", &format!("http://localhost:{port}")))
    }

    /// Starts a server, runs `test`, stops the server and searches for leaks.
    pub fn run(self, test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
        let log = Log::default();
        let _logging = tracing::subscriber::set_default(log.subscriber());
        // One thread runs test and server, so that the log of this thread is the log of this test.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let cluster = Cluster::shared()?;
            let logged_before = cluster.logged();
            let (server, running) = self.start(cluster).await?;
            test(&server).await?;
            // A task that ended while the test ran is a failure.
            running.run_until(std::future::ready(())).await?;
            server.leaks.assert_clean("log", &log.text());
            server.leaks.assert_clean("PostgreSQL's log", cluster.log_since(logged_before)?.as_bytes());
            server.leaks.assert_clean("refusals", &server.http.refusals());
            server.leaks.assert_clean("tables", cluster.dump(&server.database).await?.as_bytes());
            Ok(())
        })
    }

    async fn start(self, cluster: &'static Cluster) -> Result<(TestServer, Server)> {
        let database = fresh_database(cluster).await?;
        let mailbox = Mailbox::start().await?;
        let mut settings = Settings::complete(&cluster.service_url(&database), &mailbox)?;
        settings.extend(&self.settings);
        let clock = self.clock.map_or_else(|| Timestamp::from_second(START_SECONDS).map(Clock::manual), Ok)?;
        let running = Server::start(config(&settings)?, clock).await?;
        let leaks = Leaks::default();
        if let Some(keys) = settings.get("secrets.root_keys") {
            keys.split([',', ':']).filter(|part| part.len() > 8).for_each(|key| leaks.register("root key", key));
        }
        let server = TestServer {
            http: TestClient::new(format!("http://{}", running.address), leaks.clone())?,
            ops: TestClient::new(format!("http://{}", running.ops_address), leaks.clone())?,
            app: running.app.clone(),
            address: running.address,
            support_address: running.support_address,
            mailbox,
            leaks,
            settings,
            cluster,
            database,
        };
        Ok((server, running))
    }
}

/// Whether tests run on the partitioned schema: `SERVICE_TEST_PARTITIONS` is set.
#[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the service")]
fn is_partitioned() -> bool {
    std::env::var("SERVICE_TEST_PARTITIONS").is_ok()
}

/// Creates a database as a clone of a migrated template; returns its URL.
pub async fn fresh_database(cluster: &Cluster) -> Result<String> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let template = cluster
        .template(async |url| {
            let mut sources = Sources::default();
            let placeholder = Settings::complete(&url, &Mailbox::start().await?)?;
            placeholder.iter().for_each(|(key, value)| sources.set(key, value));
            migrations::migrate(&Config::read(&sources)?.database).await?;
            if is_partitioned() {
                partitions::partition_database(&url).await?;
            }
            Ok(())
        })
        .await?;
    let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    cluster.create_database(&name, Some(template)).await?;
    Ok(name)
}

pub fn config(settings: &Settings) -> Result<Config> {
    let mut sources = Sources::default();
    settings.iter().for_each(|(key, value)| sources.set(key, value));
    Ok(Config::read(&sources)?)
}

impl TestServer {
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.app.clock.now()
    }

    /// Moves the clock forward.
    pub fn advance(&self, seconds: i64) {
        self.app.clock.advance(SignedDuration::from_secs(seconds));
    }

    /// Requests a code, and reads it in the mail.
    pub async fn request_code(&self, email: &str) -> Result<(String, String)> {
        request_code(&self.http, &self.mailbox, &self.leaks, email).await
    }

    pub async fn exchange(&self, otp_id: &str, code: &str, scope: &str) -> Result<TestResponse> {
        self.http.post("/oauth/token", &otp_exchange(otp_id, code, scope)).await
    }

    /// Signs a user in through the API.
    pub async fn sign_in(&self, email: &str, scope: &str) -> Result<SignedIn> {
        let (otp_id, code) = self.request_code(email).await?;
        let response = self.exchange(&otp_id, &code, scope).await?;
        signed_in(&response)
    }

    /// Presents a refresh token as the command-line client, the client that [`TestServer::sign_in`] uses.
    pub async fn refresh(&self, refresh_token: &str) -> Result<TestResponse> {
        self.http.post("/oauth/token", &refresh_body(refresh_token)).await
    }

    /// Creates a workspace with these members.
    pub async fn make_workspace(&self, name: &str, members: &[(UserId, Role)]) -> Result<WorkspaceId> {
        let (now, db) = (self.now(), self.app.database.begin().await?);
        let id: WorkspaceId = random::id(now)?;
        // Any name, as older rules allowed.
        store::workspaces::insert(&db, id, &DisplayName::from_stored(name.to_owned()), now).await?;
        for (user_id, role) in members {
            store::memberships::join(&db, *user_id, id, *role, now).await?;
        }
        db.commit().await?;
        Ok(id)
    }

    /// Makes a user the only owner of a workspace with other members, so that the account cannot be closed.
    pub async fn keep_account(&self, user_id: UserId) -> Result<()> {
        let members = [(user_id, Role::Owner), (random::id(self.now())?, Role::Member)];
        self.make_workspace("Needed", &members).await.map(drop)
    }

    /// Stores a passkey of a user, which a password manager keeps. No authenticator has its key, so it signs no one in.
    pub async fn make_passkey(&self, user_id: UserId, name: &str) -> Result<PasskeyId> {
        let (now, db) = (self.now(), self.app.database.begin().await?);
        let id: PasskeyId = random::id_in(user_id.shard(), now)?;
        let credential_id = random::bytes::<32>()?.to_vec();
        let (public_key, counter) = (vec![0xa0], 0);
        let passkey = NewPasskey { credential_id, public_key, counter, can_be_backed_up: true, is_backed_up: true };
        let made_by = "sess_01m955vw00fjqrz47smcqrkmzz";
        let counts_from = step_up::counts_from(false, now);
        store::passkeys::find_or_create_user(&db, user_id, &random::bytes()?).await?;
        store::passkeys::insert(
            &db,
            &PasskeyToStore { id, user_id, passkey: &passkey, name, made_by, now, counts_from },
        )
        .await?;
        db.commit().await?;
        Ok(id)
    }

    /// Adds a user to a workspace without an invitation.
    pub async fn add_member(&self, workspace: WorkspaceId, user_id: UserId, role: Role) -> Result<()> {
        let db = self.app.database.begin().await?;
        store::memberships::join(&db, user_id, workspace, role, self.now()).await?;
        Ok(db.commit().await?)
    }

    pub async fn make_project(&self, place: Space, created_by: UserId, name: &str) -> Result<ProjectId> {
        let (now, db) = (self.now(), self.app.database.begin().await?);
        let (space, id) = (SpaceOwner::of(place, created_by), random::uuid(now)?);
        let fields = serde_json::Map::from_iter([("name".to_owned(), name.into())]);
        store::contents::enter(&db, &[space]).await?;
        let new = NewContent { space, kind: Kind::Project, id, fields: &fields, created_by, now };
        store::contents::insert(&db, &new).await?;
        db.commit().await?;
        Ok(id.into())
    }

    /// Runs SQL directly in the database; returns the first column of the first row as text.
    pub async fn sql(&self, statement: &str) -> Result<Option<String>> {
        let (client, connection) =
            tokio_postgres::connect(&self.cluster.url(&self.database), tokio_postgres::NoTls).await?;
        let driving = tokio::spawn(connection);
        let messages = client.simple_query(statement).await.context("the test's own SQL failed")?;
        drop(client);
        driving.await??;
        Ok(messages.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }))
    }
}

#[must_use]
pub fn otp_exchange(otp_id: &str, code: &str, scope: &str) -> serde_json::Value {
    json!({ "grant_type": OTP_GRANT, "otp_id": otp_id, "code": code, "scope": scope })
}

#[must_use]
pub fn refresh_body(refresh_token: &str) -> serde_json::Value {
    json!({ "grant_type": REFRESH_GRANT, "refresh_token": refresh_token, "client_id": SERVICE_CLI })
}

/// Requests a code from any server, and reads it in the mail.
pub async fn request_code(
    http: &TestClient,
    mailbox: &Mailbox,
    leaks: &Leaks,
    email: &str,
) -> Result<(String, String)> {
    let response = http.post("/v1/otp-tokens", &json!({ "email": email })).await?;
    anyhow::ensure!(response.status == 201, "no code was sent: {}", response.text);
    let code = mailbox.next_code_to(email).await?;
    leaks.register("otp code", &code);
    Ok((response.field("otpId").to_owned(), code))
}

/// Parses a token response.
pub fn signed_in(response: &TestResponse) -> Result<SignedIn> {
    anyhow::ensure!(response.status == 200, "no tokens were issued: {}", response.text);
    let access_token = response.field("access_token").to_owned();
    let payload = access_token.split('.').nth(1).context("the access token is no JWT")?;
    let claims = base64::Engine::decode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, payload)?;
    let claims: serde_json::Value = serde_json::from_slice(&claims)?;
    let user_id = claims["sub"].as_str().context("the access token has no sub")?.parse()?;
    let grant_id = claims["grant"].as_str().context("the access token names no grant")?.parse()?;
    Ok(SignedIn { access_token, refresh_token: response.field("refresh_token").to_owned(), user_id, grant_id })
}
