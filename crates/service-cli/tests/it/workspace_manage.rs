//! Tests of `service workspace create`, and of inviting, listing and leaving in the workspace that it created.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::{
    machine::{EMAIL, Machine, run},
    project::{error, object},
    pty::Pty,
    whoami::create_token,
};

#[test]
fn a_workspace_is_created_and_filled_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let expected = "\
E| ok: Created Acme (<wsp>).
E|   To use it: service workspace use <wsp>
E|   To invite members: service workspace invite <email> --workspace-id <wsp>
O| <wsp>
exit 0";
        assert_eq!(machine.show(&["workspace", "create", "Acme"]).await?, expected);
        let created = object(machine, &["workspace", "create", "Harbour"]).await?;
        let id = created["workspace"]["id"].as_str().context("no id")?.to_owned();
        assert_eq!(created["workspace"], json!({ "id": id, "name": "Harbour", "role": "owner" }));
        let at = ["--workspace-id", id.as_str()];
        let members = object(machine, &[&["workspace", "members"][..], &at].concat()).await?;
        assert_eq!(members["members"][0]["email"], EMAIL);
        let invited = object(machine, &[&["workspace", "invite", "bob@acme.test"][..], &at].concat()).await?;
        assert_eq!(invited["invitation"]["email"], "bob@acme.test");

        let bob = Machine::new(&machine.url, &machine.leaks)?;
        bob.log_in_as(server, "bob@acme.test").await?;
        let invitation = invited["invitation"]["id"].as_str().context("no invitation")?;
        assert_eq!(bob.run(&["invitation", "accept", invitation, "--yes"]).await?.code, Some(0));
        assert_eq!(bob.run(&[&["workspace", "leave"][..], &at].concat()).await?.code, Some(2), "it was not confirmed");
        let left = object(&bob, &[&["workspace", "leave", "--yes"][..], &at].concat()).await?;
        assert_eq!(left["left"]["id"], id.as_str());
        let members = object(machine, &[&["workspace", "members"][..], &at].concat()).await?;
        assert_eq!(members["members"].as_array().map(Vec::len), Some(1));
        // The last owner has to stay.
        let (failure, code) = error(machine, &[&["workspace", "leave", "--yes"][..], &at].concat()).await?;
        assert_eq!((failure["code"].as_str(), code), (Some("conflict"), Some(1)), "{failure}");
        Ok(())
    })
}

#[test]
fn a_workspace_needs_a_name_and_the_right_credential_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let (failure, code) = error(machine, &["workspace", "create", " "]).await?;
        assert_eq!((failure["code"].as_str(), code), (Some("invalid_input"), Some(1)), "{failure}");
        ensure!(failure["message"].as_str().is_some_and(|text| text.contains("name")), "{failure}");
        assert_eq!(machine.run(&["workspace", "create"]).await?.code, Some(2));
        server.advance(61);
        let (token, _) = create_token(server, EMAIL, &json!({ "scopes": ["read"] })).await?;
        let ran = machine.run_with(&["workspace", "create", "x"], &[("SERVICE_TOKEN", &token)]).await?;
        assert_eq!(ran.code, Some(5), "{ran:?}");
        let listed = object(machine, &["workspace", "list"]).await?;
        assert_eq!(listed["workspaces"], json!([]));
        let (screen, code) = Pty::start(machine, "workspace create Acme", &[])?.end().await?;
        ensure!(code == Some(0) && screen.matches("wsp_").count() == 3, "the ID is printed once more: {screen}");
        Ok(())
    })
}
