//! The effect on other users of a company's identity provider that accepts connections and never answers.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use service_api::ids::{ConnectionId, Id as _, IssuerId, WorkspaceId};
use service_server::crypto::random;
use service_testkit::process::Process;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_postgres::NoTls;

use super::{Bench, others::Others};
use crate::say;

/// Browsers that sign in through the provider at the same time, each from a network of its own.
const BROWSERS: u32 = 50;
const MAX_RATIO: f64 = 1.5;
/// How long a browser waits before it signs in again, at least.
const PAUSE: Duration = Duration::from_secs(2);
/// Seconds after which a browser must see a page.
const MAX_WAIT: f64 = 5.0;

pub(super) async fn measure(bench: &Bench, json: bool) -> Result<()> {
    let provider = Provider::start().await?;
    bench.mailbox.stall(false);
    let mut settings = bench.settings.clone();
    settings.set("sso.allowed_issuers", &format!("{}=127.0.0.0/8", provider.issuer));
    // As many as a small node has: one that is held by a waiting request is missed soon.
    settings.set("database.connections", "16");
    let server = Process::start(&bench.binary, &settings, &bench.leaks)?;
    let connection_id = connect(bench, &provider.issuer).await?;
    let others =
        Others { http: &server.http, mailbox: &bench.mailbox, leaks: &bench.leaks, made: AtomicU64::default() };
    let (rounds, duration) = if bench.quick { (1, Duration::from_secs(2)) } else { (5, Duration::from_secs(12)) };
    let browsers = Browsers { server: &server, connection_id, made: AtomicU64::default(), pages: AtomicU64::default() };
    let ratio =
        others.compare("a silent provider", rounds, duration, async |until| browsers.visit(until).await).await?;
    let pages = browsers.pages.into_inner();
    if json {
        let line = serde_json::json!({ "name": "slow_provider", "pages": pages, "others_p99_ratio": ratio });
        say(&line.to_string());
    } else {
        say(&format!(
            "{:24} {pages} pages within {MAX_WAIT} s about a provider that is silent; others' p99 × {ratio:.2}",
            "slow_provider"
        ));
    }
    ensure!(pages > 0, "no browser saw a page");
    ensure!(bench.quick || ratio <= MAX_RATIO, "others waited {ratio:.2} times as long");
    Ok(())
}

/// Accepts connections, keeps them open and sends nothing.
struct Provider {
    issuer: String,
    _accepting: JoinSet<()>,
}

impl Provider {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let issuer = format!("http://{}", listener.local_addr()?);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.push(stream);
            }
        });
        Ok(Self { issuer, _accepting: accepting })
    }
}

/// Stores an enabled connection to a provider. Its secret is never read, because the provider never answers.
#[expect(clippy::disallowed_methods, reason = "a benchmark runs in real time")]
async fn connect(bench: &Bench, issuer: &str) -> Result<ConnectionId> {
    let (client, connection) = tokio_postgres::connect(&bench.cluster.url(&bench.database), NoTls).await?;
    tokio::spawn(connection);
    let now = jiff::Timestamp::now();
    let workspace_id: WorkspaceId = random::id(now)?;
    let issuer_id: IssuerId = random::id_in(workspace_id.shard(), now)?;
    let connection_id: ConnectionId = random::id_in(workspace_id.shard(), now)?;
    let (workspace, shard) = (workspace_id.uuid(), workspace_id.shard().number());
    let insert_issuer = r"insert into trusted_issuers (id, shard, workspace_id, issuer, algorithms, purposes, created_at)
                          values ($1, $2, $3, $4, '{ES256}', '{sign_in}', now())";
    client.execute(insert_issuer, &[&issuer_id.uuid(), &shard, &workspace, &issuer]).await?;
    let insert_connection = r"insert into connections
            (id, shard, workspace_id, issuer_id, name, client_id, auth_method, client_secret, default_role, session_hours,
             token_days, break_glass, created_by, created_at, tried_at, enabled_at)
        values ($1, $2, $3, $4, 'Acme', 'service', 'client_secret_basic', 'unread', 'member', 12, 30, '{}', $3, now(), now(),
                now())";
    let values = (connection_id.uuid(), issuer_id.uuid());
    client.execute(insert_connection, &[&values.0, &shard, &workspace, &values.1]).await?;
    // Of a connection with a domain, users expect the provider: no click comes before.
    let insert_domain = r"insert into workspace_domains
            (workspace_id, domain, shard, connection_id, created_by, created_at, verified_at)
        values ($1, 'acme.test', $2, $3, $1, now(), now())";
    client.execute(insert_domain, &[&workspace, &shard, &values.0]).await?;
    Ok(connection_id)
}

/// Browsers that sign in through the connection.
struct Browsers<'a> {
    server: &'a Process,
    connection_id: ConnectionId,
    /// Counts networks, so that none is limited.
    made: AtomicU64,
    pages: AtomicU64,
}

impl Browsers<'_> {
    /// Lets all browsers begin sign-ins, one after the other, until a time.
    async fn visit(&self, until: Instant) -> Result<()> {
        let mut visits = JoinSet::new();
        for number in 0..BROWSERS {
            let (http, path) = (self.server.http.clone(), format!("/sso/start?connection={}", self.connection_id));
            let first = self.made.fetch_add(1_000, Ordering::Relaxed);
            // People do not click at the same moment.
            let arrives = Instant::now() + PAUSE.mul_f64(f64::from(number) / f64::from(BROWSERS));
            visits.spawn(async move {
                tokio::time::sleep_until(arrives.into()).await;
                let mut seen = 0;
                while Instant::now() < until {
                    let [.., a, b, c] = (first + seen).to_be_bytes();
                    let request = http.request(reqwest::Method::GET, &path);
                    let request = request.header("x-forwarded-for", format!("10.{a}.{b}.{c}"));
                    let began = Instant::now();
                    let page = http.send(request).await?;
                    let waited = began.elapsed().as_secs_f64();
                    ensure!(page.status == 503, "a browser got {}: {}", page.status, page.text);
                    ensure!(waited <= MAX_WAIT, "a browser waited {waited:.1} s");
                    seen += 1;
                    tokio::time::sleep_until((began + PAUSE).min(until).into()).await;
                }
                Ok(seen)
            });
        }
        while let Some(visited) = visits.join_next().await {
            self.pages.fetch_add(visited??, Ordering::Relaxed);
        }
        Ok(())
    }
}
