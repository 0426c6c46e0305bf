//! Deleted content: who lists and restores it, for how long, and how much of it is kept.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::{Value, json};
use service_api::{
    ids::{Id as _, UserId},
    workspaces::Role,
};
use service_server::tasks::housekeeping::clean_once;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, with_server},
};

use crate::support::contents::{kinds, make, send};
use crate::support::deleted_contents::make_deleted;

const DAY: i64 = 86_400;

const MEGABYTE: u32 = 1024 * 1024;

/// The ids that a list of deleted contents shows.
fn ids(response: &TestResponse) -> Vec<&str> {
    let data = response.body["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    data.iter().filter_map(|one| one["id"].as_str()).collect()
}

/// What a list of deleted content tells of each, besides its deletion.
const SHOWN: [&str; 7] = ["id", "scope", "workspaceId", "createdAt", "updatedAt", "name", "type"];

#[test]
fn every_kind_is_listed_when_deleted_and_restored_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?;
        for (_, path, body) in kinds() {
            for query in [String::new(), format!("?workspaceId={acme}")] {
                let list = async || send(server, "GET", &format!("{path}/deleted{query}"), &ann, None).await;
                let (id, _) = make(server, &format!("{path}{query}"), &ann, &body).await?;
                let one = format!("{path}/{id}{query}");
                let before = send(server, "PATCH", &one, &ann, Some(&json!({ "name": "Last name" }))).await?;
                assert!(ids(&list().await?).is_empty(), "it is shown as deleted before it is");
                server.advance(1);
                let deleted_at = server.now();
                for _ in 0..2 {
                    assert_eq!(send(server, "DELETE", &one, &ann, None).await?.status, 204);
                }
                server.advance(1);
                let listed = list().await?;
                let mut expected = before.body.clone();
                expected.as_object_mut().context("no object")?.retain(|name, _| SHOWN.contains(&name.as_str()));
                expected["deletedAt"] = json!(service_api::instant::to_text(deleted_at));
                expected["deletedBy"] = json!(ann.user_id);
                let end = deleted_at.checked_add(jiff::SignedDuration::from_hours(30 * 24))?;
                expected["expiresAt"] = json!(service_api::instant::to_text(end));
                assert_eq!((listed.status.as_u16(), &listed.body["data"]), (200, &json!([expected])), "{path}");
                assert_eq!(send(server, "GET", &one, &ann, None).await?.status, 404);
                let restore = format!("{path}/{id}/restore{query}");
                let restored = send(server, "POST", &restore, &ann, None).await?;
                assert_eq!((restored.status.as_u16(), restored.header("etag")), (200, Some("\"3\"")), "{path}");
                let mut expected = before.body.clone();
                expected["updatedAt"] = json!(service_api::instant::to_text(server.now()));
                assert_eq!(restored.body, expected, "{path}");
                let again = send(server, "POST", &restore, &ann, None).await?;
                assert_eq!((again.status.as_u16(), again.header("etag")), (200, Some("\"3\"")), "restored twice");
                assert_eq!(again.body, restored.body);
                assert_eq!(send(server, "GET", &one, &ann, None).await?.body, restored.body);
                assert!(ids(&list().await?).is_empty(), "it is shown as deleted after it was restored");
                let request = server.http.request(Method::DELETE, &one).bearer_auth(&ann.access_token);
                let stale = server.http.send(request.header("if-match", "\"2\"")).await?;
                assert_eq!(stale.status, 412, "the version from before the deletion still counts");
                // It can be deleted and restored again.
                assert_eq!(send(server, "DELETE", &one, &ann, None).await?.status, 204);
                assert_eq!(send(server, "GET", &one, &ann, None).await?.status, 404);
                assert_eq!(send(server, "POST", &restore, &ann, None).await?.header("etag"), Some("\"4\""));
                assert_eq!(send(server, "DELETE", &one, &ann, None).await?.status, 204);
            }
        }
        let events = format!("/v1/audit-events?workspaceId={acme}&event=content.restored");
        let events = send(server, "GET", &events, &ann, None).await?;
        let events = events.body["data"].as_array().context("no events")?.clone();
        assert_eq!(events.len(), 10, "a repeated restore is recorded, or a restore is not: {events:?}");
        assert!(events.iter().all(|event| event["userId"] == json!(ann.user_id) && event["subject"].is_string()));
        Ok(())
    })
}

#[test]
fn only_owners_list_and_restore_what_members_delete_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let cyd = server.sign_in("cyd@acme.test", "read write").await?;
        let eve = server.sign_in("eve@acme.test", "read write").await?;
        let members = [(ann.user_id, Role::Owner), (bob.user_id, Role::Member), (cyd.user_id, Role::Viewer)];
        let acme = server.make_workspace("Acme", &members).await?;
        let query = format!("?workspaceId={acme}");
        let id = make_deleted(server, "/v1/projects", &query, &bob, &json!({ "name": "Plan" })).await?;
        let (list, restore) = (format!("/v1/projects/deleted{query}"), format!("/v1/projects/{id}/restore{query}"));
        for (who, refused) in [(&bob, (403, "forbidden")), (&cyd, (403, "forbidden")), (&eve, (404, "not_found"))] {
            for (method, path) in [("GET", &list), ("POST", &restore)] {
                let response = send(server, method, path, who, None).await?;
                assert_eq!((response.status.as_u16(), response.error()), refused, "{path}: {}", response.text);
            }
        }
        for (scopes, method, path) in [("write packs:read", "GET", &list), ("read packs:write", "POST", &restore)] {
            let token =
                crate::support::access::signed(server, &crate::support::access::claims(server, ann.user_id, scopes)?)?;
            let request = server.http.request(Method::from_bytes(method.as_bytes())?, path).bearer_auth(token);
            let response = server.http.send(request).await?;
            assert_eq!((response.status.as_u16(), response.error()), (403, "insufficient_scope"), "{path}");
        }
        // Neither from another space nor as another kind.
        for path in [format!("/v1/projects/{id}/restore"), format!("/v1/packs/{id}/restore{query}")] {
            assert_eq!(send(server, "POST", &path, &ann, None).await?.status, 404, "{path}");
        }
        let listed = send(server, "GET", &list, &ann, None).await?;
        assert_eq!((ids(&listed), &listed.body["data"][0]["deletedBy"]), (vec![&*id], &json!(bob.user_id)));
        assert_eq!(send(server, "POST", &restore, &ann, None).await?.status, 200);
        // It is still Bob's to take out, and what is taken out was not deleted.
        let one = format!("/v1/projects/{id}{query}");
        assert_eq!(send(server, "PATCH", &one, &bob, Some(&json!({ "scope": "personal" }))).await?.status, 200);
        assert!(ids(&send(server, "GET", &list, &ann, None).await?).is_empty());
        assert_eq!(send(server, "POST", &restore, &ann, None).await?.status, 404);
        Ok(())
    })
}

#[test]
fn deleted_content_is_restored_for_thirty_days_and_then_gone_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?;
        let shared = format!("?workspaceId={acme}");
        let body = json!({ "name": "Plan" });
        let mut all = Vec::new();
        for query in ["", &*shared] {
            let first = make_deleted(server, "/v1/projects", query, &ann, &body).await?;
            all.push((query, first, make_deleted(server, "/v1/projects", query, &ann, &body).await?));
        }
        server.advance(30 * DAY - 1);
        clean_once(&server.app).await?;
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        for (query, first, _) in &all {
            let listed = send(server, "GET", &format!("/v1/projects/deleted{query}"), &ann, None).await?;
            assert_eq!(ids(&listed).len(), 2, "{}", listed.text);
            let restored = send(server, "POST", &format!("/v1/projects/{first}/restore{query}"), &ann, None).await?;
            assert_eq!(restored.status, 200, "{}", restored.text);
        }
        server.advance(1);
        // Before housekeeping comes by, and after it.
        for _ in 0..2 {
            for (query, _, second) in &all {
                let listed = send(server, "GET", &format!("/v1/projects/deleted{query}"), &ann, None).await?;
                assert!(ids(&listed).is_empty(), "it is listed after thirty days");
                let late = send(server, "POST", &format!("/v1/projects/{second}/restore{query}"), &ann, None).await?;
                assert_eq!((late.status.as_u16(), late.error()), (404, "not_found"));
            }
            clean_once(&server.app).await?;
        }
        for table in ["deleted_contents", "deletions"] {
            assert_eq!(server.sql(&format!("select count(*) from {table}")).await?.as_deref(), Some("0"), "{table}");
        }
        assert_eq!(server.sql("select count(*) from contents").await?.as_deref(), Some("2"));
        Ok(())
    })
}

#[test]
fn a_list_of_deleted_content_has_pages_of_its_own_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let mut made = Vec::new();
        for number in 0..3 {
            // Ids follow the clock.
            server.advance(1);
            let body = json!({ "name": format!("{number}"), "type": "context" });
            made.push(make_deleted(server, "/v1/packs", "", &ann, &body).await?);
            server.advance(1);
            make(server, "/v1/packs", &ann, &body).await?;
        }
        let first = send(server, "GET", "/v1/packs/deleted?limit=2", &ann, None).await?;
        assert_eq!(ids(&first), made[..2]);
        let cursor = first.body["nextCursor"].as_str().context("no cursor")?;
        // What the cursor stands behind may be restored meanwhile.
        assert_eq!(send(server, "POST", &format!("/v1/packs/{}/restore", made[1]), &ann, None).await?.status, 200);
        let path = format!("/v1/packs/deleted?limit=2&cursor={cursor}");
        let second = send(server, "GET", &path, &ann, None).await?;
        assert_eq!((ids(&second), &second.body["nextCursor"]), (vec![&*made[2]], &Value::Null));
        let foreign = send(server, "GET", &format!("/v1/packs?cursor={cursor}"), &ann, None).await?;
        assert_eq!((foreign.status.as_u16(), foreign.error()), (400, "invalid_request"));
        Ok(())
    })
}

#[test]
fn restoring_needs_room_like_creating_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let body = json!({ "name": "Plan", "description": "a".repeat(1_000) });
        let id = make_deleted(server, "/v1/projects", "", &ann, &body).await?;
        let restore = format!("/v1/projects/{id}/restore");
        let refused = async |why: &str| {
            let response = send(server, "POST", &restore, &ann, None).await?;
            assert_eq!((response.status.as_u16(), response.error()), (409, "conflict"), "{}", response.text);
            assert!(response.field("error_description").contains(why), "{}", response.text);
            let listed = send(server, "GET", "/v1/projects/deleted", &ann, None).await?;
            assert_eq!(ids(&listed), [&*id], "a refused restore lost it");
            anyhow::Ok(())
        };
        server.sql("update space_usage set bytes = 536870912 - 500").await?;
        refused("512 MB").await?;
        assert_eq!(server.sql("select bytes from space_usage").await?.as_deref(), Some("536870412"));
        server.sql("update space_usage set bytes = 0").await?;
        let space = ann.user_id.uuid();
        let columns = "space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at, updated_at";
        server
            .sql(&format!(
                "insert into contents ({columns})
                 select '{space}', 'proj', gen_random_uuid(), shard_of('{space}'), false, '{{\"name\":\"a\"}}', 1, '{space}',
                        now(), now()
                   from generate_series(1, 10000)"
            ))
            .await?;
        refused("10,000").await?;
        server.sql("delete from contents").await?;
        assert_eq!(send(server, "POST", &restore, &ann, None).await?.status, 200);
        let usage = "select bytes = (select octet_length(fields::text) from contents) from space_usage";
        assert_eq!(server.sql(usage).await?.as_deref(), Some("t"), "what is restored does not count");
        Ok(())
    })
}

#[test]
fn a_restored_pack_is_found_again_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let body = json!({ "name": "Tides", "type": "context", "text": "High water." });
        let id = make_deleted(server, "/v1/packs", "", &ann, &body).await?;
        let search = async || {
            let body = json!({ "type": "context", "query": "water" });
            anyhow::Ok(ids(&send(server, "POST", "/v1/packs/search", &ann, Some(&body)).await?).len())
        };
        assert_eq!(search().await?, 0, "a deleted pack is found");
        assert_eq!(send(server, "POST", &format!("/v1/packs/{id}/restore"), &ann, None).await?.status, 200);
        assert_eq!(search().await?, 1);
        assert_eq!(send(server, "DELETE", &format!("/v1/packs/{id}"), &ann, None).await?.status, 204);
        assert_eq!(search().await?, 0);
        Ok(())
    })
}

/// Deleted contents of a kind in personal space, as many as given, that existed for a minute.
async fn fill(server: &TestServer, user: UserId, kind: &str, many: u32, fields: &str) -> Result<()> {
    let space = user.uuid();
    let at = service_api::instant::to_text(server.now());
    server
        .sql(&format!(
            "create temporary table filled as select gen_random_uuid() as id from generate_series(1, {many});
             insert into deletions (space_id, kind, id, shard, deleted_at)
               select '{space}', '{kind}', id, shard_of('{space}'), '{at}' from filled;
             insert into deleted_contents (space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at,
                                           updated_at, deleted_by, deleted_at)
               select '{space}', '{kind}', id, shard_of('{space}'), false, {fields}, 1, '{space}', timestamptz '{at}' - interval '1 minute',
                      '{at}', '{space}', '{at}' from filled"
        ))
        .await
        .map(drop)
}

/// Lets the next deletion be one after which deleted contents are counted.
const COUNT_NEXT: &str = "update space_usage set deleted_bytes = 24999999";

/// Creates a project, deletes it after so many seconds, and asks for it back.
async fn comes_back(server: &TestServer, who: &SignedIn, seconds: i64) -> Result<bool> {
    let (id, _) = make(server, "/v1/projects", who, &json!({ "name": "Plan" })).await?;
    server.advance(seconds);
    server.sql(COUNT_NEXT).await?;
    let path = format!("/v1/projects/{id}");
    for _ in 0..2 {
        assert_eq!(send(server, "DELETE", &path, who, None).await?.status, 204, "deleting again is an error");
    }
    let restored = send(server, "POST", &format!("{path}/restore"), who, None).await?;
    assert!(matches!(restored.status.as_u16(), 200 | 404), "{}", restored.text);
    Ok(restored.status == 200)
}

#[test]
fn creating_and_deleting_pushes_out_nothing_that_existed_longer_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let count = async |of: &str| {
            let counted = server.sql(&format!("select count(*) from deleted_contents where {of}")).await?;
            anyhow::Ok(counted.context("no count")?.parse::<u32>()?)
        };
        fill(server, ann.user_id, "proj", 10_000, "'{\"name\":\"a\"}'").await?;
        // Counting takes a while, so it is not done after every deletion.
        let (id, _) = make(server, "/v1/projects", &ann, &json!({ "name": "Plan" })).await?;
        assert_eq!(send(server, "DELETE", &format!("/v1/projects/{id}"), &ann, None).await?.status, 204);
        assert_eq!(count("kind = 'proj'").await?, 10_001);
        assert!(!comes_back(server, &ann, 30).await?, "more than 10,000 are kept");
        assert_eq!(count("kind = 'proj'").await?, 10_000);
        assert!(comes_back(server, &ann, 90).await?, "what existed for longest is dropped first");
        assert_eq!(count("kind = 'proj'").await?, 9_999, "not one was dropped for it");
        // Of another kind there is room, until all kinds together hold 512 MB.
        server.sql("delete from deletions").await?;
        let large = format!("jsonb_build_object('name', repeat('a', {}))", MEGABYTE - 12);
        fill(server, ann.user_id, "rec", 511, &large).await?;
        assert!(comes_back(server, &ann, 30).await?, "there is room for it");
        fill(server, ann.user_id, "case", 1, &large).await?;
        assert!(!comes_back(server, &ann, 30).await?, "more than 512 MB are kept");
        assert_eq!(count("true").await?, 512);
        assert!(comes_back(server, &ann, 90).await?, "what existed for longest is dropped first");
        assert_eq!(count("true").await?, 511);
        // The leak scanner need not read all this.
        server.sql("truncate deletions cascade").await.map(drop)
    })
}

#[test]
fn what_a_member_deletes_of_their_own_pushes_out_nothing_of_others_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let members = [(ann.user_id, Role::Owner), (bob.user_id, Role::Member)];
        let acme = server.make_workspace("Acme", &members).await?;
        let list = format!("/v1/projects?workspaceId={acme}");
        let (of_ann, _) = make(server, &list, &ann, &json!({ "name": "Plan" })).await?;
        let delete = async |id: &str| {
            let path = format!("/v1/projects/{id}?workspaceId={acme}");
            anyhow::Ok(send(server, "DELETE", &path, &bob, None).await?.status.as_u16())
        };
        assert_eq!(delete(&of_ann).await?, 204);
        // A year old, as if moved here from bob's personal space.
        let (space, user) = (service_api::ids::Id::uuid(acme), service_api::ids::Id::uuid(bob.user_id));
        let filled = format!(
            "create temporary table filled as select gen_random_uuid() as id from generate_series(1, 10000);
             insert into deletions (space_id, kind, id, shard, deleted_at)
               select '{space}', 'proj', id, shard_of('{space}'), '{at}' from filled;
             insert into deleted_contents (space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at,
                                           updated_at, deleted_by, deleted_at)
               select '{space}', 'proj', id, shard_of('{space}'), true, '{{\"name\":\"a\"}}', 1, '{user}',
                      timestamptz '{at}' - interval '1 year', '{at}', '{user}', '{at}' from filled",
            at = server.now(),
        );
        server.sql(&filled).await?;
        let (of_bob, _) = make(server, &list, &bob, &json!({ "name": "Filler" })).await?;
        server.sql(COUNT_NEXT).await?;
        assert_eq!(delete(&of_bob).await?, 204);
        let restore = async |id: &str| {
            let path = format!("/v1/projects/{id}/restore?workspaceId={acme}");
            anyhow::Ok(send(server, "POST", &path, &ann, None).await?.status.as_u16())
        };
        assert_eq!(restore(&of_bob).await?, 404, "nothing was dropped");
        assert_eq!(restore(&of_ann).await?, 200);
        server.sql("truncate deletions cascade").await.map(drop)
    })
}

/// The application's check is not there: what remains is the database's own, for the role that servers connect as.
#[test]
fn the_database_hides_deleted_content_of_other_spaces_rv_21() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        for who in [&ann, &bob] {
            make_deleted(server, "/v1/projects", "", who, &json!({ "name": "Secret" })).await?;
        }
        let count = "select count(*) from deleted_contents";
        assert_eq!(server.sql(&format!("set role serviced; {count}")).await?.as_deref(), Some("0"));
        let enter = format!("set role serviced; set service.spaces = '{}'", ann.user_id.uuid());
        assert_eq!(server.sql(&format!("{enter}; {count}")).await?.as_deref(), Some("1"));
        let moved = format!("{enter}; update deleted_contents set space_id = '{}'", bob.user_id.uuid());
        assert!(server.sql(&moved).await.is_err(), "deleted content is pushed into another's space");
        Ok(())
    })
}
