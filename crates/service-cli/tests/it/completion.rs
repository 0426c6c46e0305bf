//! Tests of completion in real shells on a pseudoterminal. The names that other users chose are hostile.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use service_api::{ids::UserId, workspaces::Role};
use service_testkit::server::TestServer;

use crate::{
    machine::{Machine, binary, run},
    pty::Pty,
};

/// A name that creates a file wherever a shell evaluates it.
const HOSTILE: &str = "$(touch pwned) `touch pwned`;touch pwned\n:*~'\"\u{1b}[2J";
const PROMPT: &str = "READY> ";

/// Signs in, and lists a workspace with a hostile name. Returns its ID, and the variables of a shell that finds the command.
async fn prepare(server: &TestServer, machine: &Machine) -> Result<(String, String)> {
    machine.log_in(server).await?;
    let ana: UserId = machine.sign_in()?["user"]["id"].as_str().context("no user")?.parse()?;
    let id = server.make_workspace(HOSTILE, &[(ana, Role::Viewer)]).await?.to_string();
    assert_eq!(machine.run(&["workspace", "list"]).await?.code, Some(0));
    let programs = machine.home.path().join("bin");
    fs::create_dir(&programs)?;
    std::os::unix::fs::symlink(binary(), programs.join("service"))?;
    let path = machine.variables().into_iter().find(|(name, _)| name == "PATH").map(|(_, path)| path);
    Ok((id, format!("{}:{}", programs.display(), path.unwrap_or_default())))
}

/// The file with the lists for completion.
fn cache(machine: &Machine) -> Result<Option<PathBuf>> {
    let directory = machine.home.path().join(".cache/service/completion");
    let Ok(entries) = fs::read_dir(directory) else { return Ok(None) };
    Ok(entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?.pop())
}

/// Completes `workspace use` in a shell, and runs the line as an argument of `echo`. `start` starts the shell, and `load` loads
/// the script and sets the prompt.
async fn complete_in(server: &TestServer, machine: &Machine, start: &str, load: &str) -> Result<()> {
    let (id, path) = prepare(server, machine).await?;
    let line = format!("stty cols 200 rows 50; exec {start}");
    let mut pty = Pty::start_line(machine, &line, &[("PATH", &path), ("HISTFILE", "/dev/null")])?;
    pty.line(load).await?;
    pty.expect(PROMPT).await?;
    // A beginning that only the workspace has is completed at once.
    pty.press("service workspace use wsp_\t").await?;
    pty.expect(&id).await?;
    pty.press("\x01echo \r").await?;
    pty.expect(&format!("service workspace use {id}")).await?;
    pty.expect(PROMPT).await?;
    // Several are listed, with their names.
    pty.press("service workspace use \t\t").await?;
    pty.expect("touch pwned").await?;
    pty.press("\x01\x0bexit\r").await?;
    let (screen, _) = pty.end().await?;
    ensure!(!screen.contains("\u{1b}[2J:") && !machine.home.path().join("pwned").exists(), "{screen}");
    Ok(())
}

#[test]
fn bash_completes_ids_and_evaluates_no_name() -> Result<()> {
    let load = "source <(service completion bash); PS1='READY''> '; bind 'set enable-bracketed-paste off'";
    run(async |server, machine| complete_in(server, machine, "bash --norc --noprofile -i", load).await)
}

#[test]
fn bash_inserts_no_name_when_it_cycles_through_candidates() -> Result<()> {
    run(async |server, machine| {
        let (id, path) = prepare(server, machine).await?;
        let start = "stty cols 200 rows 50; exec bash --norc --noprofile -i";
        let mut pty = Pty::start_line(machine, start, &[("PATH", &path), ("HISTFILE", "/dev/null")])?;
        pty.line("source <(service completion bash); bind 'TAB:menu-complete'; PS1='READY''> '").await?;
        pty.expect(PROMPT).await?;
        // The first candidate is the personal space.
        pty.press("service workspace use \t\t").await?;
        pty.expect(&id).await?;
        pty.press("\x01echo \r").await?;
        pty.expect(&format!("service workspace use {id}")).await?;
        pty.expect(PROMPT).await?;
        pty.press("exit\r").await?;
        let (screen, _) = pty.end().await?;
        ensure!(!machine.home.path().join("pwned").exists(), "a name was evaluated: {screen}");
        Ok(())
    })
}

#[test]
fn zsh_completes_ids_and_evaluates_no_name() -> Result<()> {
    let load = "bindkey -e; autoload -Uz compinit; compinit -u -D; source <(service completion zsh); PS1='READY''> '";
    run(async |server, machine| complete_in(server, machine, "zsh -f -i", load).await)
}

#[test]
fn fish_completes_ids_and_evaluates_no_name() -> Result<()> {
    let load = "service completion fish | source; function fish_prompt; echo -n 'READY''> '; end";
    run(async |server, machine| complete_in(server, machine, "fish --no-config --private -i", load).await)
}

#[test]
fn completion_needs_no_network_and_forgets_after_signing_out() -> Result<()> {
    run(async |server, machine| {
        let (id, _) = prepare(server, machine).await?;
        let file = cache(machine)?.context("there is no cache")?;
        assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
        let words = ["__complete", "3", "service", "workspace", "use", "wsp_"];
        let offered = machine.run(&words).await?;
        assert_eq!(offered.stdout.split('\t').next(), Some(id.as_str()), "{}", offered.stdout);
        assert_eq!(offered.stdout.lines().count(), 1, "{:?}", offered.stdout);
        ensure!(!offered.stdout.contains('\u{1b}'), "{:?}", offered.stdout);
        // Another profile and another server have lists of their own.
        let elsewhere = [("SERVICE_PROFILE", "work"), ("SERVICE_API_URL", "http://127.0.0.1:9")];
        for variable in elsewhere {
            assert_eq!(machine.run_with(&words, &[variable]).await?.stdout, "", "{variable:?}");
        }
        assert_eq!(machine.run(&["logout"]).await?.code, Some(0));
        assert_eq!(cache(machine)?, None);
        let offered = machine.run(&words).await?;
        assert_eq!((offered.stdout.as_str(), offered.stderr.as_str(), offered.code), ("", "", Some(0)));
        // A list with the token of a script leaves nothing on the machine.
        let (token, _) = crate::whoami::create_token(server, "bot@acme.test", &serde_json::json!({})).await?;
        machine.run_with(&["workspace", "list"], &[("SERVICE_TOKEN", &token)]).await?;
        assert_eq!(cache(machine)?, None);
        Ok(())
    })
}
