//! Erasing accounts: what is left of a user in every table, what becomes of workspaces, and who can stop it.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_api::{ids::Id as _, workspaces::Role};
use service_server::{
    flows::{account::deletion::erasure, audit::verification},
    tasks::housekeeping::{self, seal_all},
};
use service_testkit::{
    server::{Setup, SignedIn, TestServer, with_server},
    tab::Tab,
};

use crate::{
    operations::expiry::use_everything,
    support::{
        admin::{admin, with_reason},
        connections::with_dns,
        contents::{make, send},
        deletion::{DAY, KEEP, delete, has_account, is_closed, next_link},
        new_sign_ins::ANN,
        workspaces::members,
    },
};

/// The columns that still have the id of an erased user, which leads to nothing else, and why.
const LEFT: [(&str, &str); 9] = [
    ("audit_events.user_id", "the record stays as it was sealed"),
    ("audit_events.subject", "the record stays as it was sealed"),
    ("audit_events.details", "the record stays as it was sealed"),
    ("connections.created_by", "the connection belongs to the workspace"),
    ("contents.created_by", "content of a workspace belongs to the workspace"),
    ("deleted_contents.created_by", "content of a workspace belongs to the workspace, also when it is deleted"),
    ("deleted_contents.deleted_by", "content of a workspace belongs to the workspace, also when it is deleted"),
    ("revocations.subject", "nodes refuse what was revoked, until nothing of it can be valid"),
    ("workspace_domains.created_by", "the domain belongs to the workspace"),
];

/// The columns of all tables in which one of these texts is found.
async fn find(server: &TestServer, texts: &[String]) -> Result<BTreeSet<String>> {
    let columns = server
        .sql(
            "select string_agg(relname || '.' || attname, ' ') from pg_class join pg_attribute on attrelid = pg_class.oid
              where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
                and attnum > 0 and not attisdropped and relname <> 'refinery_schema_history'",
        )
        .await?
        .context("no columns")?;
    let mut found = BTreeSet::new();
    for column in columns.split(' ') {
        let (table, name) = column.split_once('.').context("no column")?;
        let wanted =
            texts.iter().map(|text| format!("\"{name}\"::text like '%{text}%'")).collect::<Vec<_>>().join(" or ");
        let rows = server.sql(&format!("select count(*) from {table} where {wanted}")).await?;
        if rows.as_deref() != Some("0") {
            found.insert(column.to_owned());
        }
    }
    Ok(found)
}

/// How tables have the id of a user.
fn written(user: &SignedIn) -> Vec<String> {
    vec![user.user_id.uuid().to_string(), user.user_id.to_string()]
}

/// Rows about Ann in the tables that no other test writes to.
async fn use_the_rest(server: &TestServer, ann: &SignedIn) -> Result<()> {
    server.make_passkey(ann.user_id, "Laptop").await?;
    let (id, now) = (ann.user_id.uuid(), server.now());
    server
        .sql(&format!(
            "insert into recovery_codes values ('{id}', shard_of('{id}'), gen_random_uuid(), '{{}}', 'x', '{now}');
             insert into address_changes values ('{id}', shard_of('{id}'), gen_random_uuid(), 'ann.lee@acme.test', 'c', 'n', 1, 'x',
                 '{now}', '2030-01-01Z');
             insert into passkey_recoveries values ('{id}', shard_of('{id}'), '{now}', '2030-01-01Z');
             insert into sign_in_reports values ('y', shard_of('{id}'), '{id}', 'x', null, '{now}', '2030-01-01Z');
             insert into blocked_workspaces values ('{id}', gen_random_uuid(), shard_of('{id}'), 'Blocked', '{now}');
             insert into user_connections values ('{id}', shard_of('{id}'), gen_random_uuid(), 'sub', '{now}', '{now}')
                 on conflict do nothing"
        ))
        .await?;
    Ok(())
}

#[test]
fn nothing_names_an_erased_user_and_the_id_is_left_only_where_it_must_ad_20() -> Result<()> {
    with_dns(async |server, dns| {
        let (ann, _) = use_everything(server, dns).await?;
        use_the_rest(server, &ann).await?;
        // Bob goes on in the workspace.
        for table in ["members", "memberships"] {
            server.sql(&format!("update {table} set role = 'owner' where role = 'member'")).await?;
        }
        let before = find(server, &written(&ann)).await?;
        for column in
            ["grants.user_id", "contents.space_id", "identities.user_id", "members.user_id", "passkeys.user_id"]
        {
            ensure!(before.contains(column), "{column}: {before:?}");
        }
        ensure!(find(server, &[ANN.to_owned()]).await?.contains("emails.address"));
        assert_eq!(delete(server, &ann).await?.status, 202);
        // Otherwise a seal could cover events of both days, as if some had been inserted later.
        seal_all(&server.app).await?;
        server.advance(14 * DAY);
        assert_eq!(erasure::erase_due(&server.app).await?, 1);
        ensure!(housekeeping::clean_all(&server.app).await);
        server.mailbox.next_mail_to(ANN).await?;

        assert_eq!(find(server, &[ANN.to_owned()]).await?, BTreeSet::new(), "the address is still stored");
        let left = find(server, &written(&ann)).await?;
        let expected: BTreeSet<_> = LEFT.iter().map(|(column, _)| (*column).to_owned()).collect();
        let unexpected: Vec<_> = left.difference(&expected).collect();
        assert!(unexpected.is_empty(), "the id of an erased user is in {unexpected:?}");
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let id = server.sql("select id from workspaces").await?.context("no workspace")?;
        let id = service_api::ids::WorkspaceId::from(id.parse::<uuid::Uuid>()?).to_string();
        assert_eq!(members(server, &bob, &id).await?, [("bob@acme.test".to_owned(), "owner".to_owned())]);
        seal_all(&server.app).await?;
        let verified = verification::verify(&server.app, None, |_| {}).await?;
        assert!(verified.problems.is_empty(), "{:?}", verified.problems);
        Ok(())
    })
}

#[test]
fn workspaces_without_other_members_are_erased_with_their_content_and_others_are_left_ad_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let alone = server.make_workspace("Alone", &[(ann.user_id, Role::Owner)]).await?;
        let shared = [(ann.user_id, Role::Owner), (bob.user_id, Role::Owner)];
        let shared = server.make_workspace("Shared", &shared).await?;
        for workspace in [alone, shared] {
            let path = format!("/v1/projects?workspaceId={workspace}");
            make(server, &path, &ann, &json!({ "name": "Tides" })).await?;
        }
        let (gone, _) = make(server, "/v1/projects", &ann, &json!({ "name": "Gone" })).await?;
        ensure!(send(server, "DELETE", &format!("/v1/projects/{gone}"), &ann, None).await?.status == 204);
        make(server, "/v1/projects", &ann, &json!({ "name": "Mine" })).await?;
        assert_eq!(delete(server, &ann).await?.status, 202);
        let mail = loop {
            let mail = server.mailbox.next_mail_to(ANN).await?;
            if mail.subject == "Your account will be erased" {
                break mail.text;
            }
        };
        ensure!(mail.contains("Alone") && !mail.contains("Shared"), "{mail}");
        server.advance(14 * DAY);
        assert_eq!(erasure::erase_due(&server.app).await?, 1);
        ensure!(housekeeping::clean_all(&server.app).await);
        assert_eq!(server.sql("select string_agg(name, ' ') from workspaces").await?.as_deref(), Some("Shared"));
        assert_eq!(server.sql("select count(*) from contents").await?.as_deref(), Some("1"));
        assert_eq!(server.sql("select count(*) from deleted_contents").await?.as_deref(), Some("0"));
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let listed = server.http.get(&format!("/v1/projects?workspaceId={shared}"), Some(&bob.access_token)).await?;
        assert_eq!(listed.body["data"][0]["name"], "Tides");
        Ok(())
    })
}

#[test]
fn erasing_that_fails_goes_on_later_stops_no_other_and_cannot_be_stopped_ad_22() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        server.make_workspace("Alone", &[(ann.user_id, Role::Owner)]).await?;
        assert_eq!(delete(server, &ann).await?.status, 202);
        let link = next_link(server).await?;
        server.advance(60);
        assert_eq!(delete(server, &bob).await?.status, 202);
        server.advance(14 * DAY);
        // A row that the service never writes.
        let broken = format!("update users set email = 'broken' where id = '{}'", ann.user_id.uuid());
        server.sql(&broken).await?;
        ensure!(erasure::erase_due(&server.app).await.is_err(), "nothing failed");
        assert_eq!(server.sql("select count(*) from users").await?.as_deref(), Some("1"), "Bob waits for Ann");
        assert_eq!(server.sql("select count(*) from memberships").await?.as_deref(), Some("0"), "nothing was begun");
        assert_eq!(Tab::open(server)?.submit(KEEP, &[("token", &link)]).await?.status, 404, "half an account is kept");
        server.sql(&format!("update users set email = '{ANN}'")).await?;
        assert_eq!(erasure::erase_due(&server.app).await?, 1);
        assert!(!has_account(server).await? && !is_closed(server).await?);
        assert_eq!(erasure::erase_due(&server.app).await?, 0);
        Ok(())
    })
}

#[test]
fn nodes_that_erase_at_the_same_time_erase_once_ad_23() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        for number in 0..30 {
            make(server, "/v1/projects", &ann, &json!({ "name": format!("Project {number}") })).await?;
        }
        for name in ["One", "Two", "Three"] {
            server.make_workspace(name, &[(ann.user_id, Role::Owner)]).await?;
        }
        assert_eq!(delete(server, &ann).await?.status, 202);
        server.advance(14 * DAY);
        let nodes = futures_util::future::join_all((0..4).map(|_| erasure::erase_due(&server.app))).await;
        assert_eq!(nodes.iter().flatten().sum::<u64>(), 1, "{nodes:?}");
        assert!(!has_account(server).await? && !is_closed(server).await?);
        let erased = "select count(*) from audit_events where event = 'account.erased'";
        assert_eq!(server.sql(erased).await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn an_erasure_goes_on_where_another_node_stopped_also_beyond_one_batch_ad_26() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let (id, now) = (ann.user_id.uuid(), server.now());
        // As the owner of the tables, to whom the fence around spaces does not apply.
        let many = format!(
            "set session service.spaces = '{id}';
             insert into contents (space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at, updated_at)
             select '{id}', 'proj', gen_random_uuid(), shard_of('{id}'), false, '{{}}', 1, '{id}', '{now}', '{now}'
               from generate_series(1, 1100)"
        );
        server.sql(&many).await?;
        let left = async || server.sql("select count(*) from contents").await;
        assert_eq!(left().await?.as_deref(), Some("1100"));
        assert_eq!(delete(server, &ann).await?.status, 202);
        server.advance(14 * DAY);
        // Another node holds the erasure: this one leaves it.
        let held = server.app.database.begin().await?;
        held.execute("select from account_deletions for update", &[]).await?;
        assert_eq!(erasure::erase_due(&server.app).await?, 0);
        assert_eq!(left().await?.as_deref(), Some("1100"));
        drop(held);
        // A lock on one batch fails the step, and what was deleted stays deleted.
        let held = server.app.database.begin().await?;
        held.execute("lock table space_usage in access exclusive mode", &[]).await?;
        ensure!(erasure::erase_due(&server.app).await.is_err(), "nothing failed");
        drop(held);
        let after = left().await?.context("no count")?.parse::<u32>()?;
        ensure!(after < 1100, "{after}");
        assert_eq!(erasure::erase_due(&server.app).await?, 1);
        assert_eq!(left().await?.as_deref(), Some("0"));
        assert!(!has_account(server).await?);
        Ok(())
    })
}

#[test]
fn an_operator_erases_after_a_day_with_a_reason_and_only_operators_stop_it_ad_24() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let (success, printed) = admin(server, &["user", "erase", ANN])?;
        ensure!(!success && printed.contains("--reason"), "{printed}");
        server.keep_account(ann.user_id).await?;
        let (success, printed) = admin(server, &with_reason(&["user", "erase", ANN]))?;
        ensure!(!success && printed.contains("Needed") && printed.contains("workspace delete"), "{printed}");
        server.sql("delete from members where role = 'member'").await?;

        // A deletion that the user requested gives way.
        assert_eq!(delete(server, &ann).await?.status, 202);
        let link = next_link(server).await?;
        let (success, printed) = admin(server, &with_reason(&["user", "erase", ANN]))?;
        ensure!(success && printed.contains("will be erased after"), "{printed}");
        assert_eq!(Tab::open(server)?.submit(KEEP, &[("token", &link)]).await?.status, 404);
        let mail = server.mailbox.next_mail_to(ANN).await?;
        ensure!(mail.text.contains("The operator of") && !mail.text.contains("keep-account"), "{}", mail.text);
        let (success, printed) = admin(server, &with_reason(&["user", "show", ANN]))?;
        ensure!(success && printed.contains("closed: will be erased after"), "{printed}");

        let (success, printed) = admin(server, &with_reason(&["user", "erase", "--stop", ANN]))?;
        ensure!(success && printed.contains("stays disabled"), "{printed}");
        let (success, printed) = admin(server, &with_reason(&["user", "erase", "--stop", ANN]))?;
        ensure!(!success && printed.contains("no erasure by an operator is pending"), "{printed}");
        ensure!(admin(server, &with_reason(&["user", "erase", ANN]))?.0, "not closed again");
        let due = "select extract(epoch from due_at - requested_at)::bigint from account_deletions";
        assert_eq!(server.sql(due).await?.as_deref(), Some("86400"));
        server.sql("update account_deletions set due_at = now() - interval '1 second'").await?;
        assert_eq!(erasure::erase_due(&server.app).await?, 1);
        assert!(!has_account(server).await?);
        Ok(())
    })
}
