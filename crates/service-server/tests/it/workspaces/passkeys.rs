//! A workspace that requires a passkey from its members: who gets in, by which door, and who decides.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use service_api::{
    ids::{Id as _, UserId, WorkspaceId},
    workspaces::Role,
};
use service_testkit::{
    response::TestResponse,
    server::{Setup, SignedIn, TestServer, with_server},
};

use crate::{
    operations::restores::{check_fenced, restore_backup, start},
    support::{
        admin::{run, run_beside},
        cli_tokens, contents, mcp,
        new_sign_ins::ANN,
        passkeys::{events, signed_in_tab},
        sso::{company, with_provider},
        workspaces::{invite, make, members, send},
    },
};

const BOB: &str = "bob@acme.test";
/// The sentence for a member who is kept out.
const KEPT_OUT: &str = "This workspace requires a passkey from its members.";

/// Makes the account of a user require a passkey, or no longer.
async fn set_account(server: &TestServer, user_id: UserId, required: bool) -> Result<()> {
    let id = user_id.uuid();
    server.sql(&format!("update users set requires_passkey = {required} where id = '{id}'")).await.map(drop)
}

async fn set_workspace(server: &TestServer, method: Method, id: impl ToString, who: &SignedIn) -> Result<TestResponse> {
    let path = format!("/v1/workspaces/{}/passkey-requirement", id.to_string());
    server.http.send(server.http.request(method, &path).bearer_auth(&who.access_token)).await
}

/// A workspace of Ann's that requires a passkey, and its member Bob, who requires none.
async fn workspace_that_requires(server: &TestServer) -> Result<(WorkspaceId, SignedIn, SignedIn)> {
    let ann = server.sign_in(ANN, "read write").await?;
    let bob = server.sign_in(BOB, "read write").await?;
    let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner), (bob.user_id, Role::Owner)]).await?;
    set_account(server, ann.user_id, true).await?;
    let required = set_workspace(server, Method::POST, acme, &ann).await?;
    ensure!(required.status == 200 && required.body["requiresPasskey"] == true, "{}", required.text);
    Ok((acme, ann, bob))
}

fn check_kept_out(door: &str, response: &TestResponse) {
    assert_eq!(response.status, 403, "{door}: {}", response.text);
    assert_eq!(response.field("error"), "forbidden", "{door}: {}", response.text);
    assert_eq!(response.body["details"]["workspaceRequires"], "passkey", "{door}: {}", response.text);
    assert!(response.text.contains(KEPT_OUT), "{door}: {}", response.text);
}

#[test]
fn a_workspace_keeps_out_every_token_of_a_member_without_a_passkey_ws_13() -> Result<()> {
    with_server(async |server| {
        let (acme, _, bob) = workspace_that_requires(server).await?;
        let pier = server.make_workspace("Pier", &[(bob.user_id, Role::Member)]).await?;
        let (_, cli_token) = cli_tokens::make(server, &bob, &json!({ "workspaceId": pier })).await?;
        let project = server.make_project(service_rules::space::Space::Workspace(acme), bob.user_id, "Dock").await?;
        let (at, named) = (format!("?workspaceId={acme}"), json!({ "name": "Pier" }));
        let of = |rest: &str| format!("/v1/workspaces/{acme}/{rest}");
        let doors: [(&str, String, Option<&Value>); 11] = [
            ("GET", format!("/v1/whoami{at}"), None),
            ("GET", format!("/v1/projects{at}"), None),
            ("GET", format!("/v1/projects/{project}{at}"), None),
            ("POST", format!("/v1/projects{at}"), Some(&named)),
            ("PATCH", format!("/v1/projects/{project}{at}"), Some(&named)),
            ("DELETE", format!("/v1/projects/{project}{at}"), None),
            ("GET", of("members"), None),
            ("GET", of("invitations"), None),
            ("PATCH", format!("/v1/workspaces/{acme}"), Some(&named)),
            ("DELETE", of("passkey-requirement"), None),
            ("DELETE", format!("/v1/workspaces/{acme}"), None),
        ];
        for (method, path, body) in &doors {
            check_kept_out(&format!("{method} {path}"), &send(server, method, path, &bob, *body).await?);
        }
        let token = mcp::token(server, &bob, "read").await?;
        let called = mcp::call(server, &token, "list_projects", &json!({ "workspaceId": acme })).await?;
        assert!(called.text.contains(KEPT_OUT), "{}", called.text);
        // The CLI token is bound to a workspace that requires nothing, until it does.
        assert_eq!(cli_tokens::whoami(server, &cli_token).await?.status, 200);
        server.sql("update workspaces set requires_passkey = true").await?;
        server.advance(61);
        check_kept_out("CLI token", &cli_tokens::whoami(server, &cli_token).await?);
        assert_eq!(events(server, "workspace.passkey_required").await?, 1);
        Ok(())
    })
}

#[test]
fn a_member_who_is_kept_out_sees_why_gets_in_with_a_passkey_and_can_leave_ws_14() -> Result<()> {
    with_server(async |server| {
        let (acme, ann, bob) = workspace_that_requires(server).await?;
        let path = format!("/v1/workspaces/{acme}");
        let read = send(server, "GET", &path, &bob, None).await?;
        ensure!(read.status == 200 && read.body["requiresPasskey"] == true, "{}", read.text);
        let tab = signed_in_tab(server, BOB).await?;
        let page = tab.get(&format!("/workspaces/{acme}")).await?;
        ensure!(page.text.contains("This workspace requires a passkey") && page.text.contains("Acme"), "{}", page.text);
        ensure!(page.text.contains("/account/security") && page.text.contains("Leave this workspace"), "{}", page.text);
        ensure!(!page.text.contains("Invite a member"), "{}", page.text);
        for rest in ["connections", "credentials", "activity"] {
            let page = tab.get(&format!("/workspaces/{acme}/{rest}")).await?;
            ensure!(page.status == 403 && page.text.contains("/account/security"), "{rest}: {}", page.text);
        }
        // The session is of before: the account says that no code opens one.
        set_account(server, bob.user_id, true).await?;
        let projects = format!("/v1/projects?workspaceId={acme}");
        assert_eq!(send(server, "GET", &projects, &bob, None).await?.status, 200);
        // While another device has a copy of every passkey, codes sign the user in: the workspace does not let them in.
        server.make_passkey(bob.user_id, "Laptop").await?;
        server.sql("update passkeys set copied_at = now()").await?;
        server.advance(61);
        check_kept_out("copied", &send(server, "GET", &projects, &bob, None).await?);
        // Another one that counts only in a week does not change that, although a code then opens no session any more.
        server.make_passkey(bob.user_id, "Phone").await?;
        server.sql("update passkeys set counts_from = created_at + interval '7 days' where copied_at is null").await?;
        check_kept_out("new passkey", &send(server, "GET", &projects, &bob, None).await?);
        server.sql("update passkeys set counts_from = created_at - interval '1 day'").await?;
        assert_eq!(send(server, "GET", &projects, &bob, None).await?.status, 200);
        server.sql("update users set requires_passkey = false").await?;
        let member = format!("{path}/members/{}", bob.user_id);
        assert_eq!(send(server, "DELETE", &member, &bob, None).await?.status, 204);
        set_account(server, ann.user_id, true).await?;
        assert_eq!(members(server, &ann, &acme.to_string()).await?.len(), 1);
        Ok(())
    })
}

#[test]
fn only_an_owner_with_a_passkey_and_a_recent_sign_in_requires_one_ws_15() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let bob = server.sign_in(BOB, "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner), (bob.user_id, Role::Member)]).await?;
        let none = set_workspace(server, Method::POST, acme, &ann).await?;
        assert_eq!((none.status.as_u16(), none.field("error")), (409, "conflict"), "{}", none.text);
        assert!(none.text.contains("your own account first"), "{}", none.text);
        set_account(server, ann.user_id, true).await?;
        set_account(server, bob.user_id, true).await?;
        assert_eq!(set_workspace(server, Method::POST, acme, &bob).await?.status, 403, "a member decides");
        let stranger = server.sign_in("eve@acme.test", "read write").await?;
        assert_eq!(set_workspace(server, Method::POST, acme, &stranger).await?.status, 404);
        let (_, cli_token) = cli_tokens::make(server, &ann, &json!({ "scopes": ["read", "write"] })).await?;
        let by_token = server.http.request(Method::POST, &format!("/v1/workspaces/{acme}/passkey-requirement"));
        assert_eq!(server.http.send(by_token.bearer_auth(cli_token)).await?.status, 403, "a CLI token decides");
        server.advance(16 * 60);
        let ann = SignedIn {
            access_token: server.refresh(&ann.refresh_token).await?.field("access_token").to_owned(),
            ..ann
        };
        for method in [Method::POST, Method::DELETE] {
            let late = set_workspace(server, method, acme, &ann).await?;
            assert_eq!(late.field("error"), "insufficient_user_authentication", "{}", late.text);
        }
        assert_eq!(events(server, "workspace.passkey_required").await?, 0);
        Ok(())
    })
}

#[test]
fn requiring_twice_changes_nothing_and_no_longer_requiring_lets_everyone_in_ws_16() -> Result<()> {
    with_server(async |server| {
        let (acme, ann, bob) = workspace_that_requires(server).await?;
        let projects = format!("/v1/projects?workspaceId={acme}");
        assert_eq!(set_workspace(server, Method::POST, acme, &ann).await?.status, 200);
        assert_eq!(events(server, "workspace.passkey_required").await?, 1);
        for _ in 0..2 {
            assert_eq!(set_workspace(server, Method::DELETE, acme, &ann).await?.status, 204);
        }
        assert_eq!(events(server, "workspace.passkey_not_required").await?, 1);
        assert_eq!(send(server, "GET", &projects, &bob, None).await?.status, 200, "a refusal was cached");
        // A node that has cached a role reads a minute longer, and writes nothing.
        assert_eq!(set_workspace(server, Method::POST, acme, &ann).await?.status, 200);
        let written = contents::send(server, "POST", &projects, &bob, Some(&json!({ "name": "Pier" }))).await?;
        check_kept_out("write", &written);
        server.advance(61);
        check_kept_out("read", &send(server, "GET", &projects, &bob, None).await?);
        Ok(())
    })
}

#[test]
fn who_is_invited_joins_and_is_kept_out_like_all_others_ws_17() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        set_account(server, ann.user_id, true).await?;
        let acme = make(server, &ann, "Acme").await?;
        assert_eq!(set_workspace(server, Method::POST, &acme, &ann).await?.status, 200);
        invite(server, &ann, &acme, BOB, "member").await?;
        let bob = crate::support::workspaces::join(server, BOB).await?;
        let projects = format!("/v1/projects?workspaceId={acme}");
        check_kept_out("joined", &send(server, "GET", &projects, &bob, None).await?);
        set_account(server, bob.user_id, true).await?;
        assert_eq!(send(server, "GET", &projects, &bob, None).await?.status, 200);
        Ok(())
    })
}

#[test]
fn required_single_sign_on_stands_in_for_a_passkey_and_offered_does_not_ws_18() -> Result<()> {
    with_provider(async |server, provider| {
        let (acme, ann, _) = workspace_that_requires(server).await?;
        let corp = company(server, provider, "corp.test").await?;
        let kim = server.sign_in("kim@corp.test", "read write").await?;
        server.add_member(acme, kim.user_id, Role::Member).await?;
        let projects = format!("/v1/projects?workspaceId={acme}");
        check_kept_out("offered", &send(server, "GET", &projects, &kim, None).await?);
        corp.require(server, &[]).await?;
        assert_eq!(send(server, "GET", &projects, &kim, None).await?.status, 200);
        assert_eq!(send(server, "GET", &projects, &ann, None).await?.status, 200);
        Ok(())
    })
}

#[test]
fn owners_require_a_passkey_on_the_page_ws_19() -> Result<()> {
    with_server(async |server| {
        let (acme, ann, _) = workspace_that_requires(server).await?;
        set_account(server, ann.user_id, false).await?;
        server.sql("update workspaces set requires_passkey = false").await?;
        let tab = signed_in_tab(server, ANN).await?;
        let (page, require) = (format!("/workspaces/{acme}"), format!("/workspaces/{acme}/require-passkey"));
        tab.get(&page).await?;
        let refused = tab.submit(&require, &[]).await?;
        ensure!(refused.status == 409 && refused.text.contains("your own account first"), "{}", refused.text);
        set_account(server, ann.user_id, true).await?;
        let done = tab.submit(&require, &[]).await?;
        let shown = tab.get(done.next()?).await?;
        ensure!(shown.text.contains("This workspace now requires passkeys."), "{}", shown.text);
        let done = tab.submit(&format!("/workspaces/{acme}/allow-codes"), &[]).await?;
        let shown = tab.get(done.next()?).await?;
        ensure!(shown.text.contains("This workspace no longer requires passkeys."), "{}", shown.text);
        // After 15 minutes it takes another sign-in.
        server.advance(16 * 60);
        tab.get(&page).await?;
        let late = tab.submit(&require, &[]).await?;
        ensure!(late.next()?.starts_with("/sign-in/"), "{}", late.text);
        Ok(())
    })
}

#[test]
fn what_a_workspace_required_after_a_backup_is_required_again_ws_20() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        set_account(server, ann.user_id, true).await?;
        let (acme, pier) = (make(server, &ann, "Acme").await?, make(server, &ann, "Pier").await?);
        assert_eq!(set_workspace(server, Method::POST, &pier, &ann).await?.status, 200);
        server.sql("create table workspaces_before as table workspaces").await?;
        // After the backup:
        assert_eq!(set_workspace(server, Method::POST, &acme, &ann).await?.status, 200);
        assert_eq!(set_workspace(server, Method::DELETE, &pier, &ann).await?.status, 204);

        let folder = tempfile::tempdir()?;
        let file = folder.path().join("audit.jsonl");
        let copy = server.sql("select string_agg(row_to_json(e)::text, E'\\n') from audit_events e").await?;
        std::fs::write(&file, copy.context("no events")?)?;
        server.sql("delete from workspaces; insert into workspaces select * from workspaces_before").await?;
        restore_backup(server).await?;
        check_fenced(&start(server, &server.settings).await?, None).await?;
        run_beside(server, &["restore", "finish", "--audit-copy", file.to_str().context("no path")?]).await?;
        let required = server.sql("select string_agg(name, ' ') from workspaces where requires_passkey").await?;
        assert_eq!(required.as_deref(), Some("Acme"));
        Ok(())
    })
}

#[test]
fn a_member_who_is_kept_out_creates_no_token_for_the_workspace_ws_21() -> Result<()> {
    with_server(async |server| {
        let (acme, _, bob) = workspace_that_requires(server).await?;
        let body = json!({ "workspaceId": acme, "scopes": ["read", "write"] });
        for path in ["/v1/cli/tokens", "/v1/mcp/tokens"] {
            let wanted = if path.contains("mcp") { json!({ "workspaceId": acme }) } else { body.clone() };
            check_kept_out(path, &cli_tokens::post(server, path, &bob.access_token, &wanted).await?);
        }
        set_account(server, bob.user_id, true).await?;
        let (id, token) = cli_tokens::make(server, &bob, &body).await?;
        assert_eq!(cli_tokens::whoami(server, &token).await?.status, 200);
        // A rotation creates one, too.
        set_account(server, bob.user_id, false).await?;
        let rotated =
            cli_tokens::post(server, &format!("/v1/cli/tokens/{id}/rotate"), &bob.access_token, &json!({})).await?;
        check_kept_out("rotate", &rotated);
        Ok(())
    })
}

#[test]
fn where_no_owner_gets_in_any_more_an_operator_lifts_the_requirement_ws_22() -> Result<()> {
    with_server(async |server| {
        let (acme, ann, bob) = workspace_that_requires(server).await?;
        set_account(server, ann.user_id, false).await?;
        for owner in [&ann, &bob] {
            check_kept_out("owner", &set_workspace(server, Method::DELETE, acme, owner).await?);
        }
        let id = acme.to_string();
        run(server, &["workspace", "allow-codes", &id])?;
        assert!(run(server, &["workspace", "allow-codes", &id]).is_err(), "it requires a passkey still");
        assert_eq!(members(server, &bob, &id).await?.len(), 2);
        assert_eq!(events(server, "workspace.passkey_not_required").await?, 1);
        Ok(())
    })
}
