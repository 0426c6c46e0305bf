//! A backup is restored: nodes notice, answer 503, and answer again when an operator has finished the restore.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use service_api::{ids::Id as _, workspaces::Role};
use service_rules::email::Address;
use service_server::{
    flows::{
        account::deletion::erasure,
        clients::{self, blocked_hosts},
        operator::Operator,
        revocation, support,
    },
    store,
    tasks::{heartbeat, housekeeping},
};
use service_testkit::{
    dns_server::DnsServer,
    process::Process,
    server::{Setup, SignedIn, TestServer, with_server},
    settings::Settings,
};

use crate::support::{
    admin::{admin_beside, run_beside, with_reason},
    connections::{Company, route, txt},
    deletion::delete,
    failover::Pair,
    support_tool,
};

/// A heartbeat is due every second.
const AT_MOST: Duration = Duration::from_secs(12);

/// Starts another node while the node of this process continues: it may hold a lock that the other one waits for.
pub(crate) async fn start(server: &TestServer, settings: &Settings) -> Result<Process> {
    let (settings, leaks) = (settings.clone(), server.leaks.clone());
    let starting = move || Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &leaks);
    tokio::task::spawn_blocking(starting).await?
}

pub(crate) async fn check_fenced(node: &Process, token: Option<&str>) -> Result<()> {
    let ready = node.ops.get("/readyz", None).await?;
    ensure!(
        ready.status == 503 && ready.text.contains("looks restored from a backup"),
        "{}\n{}",
        ready.text,
        String::from_utf8_lossy(&node.log())
    );
    ensure!(node.ops.get("/healthz", None).await?.status == 200, "it should go on living");
    for response in [
        node.http.get("/v1/whoami", token).await?,
        node.http.post("/v1/otp-tokens", &serde_json::json!({ "email": "ann@acme.test" })).await?,
        node.http.get("/.well-known/jwks.json", None).await?,
    ] {
        ensure!(
            response.status == 503 && response.header("retry-after").is_some(),
            "{}: {}",
            response.status,
            response.text
        );
    }
    ensure!(node.http.get("/account", None).await?.status == 503, "pages are served");
    Ok(())
}

/// Changes the heartbeats just after this process wrote its own. A heartbeat that is under way would replace the change.
async fn change_heartbeats(server: &TestServer, change: &str) -> Result<()> {
    let own = format!("select beat_at from node_heartbeats where node_id = '{}'", server.app.node_id);
    let (before, began) = (server.sql(&own).await?, Instant::now());
    while server.sql(&own).await? == before {
        ensure!(began.elapsed() < AT_MOST, "no heartbeat is written");
    }
    server.sql(&format!("update node_heartbeats set {change}")).await.map(drop)
}

/// What is written down is another cluster, as it is after a dump was restored into this one.
const FROM_ANOTHER_CLUSTER: &str = "update installation set system_identifier = '1'";

#[test]
fn a_dump_that_was_restored_into_another_cluster_is_fenced_rv_26_op_08() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        server.sql(FROM_ANOTHER_CLUSTER).await?;
        let node = start(server, &server.settings).await?;
        check_fenced(&node, Some(&ann.access_token)).await?;
        let fenced = "select details->>'because' from audit_events where event = 'restore.fenced'";
        assert_eq!(server.sql(fenced).await?.as_deref(), Some("other_system"));
        // A node that was there before hears of it, too.
        let began = Instant::now();
        while server.http.get("/v1/whoami", Some(&ann.access_token)).await?.status != 503 {
            ensure!(began.elapsed() < AT_MOST, "a running node does not notice");
        }
        assert_eq!(server.sql(fenced).await?.as_deref(), Some("other_system"));
        // After pg_upgrade the cluster is another one, and nothing was lost.
        run_beside(server, &["restore", "finish", "--nothing-was-lost"]).await?;
        let began = Instant::now();
        while server.http.get("/v1/whoami", Some(&ann.access_token)).await?.status != 200 {
            ensure!(began.elapsed() < AT_MOST, "it stays fenced");
        }
        assert!(
            !admin_beside(server, &["restore", "finish", "--nothing-was-lost"]).await?.0,
            "there is nothing to finish"
        );
        Ok(())
    })
}

#[test]
fn a_promotion_is_fenced_if_the_last_heartbeat_was_long_ago_rv_26() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let pair = Pair::start().await?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &pair.primary_url());
        drop(start(server, &settings).await?);
        // As in a backup that was made a while ago.
        pair.on_primary("update node_heartbeats set beat_at = beat_at - interval '11 minutes'").await?;
        pair.fail_over().await?;
        settings.set("database.url", &pair.standby_url());
        check_fenced(&start(server, &settings).await?, None).await?;
        pair.stop()
    })
}

#[test]
fn an_ordinary_failover_is_not_fenced_rv_26() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let pair = Pair::start().await?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &pair.primary_url());
        drop(start(server, &settings).await?);
        pair.fail_over().await?;
        settings.set("database.url", &pair.standby_url());
        let node = start(server, &settings).await?;
        assert_eq!(node.ops.get("/readyz", None).await?.status, 200);
        drop(node);
        // What was decided is written down: long after, the same server is still the same server.
        pair.on_standby("update node_heartbeats set beat_at = beat_at - interval '11 minutes'").await?;
        let node = start(server, &settings).await?;
        assert_eq!(node.ops.get("/readyz", None).await?.status, 200);
        pair.stop()
    })
}

#[test]
fn an_anchor_outside_the_database_tells_of_a_snapshot_that_was_put_back_rv_26() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let folder = tempfile::tempdir()?;
        let anchor = folder.path().join("anchor");
        let mut settings = server.settings.clone();
        settings.set("restore.anchor_file", anchor.to_str().context("no path")?);
        let node = start(server, &settings).await?;
        let began = Instant::now();
        while !anchor.exists() {
            ensure!(began.elapsed() < AT_MOST, "no anchor is written");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(node.ops.get("/readyz", None).await?.status, 200);
        drop(node);
        drop(start(server, &settings).await?);
        // The same server on the same timeline, as it was an hour ago.
        change_heartbeats(server, "beat_at = beat_at - interval '1 hour'").await?;
        check_fenced(&start(server, &settings).await?, None).await?;
        let because = "select fenced_because from installation";
        assert_eq!(server.sql(because).await?.as_deref(), Some("anchor_ahead"));
        run_beside(server, &["restore", "finish", "--no-audit-copy"]).await?;
        // The anchor is from before the restore, and counts no more.
        let node = start(server, &settings).await?;
        assert_eq!(node.ops.get("/readyz", None).await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_node_that_ran_on_notices_that_its_heartbeat_is_gone_rv_26() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        change_heartbeats(server, "beat_at = beat_at - interval '1 hour'").await?;
        heartbeat::beat(&server.app).await?;
        assert_eq!(server.http.get("/.well-known/jwks.json", None).await?.status, 503);
        Ok(())
    })
}

#[test]
fn a_node_whose_heartbeats_are_all_gone_is_fenced_if_the_others_are_old_rv_26() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        change_heartbeats(server, "node_id = gen_random_uuid(), beat_at = beat_at - interval '1 hour'").await?;
        heartbeat::beat(&server.app).await?;
        assert_eq!(server.http.get("/.well-known/jwks.json", None).await?.status, 503);
        Ok(())
    })
}

#[test]
fn a_node_that_slept_for_days_is_not_fenced_rv_26() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        server.advance(3 * 86_400);
        // When the machine wakes, old rows are deleted before the next heartbeat.
        housekeeping::clean_once(&server.app).await?;
        heartbeat::beat(&server.app).await?;
        assert_eq!(server.http.get("/v1/whoami", Some(&ann.access_token)).await?.status, 401);
        assert_eq!(server.refresh(&ann.refresh_token).await?.status, 200);
        // Nodes that ended are still forgotten.
        server.sql("insert into node_heartbeats select gen_random_uuid(), beat_at - interval '2 days' from node_heartbeats").await?;
        housekeeping::clean_once(&server.app).await?;
        assert_eq!(server.sql("select count(*)::text from node_heartbeats").await?.as_deref(), Some("1"));
        Ok(())
    })
}

/// Puts the tables back to before anything was revoked, in what looks like another cluster.
pub(crate) async fn restore_backup(server: &TestServer) -> Result<()> {
    for sql in [
        "update users set disabled_at = null",
        "update clients set disabled_at = null",
        "update memberships set ended_at = null, role = 'owner'",
        "update workspaces set deleted_at = null",
        "delete from revocations",
        FROM_ANOTHER_CLUSTER,
    ] {
        server.sql(sql).await?;
    }
    Ok(())
}

/// Everything that was revoked after the backup is revoked again, also what no token tells of.
#[test]
fn finishing_a_restore_revokes_again_what_was_revoked_rv_26() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let eve = server.sign_in("eve@acme.test", "read write").await?;
        let acme = server
            .make_workspace(
                "Acme",
                &[(ann.user_id, Role::Owner), (bob.user_id, Role::Member), (eve.user_id, Role::Owner)],
            )
            .await?;
        let other = server.make_workspace("Other", &[(ann.user_id, Role::Owner)]).await?;
        // After the backup:
        let operator = Operator::default();
        let address = Address::parse("bob@acme.test").ok().context("no address")?;
        revocation::disable_user(&server.app, &Operator::default(), &address).await?;
        revocation::remove_member(&server.app, &Operator::default(), bob.user_id, acme).await?;
        revocation::delete_workspace(&server.app, &Operator::default(), other).await?;
        assert!(clients::disable(&server.app, &operator, "service-web").await?);
        let path = format!("/v1/workspaces/{acme}/members/{}", eve.user_id);
        let request = server.http.request(reqwest::Method::PATCH, &path).bearer_auth(&ann.access_token);
        let changed = server.http.send(request.json(&serde_json::json!({ "role": "member" }))).await?;
        ensure!(changed.status == 200, "{}", changed.text);

        let folder = tempfile::tempdir()?;
        let file = folder.path().join("audit.jsonl");
        let copy = server.sql("select string_agg(row_to_json(e)::text, E'\\n') from audit_events e").await?;
        std::fs::write(&file, copy.context("no events")?)?;
        restore_backup(server).await?;
        let node = start(server, &server.settings).await?;
        check_fenced(&node, None).await?;
        let (success, printed) = admin_beside(server, &["restore", "finish"]).await?;
        assert!(!success && printed.contains("--audit-copy"), "{printed}");
        let printed = run_beside(
            server,
            &["restore", "finish", "--operator", "eve", "--audit-copy", file.to_str().context("no path")?],
        )
        .await?;
        assert!(printed.contains("Replayed user.disabled: 1") && printed.contains("sign in again"), "{printed}");

        let check = async |sql: String| Ok::<_, anyhow::Error>(server.sql(&sql).await?.unwrap_or_default());
        let of = |id: uuid::Uuid| format!("'{id}'");
        let users = format!("select disabled_at is not null from users where id = {}", of(bob.user_id.uuid()));
        assert_eq!(check(users).await?, "t");
        let removed =
            format!("select ended_at is not null from memberships where user_id = {}", of(bob.user_id.uuid()));
        assert_eq!(check(removed).await?, "t");
        let role = format!("select role from memberships where user_id = {}", of(eve.user_id.uuid()));
        assert_eq!(check(role).await?, "member");
        let deleted = format!("select deleted_at is not null from workspaces where id = {}", of(other.uuid()));
        assert_eq!(check(deleted).await?, "t");
        assert_eq!(check("select disabled_at is not null from clients where id = 'service-web'".into()).await?, "t");
        let by = "select details->>'operator' from audit_events where event = 'restore.finished'";
        assert_eq!(server.sql(by).await?.as_deref(), Some("eve"));
        // Nodes answer again, and nothing from before counts.
        let began = Instant::now();
        while node.http.get("/v1/whoami", Some(&ann.access_token)).await?.status == 503 {
            ensure!(began.elapsed() < AT_MOST, "it stays fenced");
        }
        assert_eq!(node.http.get("/v1/whoami", Some(&ann.access_token)).await?.status, 401);
        Ok(())
    })
}

#[test]
fn finishing_a_restore_revokes_invitations_again_rv_26() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        // One invitation is revoked by an owner, one with the session that sent it; a third stays.
        let cid = server.sign_in("cid@acme.test", "read write").await?;
        let docks = server.make_workspace("Docks", &[(ann.user_id, Role::Owner), (cid.user_id, Role::Owner)]).await?;
        let path = format!("/v1/workspaces/{docks}/invitations");
        let invite = async |by: &SignedIn, email: &str| {
            let request = server.http.request(reqwest::Method::POST, &path).bearer_auth(&by.access_token);
            let invited = server.http.send(request.json(&serde_json::json!({ "email": email }))).await?;
            ensure!(invited.status == 201, "{}", invited.text);
            Ok(invited.field("id").to_owned())
        };
        invite(&ann, "stays@acme.test").await?;
        let by_owner = invite(&ann, "owner@acme.test").await?;
        invite(&cid, "session@acme.test").await?;
        server.sql("create table invitations_before as table invitations").await?;
        let request = server.http.request(reqwest::Method::DELETE, &format!("{path}/{by_owner}"));
        let revoked = server.http.send(request.bearer_auth(&ann.access_token)).await?;
        ensure!(revoked.status == 204, "{}", revoked.text);
        let leaked = server.http.post("/v1/token-leaks", &serde_json::json!({ "tokens": [cid.access_token] })).await?;
        ensure!(leaked.status.is_success(), "{}", leaked.text);
        ensure!(server.sql("select count(*) from invitations").await?.as_deref() == Some("1"), "not revoked");
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("audit.jsonl");
        let copy = server.sql("select string_agg(row_to_json(e)::text, E'\\n') from audit_events e").await?;
        std::fs::write(&file, copy.context("no events")?)?;
        restore_backup(server).await?;
        server.sql("insert into invitations select * from invitations_before on conflict do nothing").await?;
        let node = start(server, &server.settings).await?;
        check_fenced(&node, None).await?;
        run_beside(server, &["restore", "finish", "--audit-copy", file.to_str().context("no path")?]).await?;
        let left = server.sql("select string_agg(address, ' ') from invitations").await?;
        assert_eq!(left.as_deref(), Some("stays@acme.test"));
        Ok(())
    })
}

#[test]
fn finishing_a_restore_withdraws_consents_and_blocks_hosts_again_rv_26() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let app = crate::support::authorize::register(server, "App", &["https://app.test/cb"]).await?;
        let agreed = format!(
            "insert into consents (user_id, client_id, redirect_host, audience, id, shard, scopes, agreed_at)
             select '{0}', client, 'app.test', 'https://service.test/v1', gen_random_uuid(), shard_of('{0}'), 'read', now()
               from unnest(array['{app}', 'kept']) as client",
            ann.user_id.uuid()
        );
        server.sql(&agreed).await?;
        server.sql("create table consents_before as table consents").await?;
        server.sql("insert into support_clients values (gen_random_uuid(), 'Helpdesk', '{}', now(), null)").await?;
        // After the backup:
        let list = server.http.get("/v1/consents", Some(&ann.access_token)).await?;
        let consents = list.body["data"].as_array().context("no list")?;
        let withdrawn =
            consents.iter().find(|consent| consent["client"]["id"] == app.as_str()).context("not listed")?;
        let path = format!("/v1/consents/{}", withdrawn["id"].as_str().unwrap_or_default());
        let request = server.http.request(reqwest::Method::DELETE, &path).bearer_auth(&ann.access_token);
        let response = server.http.send(request).await?;
        ensure!(response.status == 204, "{}", response.text);
        blocked_hosts::block(&server.app, &Operator::default(), "apps.example").await?;
        let tool = support::clients::list(&server.app).await?.first().context("no support client")?.id;
        support::clients::revoke(&server.app, &support_tool::operator()?, tool).await?;

        let folder = tempfile::tempdir()?;
        let file = folder.path().join("audit.jsonl");
        let copy = server.sql("select string_agg(row_to_json(e)::text, E'\\n') from audit_events e").await?;
        std::fs::write(&file, copy.context("no events")?)?;
        restore_backup(server).await?;
        server.sql("insert into consents select * from consents_before on conflict do nothing").await?;
        server.sql("delete from blocked_client_hosts").await?;
        server.sql("update support_clients set revoked_at = null").await?;
        check_fenced(&start(server, &server.settings).await?, None).await?;
        run_beside(server, &["restore", "finish", "--audit-copy", file.to_str().context("no path")?]).await?;
        let left = server.sql("select string_agg(client_id, ' ') from consents").await?;
        assert_eq!(left.as_deref(), Some("kept"));
        let blocked = server.sql("select string_agg(host, ' ') from blocked_client_hosts").await?;
        assert_eq!(blocked.as_deref(), Some("apps.example"));
        let tools = server.sql("select count(*) from support_clients where revoked_at is null").await?;
        assert_eq!(tools.as_deref(), Some("0"), "a revoked support client works again");
        Ok(())
    })
}

#[test]
fn finishing_a_restore_takes_connections_and_domains_away_again() -> Result<()> {
    let dns = DnsServer::start()?;
    let setup = Setup::default().on_system_clock().set("dns.servers", &dns.address.to_string());
    setup.run(async |server| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let (deleted, disabled, kept) =
            (acme.connect(server).await?, acme.connect(server).await?, acme.connect(server).await?);
        let mut records = Vec::new();
        for (domain, connection) in [("a.test", &deleted), ("b.test", &disabled), ("c.test", &kept), ("d.test", &kept)]
        {
            records.push((domain, acme.claim_for(server, domain, connection).await?));
        }
        let records: Vec<_> = records.iter().map(|(domain, value)| txt(domain, value)).collect();
        dns.serve(&records)?;
        for domain in ["a.test", "b.test", "c.test", "d.test"] {
            ensure!(acme.verify(server, domain).await?.field("status") == "verified", "{domain}");
        }
        let tables = ["connections", "workspace_domains", "routed_domains"];
        for table in tables {
            server.sql(&format!("create table {table}_before as table {table}")).await?;
        }
        acme.send(server, "DELETE", &format!("connections/{deleted}"), None).await?;
        acme.change(server, &disabled, &serde_json::json!({ "enabled": false })).await?;
        acme.send(server, "DELETE", "domains/d.test", None).await?;
        let required =
            serde_json::json!({ "required": true, "existing": "revoke", "breakGlass": [acme.owner.user_id] });
        ensure!(acme.change(server, &kept, &required).await?.status == 200);

        let folder = tempfile::tempdir()?;
        let file = folder.path().join("audit.jsonl");
        let copy = server.sql("select string_agg(row_to_json(e)::text, E'\\n') from audit_events e").await?;
        std::fs::write(&file, copy.context("no events")?)?;
        for table in tables {
            server.sql(&format!("delete from {table}; insert into {table} select * from {table}_before")).await?;
        }
        assert!(route(server, "a.test").await?.is_some() && route(server, "d.test").await?.is_some());
        restore_backup(server).await?;
        let node = start(server, &server.settings).await?;
        check_fenced(&node, None).await?;
        run_beside(server, &["restore", "finish", "--audit-copy", file.to_str().context("no path")?]).await?;
        // This process may have closed its fence too; it opens again with the next heartbeat.
        heartbeat::beat(&server.app).await?;
        for (domain, routed) in [("a.test", false), ("b.test", false), ("c.test", true), ("d.test", false)] {
            assert_eq!(route(server, domain).await?.is_some(), routed, "{domain}");
        }
        assert!(route(server, "c.test").await?.context("no route")?.required, "single sign-on is required again");
        let named = "select count(*) from connections where required_at is not null and revoke_existing
                        and cardinality(break_glass) = 1";
        assert_eq!(server.sql(named).await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn who_left_after_the_backup_is_gone_again_and_who_stayed_is_kept_ad_25() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "write").await?, server.sign_in("bob@acme.test", "write").await?);
        let carl = server.sign_in("carl@acme.test", "write").await?;
        ensure!(delete(server, &bob).await?.status == 202, "Bob's account was not closed");
        // Eve owns a workspace alone, and another one that has a second owner after the backup.
        let eve = server.sign_in("eve@acme.test", "write").await?;
        server.make_workspace("Alone", &[(eve.user_id, Role::Owner)]).await?;
        let (dora, ed) =
            (server.sign_in("dora@acme.test", "write").await?, server.sign_in("ed@acme.test", "write").await?);
        let pier = server.make_workspace("Pier", &[(dora.user_id, Role::Owner)]).await?;
        let tables = ["users", "emails", "account_deletions", "members", "memberships"];
        for table in tables {
            server.sql(&format!("create table {table}_before as table {table}")).await?;
        }
        // After the backup:
        ensure!(delete(server, &ann).await?.status == 202, "Ann's account was not closed");
        ensure!(delete(server, &eve).await?.status == 202, "Eve's account was not closed");
        let db = server.app.database.begin().await?;
        store::memberships::join(&db, ed.user_id, pier, Role::Owner, server.now()).await?;
        db.commit().await?;
        ensure!(delete(server, &dora).await?.status == 202, "Dora's account was not closed");
        run_beside(server, &["user", "enable", "bob@acme.test"]).await?;
        run_beside(server, &with_reason(&["user", "erase", "carl@acme.test"])).await?;
        server.sql("update account_deletions set due_at = now() where digest is null").await?;
        assert_eq!(erasure::erase_due(&server.app).await?, 1);

        let folder = tempfile::tempdir()?;
        let file = folder.path().join("audit.jsonl");
        let copy = server.sql("select string_agg(row_to_json(e)::text, E'\\n') from audit_events e").await?;
        std::fs::write(&file, copy.context("no events")?)?;
        for table in tables {
            server.sql(&format!("delete from {table}; insert into {table} select * from {table}_before")).await?;
        }
        restore_backup(server).await?;
        check_fenced(&start(server, &server.settings).await?, None).await?;
        run_beside(server, &["restore", "finish", "--audit-copy", file.to_str().context("no path")?]).await?;
        for (user, disabled, days) in [
            (&ann, true, Some("14")),
            (&bob, false, None),
            (&carl, true, Some("7")),
            (&eve, true, Some("14")),
            // The other owner of the workspace is lost: it is not erased with the account.
            (&dora, true, None),
        ] {
            let id = user.user_id.uuid();
            let state = server.sql(&format!("select disabled_at is not null from users where id = '{id}'")).await?;
            assert_eq!(state.as_deref(), Some(if disabled { "t" } else { "f" }));
            let due = "round(extract(epoch from due_at - now()) / 86400)::int";
            let due = server.sql(&format!("select {due} from account_deletions where user_id = '{id}'")).await?;
            assert_eq!(due.as_deref(), days);
        }
        Ok(())
    })
}
