//! What an operator has before a node is installed: a database with two roles, a mail server, and the files with the
//! configuration. The statements and commands come from `docs/operating.md`.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use service_testkit::leaks::Leaks;
use service_testkit::mailbox::Mailbox;
use service_testkit::ports;
use service_testkit::postgres::{Cluster, programs};
use service_testkit::response::TestClient;
use service_testkit::server::{SignedIn, otp_exchange, refresh_body, request_code, signed_in};
use tokio::time::sleep;

use super::load::UserTokens;
use super::replace;
use crate::root;

/// The document with the commands.
const PAGE: &str = "docs/operating.md";

/// The comment in the statements of the document after which they need the tables.
const AFTER_MIGRATION: &str = "-- after `serviced migrate`";

const POLL_EVERY: Duration = Duration::from_millis(20);

/// A database, a mail server, and the addresses of a node.
pub(super) struct Surroundings {
    pub(super) http: TestClient,
    pub(super) port: u16,
    pub(super) ops_port: u16,
    ops: TestClient,
    cluster: Cluster,
    mailbox: Mailbox,
    statements: String,
}

impl Surroundings {
    /// Starts everything, and creates the roles and the database.
    pub(super) async fn start() -> Result<Self> {
        let (cluster, mailbox) = (Cluster::start_quiet()?, Mailbox::start_with_tls("localhost").await?);
        let (port, ops_port) = (ports::free()?, ports::free()?);
        let client = |port| TestClient::new(format!("http://127.0.0.1:{port}"), Leaks::default());
        let statements = blocks("xtask/src/ops/surroundings.rs")?.pop().context("the statements are missing")?;
        // The cluster trusts local connections.
        let statements = replace(&statements, &[("password '…'", "password 'unused'")])?;
        let (http, ops) = (client(port)?, client(ops_port)?);
        let surroundings = Self { http, port, ops_port, ops, cluster, mailbox, statements };
        run_statements(&surroundings.cluster.url("postgres"), surroundings.statements()?.0)?;
        Ok(surroundings)
    }

    /// Gives the role of nodes its rights, after the database was migrated.
    pub(super) fn grant(&self) -> Result<()> {
        run_statements(&self.url("serviced_owner"), self.statements()?.1)
    }

    /// The statements before and after the migration.
    fn statements(&self) -> Result<(&str, &str)> {
        let parts = self.statements.split_once(AFTER_MIGRATION);
        let (before, after) = parts.with_context(|| format!("{PAGE} has no {AFTER_MIGRATION:?}"))?;
        // The comment ends with its line.
        Ok((before, after.split_once('\n').map_or("", |(_, statements)| statements)))
    }

    /// The files that the operator writes, with their contents. `folder` is where the node finds them.
    pub(super) fn files(&self, folder: &str) -> Result<Vec<(&'static str, String)>> {
        let mail = format!(
            "host = \"localhost\"\nport = {}\nca_file = \"{folder}/mail-ca\"",
            self.mailbox.smtp_address().port()
        );
        let example = fs::read_to_string(root().join("serviced.example.toml"))?;
        let configuration = replace(
            &example,
            &[
                ("https://service.example", "https://service.test"),
                ("no-reply@service.example", "no-reply@service.test"),
                ("127.0.0.1:8080", &format!("127.0.0.1:{}", self.port)),
                ("127.0.0.1:9090", &format!("127.0.0.1:{}", self.ops_port)),
                ("host = \"mail.service.example\"", &mail),
            ],
        )?;
        Ok(vec![
            ("serviced.toml", configuration),
            ("database-url", self.url("serviced")),
            ("owner-database-url", self.url("serviced_owner")),
            ("mail-password", "accepted".to_owned()),
            ("mail-ca", self.mailbox.ca_pem().context("the mailbox has no certificate")?.to_owned()),
        ])
    }

    fn url(&self, role: &str) -> String {
        format!("postgres://{role}:unused@127.0.0.1:{}/service", self.cluster.port())
    }

    /// Waits until the node is ready, and its database answers; returns since when it was waited for.
    pub(super) async fn until_ready(&self, since: Instant, limit: Duration) -> Result<Duration> {
        loop {
            let said = self.ops.get("/readyz", None).await.map(|response| response.text).unwrap_or_default();
            if said == "ready\n" {
                return Ok(since.elapsed());
            }
            ensure!(since.elapsed() < limit, "the node is not ready after {limit:?}: {said:?}");
            sleep(POLL_EVERY).await;
        }
    }

    /// Whether a process answers on the internal port.
    pub(super) async fn is_running(&self) -> bool {
        self.ops.get("/healthz", None).await.is_ok()
    }

    /// Signs a user in with a code that arrives by email, and uses the access token.
    pub(super) async fn sign_in(&self, email: &str) -> Result<UserTokens> {
        let (otp_id, code) = request_code(&self.http, &self.mailbox, &Leaks::default(), email).await?;
        let response = self.http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?;
        let SignedIn { access_token, refresh_token, .. } = signed_in(&response)?;
        let tokens = UserTokens { access_token, refresh_token };
        self.check(&tokens).await?;
        Ok(tokens)
    }

    /// Refreshes a session, and uses the new access token.
    pub(super) async fn refresh(&self, tokens: &mut UserTokens) -> Result<()> {
        let response = self.http.post("/oauth/token", &refresh_body(&tokens.refresh_token)).await?;
        let SignedIn { access_token, refresh_token, .. } = signed_in(&response)?;
        *tokens = UserTokens { access_token, refresh_token };
        self.check(tokens).await
    }

    async fn check(&self, tokens: &UserTokens) -> Result<()> {
        let response = self.http.get("/v1/whoami", Some(&tokens.access_token)).await?;
        ensure!(response.status == 200, "a token is not accepted: {} {}", response.status, response.text);
        Ok(())
    }
}

/// Runs statements, each in a transaction of its own.
pub(super) fn run_statements(url: &str, statements: &str) -> Result<()> {
    let mut psql = Command::new(programs()?.join("psql"));
    psql.args([url, "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]);
    let mut child = psql.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("psql reads nothing")?.write_all(statements.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Returns the blocks of code in the document that this file of the drills runs: each follows a line that names the file.
pub(super) fn blocks(file: &str) -> Result<Vec<String>> {
    let page = fs::read_to_string(root().join(PAGE))?;
    let mark = format!("<!-- run by: {file} -->\n```");
    let marked = page.split(&mark).skip(1).filter_map(|rest| rest.split_once('\n')?.1.split_once("\n```"));
    let blocks: Vec<_> = marked.map(|(block, _)| format!("{block}\n")).collect();
    ensure!(!blocks.is_empty(), "{PAGE} has no block after {mark:?}");
    Ok(blocks)
}
