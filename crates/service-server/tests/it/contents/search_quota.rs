//! Searching a space that is full, by a user who does not stop: what a search reads, what it may take, and from whom.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use reqwest::Method;
use serde_json::{Value, json};
use service_api::workspaces::Role;
use service_testkit::{
    response::TestResponse,
    server::{Setup, SignedIn, TestServer, with_server},
};

use crate::support::contents::{make, send};

/// Fewer than the quota of 10,000, so that the test takes seconds; `cargo xtask bench --only search_quota` fills a space.
const PACKS: u32 = 2_000;

const MIGRATION: &str = include_str!("../../../migrations/0008_contents.sql");

/// Rows that a search may read in vain.
const FILTERED: u64 = 1_000;

async fn search(server: &TestServer, who: &SignedIn, query: &str) -> Result<TestResponse> {
    let body = json!({ "type": "context", "query": query });
    send(server, "POST", "/v1/packs/search", who, Some(&body)).await
}

fn names(response: &TestResponse) -> Vec<&str> {
    let data = response.body["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    data.iter().filter_map(|found| found["name"].as_str()).collect()
}

/// Packs of 20,000 characters, made of twenty texts. All of them hold `harbour`, `report` and `tide`.
async fn fill(server: &TestServer, who: &SignedIn) -> Result<()> {
    let space = service_api::ids::Id::uuid(who.user_id);
    // Faster at once than row by row.
    let begin = MIGRATION.find("create index pack_search_words").context("the migration makes no such index")?;
    let index = MIGRATION[begin..].split(';').next().unwrap_or_default();
    let fill = format!(
        "drop index pack_search_words;
         create temporary table texts as
           select n, string_agg('tide ' || md5((n * 10000 + word % 900)::text), ' ') as text
             from generate_series(0, 19) n, generate_series(1, 526) word group by n;
         create temporary table vectors as select n, setweight(to_tsvector('english', text), 'B') as words from texts;
         create temporary table packs as
           select n, gen_random_uuid() as id, 'Harbour report ' || n as name from generate_series(1, {PACKS}) n;
         insert into contents (space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at, updated_at)
           select '{space}', 'pack', id, shard_of('{space}'), false, jsonb_build_object('type', 'context', 'name', name, 'text', text),
                  1, '{space}', clock_timestamp(), clock_timestamp()
             from packs join texts on texts.n = packs.n % 20;
         insert into pack_search (space_id, pack_id, shard, pack_type, name, words)
           select '{space}', id, shard_of('{space}'), 'context', name, setweight(to_tsvector('english', name), 'A') || words
             from packs join vectors on vectors.n = packs.n % 20;
         {index};
         analyze pack_search; analyze contents;"
    );
    server.sql(&fill).await.map(drop)
}

/// How many rows PostgreSQL says it read in vain in this database, by its own account of every plan.
fn filtered(log: &str, database: &str) -> u64 {
    let (mut ours, mut sum) = (false, 0);
    for line in log.lines() {
        if !line.starts_with('\t') {
            ours = line.contains(&format!("] {database} "));
        }
        let removed = ["Rows Removed by Filter: ", "Rows Removed by Index Recheck: "]
            .iter()
            .find_map(|what| line.split_once(what)?.1.trim().parse::<u64>().ok());
        sum += removed.filter(|_| ours).unwrap_or_default();
    }
    sum
}

#[test]
fn a_search_in_a_full_space_reads_only_what_it_may_find_rv_07() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        fill(server, &ann).await?;
        let database = &server.database;
        // For connections made from now on, of which the first search makes one.
        server
            .sql(&format!(
                "alter database {database} set session_preload_libraries = 'auto_explain';
                 alter database {database} set auto_explain.log_min_duration = 0;
                 alter database {database} set auto_explain.log_analyze = on;
                 alter database {database} set auto_explain.log_timing = off;
                 alter database {database} set auto_explain.log_nested_statements = on"
            ))
            .await?;
        // Indexes of partitions have names that PostgreSQL makes.
        let in_partitions = std::env::var_os("SERVICE_TEST_PARTITIONS").is_some();
        let index = if in_partitions { "pack_search" } else { "pack_search_words" };
        for query in [
            "harbour",
            "harbour 77",
            "\"harbour report\"",
            "\"report harbour\"",
            "tide -zeppelin",
            "-harbour",
            "-\"tide zeppelin\"",
            "harbour or tide",
            "harbuor",
            "zeppelin",
            "the",
            &"zeppelin harbour tide ".repeat(20),
        ] {
            let (logged, began) = (server.cluster.logged(), Instant::now());
            let response = search(server, &ann, query).await?;
            assert_eq!(response.status, 200, "{query}: {}", response.text);
            let log = server.cluster.log_since(logged)?;
            ensure!(log.contains("find_packs"), "no plan was logged for {query}");
            ensure!(log.contains(&format!("Bitmap Index Scan on {index}")), "the index is not used for {query}");
            let rows = filtered(&log, database);
            assert!(rows <= FILTERED, "{query} read {rows} rows in vain");
            assert!(began.elapsed() < Duration::from_secs(2), "{query} took {:?}", began.elapsed());
        }
        let found = search(server, &ann, "\"report 777\"").await?;
        assert_eq!(names(&found), ["Harbour report 777"]);
        // The leak scanner need not read all this.
        server.sql("truncate contents cascade").await.map(drop)
    })
}

#[test]
fn the_search_index_follows_every_change_of_a_pack_rv_07() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let shared = server.make_workspace("Shared", &[(ann.user_id, Role::Owner)]).await?;
        let pack = json!({ "name": "Tides", "type": "context", "text": "High water." });
        let (id, _) = make(server, "/v1/packs", &ann, &pack).await?;
        assert_eq!(names(&search(server, &ann, "water").await?), ["Tides"]);
        let path = format!("/v1/packs/{id}");
        let change = async |body: Value| send(server, "PATCH", &path, &ann, Some(&body)).await;
        assert_eq!(change(json!({ "name": "Ebb", "text": "Low sea." })).await?.status, 200);
        assert!(names(&search(server, &ann, "water").await?).is_empty());
        assert_eq!(names(&search(server, &ann, "sea").await?), ["Ebb"]);
        assert_eq!(change(json!({ "type": "template" })).await?.status, 200);
        assert!(names(&search(server, &ann, "sea").await?).is_empty(), "it is of another type now");
        assert_eq!(change(json!({ "type": "context" })).await?.status, 200);
        let moved = format!("/v1/packs/{id}?workspaceId={shared}");
        assert_eq!(send(server, "PATCH", &moved, &ann, Some(&json!({ "scope": "workspace" }))).await?.status, 200);
        assert!(names(&search(server, &ann, "sea").await?).is_empty(), "it is found where it was");
        let body = json!({ "type": "context", "query": "sea", "scopes": ["workspace"] });
        let there = send(server, "POST", &format!("/v1/packs/search?workspaceId={shared}"), &ann, Some(&body)).await?;
        assert_eq!(names(&there), ["Ebb"]);
        assert_eq!(send(server, "DELETE", &moved, &ann, None).await?.status, 204);
        assert_eq!(server.sql("select count(*) from pack_search").await?.as_deref(), Some("0"));
        assert_eq!(server.sql("select sum(bytes) from space_usage").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn a_search_that_takes_too_long_is_broken_off_by_the_database_rv_07() -> Result<()> {
    Setup::default().set("database.deadline_seconds", "4").run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let held = server.app.database.begin().await?;
        held.execute("lock table pack_search in access exclusive mode", &[]).await?;
        let began = Instant::now();
        assert_eq!(search(server, &ann, "harbour").await?.status, 503);
        let took = began.elapsed().as_secs_f64();
        assert!((0.4..0.95).contains(&took), "{took}");
        drop(held);
        assert_eq!(search(server, &ann, "harbour").await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_users_searches_run_one_after_the_other_rv_07() -> Result<()> {
    Setup::default().set("database.deadline_seconds", "4").run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        // Each search stands still at this lock until the database breaks it off after half a second.
        let held = server.app.database.begin().await?;
        held.execute("lock table pack_search in access exclusive mode", &[]).await?;
        let began = Instant::now();
        let (of_ann, of_bob) =
            tokio::try_join!(try_join_all((0..8).map(|_| search(server, &ann, "harbour"))), async {
                let response = search(server, &bob, "harbour").await?;
                anyhow::Ok((response.status.as_u16(), began.elapsed().as_secs_f64()))
            })?;
        assert!(of_bob.0 == 503 && of_bob.1 < 1.5, "another user had to wait: {of_bob:?}");
        let (broken_off, refused): (Vec<_>, Vec<_>) = of_ann.into_iter().partition(|response| response.status == 503);
        assert!((3..=5).contains(&broken_off.len()), "{} searches ran within two seconds", broken_off.len());
        for response in refused {
            assert_eq!((response.status.as_u16(), response.error()), (429, "rate_limited"));
            assert_eq!(response.header("retry-after"), Some("1"));
            assert_eq!(response.header("ratelimit-policy"), Some("\"searches-at-once\";q=1;w=1"));
        }
        drop(held);
        assert_eq!(search(server, &ann, "harbour").await?.status, 200);
        Ok(())
    })
}

#[test]
fn waiting_content_requests_do_not_delay_sign_in_rv_07() -> Result<()> {
    let setup = Setup::default().set("database.connections", "8").set("database.content_connections", "2");
    setup.set("database.deadline_seconds", "0.5").run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let held = [server.app.content_database.begin().await?, server.app.content_database.begin().await?];
        assert_eq!(search(server, &ann, "harbour").await?.status, 503);
        assert_eq!(send(server, "GET", "/v1/packs", &ann, None).await?.status, 503);
        assert_eq!(send(server, "GET", "/v1/whoami", &ann, None).await?.status, 200);
        assert_eq!(server.refresh(&ann.refresh_token).await?.status, 200);
        server.sign_in("bob@acme.test", "read").await?;
        drop(held);
        Ok(())
    })
}

#[test]
fn a_user_who_asks_too_often_is_told_when_to_come_back_rv_07() -> Result<()> {
    let setup = Setup::default().set("limits.searches_per_user", "3+3600").set("limits.writes_per_user", "2+1800");
    setup.set("limits.requests_per_user", "7+36000").run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        for left in [2, 1, 0] {
            let response = search(server, &ann, "harbour").await?;
            assert_eq!(response.status, 200);
            let policy = "\"requests-user\";q=36000;w=3600, \"searches-user\";q=3600;w=3600";
            assert_eq!(response.header("ratelimit-policy"), Some(policy));
            let (all, reset) = (left + 4, 3 - left);
            let rate = format!("\"requests-user\";r={all};t=1, \"searches-user\";r={left};t={reset}");
            assert_eq!(response.header("ratelimit"), Some(rate.as_str()));
        }
        let refused = search(server, &ann, "harbour").await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (429, "rate_limited"));
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(refused.header("ratelimit"), Some("\"searches-user\";r=0;t=1"));
        assert_eq!(refused.header("ratelimit-policy"), Some("\"searches-user\";q=3600;w=3600"));
        assert_eq!(search(server, &bob, "harbour").await?.status, 200, "another user is limited too");
        // A token made from the session is the same user.
        let pack = json!({ "name": "A", "type": "context" });
        for _ in 0..2 {
            assert_eq!(send(server, "POST", "/v1/packs", &ann, Some(&pack)).await?.status, 201);
        }
        let refused = send(server, "POST", "/v1/packs", &ann, Some(&pack)).await?;
        assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, Some("2")));
        let refused = send(server, "GET", "/v1/packs", &ann, None).await?;
        assert_eq!(refused.header("ratelimit"), Some("\"requests-user\";r=0;t=1"));
        // A request refused before authentication counts for no user; sign-in is not limited by this.
        assert_eq!(server.refresh(&ann.refresh_token).await?.status, 200);
        server.advance(2);
        assert_eq!(search(server, &ann, "harbour").await?.status, 200);
        assert_eq!(send(server, "POST", "/v1/packs", &ann, Some(&pack)).await?.status, 201);
        Ok(())
    })
}

#[test]
fn a_space_holds_so_many_bytes_and_no_more_rv_07() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let shared = server.make_workspace("Shared", &[(ann.user_id, Role::Owner)]).await?;
        let pack = |length: usize| json!({ "name": "A", "type": "context", "text": "a".repeat(length) });
        let (first, _) = make(server, "/v1/packs", &ann, &pack(1_000)).await?;
        let (second, _) = make(server, "/v1/packs", &ann, &pack(10)).await?;
        // As if there were 512 MB but for 500 bytes.
        let used =
            server.sql("update space_usage set bytes = bytes + 536870412 - bytes % 4096 returning bytes").await?;
        let left = 536_870_912 - used.context("nothing is counted")?.parse::<i64>()?;
        assert!((0..4_600).contains(&left), "{left}");
        let refused = send(server, "POST", "/v1/packs", &ann, Some(&pack(5_000))).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (409, "conflict"));
        assert!(refused.field("error_description").contains("512 MB"), "{}", refused.text);
        assert_eq!(server.sql("select count(*) from contents").await?.as_deref(), Some("2"), "it was kept");
        let path = format!("/v1/packs/{second}");
        let grown = json!({ "text": "a".repeat(5_000) });
        assert_eq!(send(server, "PATCH", &path, &ann, Some(&grown)).await?.status, 409);
        assert_eq!(send(server, "PATCH", &path, &ann, Some(&json!({ "text": "b" }))).await?.status, 200);
        // Elsewhere there is room, and moving gives room back.
        let there = format!("/v1/packs/{first}?workspaceId={shared}");
        assert_eq!(send(server, "PATCH", &there, &ann, Some(&json!({ "scope": "workspace" }))).await?.status, 200);
        let request = server.http.request(Method::POST, "/v1/packs").bearer_auth(&ann.access_token);
        assert_eq!(server.http.send(request.json(&pack(900))).await?.status, 201, "a move gives nothing back");
        assert_eq!(send(server, "DELETE", &there, &ann, None).await?.status, 204);
        let usage = "select coalesce(min(bytes), 0) from space_usage";
        assert_eq!(server.sql(usage).await?.as_deref(), Some("0"));
        Ok(())
    })
}
