//! What the service stores is deleted in time: everything is used, 400 days pass, and only what the manual names is left. A
//! table that cannot be cleaned keeps no other from it.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_server::{
    flows::{oauth::consents, operations::retention},
    tasks::housekeeping,
};
use service_testkit::{
    dns_server::DnsServer,
    server::{SignedIn, TestServer},
    tab::Tab,
};

use crate::support::{
    authorize::{CALLBACK, asking, code, exchange, go_through},
    cli_tokens,
    connections::{Company, txt, with_dns},
    contents::{kinds, make, send},
    mcp, mcp_tokens, workspaces,
};

const PAGE: &str = include_str!("../../../../../docs/retention.md");

const DAY: i64 = 86_400;
/// Longer than anything is kept that is not used.
const LONG: i64 = 400 * DAY;

/// Rows of two batches and a half, all of which have expired.
const MANY_HITS: &str = "insert into recent_hits (key, shard, hits, forget_at)
    select sha256(n::text::bytea), 7, '{}', '2027-01-16Z' from generate_series(1, 2500) n";

/// Tables in which rows stay, by the manual.
fn lasting_tables() -> Result<BTreeSet<String>> {
    let section = PAGE.split("## What does not expire").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = section.context("docs/retention.md has no list of what does not expire")?.lines();
    let first_cells = rows.filter(|line| line.starts_with("| `")).filter_map(|line| line.split(" | ").next());
    Ok(first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect())
}

/// Every table with its number of rows.
pub(crate) async fn tables(server: &TestServer) -> Result<Vec<(String, u64)>> {
    let names = server
        .sql(
            "select string_agg(relname, ' ' order by relname) from pg_class
              where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
                and relname <> 'refinery_schema_history'",
        )
        .await?
        .context("no tables")?;
    let mut counted = Vec::new();
    for name in names.split(' ') {
        let rows = server.sql(&format!("select count(*) from {name}")).await?.context("no count")?.parse()?;
        counted.push((name.to_owned(), rows));
    }
    Ok(counted)
}

/// Writes to every table, mostly through the API; returns the user and what has to be deleted by hand.
pub(crate) async fn use_everything(server: &TestServer, dns: &DnsServer) -> Result<(SignedIn, Vec<String>)> {
    let ann = server.sign_in("ann@acme.test", "read write").await?;
    server.request_code("carl@acme.test").await?;
    let second = server.sign_in("ann@acme.test", "read").await?;
    ensure!(server.refresh(&second.refresh_token).await?.status == 200, "no refresh");
    let session = format!("/v1/sessions/{}", second.grant_id);
    ensure!(send(server, "DELETE", &session, &ann, None).await?.status == 204, "the session was not revoked");
    cli_tokens::make(server, &ann, &json!({ "scopes": ["read"] })).await?;
    let pair = mcp_tokens::pair(server, &ann, &json!({ "scope": "read write" })).await?;
    let (packed, _) = make(server, "/v1/packs", &ann, &json!({ "name": "Tone", "type": "context" })).await?;
    mcp::refused(server, &pair.access_token, "delete_pack", &json!({ "packId": packed })).await?;

    let workspace = workspaces::make(server, &ann, "Harbour").await?;
    workspaces::invite(server, &ann, &workspace, "bob@acme.test", "member").await?;
    workspaces::join(server, "bob@acme.test").await?;
    workspaces::invite(server, &ann, &workspace, "dave@acme.test", "member").await?;
    let blocked = workspaces::invite(server, &ann, &workspace, "eve@acme.test", "member").await?;
    let eve = server.sign_in("eve@acme.test", "read write").await?;
    let block = format!("/v1/invitations/{blocked}/block");
    ensure!(send(server, "POST", &block, &eve, None).await?.status == 200, "the workspace was not blocked");

    let company = Company { owner: ann.clone(), email: "ann@acme.test".to_owned(), id: workspace.clone() };
    let connection = company.connect(server).await?;
    dns.serve(&[txt("firm.test", &company.claim_for(server, "firm.test", &connection).await?)])?;
    ensure!(company.verify(server, "firm.test").await?.field("status") == "verified", "the domain was not verified");

    let mut mine = vec![format!("/v1/workspaces/{workspace}"), format!("/v1/packs/{packed}")];
    for (_, path, body) in kinds() {
        make(server, &format!("{path}?workspaceId={workspace}"), &ann, &body).await?;
        let (id, _) = make(server, path, &ann, &body).await?;
        mine.push(format!("{path}/{id}"));
    }
    let (gone, _) = make(server, "/v1/projects", &ann, &json!({ "name": "Gone" })).await?;
    ensure!(send(server, "DELETE", &format!("/v1/projects/{gone}"), &ann, None).await?.status == 204, "not deleted");
    let request = server.http.request(Method::POST, "/v1/projects").header("Idempotency-Key", "once");
    let once = server.http.send(request.bearer_auth(&ann.access_token).json(&json!({ "name": "Once" }))).await?;
    mine.push(format!("/v1/projects/{}", once.field("id")));

    let metadata = json!({ "client_name": "Editor", "redirect_uris": [CALLBACK] });
    let client = server.http.post("/oauth/register", &metadata).await?.field("client_id").to_owned();
    let done = go_through(server, &Tab::open(server)?, &asking(&client, &[]), "ann@acme.test").await?;
    let tokens = server.http.post("/oauth/token", &exchange(&client, &code(&done)?)).await?;
    ensure!(tokens.status == 200, "{}", tokens.text);
    // What the service keeps for moments only, or for operators.
    server
        .sql(
            "insert into outbox values (gen_random_uuid(), 7, 'x', 0, '2030-01-01Z', '2027-01-16Z');
             insert into suppressed_addresses values ('x', 7, 1, '2027-01-16Z');
             insert into sign_in_reports values ('x', 7, gen_random_uuid(), 'x', null, '2027-01-15Z', '2027-01-16Z');
             insert into address_changes values (gen_random_uuid(), 0, gen_random_uuid(), 'x@acme.test', 'c', 'n', 1, 'x',
                 '2027-01-15Z', '2027-01-16Z');
             insert into account_exports values
                 (gen_random_uuid(), 7, gen_random_uuid(), 'x', '2027-01-15Z', '2027-01-16Z', 0, null, null, null, 0, 0, 0);
             insert into client_assertions values ('x', 7, '2027-01-16Z');
             insert into support_clients values (gen_random_uuid(), 'Helpdesk', '{}', '2027-01-15Z', null);
             insert into blocked_client_hosts values ('bad.test', 'eve', '2027-01-15Z');
             insert into identities select id, 'sub', shard, created_by, 'ann@acme.test', created_at, created_at from connections;
             insert into logout_tokens select id, 'jti', shard, '2027-01-16Z' from connections;
             insert into user_connections select created_by, shard_of(created_by), id, 'sub', created_at, created_at from connections",
        )
        .await?;
    Ok((ann, mine))
}

/// What housekeeping does about rows.
async fn clean(server: &TestServer) -> Result<()> {
    let cleaned = [consents::expire(&server.app).await, retention::delete_ended(&server.app).await];
    let last = housekeeping::clean_once(&server.app).await;
    for step in cleaned {
        step?;
    }
    last.map(drop)
}

/// Uses everything, deletes what users delete, and lets the time pass.
async fn use_and_forget(server: &TestServer, dns: &DnsServer) -> Result<()> {
    let (ann, mine) = use_everything(server, dns).await?;
    let lasting = lasting_tables()?;
    let mut unused = tables(server).await?;
    unused.retain(|(table, rows)| *rows == 0 && !lasting.contains(table));
    assert!(
        unused.is_empty(),
        "this test does not use {unused:?}: it would not notice that nothing deletes their rows"
    );
    for path in mine {
        let deleted = send(server, "DELETE", &path, &ann, None).await?;
        ensure!(deleted.status == 204, "{path}: {}", deleted.text);
    }
    server.advance(LONG);
    Ok(())
}

#[test]
fn after_400_days_only_what_the_manual_names_is_left_rv_18() -> Result<()> {
    with_dns(async |server, dns| {
        use_and_forget(server, dns).await?;
        clean(server).await?;
        let lasting = lasting_tables()?;
        let left = tables(server).await?;
        let too_long: Vec<_> = left.iter().filter(|(table, rows)| *rows > 0 && !lasting.contains(table)).collect();
        assert!(too_long.is_empty(), "nothing deletes these rows, and docs/retention.md does not say so: {too_long:?}");
        assert!(lasting.iter().all(|table| left.iter().any(|(known, _)| known == table)), "{lasting:?}");
        // Of the clients only those that no user registered.
        assert_eq!(server.sql("select count(*) from clients where kind = 'dynamic'").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn a_locked_table_keeps_no_other_from_being_cleaned_to_its_end_rv_39() -> Result<()> {
    for locked in ["otps", "browser_sessions"] {
        with_dns(async |server, dns| {
            use_and_forget(server, dns).await?;
            server.sql(MANY_HITS).await?;
            let held = server.app.database.begin().await?;
            held.execute(&format!("lock table {locked} in access exclusive mode"), &[]).await?;
            let failed = clean(server).await.err().context("nothing failed")?;
            assert_eq!(failed.to_string(), format!("could not delete expired rows of {locked}"));
            drop(held);
            let mut left = tables(server).await?;
            let lasting = lasting_tables()?;
            left.retain(|(table, rows)| *rows > 0 && !lasting.contains(table));
            assert_eq!(left.len(), 1, "{left:?}");
            assert_eq!(left[0].0, locked);
            clean(server).await?;
            assert_eq!(server.sql(&format!("select count(*) from {locked}")).await?.as_deref(), Some("0"));
            Ok(())
        })?;
    }
    Ok(())
}
