//! Tests of `service pack list`, `create`, `view`, `edit` and `delete`.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::{
    machine::run,
    project::{error, object},
    pty::Pty,
    token::sign_in_with_workspace,
};

#[test]
fn a_pack_is_created_listed_viewed_edited_and_deleted_fh_19() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        let at = ["--workspace-id", acme.as_str()];
        let none = machine.show(&[&["pack", "list"][..], &at].concat()).await?;
        assert_eq!(none, "E| No packs. Create one with: service pack create\nexit 0");
        // The text comes from standard input, so that it can be long.
        let mut child = tokio::process::Command::from(machine.command())
            .args(["pack", "create", "Refund policy", "--text-file", "-", "--json"])
            .args(at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        child.stdin.take().context("no input")?.write_all(b"thirty days").await?;
        let created: Value = serde_json::from_slice(&child.wait_with_output().await?.stdout)?;
        let pack = &created["pack"];
        assert_eq!((&pack["text"], &pack["type"]), (&json!("thirty days"), &json!("context")));
        assert_eq!(created["workspace"], json!({ "id": acme, "source": "flag" }));
        let id = pack["id"].as_str().context("no id")?;

        let listed = machine.show(&[&["pack", "list"][..], &at].concat()).await?;
        assert_eq!(listed, "O| <pack>\tcontext\tRefund policy\nexit 0");
        let listed = object(machine, &[&["pack", "ls"][..], &at].concat()).await?;
        assert_eq!(listed["packs"][0]["id"], id);
        assert_eq!(object(machine, &["pack", "list"]).await?["packs"], json!([]), "it is in the workspace only");
        let text = machine.run(&[&["pack", "view", id, "--jq", ".pack.text"][..], &at].concat()).await?;
        assert_eq!(text.stdout, "thirty days\n");
        let shown = machine.show(&[&["pack", "view", id][..], &at].concat()).await?;
        ensure!(shown.contains("O| Type        context\nO| Workspace   <wsp>\n"), "{shown}");

        let change = ["pack", "edit", id, "--type", "reference", "--text", "sixty days"];
        let edited = object(machine, &[&change[..], &at].concat()).await?;
        assert_eq!((&edited["pack"]["type"], &edited["pack"]["name"]), (&json!("reference"), &json!("Refund policy")));
        assert_ne!(edited["pack"]["version"], pack["version"]);
        let found = machine.show(&[&["pack", "search", "sixty", "--type", "reference"][..], &at].concat()).await?;
        assert_eq!(found, "O| <pack>\treference\tRefund policy\nexit 0");
        let deleted = object(machine, &[&["pack", "delete", id, "--yes"][..], &at].concat()).await?;
        assert_eq!((&deleted["deleted"], &deleted["failed"]), (&json!([{ "id": id }]), &json!([])));
        let (failure, code) = error(machine, &[&["pack", "view", id][..], &at].concat()).await?;
        assert_eq!((failure["code"].as_str(), code), (Some("not_found"), Some(6)));
        assert_eq!(machine.run(&["pack", "create", "x", "--type", "other"]).await?.code, Some(2));
        assert_eq!(machine.run(&["pack", "create", "x", "--text-file", "nowhere"]).await?.code, Some(2));
        Ok(())
    })
}

#[test]
fn the_text_of_a_pack_cannot_control_the_terminal_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        std::fs::write(machine.home.path().join("text"), "a\u{1b}]52;c;aGk=\u{7}b\u{9b}31mc\nnext line")?;
        let created = object(machine, &["pack", "create", "Policy", "--text-file", "text"]).await?;
        let id = created["pack"]["id"].as_str().context("no id")?;
        let (screen, code) = Pty::start(machine, &format!("pack view {id}"), &[])?.end().await?;
        assert_eq!(code, Some(0));
        ensure!(!screen.contains("\u{1b}]52") && !screen.contains('\u{9b}'), "{screen:?}");
        ensure!(screen.contains("52;c;aGk=") && screen.contains("\nnext line"), "{screen:?}");
        Ok(())
    })
}
