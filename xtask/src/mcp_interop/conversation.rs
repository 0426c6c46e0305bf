//! The conversation with a client's program: JSON objects, one a line.

use std::{fs, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, Command},
};

use super::user::User;
use crate::say_error;

/// How long a client may take for everything.
const TIMEOUT: Duration = Duration::from_secs(150);
/// Longer than an access token lives.
const EXPIRY_SECONDS: i64 = 3_700;

/// A step that the client reported.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) step: String,
    pub(super) details: Value,
    /// How often the client sent its user to the browser for this step.
    pub(super) asked: u32,
    /// How many pages asked the user for consent.
    pub(super) consents: u32,
}

/// Lets a client's program run to its end; returns its steps.
pub(super) async fn converse(user: &User<'_>, mut command: Command) -> Result<Vec<Done>> {
    let complaints = tempfile::NamedTempFile::new()?;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(complaints.reopen()?)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("{command:?} does not run"))?;
    let output = child.stdout.take().context("it says nothing")?;
    let mut input = child.stdin.take().context("it hears nothing")?;
    let listening = async {
        let (mut lines, mut steps) = (BufReader::new(output).lines(), Vec::new());
        let (mut asked, mut consents) = (0, 0);
        while let Some(line) = lines.next_line().await? {
            let message: Value = serde_json::from_str(&line).with_context(|| format!("it says: {line}"))?;
            if let Some(address) = message["open"].as_str() {
                asked += 1;
                consents += user.agree(address).await?;
            } else if let Some(step) = message["did"].as_str() {
                let (step, details) = (step.to_owned(), message);
                say_error(&format!("   {step}{}", if asked > 0 { ", with the user in the browser" } else { "" }));
                steps.push(Done { step, details, asked, consents });
                (asked, consents) = (0, 0);
            } else {
                ensure!(message["expire"] == true, "it says: {line}");
                expire(user, &mut input).await?;
            }
        }
        let status = child.wait().await?;
        ensure!(status.success(), "it exits with {status}");
        anyhow::Ok(steps)
    };
    let result = match tokio::time::timeout(TIMEOUT, listening).await {
        Ok(result) => result,
        Err(_) => Err(anyhow::anyhow!("it takes longer than {} s", TIMEOUT.as_secs())),
    };
    match result {
        Ok(steps) => Ok(steps),
        Err(error) => bail!("{error:#}\n{}", fs::read_to_string(complaints.path())?),
    }
}

async fn expire(user: &User<'_>, input: &mut ChildStdin) -> Result<()> {
    user.server.advance(EXPIRY_SECONDS);
    input.write_all(b"expired\n").await?;
    Ok(input.flush().await?)
}
