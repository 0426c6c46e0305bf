//! Restoring content while others restore, delete and lose their role: each interleaving made on purpose.

use std::time::Instant;

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use serde_json::json;
use service_api::{ids::Id as _, workspaces::Role};
use service_testkit::server::{TestServer, with_server};

use crate::support::{
    contents::{make, send},
    deleted_contents::make_deleted,
};

/// A transaction that holds locks until it is told to let go.
struct Holder(tokio_postgres::Client);

impl Holder {
    async fn begin(server: &TestServer, statement: &str) -> Result<Self> {
        let url = server.cluster.url(&server.database);
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(&format!("begin; {statement}")).await?;
        Ok(Self(client))
    }

    /// Waits until so many others wait for a lock.
    async fn is_awaited_by(&self, server: &TestServer, others: u32) -> Result<()> {
        let began = Instant::now();
        let waiting = "select count(distinct pid) from pg_locks where not granted
                          and pid in (select pid from pg_stat_activity where datname = current_database())";
        while server.sql(waiting).await?.as_deref() != Some(others.to_string().as_str()) {
            ensure!(began.elapsed().as_secs() < 5, "fewer than {others} wait");
        }
        Ok(())
    }

    async fn let_go(self) -> Result<()> {
        Ok(self.0.batch_execute("commit").await?)
    }
}

async fn restored_events(server: &TestServer) -> Result<Option<String>> {
    server.sql("select count(*) from audit_events where event = 'content.restored'").await
}

#[test]
fn of_two_restores_at_once_one_restores_and_both_succeed_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make_deleted(server, "/v1/projects", "", &ann, &json!({ "name": "Plan" })).await?;
        let path = format!("/v1/projects/{id}/restore");
        // One waits for the room in the space, the other for the first.
        let holder = Holder::begin(server, "update space_usage set bytes = bytes").await?;
        let both = try_join_all((0..2).map(|_| send(server, "POST", &path, &ann, None)));
        let letting = async {
            holder.is_awaited_by(server, 2).await?;
            holder.let_go().await
        };
        let (both, letting) = tokio::join!(both, letting);
        letting?;
        for response in both? {
            assert_eq!((response.status.as_u16(), response.header("etag")), (200, Some("\"2\"")), "{}", response.text);
        }
        assert_eq!(restored_events(server).await?.as_deref(), Some("1"), "both restored it");
        let usage = "select bytes = (select octet_length(fields::text) from contents) from space_usage";
        assert_eq!(server.sql(usage).await?.as_deref(), Some("t"), "it counts twice, or not at all");
        Ok(())
    })
}

#[test]
fn a_deletion_that_meets_a_restore_deletes_what_was_restored_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make_deleted(server, "/v1/projects", "", &ann, &json!({ "name": "Plan" })).await?;
        let (one, restore) = (format!("/v1/projects/{id}"), format!("/v1/projects/{id}/restore"));
        let holder = Holder::begin(server, "update space_usage set bytes = bytes").await?;
        let restoring = send(server, "POST", &restore, &ann, None);
        let deleting = async {
            holder.is_awaited_by(server, 1).await?;
            // Nothing is there to be deleted yet, and what says that it was deleted is about to go.
            let letting = async {
                holder.is_awaited_by(server, 2).await?;
                holder.let_go().await
            };
            let (deleted, letting) = tokio::join!(send(server, "DELETE", &one, &ann, None), letting);
            letting?;
            deleted
        };
        let (restored, deleted) = tokio::join!(restoring, deleting);
        let (restored, deleted) = (restored?, deleted?);
        assert_eq!((restored.status.as_u16(), deleted.status.as_u16()), (200, 204), "{}", deleted.text);
        assert_eq!(send(server, "GET", &one, &ann, None).await?.status, 404, "a deletion did nothing");
        assert_eq!(server.sql("select bytes from space_usage").await?.as_deref(), Some("0"));
        assert_eq!(send(server, "POST", &restore, &ann, None).await?.header("etag"), Some("\"3\""));
        Ok(())
    })
}

#[test]
fn restores_and_deletions_of_one_content_end_in_one_place_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let body = json!({ "name": "Plan", "type": "context", "text": "water" });
        let (id, _) = make(server, "/v1/packs", &ann, &body).await?;
        let (one, restore) = (format!("/v1/packs/{id}"), format!("/v1/packs/{id}/restore"));
        let all = (0..40).map(|number| {
            let (method, path) = if number % 2 == 0 { ("DELETE", &one) } else { ("POST", &restore) };
            send(server, method, path, &ann, None)
        });
        for response in try_join_all(all).await? {
            assert!(matches!(response.status.as_u16(), 200 | 204), "{} {}", response.status, response.text);
        }
        let there = send(server, "GET", &one, &ann, None).await?.status == 200;
        let (live, dead) = if there { ("1", "0") } else { ("0", "1") };
        for (table, expected) in
            [("contents", live), ("pack_search", live), ("deleted_contents", dead), ("deletions", dead)]
        {
            let counted = server.sql(&format!("select count(*) from {table}")).await?;
            assert_eq!(counted.as_deref(), Some(expected), "{table}");
        }
        let usage =
            "select bytes = (select coalesce(sum(octet_length(fields::text)), 0) from contents) from space_usage";
        assert_eq!(server.sql(usage).await?.as_deref(), Some("t"));
        Ok(())
    })
}

#[test]
fn making_room_for_deleted_content_waits_for_no_restore_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let first = make_deleted(server, "/v1/projects", "", &ann, &json!({ "name": "Plan" })).await?;
        let (second, _) = make(server, "/v1/projects", &ann, &json!({ "name": "Other" })).await?;
        server.advance(60);
        // As many as are kept, and the first existed for the shortest time.
        let space = ann.user_id.uuid();
        server
            .sql(&format!(
                "create temporary table filled as select gen_random_uuid() as id from generate_series(1, 9999);
                 insert into deletions select space_id, kind, filled.id, shard, deleted_at from deletions, filled;
                 insert into deleted_contents (space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at,
                                               updated_at, deleted_by, deleted_at)
                   select '{space}', 'proj', filled.id, shard_of('{space}'), false, fields, 1, created_by, created_at - interval '1 day',
                          updated_at, deleted_by, deleted_at from deleted_contents, filled"
            ))
            .await?;
        let holder = Holder::begin(server, "update space_usage set bytes = bytes").await?;
        // The deletion is first in line for the space, and then meets what is being restored.
        let path = format!("/v1/projects/{second}");
        let deleting = send(server, "DELETE", &path, &ann, None);
        let path = format!("/v1/projects/{first}/restore");
        let restoring = async {
            holder.is_awaited_by(server, 1).await?;
            let letting = async {
                holder.is_awaited_by(server, 2).await?;
                holder.let_go().await
            };
            let (restored, letting) = tokio::join!(send(server, "POST", &path, &ann, None), letting);
            letting?;
            restored
        };
        let (deleted, restored) = tokio::join!(deleting, restoring);
        let (deleted, restored) = (deleted?, restored?);
        assert_eq!(
            (deleted.status.as_u16(), restored.status.as_u16()),
            (204, 200),
            "{} {}",
            deleted.text,
            restored.text
        );
        Ok(())
    })
}

#[test]
fn an_owner_who_loses_the_role_meanwhile_restores_nothing_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?;
        let query = format!("?workspaceId={acme}");
        let id = make_deleted(server, "/v1/projects", &query, &ann, &json!({ "name": "Plan" })).await?;
        let path = format!("/v1/projects/{id}/restore{query}");
        let holder = Holder::begin(server, "update memberships set role = 'member'").await?;
        let letting = async {
            holder.is_awaited_by(server, 1).await?;
            holder.let_go().await
        };
        let (restored, letting) = tokio::join!(send(server, "POST", &path, &ann, None), letting);
        letting?;
        let restored = restored?;
        assert_eq!((restored.status.as_u16(), restored.error()), (403, "forbidden"), "{}", restored.text);
        assert_eq!(server.sql("select count(*) from contents").await?.as_deref(), Some("0"));
        Ok(())
    })
}
