//! `cargo xtask ops support`: the commands of docs/operating.md that answer what users ask support, and those that set up and use
//! a support tool, each as the page has it.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_testkit::{ports, postgres::Cluster};

use super::{
    nodes::{DrillDatabase, Installation},
    report,
};
use crate::root;

/// What the page calls the user, the session and the support client.
const USER: &str = "ann@acme.example";
const SESSION: &str = "grant_01m955vw00fjqrz47smcqrkmzz";
const SUPPORT_CLIENT: &str = "supc_01m955vw00fjqrz47smcqrkmzz";
/// Where the page says that the support listener is.
const SUPPORT_HOST: &str = "support.acme.test:8443";

/// An operator waits for one command.
const SLOWEST: Duration = Duration::from_secs(2);

pub(super) async fn run() -> Result<()> {
    let page = fs::read_to_string(root().join("docs/operating.md"))?;
    let commands = blocks(&page, "Helping a user")?;
    let tool = blocks(&page, "A support tool of your own")?;
    let ([commands], [certificates, registration, call]) = (&commands[..], &tool[..]) else {
        anyhow::bail!("the page has other blocks than the drill runs");
    };

    let cluster = Cluster::start_quiet()?;
    let mut installation = Installation::prepare(&DrillDatabase::create(&cluster).await?).await?;
    installation.script(certificates).await?;
    turn_on(&mut installation)?;
    for node in &mut installation.nodes {
        node.start().await?;
    }
    let session = installation.open_session(USER).await?;
    installation.leave_mail_waiting(USER).await?;
    let slowest_call = call_as_tool(&installation, registration, call, &session.user_id.to_string()).await?;

    let (mut count, mut slowest) = (0, Duration::ZERO);
    for line in commands.lines() {
        let began = Instant::now();
        let printed = installation.shell(&line.replace(SESSION, &session.grant_id.to_string())).await?;
        slowest = slowest.max(began.elapsed());
        ensure!(!printed.trim().is_empty(), "{line} prints nothing");
        count += 1;
    }
    installation.command(&["admin", "audit", "verify"]).await?;
    let measured = json!({
        "drill": "support", "commands": count, "slowest_seconds": slowest.as_secs_f64(),
        "call_seconds": slowest_call.as_secs_f64(),
    });
    report(&measured, count >= 10 && slowest < SLOWEST && slowest_call < SLOWEST)
}

/// The commands of a section of the page, block by block.
fn blocks(page: &str, section: &str) -> Result<Vec<String>> {
    let rest = page.split(&format!("\n## {section}\n")).nth(1).with_context(|| format!("no section {section}"))?;
    let section = rest.split("\n## ").next().unwrap_or_default();
    let found = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    Ok(found.map(str::to_owned).collect())
}

/// Turns the support listener of the first node on, with the files that the page creates, and lets `curl` find it.
fn turn_on(installation: &mut Installation) -> Result<()> {
    let (directory, port) = (installation.directory.path().to_owned(), ports::free()?);
    let (node, listen) = (installation.nodes.first_mut().context("there is no node")?, format!("127.0.0.1:{port}"));
    node.set("support.listen", &listen);
    node.set("support.url", &format!("https://{SUPPORT_HOST}"));
    for (key, file) in [
        ("support.certificate_file", "server.pem"),
        ("support.key_file", "server.key"),
        ("support.client_ca_file", "ca.pem"),
    ] {
        node.set(key, directory.join(file).to_str().context("a path is not UTF-8")?);
    }
    Ok(fs::write(directory.join(".curlrc"), format!("connect-to = \"{SUPPORT_HOST}:{listen}\"\n"))?)
}

/// Registers a support client, and makes the call of the page three times. Returns the time of the slowest.
async fn call_as_tool(installation: &Installation, registration: &str, call: &str, user_id: &str) -> Result<Duration> {
    let printed = installation.script(registration).await?;
    let client = printed.lines().find_map(|line| line.strip_prefix("client_id: ")).context("no client is created")?;
    let mut slowest = Duration::ZERO;
    for _ in 0..3 {
        let began = Instant::now();
        let answer = installation.script(&call.replace(SUPPORT_CLIENT, client)).await?;
        slowest = slowest.max(began.elapsed());
        let shown: Value = serde_json::from_str(&answer).with_context(|| answer.clone())?;
        ensure!(shown["id"] == user_id && shown["email"] == USER, "the call returns another account: {shown}");
    }
    let revoked = format!("serviced admin support-client revoke {client} --reason 'end of the drill'");
    installation.script(&revoked).await?;
    let refused = installation.script(&call.replace(SUPPORT_CLIENT, client)).await;
    ensure!(refused.is_err_and(|error| error.to_string().contains("invalid_client")), "a revoked client is served");
    Ok(slowest)
}
