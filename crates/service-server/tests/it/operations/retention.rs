//! What is kept for how long: what ended is deleted in time, and nothing else is.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_api::{ids::Id as _, workspaces::Role};
use service_server::{flows::operations::retention, tasks::housekeeping};
use service_testkit::server::{SignedIn, TestServer, with_server};

use crate::support::contents::{kinds, make, send};

const DAY: i64 = 86_400;

const PAGE: &str = include_str!("../../../../../docs/retention.md");

/// Every column that the page names, as `table.column`.
fn columns_of_the_page() -> Result<BTreeSet<String>> {
    let tables = PAGE.split("## Tables").nth(1).and_then(|rest| rest.split("\n## ").next()).context("no tables")?;
    let mut named = BTreeSet::new();
    for line in tables.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [table, columns, holds, why, how_long, deleted_by] = cells[..] else {
            anyhow::bail!("docs/retention.md: a row has {} cells instead of 6: {line}", cells.len());
        };
        let silent = holds.is_empty() || why.is_empty() || how_long.is_empty();
        ensure!(
            !silent && (how_long == "for ever" || !deleted_by.is_empty()),
            "docs/retention.md: an empty cell: {line}"
        );
        ensure!(how_long != "for ever" || holds.starts_with("nothing"), "docs/retention.md: kept for ever: {line}");
        for column in columns.split('`').skip(1).step_by(2) {
            let name = format!("{}.{column}", table.trim_matches('`'));
            ensure!(named.insert(name.clone()), "docs/retention.md names {name} twice");
        }
    }
    Ok(named)
}

#[test]
fn the_manual_of_what_is_kept_names_every_column_rv_18() -> Result<()> {
    let named = columns_of_the_page()?;
    with_server(async |server| {
        let there = server
            .sql(
                "select string_agg(c.relname || '.' || a.attname, ' ')
                   from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
                    and c.relname <> 'refinery_schema_history'",
            )
            .await?
            .context("no tables")?;
        let there: BTreeSet<String> = there.split(' ').map(str::to_owned).collect();
        let silent: Vec<_> = there.difference(&named).collect();
        assert!(silent.is_empty(), "docs/retention.md does not say what these hold, and for how long: {silent:?}");
        let stale: Vec<_> = named.difference(&there).collect();
        assert!(stale.is_empty(), "docs/retention.md names what does not exist: {stale:?}");
        Ok(())
    })
}

async fn count(server: &TestServer, of: &str) -> Result<u32> {
    Ok(server.sql(&format!("select count(*) from {of}")).await?.context("no count")?.parse()?)
}

#[test]
fn sessions_that_ended_are_deleted_after_thirty_days_and_live_ones_are_not_rv_18() -> Result<()> {
    with_server(async |server| {
        let revoked = server.sign_in("ann@acme.test", "read write").await?;
        server.advance(60);
        let unused = server.sign_in("ann@acme.test", "read write").await?;
        server.advance(60);
        let used = server.sign_in("ann@acme.test", "read write").await?;
        let path = format!("/v1/sessions/{}", revoked.grant_id);
        assert_eq!(send(server, "DELETE", &path, &used, None).await?.status, 204);
        let rows = async |who: &SignedIn| count(server, &format!("grants where id = '{}'", who.grant_id.uuid())).await;
        server.advance(30 * DAY - 1);
        let mut token = used.refresh_token.clone();
        let renewed = server.refresh(&token).await?;
        token = renewed.field("refresh_token").to_owned();
        retention::delete_ended(&server.app).await?;
        assert_eq!((rows(&revoked).await?, rows(&unused).await?, rows(&used).await?), (1, 1, 1));
        server.advance(1);
        retention::delete_ended(&server.app).await?;
        assert_eq!((rows(&revoked).await?, rows(&unused).await?, rows(&used).await?), (0, 1, 1));
        // Dead after thirty days without use, and gone thirty days later.
        server.advance(29 * DAY);
        let renewed = server.refresh(&token).await?;
        assert_eq!(renewed.status, 200, "{}", renewed.text);
        retention::delete_ended(&server.app).await?;
        assert_eq!((rows(&unused).await?, rows(&used).await?), (1, 1));
        server.advance(DAY);
        retention::delete_ended(&server.app).await?;
        assert_eq!((rows(&unused).await?, rows(&used).await?), (0, 1));
        // What is gone is refused like what never was.
        let gone = server.refresh(&unused.refresh_token).await?;
        assert_eq!((gone.status.as_u16(), gone.field("error")), (400, "invalid_grant"));
        assert_eq!(server.refresh(renewed.field("refresh_token")).await?.status, 200);
        Ok(())
    })
}

#[test]
fn many_sessions_are_walked_part_by_part_rv_18() -> Result<()> {
    with_server(async |server| {
        server.sign_in("ann@acme.test", "read").await?;
        server
            .sql(
                "insert into grants (id, shard, user_id, client_id, scopes, workspace_id, audience, salt, base, issued, rotated_at,
                                     rotated_from, created_at, created_from, expires_at, revoked_at, revoked_because, issued_key)
                 select gen_random_uuid(), shard, user_id, client_id, scopes, workspace_id, audience, salt, base, issued, rotated_at,
                        rotated_from, created_at, created_from, expires_at,
                        case when n % 2 = 0 then created_at - interval '31 days' end,
                        case when n % 2 = 0 then 'revoked_by_user' end, issued_key
                   from grants, generate_series(1, 12000) n",
            )
            .await?;
        for _ in 0..3 {
            retention::delete_ended(&server.app).await?;
        }
        assert_eq!(count(server, "grants").await?, 6_001);
        Ok(())
    })
}

#[test]
fn a_deleted_workspace_is_gone_with_all_that_is_in_it_after_thirty_days_rv_18() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let members = [(ann.user_id, Role::Owner), (bob.user_id, Role::Member)];
        let acme = server.make_workspace("Acme", &members).await?;
        let other = server.make_workspace("Other", &members).await?;
        for (_, path, body) in kinds() {
            for space in [acme, other] {
                make(server, &format!("{path}?workspaceId={space}"), &ann, &body).await?;
            }
            make(server, path, &ann, &body).await?;
        }
        let (id, _) =
            make(server, &format!("/v1/projects?workspaceId={acme}"), &ann, &json!({ "name": "Gone" })).await?;
        send(server, "DELETE", &format!("/v1/projects/{id}?workspaceId={acme}"), &ann, None).await?;
        let leaving = format!("/v1/workspaces/{other}/members/{}", bob.user_id);
        assert_eq!(send(server, "DELETE", &leaving, &ann, None).await?.status, 204);
        assert_eq!(send(server, "DELETE", &format!("/v1/workspaces/{acme}"), &ann, None).await?.status, 204);
        let space = acme.uuid();
        let there = async || -> Result<[u32; 5]> {
            Ok([
                count(server, &format!("contents where space_id = '{space}'")).await?,
                count(server, &format!("deletions where space_id = '{space}'")).await?,
                count(server, &format!("deleted_contents where space_id = '{space}'")).await?,
                count(server, &format!("workspaces where id = '{space}'")).await?,
                count(server, &format!("memberships where workspace_id = '{space}' or ended_at is not null")).await?,
            ])
        };
        server.advance(30 * DAY - 1);
        retention::delete_ended(&server.app).await?;
        housekeeping::clean_once(&server.app).await?;
        assert_eq!(there().await?, [5, 1, 1, 1, 3]);
        server.advance(1);
        retention::delete_ended(&server.app).await?;
        housekeeping::clean_once(&server.app).await?;
        assert_eq!(there().await?, [0, 0, 0, 0, 0]);
        assert_eq!((count(server, "contents").await?, count(server, "memberships").await?), (10, 1));
        assert_eq!(count(server, "workspaces").await?, 1);
        Ok(())
    })
}
