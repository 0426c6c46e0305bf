//! The other products as running processes, with sessions and the requests of their clients.

use std::{
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use service_testkit::{leaks::Leaks, ports, postgres::Cluster, response::TestClient};
use tokio::{task::spawn_blocking, time::timeout};

use super::install::PeerProgram;

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How sessions are divided: a block for each round of refreshes, one for introspection, and one session for a check.
///
/// A round has sessions of its own, because the last response of a connection is not read: the next refresh token of that
/// session is unknown, and presenting the former one again would revoke the session.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub(super) rounds: u32,
    /// Connections of the load, with a session for each.
    pub(super) connections: u64,
}

impl Blocks {
    fn sessions(self) -> u64 {
        (u64::from(self.rounds) + 1) * self.connections + 1
    }
}

/// Builds the next request of a connection from the previous response body, which is empty at first.
pub(super) type NextRequest = Box<dyn FnMut(&str) -> Vec<u8> + Send>;

/// An endpoint that takes a form whose last field is a token.
#[derive(Clone, Deserialize)]
pub(super) struct TokenEndpoint {
    pub(super) path: String,
    /// The form without the token.
    pub(super) body: String,
}

impl TokenEndpoint {
    /// Returns the bytes of a request.
    pub(super) fn request(&self, host: SocketAddr, token: &str) -> Vec<u8> {
        let Self { path, body } = self;
        format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{body}{token}",
            body.len() + token.len()
        )
        .into_bytes()
    }
}

/// A session with its first tokens.
#[derive(Clone, Deserialize)]
struct PeerSession {
    refresh_token: String,
    access_token: String,
}

/// What the command `setup` of a product prints.
#[derive(Deserialize)]
struct PeerSetup {
    product: String,
    version: String,
    refresh: TokenEndpoint,
    introspect: TokenEndpoint,
    sessions: Vec<PeerSession>,
}

/// A running product. All its processes are killed when it is dropped.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    setup: PeerSetup,
    blocks: Blocks,
    child: Child,
}

impl Peer {
    /// Creates a database with sessions, and starts the product on it.
    pub(super) async fn start(cluster: &Cluster, program: &PeerProgram, blocks: Blocks) -> Result<Self> {
        let url = cluster.create_database(program.name, None).await?;
        let setup = set_up(program, &url, blocks).with_context(|| format!("{} cannot be set up", program.name))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()?));
        let child = program
            .command("serve", &url)
            .env("PORT", address.port().to_string())
            // It ends when its input does, also if this process is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} does not run", program.name))?;
        let mut peer = Self { address, setup, blocks, child };
        peer.wait_until_ready().await.with_context(|| format!("{} did not start", program.name))?;
        Ok(peer)
    }

    /// Waits for the line that a product prints when it listens.
    async fn wait_until_ready(&mut self) -> Result<()> {
        let output = self.child.stdout.take().context("no output")?;
        let first_line = spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).map(|_| line)
        });
        let line = timeout(START_TIMEOUT, first_line).await???;
        ensure!(line.contains("ready"), "it ended");
        Ok(())
    }

    /// Returns the name and the version of the product.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.setup.product, self.setup.version)
    }

    /// Returns the process from which all others of the product descend.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Checks that refresh tokens are rotated, that a used one is refused, and that introspection finds access tokens.
    pub(super) async fn check(&self) -> Result<()> {
        let PeerSetup { product, refresh, introspect, sessions, .. } = &self.setup;
        let http = TestClient::new(format!("http://{}", self.address), Leaks::default())?;
        let send = async |endpoint: &TokenEndpoint, token: &str| {
            http.post_form(&endpoint.path, &format!("{}{token}", endpoint.body)).await
        };
        let session = sessions.last().context("there is no session")?;
        let refreshed = send(refresh, &session.refresh_token).await?;
        ensure!(refreshed.status == 200, "{product} does not refresh: {}", refreshed.text);
        let next = refreshed.field("refresh_token");
        ensure!(!next.is_empty() && next != session.refresh_token, "{product} does not rotate refresh tokens");
        let introspected = send(introspect, refreshed.field("access_token")).await?;
        ensure!(introspected.body["active"] == true, "{product} does not introspect: {}", introspected.text);
        let again = send(refresh, &session.refresh_token).await?;
        ensure!(again.status.is_client_error(), "{product} accepts a refresh token twice");
        Ok(())
    }

    /// Returns the requests of each connection: each refresh presents the token that the previous one returned.
    pub(super) fn refreshes(&self, round: u32) -> Result<Vec<NextRequest>> {
        let requests = |session: &PeerSession| {
            let (endpoint, address) = (self.setup.refresh.clone(), self.address);
            let mut token = session.refresh_token.clone();
            let next: NextRequest = Box::new(move |previous| {
                let previous: Value = serde_json::from_str(previous).unwrap_or_default();
                if let Some(issued) = previous["refresh_token"].as_str() {
                    issued.clone_into(&mut token);
                }
                endpoint.request(address, &token)
            });
            next
        };
        Ok(self.block(round)?.iter().map(requests).collect())
    }

    /// Returns the requests of each connection, which introspects one access token again and again.
    pub(super) fn introspections(&self) -> Result<Vec<NextRequest>> {
        let request = |session: &PeerSession| self.setup.introspect.request(self.address, &session.access_token);
        Ok(self.block(self.blocks.rounds)?.iter().map(request).map(repeat).collect())
    }

    fn block(&self, number: u32) -> Result<&[PeerSession]> {
        let connections = usize::try_from(self.blocks.connections)?;
        let first = usize::try_from(number)? * connections;
        self.setup.sessions.get(first..first + connections).context("there are too few sessions")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Its group has the number of its first process.
        let group = format!("-{}", self.child.id());
        drop(Command::new("kill").args(["-KILL", "--", &group]).status());
        drop(self.child.wait());
    }
}

/// Sends the same request again and again.
pub(super) fn repeat(request: Vec<u8>) -> NextRequest {
    Box::new(move |_| request.clone())
}

/// Creates tables and sessions.
fn set_up(program: &PeerProgram, database_url: &str, blocks: Blocks) -> Result<PeerSetup> {
    let output = program.command("setup", database_url).env("SESSIONS", blocks.sessions().to_string()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}
