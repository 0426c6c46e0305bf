//! The operations: real requests to a real node, and what they cost it and PostgreSQL.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicI32, AtomicU32, Ordering},
};

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use service_api::{
    ids::{CliTokenId, GrantId},
    oauth::SERVICE_CLI,
    token::Refresh,
};
use service_server::{
    crypto::{digest::sha256, random, root_keys::RootKeys},
    tokens::refresh_token,
};
use service_testkit::{
    load,
    mailbox::Mailbox,
    response::TestClient,
    server::{self, SignedIn, otp_exchange, signed_in},
};
use tokio::{task::JoinSet, time::Instant};

use super::{
    costs::{Cost, Costs},
    machine::Machine,
    rows::{Kind, made_id},
};

const CONNECTIONS: u64 = 16;
/// More rows than fit into a page of `grants`: sessions this far apart are in different pages.
const ROWS_APART: u64 = 41;
/// As many sessions are refreshed again and again where pages are warm.
const WARM_SESSIONS: u64 = 1_600;
/// As many access tokens are verified for the first time, at most: a node remembers about half of them.
const MAX_TOKENS: usize = 60_000;

/// Builds the next request from the previous response.
type RequestSequence = Box<dyn FnMut(&str) -> Vec<u8> + Send>;

pub(crate) async fn measure(machine: &Machine, costs: &mut Costs) -> Result<()> {
    let sessions = Arc::new(Sessions::new(machine)?);
    let warm = Picks::Among(WARM_SESSIONS);
    // Connections, prepared statements and caches.
    refresh(machine, &sessions, warm).await?;
    let mut refreshes = Vec::new();
    let (mut cold, mut cold_lz4, mut warmed, mut warmed_lz4) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // What else the machine does changes from minute to minute, so rounds alternate.
    for _ in 0..machine.size.rounds {
        for (compression, cold, warmed) in [("off", &mut cold, &mut warmed), ("lz4", &mut cold_lz4, &mut warmed_lz4)] {
            machine.set_parameter("wal_compression", compression).await?;
            machine.checkpoint().await?;
            cold.push(refresh(machine, &sessions, Picks::PageByPage).await?);
            refreshes.push(refresh(machine, &sessions, Picks::Any).await?);
            refresh(machine, &sessions, warm).await?;
            warmed.push(refresh(machine, &sessions, warm).await?);
        }
    }
    costs.refresh = Cost::median(&refreshes);
    costs.refresh_cold = Cost::median(&cold);
    costs.refresh_cold_lz4 = Cost::median(&cold_lz4);
    costs.refresh_warm = Cost::median(&warmed);
    costs.refresh_warm_lz4 = Cost::median(&warmed_lz4);
    verify(machine, &sessions, costs).await?;
    costs.cli_token_miss = cli_token_misses(machine).await?;
    let events = "select count(*) from audit_events";
    // A connection plans each of the many statements again for the first few times.
    for _ in 0..machine.size.rounds {
        sign_ins(machine).await?;
    }
    let before = machine.number(events).await?;
    costs.sign_in = sign_ins(machine).await?;
    #[expect(clippy::cast_precision_loss, reason = "there are not that many")]
    let count = costs.sign_in.operations as f64;
    costs.events_per_sign_in = (machine.number(events).await? - before) / count;
    Ok(())
}

/// Which sessions are refreshed.
#[derive(Clone, Copy)]
enum Picks {
    /// Any, in no order.
    Any,
    /// One of each page.
    PageByPage,
    /// The first ones.
    Among(u64),
}

/// The sessions in the table, with the generation of the refresh token of each.
struct Sessions {
    root_keys: RootKeys,
    generations: Vec<AtomicI32>,
}

impl Sessions {
    fn new(machine: &Machine) -> Result<Self> {
        let root_keys = RootKeys::new(&server::config(&machine.settings)?.root_keys)?;
        Ok(Self { root_keys, generations: (0..machine.size.users).map(|_| AtomicI32::new(1)).collect() })
    }

    /// Returns the next refresh of a connection. Connections take different sessions, or two refreshes of one
    /// could overtake each other.
    fn request(&self, picks: Picks, connection: u64, number: u64) -> Vec<u8> {
        let (all, turn) = (self.generations.len() as u64, number * CONNECTIONS + connection);
        let place = match picks {
            Picks::Any => number.wrapping_mul(7_919) % (all / CONNECTIONS) * CONNECTIONS + connection,
            Picks::PageByPage => turn * ROWS_APART,
            Picks::Among(few) => turn % few,
        } % all;
        let generation = usize::try_from(place).ok().and_then(|place| self.generations.get(place));
        let generation = generation.map_or(0, |generation| generation.fetch_add(1, Ordering::Relaxed));
        // Numbers in the table begin with 1.
        let id = made_id(Kind::Grant, place + 1);
        let token = refresh_token::derive::<Refresh>(&self.root_keys, 1, GrantId::from(id), id.as_bytes(), generation);
        let token = token.map(|token| token.expose().to_owned()).unwrap_or_default();
        let body = format!("grant_type=refresh_token&client_id={SERVICE_CLI}&refresh_token={token}");
        format!(
            "POST /oauth/token HTTP/1.1\r\nHost: service.test\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

async fn refresh(machine: &Machine, sessions: &Arc<Sessions>, picks: Picks) -> Result<Cost> {
    let sessions = sessions.clone();
    let request = move |connection, number| sessions.request(picks, connection, number);
    machine.meter(send(machine, request)).await
}

/// Sends requests for a round; returns how many there were.
async fn send<F>(machine: &Machine, request: F) -> Result<u64>
where
    F: Fn(u64, u64) -> Vec<u8> + Send + Sync + Clone + 'static,
{
    let seen = load::run(machine.address()?, CONNECTIONS, machine.size.round, request).await?;
    ensure!(seen.failures == 0, "{} of {} requests failed", seen.failures, seen.requests);
    Ok(seen.requests)
}

/// Verifies access tokens that the node has not seen, and one that it has.
async fn verify(machine: &Machine, sessions: &Arc<Sessions>, costs: &mut Costs) -> Result<()> {
    let tokens = collect_tokens(machine, sessions).await?;
    let one = whoami(&tokens[0]);
    let count = tokens.len() as u64;
    let tokens = Arc::new(tokens);
    let conversations = (0..CONNECTIONS).map(|connection| {
        let (tokens, mut place) = (tokens.clone(), usize::try_from(connection).unwrap_or_default());
        let conversation: RequestSequence = Box::new(move |_| {
            place += usize::try_from(CONNECTIONS).unwrap_or(1);
            whoami(&tokens[place % tokens.len()])
        });
        conversation
    });
    let conversations = conversations.collect();
    let (address, round) = (machine.address()?, machine.size.round / 4);
    costs.first_verification = machine
        .meter(async {
            let seen = load::converse(address, conversations, round).await?;
            ensure!(seen.failures == 0, "{} of {} tokens were refused", seen.failures, seen.requests);
            // Beyond that, tokens were seen before.
            ensure!(seen.requests <= count || cfg!(debug_assertions), "there are too few access tokens: {count}");
            Ok(seen.requests)
        })
        .await?;
    costs.verification = machine.meter(send(machine, move |_, _| one.clone())).await?;
    Ok(())
}

/// Refreshes sessions until there are enough access tokens.
async fn collect_tokens(machine: &Machine, sessions: &Arc<Sessions>) -> Result<Vec<String>> {
    let collected = Arc::new(Mutex::new(Vec::new()));
    let conversations = (0..CONNECTIONS).map(|connection| {
        let (sessions, collected, mut number) = (sessions.clone(), collected.clone(), 0);
        let conversation: RequestSequence = Box::new(move |body| {
            let body: Value = serde_json::from_str(body).unwrap_or_default();
            if let Some(token) = body["access_token"].as_str() {
                collected.lock().unwrap_or_else(PoisonError::into_inner).push(token.to_owned());
            }
            number += 1;
            sessions.request(Picks::Any, connection, number)
        });
        conversation
    });
    let conversations = conversations.collect();
    let seen = load::converse(machine.address()?, conversations, machine.size.round * 4).await?;
    ensure!(seen.failures == 0, "{} of {} refreshes failed", seen.failures, seen.requests);
    let mut tokens = collected.lock().unwrap_or_else(PoisonError::into_inner).clone();
    tokens.truncate(MAX_TOKENS);
    ensure!(!tokens.is_empty(), "no access token was issued");
    Ok(tokens)
}

fn whoami(token: &str) -> Vec<u8> {
    format!("GET /v1/whoami HTTP/1.1\r\nHost: service.test\r\nAuthorization: Bearer {token}\r\n\r\n").into_bytes()
}

/// Uses CLI tokens that the node has not seen, each of another user.
async fn cli_token_misses(machine: &Machine) -> Result<Cost> {
    let mut tokens = Vec::with_capacity(machine.size.cli_tokens);
    while tokens.len() < machine.size.cli_tokens {
        let numbers = (tokens.len() + 1..=machine.size.cli_tokens).take(10_000);
        let made = numbers
            .map(|number| {
                let id: CliTokenId = made_id(Kind::CliToken, number as u64).into();
                Ok((number, random::cli_token(id)?.expose().to_owned()))
            })
            .collect::<Result<Vec<_>>>()?;
        let numbers = made.iter().map(|(number, _)| Ok(i64::try_from(*number)?)).collect::<Result<Vec<_>>>()?;
        let digests: Vec<_> = made.iter().map(|(_, text)| sha256(text).to_vec()).collect();
        let insert =
            "insert into cli_tokens (id, shard, user_id, client_id, name, digest, hint, scopes, created_at, expires_at)
             select pg_temp.made(3, number), shard_of(pg_temp.made(3, number)), pg_temp.made(1, number), 'service-cli', 'Token',
                    digest, '…0000', 'read', now(), now() + interval '90 days'
               from unnest($1::bigint[], $2::bytea[]) as made (number, digest)";
        machine.client.execute(insert, &[&numbers, &digests]).await?;
        tokens.extend(made.into_iter().map(|(_, text)| text));
    }
    machine.client.batch_execute("vacuum analyze cli_tokens").await?;
    let (tokens, count) = (Arc::new(tokens), machine.size.cli_tokens as u64);
    let next = move |connection: u64, number: u64| {
        let place = usize::try_from(connection + CONNECTIONS * number).unwrap_or_default();
        whoami(&tokens[place % tokens.len()])
    };
    let cost = machine.meter(send(machine, next)).await?;
    ensure!(cost.operations <= count || cfg!(debug_assertions), "there are too few CLI tokens: {count}");
    Ok(cost)
}

/// Signs users in by code, with the mail that brings it, each from another network. Some sign in at once.
async fn sign_ins(machine: &Machine) -> Result<Cost> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (until, first) = (Instant::now() + machine.size.round, NUMBER.load(Ordering::Relaxed));
    machine
        .meter(async {
            let mut lanes = JoinSet::new();
            for _ in 0..4 {
                let (http, mailbox) = (machine.node.http.clone(), machine.mailbox.clone());
                lanes.spawn(async move {
                    while Instant::now() < until {
                        sign_in(&http, &mailbox, NUMBER.fetch_add(1, Ordering::Relaxed)).await?;
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(ended) = lanes.join_next().await {
                ended??;
            }
            Ok(u64::from(NUMBER.load(Ordering::Relaxed) - first))
        })
        .await
}

/// Signs one user in, from a network of its own.
pub(crate) async fn sign_in(http: &TestClient, mailbox: &Mailbox, number: u32) -> Result<SignedIn> {
    let email = format!("new{number}@company.example");
    let [_, a, b, c] = number.to_be_bytes();
    let post = async |path: &str, body: &Value| {
        let request = http.request(Method::POST, path).header("x-forwarded-for", format!("10.{a}.{b}.{c}"));
        http.send(request.json(body)).await
    };
    let requested = post("/v1/otp-tokens", &json!({ "email": email })).await?;
    ensure!(requested.status == 201, "no code was sent: {}", requested.text);
    let code = mailbox.next_code_to(&email).await?;
    signed_in(&post("/oauth/token", &otp_exchange(requested.field("otpId"), &code, "read write")).await?)
}
