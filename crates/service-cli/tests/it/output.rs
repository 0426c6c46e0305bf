//! Tests of the output: colors, pipes, help and completions.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Result, ensure};

use crate::{
    machine::{Machine, binary, run},
    pty::Pty,
    token::sign_in_with_workspace,
};

#[test]
fn a_full_disk_is_a_failure() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let full = |arguments: &[&str]| {
            let mut command = tokio::process::Command::from(machine.command());
            let full = std::fs::File::options().write(true).open("/dev/full")?;
            anyhow::Ok(command.args(arguments).stdout(full).stderr(std::process::Stdio::piped()).spawn()?)
        };
        let created = full(&["token", "create", "--personal"])?.wait_with_output().await?;
        let said = String::from_utf8(created.stderr)?;
        assert_eq!(created.status.code(), Some(1), "{said}");
        assert!(said.contains("Can't write the output") && said.contains("service token revoke clit_"), "{said}");
        let gone = full(&["whoami", "--json"])?.wait_with_output().await?;
        assert_eq!(gone.status.code(), Some(1));
        // An invalid filter is found before a token is created.
        let before = server.sql("select count(*) from cli_tokens").await?;
        assert_eq!(machine.run(&["token", "create", "--personal", "--jq", ".token["]).await?.code, Some(2));
        assert_eq!(server.sql("select count(*) from cli_tokens").await?, before);
        Ok(())
    })
}

#[test]
fn content_of_other_users_cannot_control_the_terminal() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        std::fs::write(
            machine.home.path().join("p.json"),
            r#"{"name":"A","description":"x\u001b]52;c;aGk=\u0007\u009b31my"}"#,
        )?;
        assert_eq!(machine.run(&["api", "POST", "/v1/projects", "--input", "p.json"]).await?.code, Some(0));
        for arguments in ["api GET /v1/projects --jq '.data[].description'", "api GET /v1/projects"] {
            let (screen, exit) = Pty::start(machine, arguments, &[])?.end().await?;
            assert_eq!(exit, Some(0));
            assert!(
                !screen.contains("\u{1b}]52") && !screen.contains('\u{9b}') && screen.contains("52;c;aGk="),
                "{screen:?}"
            );
        }
        Ok(())
    })
}

#[test]
fn colors_are_used_on_terminals_and_on_request() -> Result<()> {
    run(async |server, machine| {
        sign_in_with_workspace(server, machine).await?;
        let red = "\u{1b}[31m";
        ensure!(!machine.run(&["workspace", "use", "wsp_nope"]).await?.stderr.contains('\u{1b}'));
        ensure!(
            machine.run_with(&["workspace", "use", "wsp_nope"], &[("CLICOLOR_FORCE", "1")]).await?.stderr.contains(red)
        );
        ensure!(machine.run(&["workspace", "use", "wsp_nope", "--color", "always"]).await?.stderr.contains(red));
        let (screen, _) = Pty::start(machine, "workspace use wsp_nope", &[])?.end().await?;
        ensure!(screen.contains(&format!("{red}✗")), "{screen}");
        for variables in [[("NO_COLOR", "1")], [("CLICOLOR", "0")], [("TERM", "dumb")]] {
            let (screen, _) = Pty::start(machine, "workspace use wsp_nope", &variables)?.end().await?;
            ensure!(!screen.contains('\u{1b}'), "{variables:?}: {screen:?}");
        }
        let (screen, _) = Pty::start(machine, "workspace use wsp_nope", &[("TERM", "dumb")])?.end().await?;
        ensure!(screen.starts_with("error: Workspace wsp_nope not found"), "{screen}");
        Ok(())
    })
}

#[test]
fn a_closed_pipe_is_not_a_failure() -> Result<()> {
    run(async |server, machine| {
        sign_in_with_workspace(server, machine).await?;
        let mut shell = Command::new("bash");
        let line = format!("set -o pipefail; {} workspace list | head -n 1 > /dev/null", binary().display());
        shell.env_clear().envs(machine.variables()).args(["-c", &line]);
        let ran = machine.run_command(&mut shell).await?;
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        Ok(())
    })
}

/// Runs the command without a server, a home directory or a network.
fn offline(arguments: &[&str]) -> Result<(String, Option<i32>)> {
    let output = Command::new(binary()).args(arguments).env_clear().stdin(Stdio::null()).output()?;
    Ok((String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?, output.status.code()))
}

#[test]
fn help_and_completions_work_offline() -> Result<()> {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (script, code) = offline(&["completion", shell])?;
        ensure!(script.contains("service") && code == Some(0), "{shell}: {script}");
    }
    let (topics, _) = offline(&["help", "exit-codes"])?;
    for code in ["0", "1", "2", "4", "5", "6", "7", "8", "130"] {
        ensure!(topics.lines().any(|line| line.split(' ').next() == Some(code)), "{code} has no explanation");
    }
    ensure!(offline(&["help", "environment"])?.0.contains("SERVICE_CREDENTIAL_STORE"));
    ensure!(offline(&["help", "json"])?.0.contains("--jq"));
    ensure!(offline(&["help", "token", "create"])?.0.contains("--workspace-id"));
    assert_eq!(offline(&["help", "nothing"])?.1, Some(2));
    assert_eq!(offline(&["--version"])?.1, Some(0));
    let (wrong, code) = offline(&["token", "create", "--worspace-id", "x"])?;
    ensure!(wrong.contains("a similar argument exists: '--workspace-id'") && code == Some(2), "{wrong}");
    Ok(())
}

#[test]
fn a_completion_script_loads_in_bash() -> Result<()> {
    let check = format!("eval \"$({} completion bash)\" && complete -p service", binary().display());
    let output = Command::new("bash").args(["--norc", "-c", &check]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[test]
fn doctor_reports_problems() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let expected = "\
O| ok Server <server> (profile default)
O| ok SERVICE_TOKEN is not set
O| ok Signed in as ana@acme.test (stored in <config>/credentials.json, not encrypted)
O| -- No system keyring: no D-Bus session (credentials are stored in a file)
O| -- No browser: no display (sign in with an email code)
O| ok <server> is reachable
O| ok Token accepted for ana@acme.test
exit 0";
        assert_eq!(machine.show(&["doctor"]).await?, expected);
        let (screen, _) = Pty::start(machine, "doctor", &[])?.end().await?;
        ensure!(screen.contains("✓ Signed in as ana@acme.test") && screen.contains("– No system keyring"), "{screen}");
        let unreachable = Machine::new("http://127.0.0.1:9", &machine.leaks)?;
        let shown = unreachable.show(&["doctor"]).await?;
        ensure!(shown.contains("!! Can't reach <host> (connection refused)."), "{shown}");
        ensure!(
            shown.contains("-- Not signed in. Sign in with: service login") && shown.ends_with("exit 1"),
            "{shown}"
        );
        Ok(())
    })
}

#[test]
fn docs_cli_names_every_variable_code_and_command() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/cli.md"))?;
    let (variables, _) = offline(&["help", "environment"])?;
    for name in variables.lines().filter_map(|line| line.split("   ").next()).flat_map(|names| names.split(", ")) {
        ensure!(page.contains(&format!("`{}`", name.trim())), "{name} is not on the page");
    }
    let codes = fs::read_to_string(root.join("src/failure.rs"))?;
    let codes: Vec<_> = codes.lines().filter_map(|line| line.split_once("=> \"")?.1.strip_suffix("\",")).collect();
    ensure!(codes.len() > 20, "only {} codes were found", codes.len());
    for code in codes {
        ensure!(page.contains(&format!("`{code}`")), "{code} is not on the page");
    }
    let (help, _) = offline(&["--help"])?;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        ensure!(page.contains(&format!("`{command}")), "{command} is not on the page");
    }
    Ok(())
}
