//! Tests of lists on a terminal: columns that fit, browsers among the sessions, and choosing a workspace by its name.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_api::{ids::UserId, workspaces::Role};
use service_testkit::{server::TestServer, tab::Tab};

use crate::{
    machine::{EMAIL, Machine, binary, run},
    pty::Pty,
    token::sign_in_with_workspace,
};

/// Runs a command on a terminal of this width. Returns what it shows.
async fn show_on(machine: &Machine, columns: usize, arguments: &str) -> Result<String> {
    let line = format!("stty cols {columns} rows 50; {} {arguments}", binary().display());
    let (screen, code) = Pty::start_line(machine, &line, &[])?.end().await?;
    ensure!(code == Some(0), "{screen}");
    Ok(screen)
}

fn user_id(machine: &Machine) -> Result<UserId> {
    Ok(machine.sign_in()?["user"]["id"].as_str().context("no user")?.parse()?)
}

async fn sign_in_browser(server: &TestServer) -> Result<Tab> {
    server.advance(61);
    let tab = Tab::open(server)?;
    let begun = tab.get("/sign-in").await?;
    tab.sign_in(&server.mailbox, begun.next()?, EMAIL).await?;
    Ok(tab)
}

#[test]
fn a_list_fits_the_terminal_and_shows_status_expiry_and_scopes_fh_14() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        for name in ["Nightly build server of the release engineering team", "日本語の名前がとても長いビルドサーバー"]
        {
            let arguments = ["token", "create", "--workspace-id", &acme, "--name", name, "--expires-in", "9", "--json"];
            let created: Value = serde_json::from_str(&machine.run(&arguments).await?.stdout)?;
            machine.leaks.register("CLI token", created["token"].as_str().context("no token")?);
        }
        let ids = machine.run(&["token", "list", "--jq", ".tokens[].id"]).await?.stdout;
        for columns in [200, 80, 60, 40] {
            let screen = show_on(machine, columns, "token list").await?;
            let lines: Vec<_> = screen.lines().collect();
            assert_eq!(lines.len(), 3, "{columns}: {screen}");
            for (line, id) in lines[1..].iter().zip(ids.lines()) {
                ensure!(line.ends_with(&format!("  {id}")), "{columns}: the ID is not whole: {screen}");
            }
            if columns >= 80 {
                ensure!(lines[0].contains("SCOPES") && lines[0].contains("EXPIRES"), "{screen}");
                ensure!(lines[1].contains("  read  "), "{screen}");
            }
            ensure!(
                columns < 200 || screen.contains("Nightly build server of the release engineering team"),
                "{screen}"
            );
            ensure!(columns > 80 || screen.contains("Nightly…") || screen.contains("Nightly build…"), "{screen}");
            ensure!(lines.iter().all(|line| line.chars().count() <= columns.max(45)), "{columns}: {screen}");
        }
        let first = ids.lines().next().context("no id")?;
        assert_eq!(machine.run(&["token", "revoke", first, "--yes"]).await?.code, Some(0));
        let screen = show_on(machine, 80, "token list --status all").await?;
        ensure!(screen.lines().next().is_some_and(|header| header.contains("STATUS")), "{screen}");
        ensure!(screen.contains(" revoked ") && screen.contains(" active "), "{screen}");
        // A script gets everything, and as before.
        let piped = machine.run(&["token", "list"]).await?.stdout;
        ensure!(
            piped.contains("日本語の名前がとても長いビルドサーバー\t") || piped.contains("engineering team\t"),
            "{piped}"
        );
        let all = machine.run(&["token", "list", "--status", "all"]).await?.stdout;
        ensure!(all.lines().any(|line| line.ends_with("\trevoked")), "{all}");
        Ok(())
    })
}

#[test]
fn names_of_others_cannot_control_the_terminal_fh_14() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let ana = user_id(machine)?;
        server.make_workspace("safe\u{202e}txt.exe\u{1b}[2J\u{7}\nsecond", &[(ana, Role::Viewer)]).await?;
        for arguments in ["workspace list", "workspace list --json", "workspace list --jq '.workspaces[].name'"] {
            let screen = show_on(machine, 100, arguments).await?;
            ensure!(!screen.contains(['\u{202e}', '\u{7}']) && !screen.contains("\u{1b}[2J"), "{screen:?}");
            ensure!(screen.contains("txt.exe"), "{screen:?}");
        }
        // Escaped, the JSON is still the same.
        let shown = show_on(machine, 100, "workspace list --json --color never").await?;
        let piped = machine.run(&["workspace", "list", "--json"]).await?.stdout;
        assert_eq!(serde_json::from_str::<Value>(&shown)?, serde_json::from_str::<Value>(&piped)?);
        Ok(())
    })
}

#[test]
fn json_is_indented_and_colored_on_a_terminal_only_fh_17() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let indented = "{\n  \"projects\": [],\n";
        let screen = show_on(machine, 80, "project list --json --color never").await?;
        ensure!(screen.starts_with(indented), "{screen}");
        let (screen, _) = Pty::start(machine, "project list --json", &[("NO_COLOR", "1")])?.end().await?;
        ensure!(screen.starts_with(indented) && !screen.contains('\u{1b}'), "{screen:?}");
        for arguments in ["project list --json", "api GET /v1/projects", "project list --jq ."] {
            let screen = show_on(machine, 80, arguments).await?;
            ensure!(screen.starts_with('{') && screen.contains("\u{1b}[") && screen.lines().count() > 2, "{screen:?}");
        }
        let piped = machine.run(&["project", "list", "--json"]).await?.stdout;
        ensure!(piped.starts_with("{\"projects\":[],") && piped.lines().count() == 1, "{piped}");
        let wrong = machine.run(&["project", "list", "--jq", ".projects | nope"]).await?;
        let error: Value = serde_json::from_str(&wrong.stderr)?;
        assert_eq!(error["error"]["message"], "The --jq filter is invalid at column 13: unknown filter `nope`.");
        assert_eq!((wrong.code, &error["error"]["column"]), (Some(2), &json!(13)));
        Ok(())
    })
}

#[test]
fn browsers_are_listed_and_signed_out_fh_15() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let (first, _second) = (sign_in_browser(server).await?, sign_in_browser(server).await?);
        let listed = machine.run(&["session", "list"]).await?.stdout;
        let browsers: Vec<_> = listed.lines().filter(|line| line.contains("\tbrowser\t")).collect();
        assert_eq!((browsers.len(), listed.lines().count()), (2, 3), "{listed}");
        ensure!(show_on(machine, 80, "session list").await?.lines().any(|line| line.contains("Browser  ")));
        let object: Value = serde_json::from_str(&machine.run(&["session", "list", "--json"]).await?.stdout)?;
        assert_eq!(object["sessions"].as_array().context("no sessions")?.len(), 1);
        let newest = object["browsers"][0]["id"].as_str().context("no browser")?;
        assert_eq!(machine.run(&["session", "revoke", newest, "--yes"]).await?.code, Some(0));
        assert_eq!(machine.run(&["session", "revoke", newest, "--yes"]).await?.code, Some(6));
        assert_eq!(first.get("/account/sessions").await?.status, 200);
        let expected = "E| ok: Revoked 0 other sessions, and signed out 1 browser.\nexit 0";
        assert_eq!(machine.show(&["session", "revoke", "--others", "--yes"]).await?, expected);
        ensure!(first.get("/account/sessions").await?.status != 200, "the browser is still signed in");
        let done = machine.run(&["session", "revoke", "--others", "--yes", "--json"]).await?.stdout;
        assert_eq!(serde_json::from_str::<Value>(&done)?, json!({ "ended": 0, "browsers": 0 }));
        Ok(())
    })
}

#[test]
fn a_workspace_is_chosen_by_name_or_from_a_list_fh_16() -> Result<()> {
    run(async |server, machine| {
        sign_in_with_workspace(server, machine).await?;
        let ana = user_id(machine)?;
        let twins = [
            server.make_workspace("Twin", &[(ana, Role::Owner)]).await?.to_string(),
            server.make_workspace("TWIN", &[(ana, Role::Viewer)]).await?.to_string(),
        ];
        let chosen = "E| ok: Commands now use Acme (<wsp>). Override it with --workspace-id.\nexit 0";
        assert_eq!(machine.show(&["workspace", "use", "aCME"]).await?, chosen);
        let personal = "E| ok: Commands now use your personal space. Override it with --workspace-id.\nexit 0";
        for word in ["personal", "Personal", "--personal"] {
            assert_eq!(machine.show(&["workspace", "use", word]).await?, personal);
        }
        let ran = machine.run(&["workspace", "use", "twin"]).await?;
        assert_eq!(ran.code, Some(2));
        ensure!(ran.stderr.starts_with("error: 2 workspaces are called twin: "), "{}", ran.stderr);
        for id in &twins {
            ensure!(ran.stderr.contains(&format!("next: service workspace use {id}\n")), "{}", ran.stderr);
        }
        let object: Value = serde_json::from_str(&machine.run(&["workspace", "use", "twin", "--json"]).await?.stderr)?;
        assert_eq!(object["error"]["candidates"].as_array().map(Vec::len), Some(2));
        // A part of a name is no name.
        assert_eq!(machine.run(&["workspace", "use", "Acm"]).await?.code, Some(6));
        let expected = "\
E| error: A workspace is required.
E| next: service workspace use <name or id>, or: service workspace use personal
exit 2";
        assert_eq!(machine.show(&["workspace", "use"]).await?, expected);
        let mut pty = Pty::start(machine, "workspace use", &[])?;
        pty.expect("1. Personal *").await?;
        let listed = pty.expect("Workspace (number): ").await?;
        let line = listed.lines().find(|line| line.contains("Acme (")).context("Acme is not in the list")?;
        pty.line(line.trim().split('.').next().unwrap_or_default()).await?;
        pty.expect("Commands now use Acme (").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        ensure!(machine.run(&["workspace", "show"]).await?.stdout.starts_with("Acme ("));
        Ok(())
    })
}
