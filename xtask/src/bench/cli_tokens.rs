//! CLI tokens: a cached one against a bare handler, and uncached ones against `pgbench` reading the same row, with a
//! million tokens in the table.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use service_api::{
    ids::{CliTokenId, Id as _, UserId},
    shard::Shard,
};
use service_server::crypto::{digest::sha256, random};
use service_testkit::load;
use tokio_postgres::Client;
use uuid::Uuid;

use super::{
    Bench, Measured,
    bare::Bare,
    pgbench::{self, SHARD, fill, statement},
    whoami,
};
use crate::say_error;

const CLI_TOKENS: &str = include_str!("../../../crates/service-server/src/store/cli_tokens.rs");
const OWNER: &str = "00000000-0000-7000-8000-0000000000c1";

pub(super) async fn measure(bench: &Bench) -> Result<[Measured; 2]> {
    let (used, all) = if bench.quick { (5_000, 10_000) } else { (900_000, 1_000_000) };
    let (client, connection) =
        tokio_postgres::connect(&bench.cluster.url(&bench.database), tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let tokens = Arc::new(seed(&client, used, all).await?);
    explain(&client, &tokens[0].0).await?;
    let ours: SocketAddr = bench.server.http.url.trim_start_matches("http://").parse()?;
    let response = bench.server.http.get("/v1/whoami", Some(&tokens[0].1)).await?;
    ensure!(response.status == 200, "the token does not work: {}", response.text);
    let bare = Bare::start(&response.headers, &response.text)?;
    let script = tempfile::NamedTempFile::new()?;
    let id = format!("('{}' || lpad(to_hex((:number)::bigint), 12, '0'))::uuid", &OWNER[..24]);
    let find = fill(statement(CLI_TOKENS, "select t.user_id")?, &[&id, SHARD]);
    std::fs::write(script.path(), format!("\\set number random(1, {})\n{find};\n", all - used))?;

    let mut hit = Measured { name: "cli_token_hit", ours: Vec::new(), bare: Vec::new() };
    let mut miss = Measured { name: "cli_token_miss", ours: Vec::new(), bare: Vec::new() };
    let share = tokens.len() / bench.rounds / usize::try_from(bench.connections)?;
    for round in 0..bench.rounds {
        let request = request(&tokens[0].1);
        hit.bare.push(whoami::run(bench, bare.address, &request).await?);
        hit.ours.push(whoami::run(bench, ours, &request).await?);
        miss.bare.push(pgbench::run(bench, script.path())?);
        // Each token is used once in all rounds. After the last one the first follows, which is cached.
        let tokens = tokens.clone();
        let connections = usize::try_from(bench.connections)?;
        let next = move |connection: u64, number: u64| {
            let place =
                usize::try_from(connection).unwrap_or(0) + connections * (usize::try_from(number).unwrap_or(0) % share);
            request_bytes(&tokens[round * share * connections + place].1)
        };
        let seen = load::run(ours, bench.connections, bench.round, next).await?;
        ensure!(seen.failures == 0, "{} of {} requests failed", seen.failures, seen.requests);
        ensure!(bench.quick || seen.requests <= (share * connections) as u64, "there are too few tokens");
        miss.ours.push(seen.per_second());
    }
    Ok([hit, miss])
}

fn request(token: &str) -> String {
    format!("GET /v1/whoami HTTP/1.1\r\nHost: service.test\r\nAuthorization: Bearer {token}\r\n\r\n")
}

fn request_bytes(token: &str) -> Vec<u8> {
    request(token).into_bytes()
}

/// Creates tokens with their secrets, among many others; returns them.
pub(super) async fn seed(client: &Client, used: usize, all: usize) -> Result<Vec<(CliTokenId, String)>> {
    let filler = format!(
        "insert into users (id, shard, email, created_at) values ('{OWNER}', shard_of('{OWNER}'), 'tokens@many.test', now());
         insert into cli_tokens (id, shard, user_id, client_id, name, digest, hint, scopes, created_at, expires_at)
         select ('{}' || lpad(to_hex(number), 12, '0'))::uuid, shard_of('{OWNER}'), '{OWNER}', 'service-cli', 'Token',
                sha256(number::text::bytea), '…0000', 'read', now(), now() + interval '90 days'
           from generate_series(1, {}) as number;",
        &OWNER[..24],
        all - used
    );
    client.batch_execute(&filler).await.context("the tokens could not be made")?;
    let owner: Uuid = OWNER.parse()?;
    let now = service_server::clock::Clock::System.now();
    let mut tokens = Vec::with_capacity(used);
    while tokens.len() < used {
        let made = (0..10_000.min(used - tokens.len())).map(|_| {
            let id: CliTokenId = random::id_in(Shard::of_id(owner), now)?;
            Ok((id, random::cli_token(id)?.expose().to_owned()))
        });
        let made = made.collect::<Result<Vec<_>>>()?;
        let ids: Vec<_> = made.iter().map(|(id, _)| id.uuid()).collect();
        let digests: Vec<_> = made.iter().map(|(_, text)| sha256(text).to_vec()).collect();
        let insert =
            "insert into cli_tokens (id, shard, user_id, client_id, name, digest, hint, scopes, created_at, expires_at)
                      select id, shard_of($3), $3, 'service-cli', 'Token', digest, '…0000', 'read', now(), now() + interval '90 days'
                        from unnest($1::uuid[], $2::bytea[]) as made (id, digest)";
        client.execute(insert, &[&ids, &digests, &owner]).await?;
        tokens.extend(made);
    }
    client.batch_execute("vacuum analyze cli_tokens").await?;
    Ok(tokens)
}

/// Prints the query plans of reading one token, and of listing the tokens of a user with a hundred.
async fn explain(client: &Client, id: &CliTokenId) -> Result<()> {
    let user: UserId = Uuid::from_u128(1).into();
    let some = format!(
        "insert into cli_tokens (id, shard, user_id, client_id, name, digest, hint, scopes, created_at, expires_at)
         select gen_random_uuid(), shard_of('{0}'), '{0}', 'service-cli', 'Token', ''::bytea, '…0000', 'read', now(), now() + interval '9 days'
           from generate_series(1, 100)",
        user.uuid()
    );
    client.batch_execute(&some).await?;
    let find = fill(statement(CLI_TOKENS, "select t.user_id")?, &[&format!("'{}'::uuid", id.uuid()), SHARD]);
    let list = fill(
        statement(CLI_TOKENS, "select id, name, workspace_id")?,
        &[&format!("'{}'::uuid", user.uuid()), "now()", "now() - interval '30 days'", "'active'", "null", "51", SHARD],
    );
    for statement in [find, list] {
        say_error(&format!("explain {statement:.60} …"));
        for row in client.query(&format!("explain (analyze, buffers, costs off) {statement}"), &[]).await? {
            say_error(&format!("    {}", row.get::<_, String>(0)));
        }
    }
    Ok(())
}
