//! `service workspace`, `project`, `pack` and `session`, as they read.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_api::ids::UserId;

use crate::{
    machine::{EMAIL, Machine, run},
    token::settled,
    whoami::make_token,
};

#[test]
fn a_workspace_is_chosen_and_kept() -> Result<()> {
    run(async |server, machine| {
        let acme = settled(server, machine).await?;
        let listed = machine.show(&["workspace", "list"]).await?;
        assert_eq!(listed, "O| \t<wsp>\tAcme\towner\nO| *\tpersonal\tPersonal\t\nexit 0");
        let expected = "E| ok: Commands now use Acme (<wsp>). Change for one command with --workspace-id.\nexit 0";
        assert_eq!(machine.show(&["workspace", "use", &acme]).await?, expected);
        let listed = machine.show(&["ws", "ls"]).await?;
        assert_eq!(listed, "O| *\t<wsp>\tAcme\towner\nO| \tpersonal\tPersonal\t\nexit 0");
        let object: Value = serde_json::from_str(&machine.run(&["workspace", "list", "--json"]).await?.stdout)?;
        assert_eq!(object["current"], json!({ "id": acme, "source": "saved" }));
        assert_eq!(object["workspaces"][0]["current"], true);
        let shown = machine.show(&["workspace", "show"]).await?;
        assert_eq!(shown, "O| Acme (<wsp>), chosen with: service workspace use\nexit 0");
        let expected = "E| ok: Commands now use your personal space.\nexit 0";
        assert_eq!(machine.show(&["workspace", "use", "--personal"]).await?, expected);
        let other = machine.show_with(&["workspace", "show"], &[("SERVICE_WORKSPACE_ID", &acme)]).await?;
        assert_eq!(other, "O| Acme (<wsp>), named by SERVICE_WORKSPACE_ID\nexit 0");
        let flag = machine
            .show_with(&["workspace", "show", "--workspace-id", "personal"], &[("SERVICE_WORKSPACE_ID", &acme)])
            .await?;
        assert_eq!(flag, "O| your personal space, named by --workspace-id\nexit 0");
        let expected = "E| error: No workspace wsp_nope that you can use.\nE| next: service workspace list\nexit 6";
        assert_eq!(machine.show(&["workspace", "use", "wsp_nope"]).await?, expected);
        Ok(())
    })
}

#[test]
fn a_choice_that_a_token_overrules_is_said_plainly() -> Result<()> {
    run(async |server, machine| {
        let acme = settled(server, machine).await?;
        server.advance(61);
        let (token, _) = make_token(server, EMAIL, &json!({})).await?;
        let expected = "\
E| ok: Saved Acme (<wsp>) for your own sign-in.
E| warning: It has no effect now: SERVICE_TOKEN is set and carries its own workspace, your personal space.
E|   For one command: --workspace-id <wsp>     To drop the token: unset SERVICE_TOKEN
exit 0";
        let variables = [("SERVICE_TOKEN", token.as_str())];
        assert_eq!(machine.show_with(&["workspace", "use", &acme], &variables).await?, expected);
        let ran = machine.run_with(&["workspace", "use", &acme, "--json"], &variables).await?;
        let object: Value = serde_json::from_str(&ran.stdout)?;
        let expected =
            json!({ "workspace": { "id": acme, "name": "Acme" }, "effective": false, "overriddenBy": "SERVICE_TOKEN" });
        assert_eq!(object, expected);
        let nobody = Machine::new(&machine.url, &machine.leaks)?;
        let expected = "\
E| error: Nothing to save: you are not signed in, and SERVICE_TOKEN carries its own workspace, your personal space.
E| next: for one command: --workspace-id <id>
exit 4";
        assert_eq!(nobody.show_with(&["workspace", "use", &acme], &variables).await?, expected);
        Ok(())
    })
}

#[test]
fn a_workspace_that_was_lost_is_named() -> Result<()> {
    run(async |server, machine| {
        let acme = settled(server, machine).await?;
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
fn projects_and_packs_are_of_the_workspace() -> Result<()> {
    run(async |server, machine| {
        let acme = settled(server, machine).await?;
        let empty = machine.show(&["project", "list", "--workspace-id", &acme]).await?;
        assert_eq!(empty, "E| No projects here.\nexit 0");
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
            let made = machine.run(&["api", "post", &path, "--input", &body.display().to_string()]).await?;
            assert_eq!(made.code, Some(0), "{made:?}");
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
        assert_eq!(nothing, "E| Nothing was found.\nexit 0");
        Ok(())
    })
}

#[test]
fn a_token_of_one_workspace_is_refused_in_another() -> Result<()> {
    run(async |server, machine| {
        let acme = settled(server, machine).await?;
        server.advance(61);
        let (token, _) = make_token(server, EMAIL, &json!({ "workspaceId": "personal" })).await?;
        let variables = [("SERVICE_TOKEN", token.as_str())];
        let expected = "\
E| error: SERVICE_TOKEN does not work in <wsp>.
E| next: make one there: env -u SERVICE_TOKEN service token create --workspace-id <wsp>
exit 5";
        assert_eq!(machine.show_with(&["project", "list", "--workspace-id", &acme], &variables).await?, expected);
        Ok(())
    })
}

#[test]
fn sessions_are_listed_and_ended() -> Result<()> {
    run(async |server, machine| {
        settled(server, machine).await?;
        server.advance(61);
        let other = server.sign_in(EMAIL, "read").await?;
        let listed = machine.run(&["session", "list", "--json"]).await?;
        let object: Value = serde_json::from_str(&listed.stdout)?;
        assert_eq!(object["sessions"].as_array().context("no list")?.len(), 2);
        let id = other.grant_id.to_string();
        let expected = "E| error: Ending a session needs --yes when nobody can be asked.\nexit 2";
        assert_eq!(machine.show(&["session", "revoke", &id]).await?, expected);
        assert_eq!(machine.show(&["session", "revoke", &id, "--yes"]).await?, "E| ok: Ended <grant>.\nexit 0");
        let expected = "E| ok: Ended 0 other sessions.\nexit 0";
        assert_eq!(machine.show(&["session", "revoke", "--others", "--yes"]).await?, expected);
        let expected = "E| error: There is no such session.\nE| next: service session list\nexit 6";
        assert_eq!(machine.show(&["session", "revoke", "grant_nope", "--yes"]).await?, expected);
        let ana: UserId = machine.sign_in()?["user"]["id"].as_str().context("nobody")?.parse()?;
        assert_eq!(ana, other.user_id);
        Ok(())
    })
}
