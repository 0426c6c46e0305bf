//! The list of projects: pages without gaps or repetitions, no project of another user, and one shape.

use std::collections::BTreeSet;

use crate::support::projects::{LIST, cursor_of, ids_of, make_projects, next, page};
use anyhow::{Context as _, Result};
use jiff::SignedDuration;
use serde_json::{Value, json};
use service_api::{
    ids::{Id as _, ProjectId},
    workspaces::Role,
};
use service_rules::space::Space;
use service_testkit::server::{TestServer, with_server};

/// Every id of a list, page by page, in the order in which they come.
async fn walk(server: &TestServer, space: &str, limit: usize, token: &str) -> Result<Vec<ProjectId>> {
    let (mut all, mut query) = (Vec::new(), format!("limit={limit}{space}"));
    loop {
        let response = page(server, &query, token).await?;
        let ids = ids_of(&response)?;
        anyhow::ensure!(ids.iter().all(|id| all.last().is_none_or(|last| id > last)), "a page goes back");
        all.extend(&ids);
        let Some(cursor) = cursor_of(&response) else {
            anyhow::ensure!(ids.len() <= limit && response.body.get("nextCursor").is_none(), "the last page is odd");
            return Ok(all);
        };
        anyhow::ensure!(ids.len() == limit, "a page of {} with another one behind it", ids.len());
        query = format!("limit={limit}{space}&cursor={cursor}");
    }
}

#[test]
fn pages_of_every_size_show_each_project_once() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let made: Vec<_> = make_projects(server, Space::Personal, ann.user_id, 120).await?.into_iter().collect();
        // The clock stood still: all of them are of the same instant.
        assert_eq!(server.sql("select count(distinct created_at) from contents").await?.as_deref(), Some("1"));
        for limit in 1..=100 {
            assert!(walk(server, "", limit, &ann.access_token).await? == made, "pages of {limit}");
        }
        let usual = server.http.get(LIST, Some(&ann.access_token)).await?;
        assert_eq!(ids_of(&usual)?, made[..50]);
        // A page that ends exactly with the list has none behind it.
        let last = page(
            server,
            &format!("limit=20&cursor={}", next(server, 100, &ann.access_token).await?),
            &ann.access_token,
        )
        .await?;
        assert_eq!((ids_of(&last)?.len(), last.body.get("nextCursor")), (20, None));
        Ok(())
    })
}

#[test]
fn what_is_added_or_removed_meanwhile_moves_nothing_else() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let token = &ann.access_token;
        let before = make_projects(server, Space::Personal, ann.user_id, 120).await?;
        let (mut shown, mut added, mut query) = (Vec::new(), BTreeSet::new(), "limit=7".to_owned());
        let mut removed = BTreeSet::new();
        loop {
            let response = page(server, &query, token).await?;
            shown.extend(ids_of(&response)?);
            let Some(cursor) = cursor_of(&response) else { break };
            query = format!("limit=7&cursor={cursor}");
            if removed.len() < 15 {
                // Some of the first instant, which may come before or behind the cursor, and some later than all.
                make_projects(server, Space::Personal, ann.user_id, 2).await?;
                let later = i64::try_from(removed.len())? + 1;
                server.advance(later);
                added.extend(make_projects(server, Space::Personal, ann.user_id, 2).await?);
                server.advance(-later);
                // The very project that the cursor stands behind may go.
                let last = shown.last().context("an empty page")?;
                let uuid = last.uuid();
                server.sql(&format!("delete from contents where id = '{uuid}'")).await?;
                removed.insert(*last);
            }
        }
        let distinct: BTreeSet<_> = shown.iter().copied().collect();
        assert_eq!(distinct.len(), shown.len(), "a project came twice");
        assert!(shown.is_sorted() && distinct.is_superset(&before), "a project was passed over");
        assert!(distinct.is_superset(&added), "a project that came in behind the cursor was passed over");
        assert_eq!(removed.len(), 15);
        Ok(())
    })
}

#[test]
fn personal_and_shared_projects_never_mix() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "read").await?, server.sign_in("bob@acme.test", "read").await?);
        let shared =
            server.make_workspace("Shared", &[(ann.user_id, Role::Owner), (bob.user_id, Role::Viewer)]).await?;
        let empty = server.make_workspace("Empty", &[(ann.user_id, Role::Owner)]).await?;
        let anns = make_projects(server, Space::Personal, ann.user_id, 3).await?;
        let bobs = make_projects(server, Space::Personal, bob.user_id, 3).await?;
        let ours = make_projects(server, Space::Workspace(shared), ann.user_id, 3).await?;
        let (shared, empty) = (format!("&workspaceId={shared}"), format!("&workspaceId={empty}"));
        let nothing = BTreeSet::new();
        for (user, space, expected) in [
            (&ann, "", &anns),
            (&ann, "&workspaceId=personal", &anns),
            (&ann, &shared, &ours),
            (&ann, &empty, &nothing),
            (&bob, "", &bobs),
            (&bob, "&workspaceId=personal", &bobs),
            (&bob, &shared, &ours),
        ] {
            let seen = walk(server, space, 2, &user.access_token).await?;
            assert!(seen.into_iter().collect::<BTreeSet<_>>() == *expected, "{space}");
        }
        Ok(())
    })
}

/// The members of a JSON object, in alphabetical order.
fn members(value: &Value) -> Vec<&str> {
    let mut names: Vec<_> =
        value.as_object().into_iter().flat_map(|object| object.keys().map(String::as_str)).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_list_has_one_shape() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let token = &ann.access_token;
        let none = server.http.get(LIST, Some(token)).await?;
        assert_eq!(none.text, r#"{"data":[]}"#);
        assert_eq!(none.header("content-type"), Some("application/json"));
        assert_eq!(none.header("cache-control"), Some("no-store"));

        let id = server.make_project(Space::Personal, ann.user_id, "Ann's \"own\" \u{1f680} </script>").await?;
        let only = page(server, "limit=1", token).await?;
        assert_eq!(
            only.body,
            json!({ "data": [{
                "id": id, "name": "Ann's \"own\" \u{1f680} </script>", "scope": "personal",
                "createdAt": "2027-01-15T08:00:00.000Z", "updatedAt": "2027-01-15T08:00:00.000Z",
            }] })
        );
        let workspace = server.make_workspace("Shared", &[(ann.user_id, Role::Owner)]).await?;
        server.app.clock.advance(SignedDuration::from_micros(1_999));
        make_projects(server, Space::Workspace(workspace), ann.user_id, 2).await?;
        let shared = page(server, &format!("limit=1&workspaceId={workspace}"), token).await?;
        assert_eq!(members(&shared.body), ["data", "nextCursor"]);
        let project = &shared.body["data"][0];
        assert_eq!(members(project), ["createdAt", "id", "name", "scope", "updatedAt", "workspaceId"]);
        assert_eq!((&project["scope"], &project["workspaceId"]), (&json!("workspace"), &json!(workspace)));
        // Always three digits, whatever the clock shows; the rest is cut off.
        assert_eq!(project["createdAt"], "2027-01-15T08:00:00.001Z");
        assert!(
            cursor_of(&shared)
                .is_some_and(|cursor| cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)))
        );
        Ok(())
    })
}
