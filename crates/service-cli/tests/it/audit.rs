//! Tests of `service audit`.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_api::{ids::UserId, workspaces::Role};

use crate::{
    machine::run,
    project::{error, object},
    pty::Pty,
    token::sign_in_with_workspace,
};

fn names(object: &Value) -> Vec<&str> {
    object["events"].as_array().into_iter().flatten().filter_map(|event| event["event"].as_str()).collect()
}

#[test]
fn own_events_are_listed_newest_first_fh_19() -> Result<()> {
    run(async |server, machine| {
        sign_in_with_workspace(server, machine).await?;
        let created = object(machine, &["workspace", "create", "Harbour"]).await?;
        let harbour = created["workspace"]["id"].as_str().context("no id")?;
        let listed = object(machine, &["audit"]).await?;
        let all = names(&listed);
        ensure!(all.contains(&"sign_in.succeeded") && all.contains(&"user.created"), "{listed}");
        assert_eq!(listed["workspace"], json!({ "id": null, "source": "default" }));
        assert_eq!(listed["nextCursor"], Value::Null);
        // The parts of a list make up the whole.
        let first = object(machine, &["audit", "--limit", "1"]).await?;
        assert_eq!(names(&first), all[..1]);
        let cursor = first["nextCursor"].as_str().context("no cursor")?;
        let rest = object(machine, &["audit", "--cursor", cursor]).await?;
        assert_eq!(names(&rest), all[1..]);
        let shown = machine.run(&["audit", "--limit", "1"]).await?;
        ensure!(shown.stderr.contains("Showing the latest 1. For more: --limit <number>"), "{shown:?}");
        let found = object(machine, &["audit", "--event", "user.created"]).await?;
        assert_eq!(names(&found), ["user.created"]);
        let later = object(machine, &["audit", "--since", "2027-01-16"]).await?;
        assert_eq!(later["events"], json!([]));
        let none = machine.show(&["audit", "--until", "2020-01-01"]).await?;
        assert_eq!(none, "E| No events.\nexit 0");

        let theirs = object(machine, &["audit", "--workspace-id", harbour]).await?;
        assert_eq!(names(&theirs), ["workspace.created"], "{theirs}");
        let tabs = machine.run(&["audit", "--workspace-id", harbour]).await?.stdout;
        ensure!(tabs.starts_with("2027-01-15T08:00:00.000Z\tworkspace.created\t"), "{tabs}");
        let (screen, code) = Pty::start(machine, &format!("audit --workspace-id {harbour}"), &[])?.end().await?;
        ensure!(code == Some(0) && screen.contains("Workspace created"), "{screen}");
        Ok(())
    })
}

#[test]
fn more_events_than_a_page_are_read_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        for number in 0..130 {
            let id = object(machine, &["project", "create", &format!("P{number}"), "--quiet"]).await?;
            let id = id["project"]["id"].as_str().context("no id")?.to_owned();
            assert_eq!(machine.run(&["project", "delete", &id, "--yes"]).await?.code, Some(0));
        }
        let listed = object(machine, &["audit", "--event", "content.deleted", "--limit", "120"]).await?;
        assert_eq!((names(&listed).len(), listed["nextCursor"].is_string()), (120, true));
        let listed = object(machine, &["audit", "--event", "content.deleted", "--limit", "1000"]).await?;
        assert_eq!((names(&listed).len(), listed["nextCursor"].is_string()), (130, false));
        Ok(())
    })
}

#[test]
fn events_of_a_workspace_are_for_its_owners_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let ana: UserId = machine.sign_in()?["user"]["id"].as_str().context("no user")?.parse()?;
        let harbour =
            server.make_workspace("Harbour", &[(bob.user_id, Role::Owner), (ana, Role::Member)]).await?.to_string();
        let expected = "\
E| error: Your role in this workspace doesn't allow this. Ask one of its owners.
E| next: Your own events: service audit --workspace-id personal
exit 5";
        assert_eq!(machine.show(&["audit", "--workspace-id", &harbour]).await?, expected);
        let (failure, code) = error(machine, &["audit", "--event", "nothing"]).await?;
        assert_eq!((failure["code"].as_str(), code), (Some("invalid_input"), Some(1)));
        ensure!(failure["message"].as_str().is_some_and(|text| text.contains("cli_token.created")), "{failure}");
        for limit in ["0", "10001", "x"] {
            assert_eq!(machine.run(&["audit", "--limit", limit]).await?.code, Some(2), "{limit}");
        }
        Ok(())
    })
}
