//! `cargo xtask bench --against REVISION`: compares this work tree with another revision.
//!
//! Both servers run as processes on one PostgreSQL, each on a database that it migrated itself. Rounds alternate
//! between them. The result of an operation is the median of the ratios of its rounds, of throughput and of the
//! processor time that PostgreSQL used for one operation. Everything is set up through the API, because the two
//! revisions may have different schemas.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_api::oauth::SERVICE_CLI;
use service_testkit::{
    leaks::Leaks,
    load,
    mailbox::Mailbox,
    postgres::Cluster,
    process::{self, Process},
    server::{otp_exchange, request_code, signed_in},
    settings::Settings,
};

use super::{BenchOptions, engine, load as machine_load, median};
use crate::{
    build_server,
    revisions::{self, git},
    say, say_error,
};

const SETTINGS_SOURCE: &str = "crates/service-server/src/config/settings.rs";

/// Builds the next request from the previous response body.
type Conversation = Box<dyn FnMut(&str) -> Vec<u8> + Send>;

/// One of the two revisions, running.
struct Side {
    server: Process,
    sessions: Vec<Session>,
}

/// A signed-in user, with what the operations need.
struct Session {
    access_token: String,
    /// The refresh token that was presented last. Presenting it again at the start of a round returns the same
    /// successor.
    refresh_token: Arc<Mutex<String>>,
    cli_token: String,
    pack_id: String,
}

/// The result of one side in one round.
struct Round {
    per_second: f64,
    engine_ticks_per_operation: f64,
}

/// A program to measure.
struct Candidate<'a> {
    name: &'a str,
    program: &'a Path,
    /// The source of the settings that the program knows; it refuses others. `None`: it knows all of them.
    known: Option<&'a str>,
}

const OPERATIONS: [&str; 8] = [
    "whoami",
    "cli_token_hit",
    "refresh",
    "otp_creation",
    "cli_token_life",
    "project_list",
    "pack_update",
    "pack_search",
];

pub(super) async fn compare(options: &BenchOptions, revision: &str) -> Result<()> {
    let theirs = revisions::build(revision, !options.debug)?;
    let ours = build_server(!options.debug)?;
    let cluster = Cluster::start_quiet()?;
    let mailbox = Mailbox::start().await?;
    say_error("Signing users in on both sides …");
    let known = git(&["show", &format!("{revision}:{SETTINGS_SOURCE}")])?;
    let before =
        Side::start(&cluster, &mailbox, Candidate { name: "before", program: &theirs, known: Some(&known) }, options)
            .await?;
    let now = Side::start(&cluster, &mailbox, Candidate { name: "now", program: &ours, known: None }, options).await?;
    mailbox.stall(true);
    say_error(&format!("Load of the machine before: {}", machine_load()));
    let round = Duration::from_secs(if options.quick { 1 } else { 2 });
    for name in OPERATIONS.into_iter().filter(|name| options.wants(name)) {
        let mut ratios = (Vec::new(), Vec::new());
        for number in 0..options.rounds {
            say_error(&format!("{name}: round {} of {}", number + 1, options.rounds));
            let first = before.round(&cluster, name, round).await.with_context(|| format!("{name}, before"))?;
            let second = now.round(&cluster, name, round).await.with_context(|| format!("{name}, now"))?;
            ratios.0.push(second.per_second / first.per_second);
            ratios.1.push(first.engine_ticks_per_operation / second.engine_ticks_per_operation);
        }
        report(name, median(&ratios.0), median(&ratios.1), options.json);
    }
    say_error(&format!("Load of the machine after: {}", machine_load()));
    Ok(())
}

/// Prints the ratios of an operation. A ratio above 1 is an improvement.
fn report(name: &str, throughput: f64, engine: f64, json: bool) {
    // An operation that does not use PostgreSQL has no ratio there.
    let engine = engine.is_finite().then_some(engine);
    if json {
        say(&json!({ "name": name, "throughput": throughput, "engine": engine }).to_string());
    } else {
        let engine = engine.map_or_else(|| "  —  ".to_owned(), |engine| format!("{engine:.3}"));
        say(&format!("{name:24} throughput {throughput:.3}   PostgreSQL's time for one operation {engine}"));
    }
}

impl Side {
    /// Migrates a database, starts a server on it and signs in one user for each connection.
    async fn start(
        cluster: &Cluster,
        mailbox: &Mailbox,
        candidate: Candidate<'_>,
        options: &BenchOptions,
    ) -> Result<Self> {
        let Candidate { name, program, known } = candidate;
        let url = cluster.create_database(name, None).await?;
        let mut wanted = Settings::complete(&url, mailbox)?;
        wanted.set("http.trusted_proxies", "127.0.0.1/32");
        wanted.set("database.connections", "32");
        wanted.set("log.filter", "warn,serviced=info");
        let mut settings = Settings::default();
        let understood = |key: &str| known.is_none_or(|known| known.contains(&format!("\"{key}\"")));
        wanted.iter().filter(|(key, _)| understood(key)).for_each(|(key, value)| settings.set(key, value));
        let migrated = process::command(program, &settings, "migrate").output()?;
        ensure!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
        let server = Process::start(program, &settings, &Leaks::default())?;
        let mut sessions = Vec::new();
        for number in 0..options.connections {
            sessions.push(Session::open(&server, mailbox, number).await?);
        }
        Ok(Self { server, sessions })
    }

    async fn round(&self, cluster: &Cluster, name: &str, round: Duration) -> Result<Round> {
        let address: SocketAddr = self.server.http.url.trim_start_matches("http://").parse()?;
        let conversations = self.sessions.iter().map(|session| conversation(name, session)).collect();
        let ticks_before = engine::ticks(cluster)?;
        let seen = load::converse(address, conversations, round).await?;
        let ticks = engine::ticks(cluster)? - ticks_before;
        ensure!(seen.failures == 0, "{} of {} requests failed", seen.failures, seen.requests);
        // Fewer ticks than that are used by background tasks.
        let decides = f64::from(u32::try_from(ticks)?) / seen.seconds > 10.0;
        let per_second = seen.per_second();
        let spent = if decides { f64::from(u32::try_from(ticks)?) / (per_second * seen.seconds) } else { f64::NAN };
        Ok(Round { per_second, engine_ticks_per_operation: spent })
    }
}

impl Session {
    async fn open(server: &Process, mailbox: &Mailbox, number: u64) -> Result<Self> {
        let (http, email) = (&server.http, format!("user{number}@acme.test"));
        let (otp_id, code) = request_code(http, mailbox, &Leaks::default(), &email).await?;
        let signed_in = signed_in(&http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?)?;
        let token = &signed_in.access_token;
        let create = async |path: &str, body: Value| -> Result<Value> {
            let request = http.request(reqwest::Method::POST, path).bearer_auth(token).json(&body);
            let response = http.send(request).await?;
            ensure!(response.status == 201, "{path}: {}", response.text);
            Ok(response.body)
        };
        let cli_token = create("/v1/cli/tokens", json!({ "name": "deploy", "scopes": ["read"] })).await?;
        let mut pack = Value::Null;
        for part in 0..20 {
            let text = format!("Ships, cranes, tides and pilots of berth {part}.");
            let body =
                json!({ "type": "context", "name": format!("Harbour {part}"), "text": text, "scope": "personal" });
            pack = create("/v1/packs", body).await?;
        }
        create("/v1/projects", json!({ "name": "Harbour", "scope": "personal" })).await?;
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            cli_token: text(&cli_token, "access_token"),
            pack_id: text(&pack, "id"),
            access_token: signed_in.access_token,
            refresh_token: Arc::new(Mutex::new(signed_in.refresh_token)),
        })
    }
}

fn conversation(name: &str, session: &Session) -> Conversation {
    let (token, cli_token) = (session.access_token.clone(), session.cli_token.clone());
    match name {
        "cli_token_hit" => Box::new(move |_| request("GET", "/v1/whoami", &cli_token, "")),
        "refresh" => refreshing(session.refresh_token.clone()),
        "otp_creation" => Box::new(|_| otp_request()),
        "cli_token_life" => Box::new(move |body| match field(body, "id") {
            Some(id) => request("DELETE", &format!("/v1/cli/tokens/{id}"), &token, ""),
            None => request("POST", "/v1/cli/tokens", &token, "{\"name\":\"build\"}"),
        }),
        "project_list" => Box::new(move |_| request("GET", "/v1/projects", &token, "")),
        "pack_update" => {
            let path = format!("/v1/packs/{}", session.pack_id);
            Box::new(move |_| request("PATCH", &path, &token, "{\"text\":\"Ships and tides.\"}"))
        }
        "pack_search" => Box::new(move |_| {
            request("POST", "/v1/packs/search", &token, "{\"type\":\"context\",\"query\":\"cranes\",\"limit\":10}")
        }),
        _ => Box::new(move |_| request("GET", "/v1/whoami", &token, "")),
    }
}

/// Returns a conversation in which each refresh presents the token that the previous one returned.
fn refreshing(presented: Arc<Mutex<String>>) -> Conversation {
    Box::new(move |body| {
        let mut presented = presented.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = field(body, "refresh_token") {
            *presented = next;
        }
        let body = format!("grant_type=refresh_token&client_id={SERVICE_CLI}&refresh_token={presented}");
        format!(
            "POST /oauth/token HTTP/1.1\r\nHost: service.test\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    })
}

fn field(body: &str, name: &str) -> Option<String> {
    let value: Value = serde_json::from_str(body).ok()?;
    value[name].as_str().map(str::to_owned)
}

fn request(method: &str, path: &str, token: &str, body: &str) -> Vec<u8> {
    let content = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    format!(
        "{method} {path} HTTP/1.1\r\nHost: service.test\r\nAuthorization: Bearer {token}\r\n{content}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Returns a request with an address and a network of its own.
fn otp_request() -> Vec<u8> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let body = format!("{{\"email\":\"person{number}@acme.test\"}}");
    let [_, a, b, c] = u32::try_from(number).unwrap_or_default().to_be_bytes();
    format!(
        "POST /v1/otp-tokens HTTP/1.1\r\nHost: service.test\r\nX-Forwarded-For: 10.{a}.{b}.{c}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
