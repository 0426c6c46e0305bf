//! Tests of `service project create`, `view`, `edit` and `delete`.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_api::{ids::UserId, workspaces::Role};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{
    machine::{EMAIL, Machine, run},
    pty::Pty,
    token::sign_in_with_workspace,
    whoami::create_token,
};

/// Runs a command with `--json`, and returns its object.
pub(crate) async fn object(machine: &Machine, arguments: &[&str]) -> Result<Value> {
    let ran = machine.run(&[arguments, &["--json"]].concat()).await?;
    serde_json::from_str(&ran.stdout).with_context(|| format!("{arguments:?}: {ran:?}"))
}

/// Runs a command with `--json` that fails, and returns the error and the exit code.
pub(crate) async fn error(machine: &Machine, arguments: &[&str]) -> Result<(Value, Option<i32>)> {
    let ran = machine.run(&[arguments, &["--json"]].concat()).await?;
    ensure!(ran.stdout.is_empty(), "{arguments:?}: {ran:?}");
    let object: Value = serde_json::from_str(&ran.stderr).with_context(|| format!("{arguments:?}: {ran:?}"))?;
    Ok((object["error"].clone(), ran.code))
}

fn id_of(object: &Value, key: &str) -> Result<String> {
    Ok(object[key]["id"].as_str().context("no id")?.to_owned())
}

#[test]
fn a_project_is_created_viewed_edited_and_deleted_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let created = machine.show(&["project", "create", "Garden", "--description", "Beds"]).await?;
        assert_eq!(created, "E| ok: Created project Garden (<proj>).\nO| <proj>\nexit 0");
        std::fs::write(machine.home.path().join("notes.txt"), "Beds\nand paths\n")?;
        let made = object(machine, &["project", "create", "Orchard", "--description-file", "notes.txt"]).await?;
        assert_eq!(made["project"]["description"], "Beds\nand paths\n");
        assert_eq!(made["workspace"], json!({ "id": null, "source": "default" }));
        let id = id_of(&made, "project")?;
        let version = made["project"]["version"].as_str().context("no version")?.to_owned();
        let expected = format!(
            "\
O| Orchard
O| ID          <proj>
O| Workspace   Personal
O| Created     2027-01-15T08:00:00.000Z
O| Updated     2027-01-15T08:00:00.000Z
O| Version     {version}
O| \nO| Beds
O| and paths
exit 0"
        );
        assert_eq!(machine.show(&["project", "view", &id]).await?, expected);

        let edited = machine.show(&["project", "edit", &id, "--name", "Wood", "--if-match", &version]).await?;
        assert_eq!(edited, "E| ok: Updated project Wood (<proj>).\nexit 0");
        let viewed = object(machine, &["project", "view", &id]).await?;
        assert_eq!(viewed["project"]["name"], "Wood");
        assert_eq!(viewed["project"]["description"], "Beds\nand paths\n", "a field that was not named changed");
        assert_ne!(viewed["project"]["version"], version.as_str());

        let expected = "E| error: Use --yes to delete a project without a prompt.\nexit 2";
        assert_eq!(machine.show(&["project", "delete", &id]).await?, expected);
        let expected = "\
E| ok: Deleted project <proj>.
E|   To restore within 30 days: service project restore <proj>
exit 0";
        assert_eq!(machine.show(&["project", "delete", &id, "--yes"]).await?, expected);
        assert_eq!(machine.run(&["project", "view", &id]).await?.code, Some(6));
        assert_eq!(machine.run(&["project", "restore", &id]).await?.code, Some(0));
        assert_eq!(object(machine, &["project", "view", &id]).await?["project"]["name"], "Wood");
        Ok(())
    })
}

#[test]
fn an_edit_of_an_older_version_changes_nothing_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let made = object(machine, &["project", "create", "Garden"]).await?;
        let id = id_of(&made, "project")?;
        let version = made["project"]["version"].as_str().context("no version")?;
        assert_eq!(machine.run(&["project", "edit", &id, "--name", "Wood"]).await?.code, Some(0));
        let late = ["project", "edit", id.as_str(), "--name", "Late", "--if-match", version];
        let expected = format!(
            "\
E| error: Project <proj> no longer has version {version}. Nothing was changed.
E| next: See what changed, then repeat with its version: service project view <proj>
exit 1"
        );
        assert_eq!(machine.show(&late).await?, expected);
        let (failure, code) = error(machine, &late).await?;
        assert_eq!(
            (failure["code"].as_str(), failure["status"].as_u64(), code),
            (Some("conflict"), Some(412), Some(1))
        );
        assert!(failure["requestId"].is_string(), "{failure}");
        assert_eq!(object(machine, &["project", "view", &id]).await?["project"]["name"], "Wood");
        // An edit without a change, and a version that is none, are found before a request.
        assert_eq!(machine.run(&["project", "edit", &id]).await?.code, Some(2));
        assert_eq!(machine.run(&["project", "edit", &id, "--name", "x", "--if-match", "new"]).await?.code, Some(2));
        Ok(())
    })
}

#[test]
fn what_is_wrong_with_a_project_is_said_with_what_to_do_fh_19() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        let (failure, code) = error(machine, &["project", "create", ""]).await?;
        assert_eq!((failure["code"].as_str(), code), (Some("invalid_input"), Some(1)));
        ensure!(failure["fields"]["name"].is_string() || failure["fields"].to_string().contains("name"), "{failure}");
        ensure!(failure["message"].as_str().is_some_and(|text| text.contains("name")), "{failure}");

        let expected = "\
E| error: Project proj_nope not found in <wsp>, or you don't have access.
E| next: service project list
exit 6";
        assert_eq!(machine.show(&["project", "view", "proj_nope", "--workspace-id", &acme]).await?, expected);
        let expected = "E| error: Project proj_nope not found.\nE| next: service project list\nexit 6";
        for command in [
            &["project", "view", "proj_nope"][..],
            &["project", "edit", "proj_nope", "--name", "x"],
            &["project", "delete", "proj_nope", "--yes"],
        ] {
            assert_eq!(machine.show(command).await?, expected, "{command:?}");
        }
        let signed_out = Machine::new(&machine.url, &machine.leaks)?;
        assert_eq!(signed_out.run(&["project", "create", "x"]).await?.code, Some(4));

        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let ana: UserId = machine.sign_in()?["user"]["id"].as_str().context("no user")?.parse()?;
        let harbour =
            server.make_workspace("Harbour", &[(bob.user_id, Role::Owner), (ana, Role::Viewer)]).await?.to_string();
        let expected = "E| error: Your role in this workspace doesn't allow this. Ask one of its owners.\nexit 5";
        assert_eq!(machine.show(&["project", "create", "x", "--workspace-id", &harbour]).await?, expected);

        server.advance(61);
        let (token, _) = create_token(server, EMAIL, &json!({ "scopes": ["read"] })).await?;
        let ran = machine.show_with(&["project", "create", "x"], &[("SERVICE_TOKEN", &token)]).await?;
        ensure!(ran.starts_with("E| error: This needs the projects:write scope.") && ran.ends_with("exit 5"), "{ran}");
        // A secret of the service is not stored, and not repeated.
        let (failure, code) = error(machine, &["project", "create", "x", "--description", &token]).await?;
        assert_eq!((failure["code"].as_str(), code), (Some("invalid_input"), Some(1)), "{failure}");
        Ok(())
    })
}

#[test]
fn several_projects_are_deleted_after_one_question_fh_19() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        machine.run(&["workspace", "use", &acme]).await?;
        let make = async |name: &str| id_of(&object(machine, &["project", "create", name]).await?, "project");
        let (first, second) = (make("One").await?, make("Two").await?);
        let mut pty = Pty::start(machine, &format!("project delete {first} {second}"), &[])?;
        pty.expect("Delete 2 projects: One").await?;
        pty.expect(&format!("Two ({second})? [y/N] ")).await?;
        pty.line("n").await?;
        let (screen, code) = pty.end().await?;
        assert_eq!(code, Some(2));
        ensure!(screen.contains("Nothing was deleted."), "{screen}");
        let mut pty = Pty::start(machine, &format!("project delete {first}"), &[])?;
        pty.expect(&format!("Delete project One ({first})? [y/N] ")).await?;
        pty.line("y").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        // One that cannot be deleted does not keep the others.
        let ran = machine.run(&["project", "delete", "proj_nope", &second, "--yes", "--json"]).await?;
        let object: Value = serde_json::from_str(&ran.stdout)?;
        assert_eq!(object["deleted"], json!([{ "id": second }]));
        assert_eq!(object["failed"], json!([{ "id": "proj_nope", "code": "not_found" }]));
        assert_eq!(object["workspace"], json!({ "id": acme, "source": "saved" }));
        assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(1)));
        Ok(())
    })
}

/// Forwards the rest of a request until its response begins. Then the project exists.
async fn wait_for_response(client: &mut TcpStream, server: &mut TcpStream) {
    let (mut sent, mut received) = ([0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            _ = server.read(&mut received) => return,
            count = client.read(&mut sent) => drop(server.write_all(&sent[..count.unwrap_or_default()]).await),
        }
    }
}

/// A proxy that loses the response to the first POST for projects, after the service has sent it.
async fn lose_first_response(target: SocketAddr) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let mut is_lost = false;
        while let Ok((mut client, _)) = listener.accept().await {
            let mut head = vec![0; 65_536];
            let Ok(count) = client.read(&mut head).await else { continue };
            let loses = !is_lost && head.starts_with(b"POST /v1/projects");
            is_lost |= loses;
            let Ok(mut server) = TcpStream::connect(target).await else { continue };
            drop(server.write_all(&head[..count]).await);
            if loses {
                wait_for_response(&mut client, &mut server).await;
                continue;
            }
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    Ok(address)
}

#[test]
fn a_lost_response_creates_no_second_project_fh_19() -> Result<()> {
    run(async |server, machine| {
        server.advance(61);
        let (token, _) = create_token(server, EMAIL, &json!({ "scopes": ["read", "write"] })).await?;
        let target: SocketAddr = machine.url.trim_start_matches("http://").parse()?;
        let proxy = lose_first_response(target).await?;
        let far = Machine::new(&format!("http://{proxy}"), &machine.leaks)?.with("SERVICE_TOKEN", &token);
        let ran = far.run(&["project", "create", "Garden", "--verbose"]).await?;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ensure!(ran.stderr.contains("debug: POST /v1/projects no response"), "nothing was lost: {ran:?}");
        let here = Machine::new(&machine.url, &machine.leaks)?.with("SERVICE_TOKEN", &token);
        let listed = object(&here, &["project", "list"]).await?;
        assert_eq!(listed["projects"].as_array().map(Vec::len), Some(1), "{listed}");
        Ok(())
    })
}
