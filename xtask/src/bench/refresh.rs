//! Refreshing: the refresh grant of `POST /oauth/token` against `pgbench` with the same two statements one by
//! one, in a small table and in a large one, and with one, some and many connections.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};

use anyhow::{Context as _, Result, ensure};
use service_api::{ids::GrantId, oauth::SERVICE_CLI, token::Refresh};
use service_server::{crypto::root_keys::RootKeys, tokens::refresh_token};
use service_testkit::{load, server, settings::Settings};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{
    Bench, Measured,
    pgbench::{self, SHARD, fill, statement},
};

pub(crate) const GRANTS: &str = include_str!("../../../crates/service-server/src/store/grants.rs");
/// The prefix of ids of grants, which differ in their last twelve digits.
pub(crate) const ID_PREFIX: &str = "00000000-0000-7000-8000-";

/// A table size, and the connections of the load.
struct RefreshLoad {
    name: &'static str,
    grants: u32,
    connections: u64,
}

pub(super) async fn measure(bench: &Bench) -> Result<Vec<Measured>> {
    let size = |name, grants, connections| RefreshLoad { name, grants, connections };
    let mut sizes = vec![size("refresh_1e4", 10_000, bench.connections)];
    if !bench.quick {
        sizes.push(size("refresh_1e6", 1_000_000, bench.connections));
        sizes.push(size("refresh_128", 10_000, 128));
        sizes.push(size("refresh_1", 10_000, 1));
    }
    let mut measured = Vec::new();
    for size in sizes {
        measured.push(at_size(bench, &size).await?);
    }
    Ok(measured)
}

/// Measures one size. The service refreshes one half of the grants, pgbench the other.
async fn at_size(bench: &Bench, &RefreshLoad { name, grants, connections }: &RefreshLoad) -> Result<Measured> {
    seed(&bench.cluster.url(&bench.database), grants).await?;
    let script = tempfile::NamedTempFile::new()?;
    std::fs::write(script.path(), script_text(grants)?)?;
    let ours: SocketAddr = bench.server.http.url.trim_start_matches("http://").parse()?;
    let holder = Arc::new(Holder::new(&bench.settings, grants / 2, connections)?);
    let mut measured = Measured { name, ours: Vec::new(), bare: Vec::new() };
    for _ in 0..bench.rounds {
        measured.bare.push(pgbench::run_as(&bench.target(), script.path(), connections)?);
        let holder = holder.clone();
        let request = move |connection, number| holder.request(connection, number);
        let seen = load::run(ours, connections, bench.round, request).await?;
        ensure!(seen.failures == 0, "{} of {} requests failed", seen.failures, seen.requests);
        measured.ours.push(seen.per_second());
    }
    Ok(measured)
}

/// Replaces all grants by this many of one user.
pub(crate) async fn seed(url: &str, grants: u32) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    fill_grants(&client, grants).await
}

pub(super) async fn fill_grants(client: &Client, grants: u32) -> Result<()> {
    let seed = format!(
        "truncate grants;
         insert into users (id, shard, email, created_at) values ('{ID_PREFIX}000000000000', 0, 'bench@many.test', now())
             on conflict do nothing;
         insert into grants (id, shard, user_id, client_id, scopes, audience, salt, base, issued, issued_key,
                             rotated_at, rotated_from, created_at, created_from, expires_at)
         select id, 0, '{ID_PREFIX}000000000000', '{SERVICE_CLI}', 'read', 'https://service.test/v1', uuid_send(id), 0, 1, 1,
                now(), '127.0.0.1', now(), '127.0.0.1', now() + interval '300 days'
           from generate_series(0, {grants} - 1) as number,
                lateral (select ('{ID_PREFIX}' || lpad(to_hex(number), 12, '0'))::uuid as id) as made;
         vacuum analyze grants;"
    );
    for statement in seed.split_inclusive(';') {
        client.batch_execute(statement).await.context("the grants could not be made")?;
    }
    Ok(())
}

/// The holder of the tokens of the first grants, with the generation of each.
pub(crate) struct Holder {
    root_keys: RootKeys,
    generations: Vec<AtomicI32>,
    connections: u64,
}

impl Holder {
    /// Takes the root keys from the settings of the server that the tokens are presented to.
    pub(crate) fn new(settings: &Settings, grants: u32, connections: u64) -> Result<Self> {
        let root_keys = RootKeys::new(&server::config(settings)?.root_keys)?;
        let generations = (0..grants).map(|_| AtomicI32::new(1)).collect();
        Ok(Self { root_keys, generations, connections })
    }

    /// Returns the next refresh of a connection. Each connection has grants of its own, and takes them in no order.
    pub(crate) fn request(&self, connection: u64, number: u64) -> Vec<u8> {
        let own = self.generations.len() as u64 / self.connections;
        let place = connection * own + number.wrapping_mul(7_919) % own;
        let generation = usize::try_from(place).ok().and_then(|place| self.generations.get(place));
        let generation = generation.map_or(0, |generation| generation.fetch_add(1, Ordering::Relaxed));
        let id = Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0000 + u128::from(place));
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

/// Returns the statements of `flows/oauth/refresh_grant.rs`, with values that pgbench can generate.
pub(crate) fn script_text(grants: u32) -> Result<String> {
    let id = format!("('{ID_PREFIX}' || lpad(to_hex((:number)::bigint), 12, '0'))::uuid");
    let find = fill(statement(GRANTS, "select g.user_id")?, &[&id, SHARD]);
    let advance = fill(
        statement(GRANTS, "update grants set base")?,
        &[
            &id,
            "(:base)::int",
            "(:issued)::int",
            "(:issued)::int",
            "(:issued)::int + 1",
            "1::smallint",
            "now()",
            "'127.0.0.1'",
            SHARD,
        ],
    );
    Ok(format!("\\set number random({}, {})\n{find}\n\\gset\n{advance};\n", grants / 2, grants - 1))
}
