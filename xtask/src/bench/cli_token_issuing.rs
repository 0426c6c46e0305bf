//! Creating CLI tokens: `POST /v1/cli/tokens`, each by another user, against `pgbench` with the same statements.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use service_api::{ids::GrantId, oauth::SERVICE_CLI};
use service_rules::{bearer::Claims, lifetimes};
use service_server::{app::App, clock::Clock, crypto::random};
use service_testkit::{load, server};
use uuid::Uuid;

use super::{
    Bench, Measured,
    pgbench::{self, AuditValues, SHARD, fill, statement},
};

const USERS: &str = include_str!("../../../crates/service-server/src/store/users.rs");
const GRANTS: &str = include_str!("../../../crates/service-server/src/store/grants.rs");
const CLI_TOKENS: &str = include_str!("../../../crates/service-server/src/store/cli_tokens.rs");
const RATES: &str = include_str!("../../../crates/service-server/src/store/rates.rs");
const OUTBOX: &str = include_str!("../../../crates/service-server/src/store/outbox.rs");
/// The prefix of ids of users and of their sessions, which differ in their last twelve digits. A user has at most 100
/// tokens.
const ID_PREFIX: &str = "00000000-0000-7000-9000-";
const MAKERS: u64 = 4_000;

pub(super) async fn measure(bench: &Bench) -> Result<Measured> {
    seed(bench).await?;
    let script = tempfile::NamedTempFile::new()?;
    std::fs::write(script.path(), script_text()?)?;
    let ours: SocketAddr = bench.server.http.url.trim_start_matches("http://").parse()?;
    let requests = Arc::new(requests(bench).await?);
    let mut measured = Measured { name: "cli_token_issuing", ours: Vec::new(), bare: Vec::new() };
    for _ in 0..bench.rounds {
        measured.bare.push(pgbench::run(bench, script.path())?);
        let (requests, connections) = (requests.clone(), bench.connections);
        let next = move |connection: u64, number: u64| {
            requests[usize::try_from((connection + connections * number) % MAKERS).unwrap_or_default()].clone()
        };
        let seen = load::run(ours, bench.connections, bench.round, next).await?;
        ensure!(seen.failures == 0, "{} of {} requests failed", seen.failures, seen.requests);
        measured.ours.push(seen.per_second());
    }
    Ok(measured)
}

async fn seed(bench: &Bench) -> Result<()> {
    let (client, connection) =
        tokio_postgres::connect(&bench.cluster.url(&bench.database), tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let seed = format!(
        "with made as (select number, ('{ID_PREFIX}' || lpad(to_hex(number), 12, '0'))::uuid as id
                         from generate_series(0, 2 * {MAKERS} - 1) as number),
              people as (insert into users (id, shard, email, created_at)
                         select id, shard_of(id), 'maker' || number || '@many.test', now() from made)
         insert into grants (id, shard, user_id, client_id, scopes, audience, salt, base, issued, issued_key,
                             rotated_at, rotated_from, created_at, created_from, expires_at, auth_time)
         select id, shard_of(id), id, '{SERVICE_CLI}', 'read write', 'https://service.test/v1', uuid_send(id), 0, 1, 1,
                now(), '127.0.0.1', now(), '127.0.0.1', now() + interval '300 days', now() from made;"
    );
    client.batch_execute(&seed).await.context("the makers could not be made")
}

/// Returns one request for each user of the first half.
async fn requests(bench: &Bench) -> Result<Vec<Vec<u8>>> {
    let app = App::new(server::config(&bench.settings)?, Clock::System)?;
    app.reload_signing_keys().await?;
    let now = app.clock.now();
    let request = |number: u64| -> Result<Vec<u8>> {
        let id: Uuid = format!("{ID_PREFIX}{number:012x}").parse()?;
        let claims = Claims {
            iss: app.config.base_url.clone(),
            sub: id.into(),
            aud: app.audience.clone(),
            exp: now.as_second() + lifetimes::ACCESS_TOKEN,
            iat: now.as_second(),
            jti: random::id(now)?,
            client_id: SERVICE_CLI.into(),
            scope: "read write".into(),
            grant: GrantId::from(id),
            workspace: None,
            nbf: None,
        };
        let token = app.signing_keys.sign(&claims, now)?;
        let body = "{\"name\":\"deploy\"}";
        Ok(format!(
            "POST /v1/cli/tokens HTTP/1.1\r\nHost: service.test\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            token.expose(),
            body.len()
        )
        .into_bytes())
    };
    (0..MAKERS).map(request).collect()
}

/// Returns the statements of `flows/tokens/cli_tokens.rs`, for the second half of the users.
pub(super) fn script_text() -> Result<String> {
    let id = format!("('{ID_PREFIX}' || lpad(to_hex((:number)::bigint), 12, '0'))::uuid");
    let (now, digest) = ("now()", "sha256(random()::text::bytea)");
    let session = fill(statement(GRANTS, "select auth_time from grants")?, &[&id, SHARD]);
    let created = AuditValues {
        event: "'cli_token.created'",
        user: &id,
        client: "'service-cli'",
        subject: "'clit_0'",
        details: "'{}'::jsonb",
    };
    let statements = [
        fill(statement(USERS, "select disabled_at is null")?, &[&id, SHARD]),
        fill(statement(GRANTS, "select expires_at, auth_time, connection_id from grants")?, &[&id, SHARD]),
        fill(statement(CLI_TOKENS, "select count(*) as live")?, &[&id, now, "null", SHARD]),
        fill(
            statement(RATES, "insert into rates")?,
            &["sha256(((:number)::bigint)::text::bytea)", now, "0.01::float8", "100.0::float8", SHARD],
        ),
        fill(
            statement(CLI_TOKENS, "insert into cli_tokens")?,
            &[
                "gen_random_uuid()",
                &id,
                "'service-cli'",
                "'deploy'",
                digest,
                "'…0000'",
                "'read'",
                "null",
                now,
                "now() + interval '90 days'",
                "null",
                "'grant_01h2xcejqtf2nbrexx3vqjhp41'",
                SHARD,
                now,
                "null",
            ],
        ),
        pgbench::audit_event(&created)?,
        fill(statement(USERS, "select email, name, disabled_at")?, &[&id, SHARD]),
        fill(
            statement(OUTBOX, "insert into outbox")?,
            &[
                "gen_random_uuid()",
                &format!("{digest} || {digest} || {digest} || {digest} || {digest}"),
                now,
                now,
                SHARD,
            ],
        ),
    ];
    let script = statements.join(";\n");
    Ok(format!("\\set number random({MAKERS}, 2 * {MAKERS} - 1)\n{session};\nbegin;\n{script};\ncommit;\n"))
}
