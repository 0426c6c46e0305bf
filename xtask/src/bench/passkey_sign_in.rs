//! Signing in by a passkey: `POST /sign-in/{id}/passkey` of a browser that its user has used before, against `pgbench` with the
//! same statements and the same verification of the signature.

use std::{
    net::SocketAddr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use reqwest::{Method, Url};
use service_rules::{
    lifetimes,
    passkeys::{AssertionResponse, NewPasskey, PublicKey},
    signing::later,
};
use service_server::{
    app::App,
    clock::Clock,
    crypto::{passkey_signature, random},
    store::{self, passkeys::PasskeyToStore},
};
use service_testkit::{
    authenticator::{self, TestAuthenticator},
    load,
    response::{TestClient, TestResponse},
    server,
};
use uuid::Uuid;

use super::{
    Bench, Measured,
    pgbench::{self, AuditValues, SHARD, fill, statement},
};

const BROWSER_SESSIONS: &str = include_str!("../../../crates/service-server/src/store/browser_sessions.rs");
const SIGN_IN_FLOWS: &str = include_str!("../../../crates/service-server/src/store/sign_in_flows.rs");
const PASSKEY_CREDENTIALS: &str = include_str!("../../../crates/service-server/src/store/passkey_credentials.rs");
const PASSKEYS: &str = include_str!("../../../crates/service-server/src/store/passkeys.rs");
const PASSKEY_RECOVERIES: &str = include_str!("../../../crates/service-server/src/store/passkey_recoveries.rs");
const USERS: &str = include_str!("../../../crates/service-server/src/store/users.rs");
const ROUTED_DOMAINS: &str = include_str!("../../../crates/service-server/src/store/routed_domains.rs");
const USER_CONNECTIONS: &str = include_str!("../../../crates/service-server/src/store/user_connections.rs");
const DEVICES: &str = include_str!("../../../crates/service-server/src/store/devices.rs");
const USER_DEVICES: &str = include_str!("../../../crates/service-server/src/store/user_devices.rs");

/// The prefix of ids of users, which differ in their last twelve digits. A user, the passkey of the user, and a browser that
/// `pgbench` signs the user in with have the same id.
const ID_PREFIX: &str = "00000000-0000-7000-a000-";
/// Browsers that `pgbench` signs users in with. Each sign-in moves one to the shard of its user: its row is replaced.
const BARE_BROWSERS: u64 = 100_000;

const NOW: &str = "now()";
const NEXT_YEAR: &str = "now() + interval '1 year'";

/// A user with a passkey, and the browser of the user.
struct Person {
    authenticator: TestAuthenticator,
    /// The address of the browser.
    address: String,
    /// The device secret of the browser.
    device: String,
}

pub(super) async fn measure(bench: &Bench) -> Result<Measured> {
    let times = if bench.quick { 5 } else { 100 };
    let mut people = seed(bench, bench.connections * times).await?;
    let ours: SocketAddr = bench.server.http.url.trim_start_matches("http://").parse()?;
    let client = TestClient::new(bench.server.http.url.clone(), bench.leaks.clone())?;
    // Their first sign-ins make their devices known. Later ones send no mail.
    for person in &mut people {
        let signed_in = person.prepare(&client).await?.send(&client).await?;
        ensure!(signed_in.status == 303, "a sign-in failed: {}", signed_in.text);
        person.device = cookie(&signed_in, "__Host-device")?;
    }
    let script = tempfile::NamedTempFile::new()?;
    std::fs::write(script.path(), script_text(people.len())?)?;
    let mut measured = Measured { name: "passkey_sign_in", ours: Vec::new(), bare: Vec::new() };
    for _ in 0..bench.rounds {
        let statements = pgbench::run(bench, script.path())?;
        measured.bare.push(1.0 / (1.0 / statements + 1.0 / verifications(bench.round)?));
        let mut requests = Vec::with_capacity(people.len());
        for person in &mut people {
            requests.push(person.prepare(&client).await?.bytes());
        }
        let (requests, connections) = (Arc::new(requests), bench.connections);
        let next = move |connection: u64, number: u64| {
            requests[usize::try_from(connection + connections * number).unwrap_or_default()].clone()
        };
        let seen = load::run_times(ours, bench.connections, times, 303, next).await?;
        ensure!(seen.failures == 0, "{} of {} requests failed", seen.failures, seen.requests);
        measured.ours.push(seen.per_second());
    }
    super::otp_creation::empty_outbox(bench).await?;
    Ok(measured)
}

/// Stores users with passkeys, and what the script for `pgbench` reads.
async fn seed(bench: &Bench, count: u64) -> Result<Vec<Person>> {
    let (client, connection) =
        tokio_postgres::connect(&bench.cluster.url(&bench.database), tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let of = |number: &str| format!("('{ID_PREFIX}' || lpad(to_hex({number}), 12, '0'))::uuid");
    let users = format!(
        "insert into users (id, shard, email, created_at)
         select {0}, shard_of({0}), 'touch' || number || '@keys.test', now() - interval '1 year'
           from generate_series(0, {count} - 1) as number",
        of("number")
    );
    client.batch_execute(&users).await.context("the users could not be made")?;
    let people = store_passkeys(bench, count).await?;
    let bare = format!(
        "insert into browser_sessions (id, shard, digest, created_at, last_seen_at, expires_at)
         select {0}, 0, sha256(uuid_send({0})), now(), now(), now() + interval '1 hour'
           from generate_series(0, {BARE_BROWSERS} - 1) as number;
         insert into sign_in_flows (id, shard, browser_id, created_at, expires_at)
         select {0}, 0, {0}, now(), now() + interval '1 hour' from generate_series(0, {BARE_BROWSERS} - 1) as number;
         insert into passkey_credentials (digest, shard, user_id, passkey_id)
         select sha256(uuid_send({0})), 0, {0}, {0} from generate_series(0, {count} - 1) as number;
         insert into devices (digest, address_mac, shard, user_id, created_at, expires_at)
         select sha256(uuid_send({0})), sha256(uuid_send({0})), 0, {0}, now(), now() + interval '1 year'
           from generate_series(0, {count} - 1) as number;
         analyze users, passkeys, passkey_users, passkey_credentials, browser_sessions, sign_in_flows, devices",
        of("number")
    );
    client.batch_execute(&bare).await.context("the rows for pgbench could not be made")?;
    Ok(people)
}

/// Stores a passkey of each user, as a password manager keeps it.
async fn store_passkeys(bench: &Bench, count: u64) -> Result<Vec<Person>> {
    let app = App::new(server::config(&bench.settings)?, Clock::System)?;
    let (now, db) = (app.clock.now(), app.database.begin().await?);
    let mut people = Vec::new();
    for number in 0..count {
        let id: Uuid = format!("{ID_PREFIX}{number:012x}").parse()?;
        let mut authenticator = TestAuthenticator::synchronized()?;
        let handle = random::bytes()?;
        authenticator.user_handle = Some(handle.to_vec());
        let passkey = NewPasskey {
            credential_id: authenticator.credential_id.clone(),
            public_key: authenticator.public_key()?,
            counter: 0,
            can_be_backed_up: true,
            is_backed_up: true,
        };
        store::passkeys::find_or_create_user(&db, id.into(), &handle).await?;
        let stored = PasskeyToStore {
            id: id.into(),
            user_id: id.into(),
            passkey: &passkey,
            name: "Phone",
            made_by: "sess_01m955vw00fjqrz47smcqrkmzz",
            now,
            counts_from: later(now, -lifetimes::PASSKEY_NEW),
        };
        store::passkeys::insert(&db, &stored).await?;
        let [.., a, b, c] = number.to_be_bytes();
        people.push(Person { authenticator, address: format!("11.{a}.{b}.{c}"), device: String::new() });
    }
    db.commit().await?;
    Ok(people)
}

/// A sign-in that a browser is about to send.
struct Prepared {
    path: String,
    cookies: String,
    address: String,
    form: String,
}

impl Person {
    /// Opens the sign-in page in a browser without a session, and lets the authenticator sign.
    async fn prepare(&mut self, client: &TestClient) -> Result<Prepared> {
        let get = |path: &str, cookies: &str| {
            client.request(Method::GET, path).header("x-forwarded-for", &self.address).header("cookie", cookies)
        };
        let device = format!("__Host-device={}", self.device);
        let begun = client.send(get("/sign-in", &device)).await?;
        let path = begun.header("location").with_context(|| begun.text.clone())?.to_owned();
        let cookies = format!("__Host-session={}; {device}", cookie(&begun, "__Host-session")?);
        let page = client.send(get(&path, &cookies)).await?;
        let (_, csrf) = page.text.split_once("name=\"csrf\" value=\"").with_context(|| page.text.clone())?;
        let csrf = csrf.split('"').next().unwrap_or_default();
        let response = self.authenticator.sign(&authenticator::options(&page.text)?)?;
        let mut form = Url::parse("http://form.test")?;
        form.query_pairs_mut().append_pair("csrf", csrf).append_pair("response", &response);
        let form = form.query().unwrap_or_default().to_owned();
        Ok(Prepared { path: format!("{path}/passkey"), cookies, address: self.address.clone(), form })
    }
}

impl Prepared {
    async fn send(self, client: &TestClient) -> Result<TestResponse> {
        let request = client.request(Method::POST, &self.path).header("x-forwarded-for", &self.address);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        client.send(request.header("cookie", &self.cookies).body(self.form)).await
    }

    fn bytes(self) -> Vec<u8> {
        let Self { path, cookies, address, form } = self;
        format!(
            "POST {path} HTTP/1.1\r\nHost: service.test\r\nX-Forwarded-For: {address}\r\nCookie: {cookies}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        )
        .into_bytes()
    }
}

/// Returns a cookie that a response sets.
fn cookie(response: &TestResponse, name: &str) -> Result<String> {
    let set = response.headers.get_all("set-cookie").iter().filter_map(|value| value.to_str().ok());
    let found = set.filter_map(|value| value.split(';').next()?.split_once('=')).find(|(known, _)| *known == name);
    Ok(found.with_context(|| format!("no cookie {name}: {}", response.text))?.1.to_owned())
}

/// Signatures of passkeys that all cores verify per second.
fn verifications(round: Duration) -> Result<f64> {
    let mut authenticator = TestAuthenticator::synchronized()?;
    authenticator.user_handle = Some(vec![0; 32]);
    let options = serde_json::json!({ "challenge": "AAAA", "rpId": "service.test", "userVerification": "required" });
    let response = authenticator.sign(&options)?;
    let public_key = authenticator.public_key()?;
    let verify = || -> Result<u32> {
        let (began, mut verified) = (Instant::now(), 0);
        while began.elapsed() < round / 4 {
            let sent = AssertionResponse::read(response.as_bytes())?;
            let key = PublicKey::read(&public_key)?;
            ensure!(
                passkey_signature::verifies(&key, &sent.authenticator_data, &sent.client_data, &sent.signature),
                "a signature does not verify"
            );
            verified += 1;
        }
        Ok(verified)
    };
    let cores = thread::available_parallelism()?.get();
    let verified = thread::scope(|scope| -> Result<u32> {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(verify)).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread failed"))?).sum()
    })?;
    Ok(f64::from(verified) / (round / 4).as_secs_f64())
}

/// Returns the statements of `flows/sign_in/passkey.rs` for one of `people` users, with values that pgbench can generate: the
/// browser and its flow, the passkey, then the transaction.
pub(super) fn script_text(people: usize) -> Result<String> {
    let of = |number: &str| format!("('{ID_PREFIX}' || lpad(to_hex((:{number})::bigint), 12, '0'))::uuid");
    let (user, browser) = (BareRow::of(of("number")), BareRow::of(of("browser")));
    Ok(format!(
        "\\set number random(0, {people} - 1)\n\\set browser random(0, {BARE_BROWSERS} - 1)\n{};\nbegin;\n{};\n{};\ncommit;\n",
        before(&user, &browser)?.join(";\n"),
        use_of_passkey(&user)?.join(";\n"),
        sign_in(&user, &browser)?.join(";\n"),
    ))
}

/// What identifies a row, as SQL.
struct BareRow {
    id: String,
    digest: String,
}

impl BareRow {
    fn of(id: String) -> Self {
        Self { digest: format!("sha256(uuid_send({id}))"), id }
    }
}

/// Returns what is read before the signature is verified.
fn before(user: &BareRow, browser: &BareRow) -> Result<[String; 4]> {
    let cookie = [browser.digest.as_str(), NOW, "now() - interval '1 day'", SHARD];
    Ok([
        fill(statement(BROWSER_SESSIONS, "select b.id, b.user_id")?, &cookie),
        fill(statement(SIGN_IN_FLOWS, "select request, parameters")?, &[&browser.id, &browser.id, NOW, SHARD]),
        fill(statement(PASSKEY_CREDENTIALS, "select user_id, passkey_id")?, &[&user.digest, SHARD]),
        fill(statement(PASSKEYS, "select p.public_key")?, &[&user.id, &user.id, SHARD]),
    ])
}

/// Returns what the first half of the transaction does: the user, the way in which the user has to sign in, and the passkey.
fn use_of_passkey(user: &BareRow) -> Result<[String; 6]> {
    let id = user.id.as_str();
    let enabled = "select from users where id = $1 and shard = $2 and disabled_at is null";
    let route = "select workspace_id, connection_id, name, required_at is not null as required from routed_domains\n                 \
                 where domain = $1 and shard = $2 for share";
    let recovery = "delete from passkey_recoveries where user_id = $1 and shard = $2";
    let others = "delete from user_connections where user_id = $1 and shard = $2";
    Ok([
        fill(statement(USERS, enabled)?, &[id, SHARD]),
        fill(statement(USERS, "select email, name, disabled_at")?, &[id, SHARD]),
        fill(statement(ROUTED_DOMAINS, route)?, &["'keys.test'", SHARD]),
        fill(statement(PASSKEYS, "update passkeys set counter")?, &[id, id, SHARD, "0::bigint", "true", NOW]),
        fill(statement(PASSKEY_RECOVERIES, recovery)?, &[id, SHARD]),
        fill(statement(USER_CONNECTIONS, others)?, &[id, SHARD, "null::uuid"]),
    ])
}

/// Returns what the second half of the transaction does: the device, the audit event, and the browser, which moves to the shard
/// of its user.
fn sign_in(user: &BareRow, browser: &BareRow) -> Result<[String; 7]> {
    let BareRow { id, digest } = user;
    let macs = format!("array[{digest}]");
    let known = "select from devices where digest = $1 and shard = $4";
    let renewed =
        "insert into devices (digest, address_mac, shard, user_id, created_at, expires_at)\n              select";
    let event = AuditValues {
        event: "'sign_in.succeeded'",
        user: id,
        client: "'browser'",
        subject: "null",
        details: "'{\"method\": \"passkey\", \"passkeyId\": \"passkey_01h2xcejqtf2nbrexx3vqjhp41\"}'::jsonb",
    };
    let (new_id, new_digest) = ("gen_random_uuid()", "sha256(random()::text::bytea)");
    let moved = [new_id, SHARD, new_digest, id, NOW, NOW, NOW, NEXT_YEAR, NOW, "null", "'firefox linux'", "'11.0.0.1'"];
    let (left, entered) =
        ("delete from browser_sessions where id = $1 and shard = $2 and digest", "insert into browser_sessions\n");
    Ok([
        fill(statement(DEVICES, known)?, &[digest, &macs, NOW, SHARD]),
        fill(statement(DEVICES, renewed)?, &[digest, digest, SHARD, id, NOW, NEXT_YEAR]),
        fill(statement(USER_DEVICES, "insert into user_devices")?, &[id, digest, SHARD, NEXT_YEAR]),
        pgbench::audit_event(&event)?,
        fill(statement(BROWSER_SESSIONS, left)?, &[&browser.id, SHARD, &browser.digest]),
        fill(statement(BROWSER_SESSIONS, entered)?, &moved),
        fill(statement(SIGN_IN_FLOWS, "update sign_in_flows set browser_id")?, &[&browser.id, SHARD, new_id]),
    ])
}
