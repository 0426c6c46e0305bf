//! Our own server in this comparison, with its sessions and the requests of its clients.

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    leaks::Leaks,
    mailbox::Mailbox,
    postgres::Cluster,
    process::{self, Process},
    server::{fresh_database, otp_exchange, request_code, signed_in},
    settings::Settings,
};

use super::products::{NextRequest, TokenEndpoint, repeat};
use crate::bench::{
    bare::Bare,
    refresh::{self, Holder},
};

/// The sessions in the table. The service refreshes one half of them, `pgbench` the other.
pub(super) const GRANTS: u32 = 10_000;
/// As many as the workers of the other products have together.
const DATABASE_CONNECTIONS: &str = "32";

/// A running `serviced`.
pub(super) struct OurServer {
    pub(super) address: SocketAddr,
    /// The URL of its database for `pgbench`.
    pub(super) database_url: String,
    pub(super) holder: Arc<Holder>,
    server: Process,
    introspect: TokenEndpoint,
    mailbox: Mailbox,
    connections: u64,
}

impl OurServer {
    pub(super) async fn start(cluster: &Cluster, binary: &Path, connections: u64) -> Result<Self> {
        let database = fresh_database(cluster).await?;
        let mailbox = Mailbox::start().await?;
        let mut settings = Settings::complete(&cluster.service_url(&database), &mailbox)?;
        settings.set("http.trusted_proxies", "127.0.0.1/32");
        settings.set("database.connections", DATABASE_CONNECTIONS);
        // No line for each request, as in the other products.
        settings.set("log.filter", "warn,serviced=info");
        let database_url = cluster.url(&database);
        refresh::seed(&database_url, GRANTS).await?;
        let server = Process::start(binary, &settings, &Leaks::default())?;
        Ok(Self {
            address: server.http.url.trim_start_matches("http://").parse()?,
            database_url,
            holder: Arc::new(Holder::new(&settings, GRANTS / 2, connections)?),
            introspect: introspecting_client(binary, &settings)?,
            server,
            mailbox,
            connections,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Signs in a user for each connection; returns their access tokens. A long measurement needs new ones for each round,
    /// because they expire after a quarter of an hour.
    pub(super) async fn sign_in(&self) -> Result<Vec<String>> {
        let http = &self.server.http;
        let mut tokens = Vec::new();
        for number in 0..self.connections {
            let email = format!("user{number}@acme.test");
            let (otp_id, code) = request_code(http, &self.mailbox, &Leaks::default(), &email).await?;
            let response = http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read")).await?;
            tokens.push(signed_in(&response)?.access_token);
        }
        Ok(tokens)
    }

    /// Starts the bare handler, with the response of `GET /v1/whoami`.
    pub(super) async fn bare(&self, token: &str) -> Result<Bare> {
        let response = self.server.http.get("/v1/whoami", Some(token)).await?;
        ensure!(response.status == 200, "whoami does not work: {}", response.text);
        Bare::start(&response.headers, &response.text)
    }

    /// Checks that introspection finds an access token.
    pub(super) async fn check(&self, token: &str) -> Result<()> {
        let TokenEndpoint { path, body } = &self.introspect;
        let response = self.server.http.post_form(path, &format!("{body}{token}")).await?;
        ensure!(response.body["active"] == true, "introspection does not work: {}", response.text);
        Ok(())
    }

    /// Returns the requests of each connection, which introspects one access token again and again.
    pub(super) fn introspections(&self, tokens: &[String]) -> Vec<NextRequest> {
        tokens.iter().map(|token| self.introspect.request(self.address, token)).map(repeat).collect()
    }
}

/// Returns the requests of each connection, which presents one access token again and again.
pub(super) fn verifications(tokens: &[String]) -> Vec<NextRequest> {
    let request =
        |token| format!("GET /v1/whoami HTTP/1.1\r\nHost: service.test\r\nAuthorization: Bearer {token}\r\n\r\n");
    tokens.iter().map(request).map(String::into_bytes).map(repeat).collect()
}

/// Creates a client that may introspect tokens; returns the endpoint with its credentials.
fn introspecting_client(binary: &Path, settings: &Settings) -> Result<TokenEndpoint> {
    let output = process::command(binary, settings, "admin client create Reports --introspect").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout)?;
    let shown = |name: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.with_context(|| format!("no {name}"))
    };
    let body = format!("client_id={}&client_secret={}&token=", shown("client_id")?, shown("client_secret")?);
    Ok(TokenEndpoint { path: "/oauth/introspect".to_owned(), body })
}
