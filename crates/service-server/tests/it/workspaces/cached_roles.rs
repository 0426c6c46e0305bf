//! Roles that nodes have cached: a request that reads runs no statement for them, and a change reaches every node.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use reqwest::Method;
use serde_json::json;
use service_api::{ids::WorkspaceId, workspaces::Role};
use service_testkit::{
    process::Process,
    server::{Setup, SignedIn, TestServer, with_server},
};

use crate::support::bearer::statements_with;

/// So many members are removed, one after the other.
const REMOVALS: usize = 60;
const AT_MOST: Duration = Duration::from_secs(5);

async fn status(node: &Process, method: Method, workspace: WorkspaceId, who: &SignedIn) -> Result<u16> {
    let path = format!("/v1/projects?workspaceId={workspace}");
    let request = node.http.request(method.clone(), &path).bearer_auth(&who.access_token);
    let request = if method == Method::POST { request.json(&json!({ "name": "A" })) } else { request };
    Ok(node.http.send(request).await?.status.as_u16())
}

/// Asks a node until it does not let the user read; how long after `since` the last request was sent that was let.
async fn read_until(node: &Process, workspace: WorkspaceId, who: &SignedIn, since: Instant) -> Result<Duration> {
    let mut last = Duration::ZERO;
    loop {
        let sent = since.elapsed();
        match status(node, Method::GET, workspace, who).await? {
            200 => last = sent,
            404 => return Ok(last),
            other => anyhow::bail!("{other}"),
        }
        ensure!(last < AT_MOST, "a removed member reads for ever");
    }
}

fn start_nodes(server: &TestServer) -> Result<Vec<Process>> {
    let serviced = Path::new(env!("CARGO_BIN_EXE_serviced"));
    (0..3).map(|_| Process::start(serviced, &server.settings, &server.leaks)).collect()
}

async fn send(node: &Process, method: Method, path: &str, who: &SignedIn, role: Option<&str>) -> Result<u16> {
    let request = node.http.request(method, path).bearer_auth(&who.access_token);
    let request = role.into_iter().fold(request, |request, role| request.json(&json!({ "role": role })));
    Ok(node.http.send(request).await?.status.as_u16())
}

#[test]
fn entering_a_workspace_again_runs_no_statement() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?;
        let path = format!("/v1/whoami?workspaceId={acme}");
        let first = server.http.get(&path, Some(&ann.access_token)).await?;
        assert_eq!(first.status, 200, "{}", first.text);
        let since = server.cluster.logged();
        for _ in 0..10 {
            assert_eq!(server.http.get(&path, Some(&ann.access_token)).await?.body, first.body);
        }
        assert_eq!(statements_with(server, since, "from memberships")?, 0);
        // A minute later it is read once.
        server.advance(61);
        let since = server.cluster.logged();
        for _ in 0..10 {
            assert_eq!(server.http.get(&path, Some(&ann.access_token)).await?.status, 200);
        }
        assert_eq!(statements_with(server, since, "from memberships")?, 1);
        Ok(())
    })
}

#[test]
fn a_removed_member_reads_on_no_node_after_a_second_and_writes_nowhere() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let nodes = start_nodes(server)?;
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?;
        let mut took = Vec::new();
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        for number in 0..REMOVALS {
            server.add_member(acme, bob.user_id, Role::Member).await?;
            for node in &nodes {
                ensure!(status(node, Method::GET, acme, &bob).await? == 200, "the member does not read");
            }
            let path = format!("/v1/workspaces/{acme}/members/{}", bob.user_id);
            let removed = send(&nodes[number % 3], Method::DELETE, &path, &ann, None).await?;
            ensure!(removed == 204, "{removed}");
            let removed_at = Instant::now();
            let writing = try_join_all(nodes.iter().map(|node| status(node, Method::POST, acme, &bob)));
            let reading = try_join_all(nodes.iter().map(|node| read_until(node, acme, &bob, removed_at)));
            let (written, read) = tokio::try_join!(writing, reading)?;
            assert_eq!(written, [404; 3], "a removed member writes");
            took.extend(read.into_iter().max());
        }
        took.sort_unstable();
        let p99 = took[took.len() * 99 / 100 - 1];
        println!("{REMOVALS} members removed: read for p50 {:?}, p99 {p99:?} longer", took[took.len() / 2]);
        assert!(p99 <= Duration::from_secs(1), "{p99:?}");
        Ok(())
    })
}

#[test]
fn a_changed_role_is_seen_on_every_node_and_decides_about_writes_at_once() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let nodes = start_nodes(server)?;
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner), (bob.user_id, Role::Member)]).await?;
        let shown = async |node: &Process| {
            let whoami = node.http.get(&format!("/v1/whoami?workspaceId={acme}"), Some(&bob.access_token)).await?;
            anyhow::Ok(whoami.body["space"]["role"].as_str().unwrap_or_default().to_owned())
        };
        for (number, role) in ["viewer", "member", "owner", "viewer", "member"].into_iter().enumerate() {
            for node in &nodes {
                shown(node).await?;
            }
            let path = format!("/v1/workspaces/{acme}/members/{}", bob.user_id);
            let changed = send(&nodes[number % 3], Method::PATCH, &path, &ann, Some(role)).await?;
            ensure!(changed == 200, "{changed}");
            let changed_at = Instant::now();
            for node in &nodes {
                let writes = status(node, Method::POST, acme, &bob).await?;
                assert!(
                    role == "viewer" && writes == 403 || role != "viewer" && matches!(writes, 201 | 403),
                    "{writes}"
                );
                while shown(node).await? != role {
                    ensure!(changed_at.elapsed() < Duration::from_secs(1), "the role is not seen");
                }
                let expected = if role == "viewer" { 403 } else { 201 };
                assert_eq!(status(node, Method::POST, acme, &bob).await?, expected);
            }
        }
        Ok(())
    })
}
