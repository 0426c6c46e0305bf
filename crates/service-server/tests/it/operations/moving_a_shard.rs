//! A shard moves to another server while clients write to it: PostgreSQL's logical replication with a row filter on `shard`.
//! `docs/scaling.md` has the same steps for an operator.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use service_api::ids::{Id as _, ProjectId};
use service_testkit::{
    leaks::Leaks,
    mailbox::Mailbox,
    postgres::Cluster,
    process::Process,
    response::{TestClient, TestResponse},
    server::{Setup, SignedIn, TestServer, fresh_database, otp_exchange, refresh_body, request_code, signed_in},
    tab::Tab,
};
use tokio::sync::RwLock;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::support::failover::{AT_MOST, connect};

const WRITERS: usize = 4;
/// Writes that must be acknowledged before, while and after the shard moves.
const WRITES: usize = 100;
const PAUSE_AT_MOST: Duration = Duration::from_secs(2);
const MOVE_AT_MOST: Duration = Duration::from_secs(30);

/// Mail that waits is sent by the nodes that wrote it: a copy would be sent twice.
const STAYS: &str = "outbox";
/// Tables that the writers of this test change.
const WRITTEN: [&str; 3] = ["grants", "contents", "space_usage"];

/// One of the two servers with a node. The node knows of no other server.
struct Cell {
    cluster: Cluster,
    database: String,
    operator: Client,
}

impl Cell {
    async fn start() -> Result<Self> {
        let cluster = Cluster::start_logical()?;
        let database = fresh_database(&cluster).await?;
        let operator = connect(&cluster, &database).await?;
        Ok(Self { cluster, database, operator })
    }

    fn start_node(&self, server: &TestServer) -> Result<Process> {
        let mut settings = server.settings.clone();
        settings.set("database.url", &self.cluster.service_url(&self.database));
        Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &Leaks::default())
    }

    /// Every table whose rows belong to a shard, but for mail.
    async fn tables(&self) -> Result<Vec<String>> {
        let sql = "select c.relname::text
                     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'shard' and not a.attisdropped
                    where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = current_schema()::regnamespace
                    order by 1";
        let names = self.operator.query(sql, &[]).await?.iter().map(|row| row.get(0)).collect::<Vec<String>>();
        Ok(names.into_iter().filter(|name| name != STAYS).collect())
    }

    /// Returns a count of the table's rows.
    async fn count(&self, table: &str, condition: &str) -> Result<i64> {
        Ok(self.operator.query_one(&format!("select count(*) from {table} where {condition}"), &[]).await?.get(0))
    }

    /// Returns all rows of a table in a shard as text.
    async fn rows(&self, table: &str, shard: i16) -> Result<Vec<String>> {
        let sql = format!("select t::text from {table} t where shard = {shard} order by 1");
        Ok(self.operator.query(&sql, &[]).await?.iter().map(|row| row.get(0)).collect())
    }

    /// Copies what every cell has the same of: the key of addresses, and the keys that sign access tokens.
    async fn copy_shared_rows_to(&self, other: &Self) -> Result<()> {
        for table in ["address_key", "signing_keys"] {
            let read = format!("select coalesce(jsonb_agg(to_jsonb(t)), '[]')::text from {table} t");
            let rows: String = self.operator.query_one(&read, &[]).await?.get(0);
            let write = format!(
                "delete from {table};
                 insert into {table} select * from jsonb_populate_recordset(null::{table}, '{rows}')"
            );
            other.operator.batch_execute(&write).await?;
        }
        Ok(())
    }
}

async fn sign_in(http: &TestClient, mailbox: &Mailbox, email: &str) -> Result<SignedIn> {
    let (otp_id, code) = request_code(http, mailbox, &Leaks::default(), email).await?;
    signed_in(&http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?)
}

async fn create(http: &TestClient, token: &str, path: &str, body: &Value) -> Result<TestResponse> {
    let made = http.send(http.request(Method::POST, path).bearer_auth(token).json(body)).await?;
    ensure!(made.status == 201, "{path}: {}", made.text);
    Ok(made)
}

/// Makes rows of most kinds for a user; returns a CLI token.
async fn furnish(node: &Process, mailbox: &Mailbox, email: &str) -> Result<(SignedIn, String)> {
    let http = &node.http;
    let user = sign_in(http, mailbox, email).await?;
    let token = &user.access_token;
    let workspace = create(http, token, "/v1/workspaces", &json!({ "name": "Harbour" })).await?;
    let invitations = format!("/v1/workspaces/{}/invitations", workspace.field("id"));
    create(http, token, &invitations, &json!({ "email": format!("guest-of-{email}"), "role": "member" })).await?;
    let pack = json!({ "type": "context", "name": "Tides", "text": "High at noon.", "scope": "personal" });
    create(http, token, "/v1/packs", &pack).await?;
    let deleted = create(http, token, "/v1/projects", &json!({ "name": "Gone" })).await?;
    let path = format!("/v1/projects/{}", deleted.field("id"));
    ensure!(http.send(http.request(Method::DELETE, &path).bearer_auth(token)).await?.status == 204, "not deleted");
    let cli_token = create(http, token, "/v1/cli/tokens", &json!({ "name": "CI", "scopes": ["read"] })).await?;
    let tab = Tab::at(&http.url, &Leaks::default())?;
    let begun = tab.get("/sign-in").await?;
    tab.sign_in(mailbox, begun.next()?, email).await?;
    let cli_token = cli_token.field("access_token").to_owned();
    Ok((user, cli_token))
}

/// What was acknowledged: how often each grant was refreshed, and the projects that were created.
#[derive(Clone, Default)]
struct Acknowledged {
    refreshes: BTreeMap<Uuid, i32>,
    projects: BTreeSet<String>,
}

impl Acknowledged {
    fn count(&self) -> usize {
        self.projects.len() * 2
    }
}

/// The node that serves the shard, as the map of shards says. A writer holds it while its request is under way.
type Map<'a> = RwLock<&'a Process>;

/// Refreshes a session and creates a project, again and again, wherever the shard is.
async fn write(map: &Map<'_>, session: &SignedIn, seen: &RefCell<Acknowledged>, enough: &RefCell<bool>) -> Result<()> {
    let mut refresh_token = session.refresh_token.clone();
    while !*enough.borrow() {
        let node = map.read().await;
        let refreshed = node.http.post("/oauth/token", &refresh_body(&refresh_token)).await?;
        let next = signed_in(&refreshed)?;
        *seen.borrow_mut().refreshes.entry(next.grant_id.uuid()).or_default() += 1;
        let project = create(&node.http, &next.access_token, "/v1/projects", &json!({ "name": "Plan" })).await?;
        seen.borrow_mut().projects.insert(project.field("id").to_owned());
        refresh_token = next.refresh_token;
        drop(node);
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The move of one shard.
struct Move<'a> {
    source: &'a Cell,
    target: &'a Cell,
    target_node: &'a Process,
    shard: i16,
    tables: &'a [String],
}

/// What the move took, and what the target held before writers went on.
struct Moved {
    copying: Duration,
    pause: Duration,
    before: Acknowledged,
    grants: BTreeMap<Uuid, i32>,
    projects: BTreeSet<Uuid>,
}

/// Repeats a question to a server until it has a row.
async fn until(client: &Client, question: &str) -> Result<()> {
    let began = Instant::now();
    while client.query_opt(question, &[]).await?.is_none() {
        ensure!(began.elapsed() < AT_MOST, "it did not become true: {question}");
    }
    Ok(())
}

async fn until_acknowledged(seen: &RefCell<Acknowledged>, more: usize) -> Result<()> {
    let (began, wanted) = (Instant::now(), seen.borrow().count() + more);
    while seen.borrow().count() < wanted {
        ensure!(began.elapsed() < AT_MOST, "writers stand still");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

impl<'a> Move<'a> {
    /// Copies the shard while writers go on, pauses them, waits until the target has everything, and lets them go on there.
    async fn run(&self, map: &Map<'a>, seen: &RefCell<Acknowledged>) -> Result<Moved> {
        until_acknowledged(seen, WRITES).await?;
        let began = Instant::now();
        self.subscribe().await?;
        let copied = "select where not exists (select from pg_subscription_rel where srsubstate <> 'r')";
        until(&self.target.operator, copied).await?;
        let copying = began.elapsed();
        // A target that lags: nothing changes there while this lock is held.
        let busy = connect(&self.target.cluster, &self.target.database).await?;
        busy.batch_execute("begin; lock table grants in exclusive mode").await?;
        until_acknowledged(seen, WRITES).await?;

        let closing = Instant::now();
        let mut serving = map.write().await;
        let end: String = self.source.operator.query_one("select pg_current_wal_lsn()::text", &[]).await?.get(0);
        let caught_up = format!(
            "select from pg_replication_slots where slot_name = 'moving' and confirmed_flush_lsn >= '{end}'::pg_lsn"
        );
        busy.batch_execute("commit").await?;
        until(&self.source.operator, &caught_up).await?;
        let (grants, projects) = self.held_by_target().await?;
        let before = seen.borrow().clone();
        *serving = self.target_node;
        drop(serving);
        let pause = closing.elapsed();
        until_acknowledged(seen, WRITES).await?;
        Ok(Moved { copying, pause, before, grants, projects })
    }

    async fn subscribe(&self) -> Result<()> {
        let Self { source, target, shard, tables, .. } = self;
        let filtered: Vec<_> = tables.iter().map(|table| format!("{table} where (shard = {shard})")).collect();
        let publish = format!(
            "create publication moving for table {} with (publish_via_partition_root = true)",
            filtered.join(", ")
        );
        source.operator.batch_execute(&publish).await?;
        let from = format!("host=127.0.0.1 port={} user=service dbname={}", source.cluster.port(), source.database);
        // Else the target confirms what it has written only when it happens to flush.
        let subscribe =
            format!("create subscription moving connection '{from}' publication moving with (synchronous_commit = on)");
        Ok(target.operator.batch_execute(&subscribe).await?)
    }

    /// The generation of each grant and the ids of the projects that the target holds.
    async fn held_by_target(&self) -> Result<(BTreeMap<Uuid, i32>, BTreeSet<Uuid>)> {
        let grants = self.target.operator.query("select id, issued from grants", &[]).await?;
        let projects = self.target.operator.query("select id from contents where kind = 'proj'", &[]).await?;
        Ok((
            grants.iter().map(|row| (row.get(0), row.get(1))).collect(),
            projects.iter().map(|row| row.get(0)).collect(),
        ))
    }

    /// Compares with the source, which no client writes to any more, and removes the shard there. Returns how many tables
    /// had rows of it.
    async fn finish(&self) -> Result<usize> {
        let Self { source, target, shard, tables, .. } = self;
        target.operator.batch_execute("drop subscription moving").await?;
        source.operator.batch_execute("drop publication moving").await?;
        let mut filled = 0;
        for table in *tables {
            let elsewhere = target.count(table, &format!("shard <> {shard}")).await?;
            assert_eq!(elsewhere, 0, "{elsewhere} rows of other shards came along in {table}");
            let rows = source.rows(table, *shard).await?;
            filled += usize::from(!rows.is_empty());
            if !WRITTEN.contains(&table.as_str()) {
                assert_eq!(target.rows(table, *shard).await?, rows, "{table} differs");
            }
        }
        for table in *tables {
            source.operator.batch_execute(&format!("delete from {table} where shard = {shard}")).await?;
        }
        assert!(filled >= 14, "the shard has rows in {filled} tables only");
        Ok(filled)
    }
}

impl Moved {
    /// Compares every acknowledged write with the target.
    fn check(&self) -> Result<()> {
        for (grant, refreshes) in &self.before.refreshes {
            // A session begins with its first token.
            assert_eq!(self.grants.get(grant), Some(&(1 + refreshes)), "an acknowledged refresh was lost");
        }
        for project in &self.before.projects {
            let id = project.parse::<ProjectId>()?.uuid();
            assert!(self.projects.contains(&id), "an acknowledged project was lost");
        }
        assert!(self.pause <= PAUSE_AT_MOST, "writers paused for {:?}", self.pause);
        assert!(self.copying + self.pause <= MOVE_AT_MOST, "it took {:?}", self.copying + self.pause);
        Ok(())
    }
}

/// After the move the node of the target serves the user with what the source had issued.
async fn check_served(node: &Process, target: &Cell, cli_token: &str, refresh_token: &str) -> Result<()> {
    assert_eq!(node.http.get("/v1/whoami", Some(cli_token)).await?.status, 200);
    let again = signed_in(&node.http.post("/oauth/token", &refresh_body(refresh_token)).await?)?;
    let search = json!({ "type": "context", "query": "noon", "limit": 10 });
    let request = node.http.request(Method::POST, "/v1/packs/search").bearer_auth(&again.access_token).json(&search);
    let found = node.http.send(request).await?;
    assert!(found.status == 200 && found.text.contains("Tides"), "{}", found.text);
    // A genuine token that is ahead of its row is believed, so that a lost rotation would be noticed here only.
    assert_eq!(target.count("audit_events", "event = 'refresh.fast_forwarded'").await?, 0);
    Ok(())
}

#[test]
fn a_shard_moves_to_another_server_while_clients_write_to_it() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let (source, target) = (Cell::start().await?, Cell::start().await?);
        let source_node = source.start_node(server)?;
        source.copy_shared_rows_to(&target).await?;
        let target_node = target.start_node(server)?;
        let (ann, cli_token) = furnish(&source_node, &server.mailbox, "ann@acme.test").await?;
        for other in ["bob@acme.test", "carl@acme.test"] {
            furnish(&source_node, &server.mailbox, other).await?;
        }
        let mut sessions = Vec::new();
        for _ in 0..WRITERS {
            sessions.push(sign_in(&source_node.http, &server.mailbox, "ann@acme.test").await?);
        }
        let [a, b, c, d] = sessions.as_slice() else { unreachable!() };

        let (map, seen, enough) = (RwLock::new(&source_node), RefCell::default(), RefCell::new(false));
        let (shard, tables) = (ann.user_id.shard().number(), source.tables().await?);
        let moving =
            Move { source: &source, target: &target, target_node: &target_node, shard, tables: &tables };
        let operator = async {
            let moved = moving.run(&map, &seen).await;
            *enough.borrow_mut() = true;
            moved
        };
        let writer = |session| write(&map, session, &seen, &enough);
        let (moved, (), (), (), ()) = tokio::try_join!(operator, writer(a), writer(b), writer(c), writer(d))?;
        let (before, all) = (moved.before.count(), seen.borrow().count());
        println!(
            "copied in {:?} while {WRITERS} writers went on; they paused for {:?}; {before} acknowledged writes before and {} after",
            moved.copying,
            moved.pause,
            all - before
        );
        moved.check()?;
        let filled = moving.finish().await?;
        println!("{} tables, {filled} with rows in the shard", tables.len());
        check_served(&target_node, &target, &cli_token, &ann.refresh_token).await
    })
}
