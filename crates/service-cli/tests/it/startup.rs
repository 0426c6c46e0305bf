//! Tests of what a command opens at its start. The figures are in docs/cli.md.

use std::{fs, process::Command};

use anyhow::{Result, ensure};

use crate::machine::{binary, run};

/// Traces the files, sockets and threads that a command opens; none without `strace`.
fn trace_calls(command: &mut Command, arguments: &[&str]) -> Result<Option<String>> {
    let log = tempfile::NamedTempFile::new()?;
    let variables: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    let mut traced = Command::new("strace");
    traced
        .args(["-f", "-e", "trace=openat,socket,clone3,clone", "-o"])
        .arg(log.path())
        .arg(binary())
        .args(arguments)
        .env_clear();
    traced.envs(variables.into_iter().filter_map(|(name, value)| Some((name, value?))));
    match traced.output() {
        Ok(output) if output.status.code().is_some() => Ok(Some(fs::read_to_string(log.path())?)),
        _ => Ok(None),
    }
}

#[test]
fn a_version_needs_no_socket_no_thread_and_no_certificate() -> Result<()> {
    let Some(calls) = trace_calls(&mut Command::new(binary()), &["--version"])? else { return Ok(()) };
    for expensive in ["socket(", "clone", "cert", "/etc/ssl", "credentials.json"] {
        ensure!(!calls.contains(expensive), "{expensive}: {calls}");
    }
    Ok(())
}

#[test]
fn a_command_on_this_machine_reads_no_certificates_and_asks_no_keyring() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let mut command = machine.command();
        let calls = tokio::task::spawn_blocking(move || trace_calls(&mut command, &["whoami"])).await??;
        let Some(calls) = calls else { return Ok(()) };
        for expensive in ["/etc/ssl", "ca-certificates", "AF_UNIX", "/run/user"] {
            ensure!(!calls.contains(expensive), "{expensive}");
        }
        Ok(())
    })
}

#[test]
fn completion_opens_no_socket_and_starts_no_thread() -> Result<()> {
    let words = ["__complete", "2", "service", "workspace", "use", ""];
    let Some(calls) = trace_calls(&mut Command::new(binary()), &words)? else { return Ok(()) };
    for expensive in ["socket(", "clone", "cert", "/etc/ssl"] {
        ensure!(!calls.contains(expensive), "{expensive}: {calls}");
    }
    Ok(())
}
