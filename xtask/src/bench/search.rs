//! Search in one workspace, while other workspaces have few packs and while they have very many.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use service_api::{
    ids::{self, GrantId, UserId},
    oauth::SERVICE_CLI,
};
use service_rules::{bearer::Claims, lifetimes};
use service_server::{app::App, clock::Clock, crypto::random};
use service_testkit::{response::TestClient, server, settings::Settings};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{
    Bench, Measured,
    pgbench::{fill, statement},
};
use crate::say_error;

const PACK_SEARCH: &str = include_str!("../../../crates/service-server/src/store/pack_search.rs");
const MIGRATION: &str = include_str!("../../../crates/service-server/migrations/0008_contents.sql");
/// The prefix of ids of workspaces, which differ in their last twelve digits. A workspace has a hundred packs.
const ID_PREFIX: &str = "00000000-0000-7000-a000-";
pub(super) const USER: &str = "00000000-0000-7000-a000-ffffffffffff";

pub(super) async fn measure(bench: &Bench) -> Result<Measured> {
    let sizes = if bench.quick { [10, 20] } else { [100, 10_000] };
    let (client, connection) =
        tokio_postgres::connect(&bench.cluster.url(&bench.database), tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let token = prepare(&bench.settings, &client).await?;
    let mut measured = Measured { name: "search_1e6_to_1e4", ours: Vec::new(), bare: Vec::new() };
    let mut made = 0;
    for (place, workspaces) in sizes.into_iter().enumerate() {
        seed(&client, made, workspaces).await?;
        made = workspaces;
        let words = ["harbour", "crane berth", "pilots", "tydes"];
        let times = search(&bench.server.http, &token, &words, if bench.quick { 20 } else { 1_000 }).await?;
        let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)] * 1_000.0;
        let packs = workspaces * 100;
        say_error(&format!("{packs} packs in {workspaces} workspaces: p50 {:.1} ms, p99 {:.1} ms", at(50), at(99)));
        let rate = 1_000.0 / at(50);
        if place == 0 { measured.bare.push(rate) } else { measured.ours.push(rate) }
    }
    explain(&client).await?;
    Ok(measured)
}

pub(super) async fn prepare(settings: &Settings, client: &Client) -> Result<String> {
    let person = format!(
        "insert into users (id, shard, email, created_at) values ('{USER}', shard_of('{USER}'), 'searcher@many.test', now())
             on conflict do nothing;
         insert into memberships (user_id, workspace_id, shard, role, created_at)
             values ('{USER}', '{ID_PREFIX}000000000000', shard_of('{USER}'), 'member', now())
             on conflict do nothing;"
    );
    client.batch_execute(&person).await?;
    let app = App::new(server::config(settings)?, Clock::System)?;
    app.reload_signing_keys().await?;
    let (now, user) = (app.clock.now(), USER.parse::<Uuid>()?);
    let claims = Claims {
        iss: app.config.base_url.clone(),
        sub: UserId::from(user),
        aud: app.audience.clone(),
        exp: now.as_second() + lifetimes::ACCESS_TOKEN,
        iat: now.as_second(),
        jti: random::id(now)?,
        client_id: SERVICE_CLI.into(),
        scope: "read".into(),
        grant: GrantId::from(user),
        workspace: None,
        nbf: None,
    };
    Ok(app.signing_keys.sign(&claims, now)?.expose().to_owned())
}

async fn seed(client: &Client, from: u32, to: u32) -> Result<()> {
    let packs = format!(
        "insert into contents (space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at, updated_at)
         select ('{ID_PREFIX}' || lpad(to_hex(w), 12, '0'))::uuid, 'pack', gen_random_uuid(), 0, true,
                jsonb_build_object('type', 'context', 'name', 'Harbour ' || w || ' part ' || p,
                    'text', 'Water, ships, cranes, tides and pilots of berth ' || p || '. ' || repeat('All is well here. ', 20)),
                1, '{USER}', now(), now()
           from generate_series({from}, {to} - 1) w, generate_series(1, 100) p"
    );
    let index = format!(
        "insert into pack_search (space_id, pack_id, shard, pack_type, name, words)
         select space_id, id, shard, 'context', fields->>'name',
                setweight(to_tsvector('english', fields->>'name'), 'A') || setweight(to_tsvector('english', fields->>'text'), 'B')
           from contents where space_id >= ('{ID_PREFIX}' || lpad(to_hex({from}), 12, '0'))::uuid and kind = 'pack'
         on conflict do nothing"
    );
    client.batch_execute("drop index pack_search_words; set maintenance_work_mem = '256MB'").await?;
    client.batch_execute(&packs).await.context("the packs could not be made")?;
    client.batch_execute(&index).await.context("the packs could not be indexed")?;
    client.batch_execute(index_statement()?).await?;
    client.batch_execute("vacuum analyze pack_search").await?;
    client.batch_execute("vacuum analyze contents").await.context("not vacuumed")
}

/// Returns the statement that creates the search index, which is faster than indexing row by row.
pub(super) fn index_statement() -> Result<&'static str> {
    let begin = MIGRATION.find("create index pack_search_words").context("the migration makes no such index")?;
    MIGRATION[begin..].split(';').next().context("a statement without an end")
}

/// Returns the id of a workspace in the database.
pub(super) fn space(number: u32) -> String {
    format!("{ID_PREFIX}{number:012x}")
}

/// Returns the path of a search in the first workspace.
pub(super) fn path() -> Result<String> {
    Ok(format!("/v1/packs/search?workspaceId={}", ids::write("wsp", space(0).parse()?)))
}

/// Returns the durations of searches in milliseconds, shortest first.
pub(super) async fn search(http: &TestClient, token: &str, queries: &[&str], times: usize) -> Result<Vec<f64>> {
    let path = path()?;
    let mut all = Vec::with_capacity(times);
    for number in 0..times {
        let words = queries[number % queries.len()];
        let body = serde_json::json!({ "type": "context", "query": words, "limit": 20 });
        let request = http.request(reqwest::Method::POST, &path).bearer_auth(token).json(&body);
        let began = Instant::now();
        let response = http.send(request).await?;
        all.push(began.elapsed().as_secs_f64());
        ensure!(response.status == 200, "{}", response.text);
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}

async fn explain(client: &Client) -> Result<()> {
    let search =
        fill(statement(PACK_SEARCH, "/* entered spaces */")?, &["'context'", "'harbour'", "0", "20", "1000000"]);
    client.batch_execute(&format!("set service.spaces = '{}'", space(0))).await?;
    for row in client.query(&format!("explain (analyze, buffers, costs off) {search}"), &[]).await? {
        say_error(&format!("    {}", row.get::<_, String>(0)));
    }
    Ok(())
}
