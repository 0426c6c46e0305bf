//! What is printed where: colours, pipes, help and completions.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Result, ensure};

use crate::{
    machine::{Machine, binary, run},
    pty::Pty,
    token::settled,
};

#[test]
fn what_cannot_be_written_is_a_failure_and_what_nobody_reads_is_not() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let full = |arguments: &[&str]| {
            let mut command = tokio::process::Command::from(machine.command());
            let full = std::fs::File::options().write(true).open("/dev/full")?;
            anyhow::Ok(command.args(arguments).stdout(full).stderr(std::process::Stdio::piped()).spawn()?)
        };
        let made = full(&["token", "create", "--personal"])?.wait_with_output().await?;
        let said = String::from_utf8(made.stderr)?;
        assert_eq!(made.status.code(), Some(1), "{said}");
        assert!(
            said.contains("The output could not be written") && said.contains("service token revoke clit_"),
            "{said}"
        );
        let gone = full(&["whoami", "--json"])?.wait_with_output().await?;
        assert_eq!(gone.status.code(), Some(1));
        // A filter that cannot be read is found before anything is made.
        let before = server.sql("select count(*) from cli_tokens").await?;
        assert_eq!(machine.run(&["token", "create", "--personal", "--jq", ".token["]).await?.code, Some(2));
        assert_eq!(server.sql("select count(*) from cli_tokens").await?, before);
        Ok(())
    })
}

#[test]
fn what_others_wrote_does_not_steer_the_terminal() -> Result<()> {
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
fn colours_are_for_terminals_and_for_those_who_ask() -> Result<()> {
    run(async |server, machine| {
        settled(server, machine).await?;
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
        ensure!(screen.starts_with("error: No workspace"), "{screen}");
        Ok(())
    })
}

#[test]
fn a_reader_that_leaves_is_no_failure() -> Result<()> {
    run(async |server, machine| {
        settled(server, machine).await?;
        let mut shell = Command::new("bash");
        let line = format!("set -o pipefail; {} workspace list | head -n 1 > /dev/null", binary().display());
        shell.env_clear().envs(machine.variables()).args(["-c", &line]);
        let ran = machine.finish(&mut shell).await?;
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        Ok(())
    })
}

/// Without a server, a home or a network: none of these may need one.
fn offline(arguments: &[&str]) -> Result<(String, Option<i32>)> {
    let output = Command::new(binary()).args(arguments).env_clear().stdin(Stdio::null()).output()?;
    Ok((String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?, output.status.code()))
}

#[test]
fn help_and_completions_need_nothing() -> Result<()> {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (script, code) = offline(&["completion", shell])?;
        ensure!(script.contains("service") && code == Some(0), "{shell}: {script}");
    }
    let (topics, _) = offline(&["help", "exit-codes"])?;
    for code in ["0", "1", "2", "4", "5", "6", "7", "8", "130"] {
        ensure!(topics.lines().any(|line| line.split(' ').next() == Some(code)), "{code} is not explained");
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
fn a_doctor_says_what_is_wrong_here() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let expected = "\
O| ok   address      <server>, profile default
O| ok   token        SERVICE_TOKEN is not set
O| ok   sign-in      ana@acme.test, in <config>/credentials.json (not encrypted)
O| --   keyring      it does not answer (no D-Bus session)
O| --   browser      no display: sign in with a code by mail
O| ok   service      <server> answers
O| ok   accepted     the service knows ana@acme.test
exit 0";
        assert_eq!(machine.show(&["doctor"]).await?, expected);
        let nobody = Machine::new("http://127.0.0.1:9", &machine.leaks)?;
        let shown = nobody.show(&["doctor"]).await?;
        ensure!(shown.contains("!!   service      Could not reach <host>: nothing listens there."), "{shown}");
        ensure!(
            shown.contains("--   accepted     not signed in: service login") && shown.ends_with("exit 1"),
            "{shown}"
        );
        Ok(())
    })
}

#[test]
fn the_page_about_the_command_names_what_there_is() -> Result<()> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(top.join("../../docs/cli.md"))?;
    let (variables, _) = offline(&["help", "environment"])?;
    for name in variables.lines().filter_map(|line| line.split("   ").next()).flat_map(|names| names.split(", ")) {
        ensure!(page.contains(&format!("`{}`", name.trim())), "{name} is not on the page");
    }
    let codes = fs::read_to_string(top.join("src/failure.rs"))?;
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
