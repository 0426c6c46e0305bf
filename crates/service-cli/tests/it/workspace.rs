//! Tests of `service workspace`, `project`, `pack`, `session` and `app`.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_api::{
    ids::{UserId, WorkspaceId},
    workspaces::Role,
};
use service_testkit::{tab::Tab, tour};

use crate::{
    machine::{EMAIL, Machine, run},
    token::sign_in_with_workspace,
    whoami::create_token,
};

#[test]
fn a_workspace_is_selected_and_saved() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        let listed = machine.show(&["workspace", "list"]).await?;
        assert_eq!(listed, "O| \t<wsp>\tAcme\towner\nO| *\tpersonal\tPersonal\t\nexit 0");
        let expected = "E| ok: Commands now use Acme (<wsp>). Override it with --workspace-id.\nexit 0";
        assert_eq!(machine.show(&["workspace", "use", &acme]).await?, expected);
        let listed = machine.show(&["ws", "ls"]).await?;
        assert_eq!(listed, "O| *\t<wsp>\tAcme\towner\nO| \tpersonal\tPersonal\t\nexit 0");
        let object: Value = serde_json::from_str(&machine.run(&["workspace", "list", "--json"]).await?.stdout)?;
        assert_eq!(object["current"], json!({ "id": acme, "source": "saved" }));
        assert_eq!(object["workspaces"][0]["current"], true);
        let shown = machine.show(&["workspace", "show"]).await?;
        assert_eq!(shown, "O| Acme (<wsp>), set by: service workspace use\nexit 0");
        let expected = "E| ok: Commands now use your personal space. Override it with --workspace-id.\nexit 0";
        assert_eq!(machine.show(&["workspace", "use", "--personal"]).await?, expected);
        let other = machine.show_with(&["workspace", "show"], &[("SERVICE_WORKSPACE_ID", &acme)]).await?;
        assert_eq!(other, "O| Acme (<wsp>), set by SERVICE_WORKSPACE_ID\nexit 0");
        let flag = machine
            .show_with(&["workspace", "show", "--workspace-id", "personal"], &[("SERVICE_WORKSPACE_ID", &acme)])
            .await?;
        assert_eq!(flag, "O| Personal, set by --workspace-id\nexit 0");
        let expected = "E| error: Workspace wsp_nope not found, or you don't have access.\nE| next: service workspace list\nexit 6";
        assert_eq!(machine.show(&["workspace", "use", "wsp_nope"]).await?, expected);
        Ok(())
    })
}

#[test]
fn a_workspace_requires_a_passkey_and_can_be_left_without_one() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        machine.run(&["workspace", "use", &acme]).await?;
        let none = machine.show(&["workspace", "require-passkey", "--yes"]).await?;
        ensure!(none.contains("Require a passkey for your own account first") && none.ends_with("exit 1"), "{none}");
        server.sql("update users set requires_passkey = true").await?;
        let asked = machine.show(&["workspace", "require-passkey"]).await?;
        ensure!(asked.contains("lose access until it does") && asked.contains("--yes"), "{asked}");
        let required = machine.show(&["workspace", "require-passkey", "--yes"]).await?;
        ensure!(required.contains("Acme (<wsp>) now requires a passkey from its members."), "{required}");
        let stopped = machine.show(&["workspace", "require-passkey", "--stop"]).await?;
        ensure!(stopped.contains("ok: Acme (<wsp>) no longer requires a passkey from its members."), "{stopped}");
        // Another owner requires it, and this user's account does not.
        server.sql("update workspaces set requires_passkey = true").await?;
        server.sql("update users set requires_passkey = false").await?;
        server.advance(61);
        let kept_out = machine.show(&["project", "list"]).await?;
        ensure!(kept_out.contains("This workspace requires a passkey from its members."), "{kept_out}");
        ensure!(kept_out.contains("next: service account require-passkey"), "{kept_out}");
        let workspace: WorkspaceId = acme.parse()?;
        let other = server.sign_in("eve@acme.test", "read write").await?;
        server.add_member(workspace, other.user_id, Role::Owner).await?;
        let left = machine.show(&["workspace", "leave", "--yes"]).await?;
        ensure!(left.contains("ok: You left Acme (<wsp>)."), "{left}");
        Ok(())
    })
}

#[test]
fn a_warning_says_that_a_token_overrides_the_saved_workspace() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        server.advance(61);
        let (token, _) = create_token(server, EMAIL, &json!({})).await?;
        let expected = "\
E| ok: Saved Acme (<wsp>) for your own session.
E| warning: This has no effect now: SERVICE_TOKEN is set and has its own workspace (Personal).
E|   For one command: --workspace-id <wsp>     To stop using the token: unset SERVICE_TOKEN
exit 0";
        let variables = [("SERVICE_TOKEN", token.as_str())];
        assert_eq!(machine.show_with(&["workspace", "use", &acme], &variables).await?, expected);
        let ran = machine.run_with(&["workspace", "use", &acme, "--json"], &variables).await?;
        let object: Value = serde_json::from_str(&ran.stdout)?;
        let expected =
            json!({ "workspace": { "id": acme, "name": "Acme" }, "effective": false, "overriddenBy": "SERVICE_TOKEN" });
        assert_eq!(object, expected);
        let signed_out = Machine::new(&machine.url, &machine.leaks)?;
        let expected = "\
E| error: Nothing to save: you're not signed in, and SERVICE_TOKEN has its own workspace (Personal).
E| next: For one command: --workspace-id <id>
exit 4";
        assert_eq!(signed_out.show_with(&["workspace", "use", &acme], &variables).await?, expected);
        Ok(())
    })
}

#[test]
fn a_saved_workspace_without_access_is_named() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        machine.run(&["workspace", "use", &acme]).await?;
        server.sql("delete from memberships").await?;
        let expected = "\
E| error: You no longer have access to the saved workspace Acme (<wsp>).
E| next: service workspace use <id>
exit 5";
        assert_eq!(machine.show(&["workspace", "show"]).await?, expected);
        Ok(())
    })
}

#[test]
fn projects_and_packs_belong_to_the_workspace() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        let empty = machine.show(&["project", "list", "--workspace-id", &acme]).await?;
        assert_eq!(empty, "E| No projects.\nexit 0");
        let body = machine.home.path().join("body.json");
        for (path, content) in [
            ("/v1/projects", json!({ "name": "Onboarding", "scope": "workspace" })),
            (
                "/v1/packs",
                json!({ "name": "Refund policy", "type": "context", "text": "thirty days", "scope": "workspace" }),
            ),
        ] {
            std::fs::write(&body, content.to_string())?;
            let path = format!("{path}?workspaceId={acme}");
            let created = machine.run(&["api", "post", &path, "--input", &body.display().to_string()]).await?;
            assert_eq!(created.code, Some(0), "{created:?}");
        }
        let listed = machine.show(&["project", "list", "--workspace-id", &acme]).await?;
        assert_eq!(listed, "O| <proj>\tOnboarding\nexit 0");
        let ran = machine.run(&["project", "list", "--workspace-id", &acme, "--json"]).await?;
        let object: Value = serde_json::from_str(&ran.stdout)?;
        assert_eq!(object["workspace"], json!({ "id": acme, "source": "flag" }));
        assert_eq!(object["projects"][0]["name"], "Onboarding");
        let found = machine.show(&["pack", "search", "--type", "context", "refund", "--workspace-id", &acme]).await?;
        assert_eq!(found, "O| <pack>\tcontext\tRefund policy\nexit 0");
        let nothing = machine.show(&["pack", "search", "nothing-such"]).await?;
        assert_eq!(nothing, "E| No packs found.\nexit 0");
        Ok(())
    })
}

#[test]
fn deleted_projects_and_packs_are_listed_and_restored_rv_21() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        let at = ["--workspace-id", acme.as_str()];
        let body = machine.home.path().join("body.json");
        for (kind, content) in
            [("project", json!({ "name": "Onboarding" })), ("pack", json!({ "name": "Refunds", "type": "context" }))]
        {
            let none = machine.show(&[&[kind, "deleted"][..], &at].concat()).await?;
            assert_eq!(none, format!("E| No deleted {kind}s.\nexit 0"));
            std::fs::write(&body, content.to_string())?;
            let path = format!("/v1/{kind}s?workspaceId={acme}");
            let created = machine.run(&["api", "post", &path, "--input", &body.display().to_string()]).await?;
            let created: Value = serde_json::from_str(&created.stdout)?;
            let id = created["id"].as_str().context("no id")?;
            machine.run(&["api", "delete", &format!("/v1/{kind}s/{id}?workspaceId={acme}")]).await?;
            let listed = machine.run(&[&[kind, "deleted"][..], &at].concat()).await?;
            let name = created["name"].as_str().unwrap_or_default();
            assert!(listed.stdout.starts_with(&format!("{id}\t{name}\t")), "{listed:?}");
            let listed = machine.run(&[&[kind, "deleted", "--json"][..], &at].concat()).await?;
            let listed: Value = serde_json::from_str(&listed.stdout)?;
            assert_eq!((&listed["deleted"][0]["id"], &listed["workspace"]["id"]), (&json!(id), &json!(acme)));
            let restored = machine.show(&[&[kind, "restore", id][..], &at].concat()).await?;
            assert_eq!(restored, format!("E| ok: Restored {name} (<{}>).\nexit 0", &id[..4]));
            let again = machine.run(&[&[kind, "restore", id, "--json"][..], &at].concat()).await?;
            assert_eq!(serde_json::from_str::<Value>(&again.stdout)?["restored"][0]["id"], id);
            let gone = machine.show(&[kind, "restore", id]).await?;
            let prefix = &id[..4];
            let expected = format!(
                "E| error: Deleted {kind} <{prefix}> not found, or deleted more than 30 days ago.\n\
                 E| next: service {kind} deleted\nexit 6"
            );
            assert_eq!(gone, expected, "restored from another space");
        }
        Ok(())
    })
}

#[test]
fn a_token_of_one_workspace_is_refused_in_another() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        server.advance(61);
        let (token, _) = create_token(server, EMAIL, &json!({ "workspaceId": "personal" })).await?;
        let variables = [("SERVICE_TOKEN", token.as_str())];
        let expected = "\
E| error: SERVICE_TOKEN doesn't have access to <wsp>.
E| next: Create a token for it: env -u SERVICE_TOKEN service token create --workspace-id <wsp>
exit 5";
        assert_eq!(machine.show_with(&["project", "list", "--workspace-id", &acme], &variables).await?, expected);
        Ok(())
    })
}

#[test]
fn sessions_are_listed_and_revoked() -> Result<()> {
    run(async |server, machine| {
        sign_in_with_workspace(server, machine).await?;
        server.advance(61);
        let other = server.sign_in(EMAIL, "read").await?;
        let listed = machine.run(&["session", "list", "--json"]).await?;
        let object: Value = serde_json::from_str(&listed.stdout)?;
        assert_eq!(object["sessions"].as_array().context("no list")?.len(), 2);
        let id = other.grant_id.to_string();
        let expected = "E| error: Use --yes to revoke without a prompt.\nexit 2";
        assert_eq!(machine.show(&["session", "revoke", &id]).await?, expected);
        assert_eq!(machine.show(&["session", "revoke", &id, "--yes"]).await?, "E| ok: Revoked <grant>.\nexit 0");
        let expected = "E| ok: Revoked 0 other sessions.\nexit 0";
        assert_eq!(machine.show(&["session", "revoke", "--others", "--yes"]).await?, expected);
        let expected = "E| error: Session grant_nope not found.\nE| next: service session list\nexit 6";
        assert_eq!(machine.show(&["session", "revoke", "grant_nope", "--yes"]).await?, expected);
        let ana: UserId = machine.sign_in()?["user"]["id"].as_str().context("no user")?.parse()?;
        assert_eq!(ana, other.user_id);
        Ok(())
    })
}

#[test]
fn apps_are_listed_and_removed() -> Result<()> {
    run(async |server, machine| {
        sign_in_with_workspace(server, machine).await?;
        let client = tour::make_client(server, "Harbour Planner", "https://planner.example/callback").await?;
        let url = tour::authorize_url(server, &client, "https://planner.example/callback", "projects:read");
        server.advance(61);
        Tab::open(server)?.agree_to(&server.mailbox, &url, EMAIL).await?;
        let listed = machine.run(&["app", "list", "--json"]).await?;
        let object: Value = serde_json::from_str(&listed.stdout)?;
        let consent = &object["consents"][0];
        assert_eq!(consent["client"]["name"], "Harbour Planner", "{}", listed.stdout);
        let id = consent["id"].as_str().context("no id")?.to_owned();
        let expected = "E| error: Use --yes to remove an app without a prompt.\nexit 2";
        assert_eq!(machine.show(&["app", "remove", &id]).await?, expected);
        let removed = machine.run(&["app", "remove", &id, "--yes"]).await?;
        assert_eq!(removed.code, Some(0), "{}", removed.stderr);
        let listed = machine.run(&["app", "list", "--json"]).await?;
        assert_eq!(serde_json::from_str::<Value>(&listed.stdout)?["consents"], json!([]));
        let expected = "E| error: App consent_nope not found.\nE| next: service app list\nexit 6";
        assert_eq!(machine.show(&["app", "remove", "consent_nope", "--yes"]).await?, expected);
        Ok(())
    })
}
