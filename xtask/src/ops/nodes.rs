//! Two nodes of the service on one database, as processes on addresses of their own that stay the same across restarts.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_api::oauth::SERVICE_CLI;
use service_server::config::SETTINGS;
use service_testkit::leaks::Leaks;
use service_testkit::mailbox::Mailbox;
use service_testkit::ports;
use service_testkit::postgres::Cluster;
use service_testkit::process::command;
use service_testkit::response::TestClient;
use service_testkit::server::{SignedIn, fresh_database, otp_exchange, refresh_body, request_code, signed_in};
use service_testkit::settings::Settings;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::load::UserTokens;
use crate::build_server;

/// Every address of 127.0.0.0/8 is this machine, so the nodes can use the same ports, as nodes on two machines do.
const ADDRESSES: [&str; 2] = ["127.0.0.11", "127.0.0.12"];

/// Settings that have their defaults here, although tests change them.
const AS_SHIPPED: [&str; 3] = ["http.lame_duck_seconds", "database.deadline_seconds", "keys.refresh_every_seconds"];

const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A heartbeat is written every second.
const FRESH: Duration = Duration::from_millis(1_500);
const POLL_EVERY: Duration = Duration::from_millis(10);

/// How nodes reach their database.
pub(super) struct DrillDatabase {
    pub(super) url: String,
    /// The certificate that is trusted, if connections use TLS.
    pub(super) ca_file: Option<PathBuf>,
}

impl DrillDatabase {
    /// Creates a migrated database.
    pub(super) async fn create(cluster: &Cluster) -> Result<Self> {
        Ok(Self { url: cluster.service_url(&fresh_database(cluster).await?), ca_file: None })
    }
}

/// Two nodes and a mailbox.
pub(super) struct Installation {
    pub(super) nodes: Vec<DrillNode>,
    /// The port of the public listener of both nodes.
    pub(super) port: u16,
    /// The port of the internal listener of both nodes.
    pub(super) ops_port: u16,
    pub(super) directory: TempDir,
    pub(super) mailbox: Mailbox,
}

pub(super) struct DrillNode {
    pub(super) http: TestClient,
    ops: TestClient,
    binary: PathBuf,
    settings: Settings,
    log: PathBuf,
    child: Option<Child>,
}

/// A CLI token, and its id in the list of tokens.
pub(super) struct CliToken {
    pub(super) id: String,
    pub(super) secret: String,
}

impl Installation {
    /// Prepares nodes of the database at this URL, and does not start them.
    pub(super) async fn prepare(database: &DrillDatabase) -> Result<Self> {
        let binary = build_server(!cfg!(debug_assertions))?;
        let mailbox = Mailbox::start().await?;
        let directory = tempfile::Builder::new().prefix("drill-").tempdir()?;
        let (port, ops_port) = (ports::free()?, ports::free()?);
        let mut settings = Settings::complete(&database.url, &mailbox)?;
        settings.set("http.trusted_proxies", "127.0.0.1/32");
        if let Some(certificate) = &database.ca_file {
            settings.set("database.ca_file", certificate.to_str().context("a path is not UTF-8")?);
        }
        let defaults = SETTINGS.iter().filter(|setting| AS_SHIPPED.contains(&setting.key));
        for (key, default) in defaults.filter_map(|setting| Some((setting.key, setting.default?))) {
            settings.set(key, default);
        }
        let node = |address: &&str| {
            let mut settings = settings.clone();
            settings.set("http.listen", &format!("{address}:{port}"));
            settings.set("http.ops_listen", &format!("{address}:{ops_port}"));
            let client = |port| TestClient::new(format!("http://{address}:{port}"), Leaks::default());
            let (http, ops) = (client(port)?, client(ops_port)?);
            let log = directory.path().join(format!("{address}.log"));
            Ok(DrillNode { http, ops, binary: binary.clone(), settings, log, child: None })
        };
        let nodes = ADDRESSES.iter().map(node).collect::<Result<_>>()?;
        Ok(Self { nodes, port, ops_port, directory, mailbox })
    }

    /// Starts both nodes on the database at this URL.
    pub(super) async fn start(database: &DrillDatabase) -> Result<Self> {
        let mut installation = Self::prepare(database).await?;
        for node in &mut installation.nodes {
            node.start().await?;
        }
        Ok(installation)
    }

    /// Starts another build of `serviced` from now on, and runs its commands.
    pub(super) fn use_program(&mut self, program: &Path) {
        for node in &mut self.nodes {
            node.use_program(program);
        }
    }

    /// Runs `serviced` with these arguments, as an operator does.
    pub(super) async fn command(&self, arguments: &[&str]) -> Result<()> {
        let node = self.first()?;
        let output = Command::from(command(&node.binary, &node.settings, &arguments.join(" "))).output().await?;
        ensure!(output.status.success(), "serviced {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Runs a line in a shell that finds `serviced` and its settings, as an operator does; returns what it printed.
    pub(super) async fn shell(&self, line: &str) -> Result<String> {
        let programs = self.first()?.binary.parent().unwrap_or_else(|| Path::new(".")).display().to_string();
        self.shell_with(line, &programs).await
    }

    /// Runs lines in a shell that also finds the programs of the system, in the directory of the drill; returns what they
    /// printed. `curl` finds its settings there, too.
    pub(super) async fn script(&self, lines: &str) -> Result<String> {
        let programs = self.first()?.binary.parent().unwrap_or_else(|| Path::new(".")).display().to_string();
        self.shell_with(&format!("set -e\n{lines}"), &format!("{programs}:/usr/bin:/bin")).await
    }

    async fn shell_with(&self, line: &str, path: &str) -> Result<String> {
        let (node, directory) = (self.first()?, self.directory.path());
        let as_operator = command(&node.binary, &node.settings, "admin");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line]).env_clear().env("PATH", path).env("CURL_HOME", directory).current_dir(directory);
        shell.envs(as_operator.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = shell.output().await?;
        let printed = String::from_utf8(output.stdout)?;
        ensure!(output.status.success(), "{line}: {printed}{}", String::from_utf8_lossy(&output.stderr));
        Ok(printed)
    }

    /// Signs in this many users.
    pub(super) async fn sign_in(&self, users: usize) -> Result<Vec<UserTokens>> {
        let mut sessions = Vec::new();
        for user in 0..users {
            sessions.push(self.sign_in_as(&format!("person{user}@acme.test")).await?);
        }
        Ok(sessions)
    }

    pub(super) async fn sign_in_as(&self, email: &str) -> Result<UserTokens> {
        let SignedIn { access_token, refresh_token, .. } = self.open_session(email).await?;
        Ok(UserTokens { access_token, refresh_token })
    }

    /// Signs a user in; returns the whole session.
    pub(super) async fn open_session(&self, email: &str) -> Result<SignedIn> {
        let (leaks, http) = (Leaks::default(), &self.first()?.http);
        let (otp_id, code) = request_code(http, &self.mailbox, &leaks, email).await?;
        signed_in(&http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?)
    }

    /// Requests a code while the mail server refuses mail for now, so that the mail waits.
    pub(super) async fn leave_mail_waiting(&self, email: &str) -> Result<()> {
        self.mailbox.refuse(Some("451 4.3.0 later"));
        let response = self.first()?.http.post("/v1/otp-tokens", &json!({ "email": email })).await?;
        ensure!(response.status == 201, "no code is requested: {}", response.text);
        Ok(())
    }

    fn first(&self) -> Result<&DrillNode> {
        self.nodes.first().context("there is no node")
    }
}

impl DrillNode {
    /// Starts another build of `serviced` from now on.
    pub(super) fn use_program(&mut self, program: &Path) {
        program.clone_into(&mut self.binary);
    }

    /// The address of the internal listener.
    pub(super) fn ops_url(&self) -> String {
        self.ops.url.clone()
    }

    /// Gives a setting, for the next start.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        self.settings.set(key, value);
    }

    /// Starts the process; does not wait.
    pub(super) fn spawn(&mut self) -> Result<()> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut run = Command::from(command(&self.binary, &self.settings, "run"));
        self.child = Some(run.stdin(Stdio::null()).stderr(log).kill_on_drop(true).spawn()?);
        Ok(())
    }

    pub(super) async fn start(&mut self) -> Result<()> {
        self.spawn()?;
        self.until_ready().await
    }

    /// Tells the process to stop, and waits until it has.
    pub(super) async fn stop(&mut self) -> Result<()> {
        let mut child = self.child.take().context("the node does not run")?;
        let pid = child.id().context("the node has exited")?.to_string();
        ensure!(
            Command::new("kill").args(["-TERM", &pid]).status().await?.success(),
            "the node cannot be told to stop"
        );
        let status = child.wait().await?;
        ensure!(status.success(), "a node that was told to stop exited with {status}\n{}", last_lines(&self.log)?);
        Ok(())
    }

    /// Ends the process at once, as a crash does.
    pub(super) async fn kill(&mut self) -> Result<()> {
        Ok(self.child.take().context("the node does not run")?.kill().await?)
    }

    pub(super) fn pid(&self) -> Result<u32> {
        self.child.as_ref().and_then(Child::id).context("the node does not run")
    }

    /// Whether the process that was started last still runs.
    pub(super) fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.as_mut().context("the node does not run")?.try_wait()?.is_none())
    }

    /// Whether the node is ready, and its database answers.
    pub(super) async fn is_ready(&self) -> bool {
        self.readiness().await == "ready\n"
    }

    /// What `/readyz` says.
    pub(super) async fn readiness(&self) -> String {
        self.ops.get("/readyz", None).await.map(|response| response.text).unwrap_or_default()
    }

    pub(super) async fn until_ready(&mut self) -> Result<()> {
        let began = Instant::now();
        while !self.is_ready().await {
            if let Some(status) = self.child.as_mut().context("the node does not run")?.try_wait()? {
                anyhow::bail!("a node exited with {status}\n{}", last_lines(&self.log)?);
            }
            ensure!(began.elapsed() < START_TIMEOUT, "a node is not ready\n{}", last_lines(&self.log)?);
            sleep(POLL_EVERY).await;
        }
        Ok(())
    }

    /// Waits until a heartbeat of the node was confirmed just now, as it is when all is well.
    pub(super) async fn until_fresh(&self) -> Result<()> {
        let began = Instant::now();
        while self.metric("service_heartbeat_age_seconds").await? > FRESH.as_secs_f64() {
            ensure!(began.elapsed() < START_TIMEOUT, "no heartbeat of a node is confirmed\n{}", last_lines(&self.log)?);
            sleep(POLL_EVERY).await;
        }
        Ok(())
    }

    /// Whether the node accepts the access token.
    pub(super) async fn accepts(&self, session: &UserTokens) -> bool {
        self.accepts_token(&session.access_token).await
    }

    /// Whether the node accepts a token of any kind.
    pub(super) async fn accepts_token(&self, token: &str) -> bool {
        self.http.get("/v1/whoami", Some(token)).await.is_ok_and(|response| response.status == 200)
    }

    pub(super) async fn create_cli_token(&self, session: &UserTokens) -> Result<CliToken> {
        let body = json!({ "name": "Build server", "scope": "read" });
        let request = self.http.request(Method::POST, "/v1/cli/tokens").bearer_auth(&session.access_token);
        let response = self.http.send(request.json(&body)).await?;
        ensure!(response.status == 201, "no CLI token is created: {} {}", response.status, response.text);
        Ok(CliToken { id: response.field("id").to_owned(), secret: response.field("access_token").to_owned() })
    }

    pub(super) async fn revoke_cli_token(&self, session: &UserTokens, token: &CliToken) -> Result<()> {
        let request = self.http.request(Method::DELETE, &format!("/v1/cli/tokens/{}", token.id));
        let response = self.http.send(request.bearer_auth(&session.access_token)).await?;
        ensure!(response.status == 204, "a CLI token is not revoked: {} {}", response.status, response.text);
        Ok(())
    }

    /// Whether the node refreshes the session. A repetition of the first refresh succeeds too. A refusal is an error.
    pub(super) async fn refreshes(&self, session: &UserTokens) -> Result<bool> {
        let response = self.http.post("/oauth/token", &refresh_body(&session.refresh_token)).await?;
        ensure!(response.status == 200 || response.status == 503, "a refresh was refused: {}", response.text);
        Ok(response.status == 200)
    }

    /// Signs out.
    pub(super) async fn revoke(&self, session: &UserTokens) -> Result<()> {
        let body = json!({ "token": session.refresh_token, "client_id": SERVICE_CLI });
        let response = self.http.post("/oauth/revoke", &body).await?;
        ensure!(response.status == 200, "a session is not revoked: {} {}", response.status, response.text);
        Ok(())
    }

    /// Returns the text of `/metrics`.
    pub(super) async fn metrics(&self) -> Result<String> {
        Ok(self.ops.get("/metrics", None).await?.text)
    }

    /// Returns a value in `/metrics`.
    pub(super) async fn metric(&self, name: &str) -> Result<f64> {
        let metrics = self.metrics().await?;
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.with_context(|| format!("there is no metric {name}"))?.parse()?)
    }
}

/// Returns the last lines of a file, for an error.
fn last_lines(log: &Path) -> Result<String> {
    let text = std::fs::read_to_string(log)?;
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines.iter().rev().take(10).rev().copied().collect::<Vec<_>>().join("\n"))
}
