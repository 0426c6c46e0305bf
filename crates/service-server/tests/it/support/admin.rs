//! The commands of `serviced admin`.

use anyhow::{Result, ensure};
use service_testkit::{process::command, server::TestServer};
use std::path::Path;

/// Runs a command; what it printed, and whether it succeeded.
pub(crate) fn admin(server: &TestServer, arguments: &[&str]) -> Result<(bool, String)> {
    let mut command = command(Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, "admin");
    let output = command.args(arguments).output()?;
    let printed = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8(printed)?))
}

/// As [`admin`], while the node of this process continues: it may hold a lock that the command waits for.
pub(crate) async fn admin_beside(server: &TestServer, arguments: &[&str]) -> Result<(bool, String)> {
    let mut command = command(Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, "admin");
    command.args(arguments);
    let output = tokio::process::Command::from(command).output().await?;
    let printed = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8(printed)?))
}

/// A command of an operator who says why.
pub(crate) fn with_reason<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &["--operator", "olga", "--reason", "ticket 4711"]].concat()
}

pub(crate) fn run(server: &TestServer, arguments: &[&str]) -> Result<String> {
    let (success, printed) = admin(server, arguments)?;
    ensure!(success, "{arguments:?}: {printed}");
    Ok(printed)
}

/// As [`run`], while the node of this process continues.
pub(crate) async fn run_beside(server: &TestServer, arguments: &[&str]) -> Result<String> {
    let (success, printed) = admin_beside(server, arguments).await?;
    ensure!(success, "{arguments:?}: {printed}");
    Ok(printed)
}
