//! Clients that others wrote, unmodified: each signs in and refreshes. `cargo xtask clients` installs them.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use service_testkit::{
    ports,
    server::{Setup, TestServer},
    tab::Tab,
    tour::make_client,
};

fn installed() -> Result<PathBuf> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clients")).canonicalize();
    path.context("the clients are missing: run `cargo xtask clients`")
}

/// Where the clients' own code is.
fn sources() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients"))
}

/// Runs a test against a server whose name is its address, as clients insist on.
fn run(test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
    let port = ports::free()?;
    let address = format!("127.0.0.1:{port}");
    Setup::default()
        .on_system_clock()
        .set("http.listen", &address)
        .set("base_url", &format!("http://{address}"))
        .set("limits.otp_sends_per_address", "1000/60")
        .run(test)
}

/// A client prints the address that a person has to open, and reads where the browser was sent.
async fn signs_in(server: &TestServer, mut command: Command) -> Result<()> {
    let redirect_uri = "http://127.0.0.1:53682/callback";
    let client = make_client(server, "Stock client", "http://127.0.0.1/callback").await?;
    let mut child = command
        .env("ISSUER", &server.http.url)
        .env("CLIENT_ID", &client)
        .env("REDIRECT_URI", redirect_uri)
        .env("AUTHLIB_INSECURE_TRANSPORT", "1")
        .env("NO_PROXY", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?} does not run: run `cargo xtask clients`"))?;
    let mut lines = BufReader::new(child.stdout.take().context("it says nothing")?).lines();
    // What reads and what serves are one thread each.
    let (first, mut lines) = tokio::task::spawn_blocking(move || (lines.next(), lines)).await?;
    let address = first.context("it printed no address")??;
    let location = Tab::open(server)?.agree_to(&server.mailbox, &address, "ann@acme.test").await?;
    let mut input = child.stdin.take().context("it reads nothing")?;
    writeln!(input, "{location}")?;
    drop(input);
    let (said, ended) = tokio::task::spawn_blocking(move || (lines.next(), child.wait())).await?;
    let said = said.transpose()?.unwrap_or_default();
    ensure!(ended?.success() && said == "signed in and refreshed", "it says: {said}");
    Ok(())
}

#[test]
fn oauth4webapi_signs_in_and_refreshes() -> Result<()> {
    run(async |server| {
        let modules = installed()?.join("node_modules");
        let script = installed()?.join("oauth4webapi.mjs");
        let mut command = Command::new(modules.join(".bin/node"));
        command.arg(script);
        signs_in(server, command).await
    })
}

#[test]
fn authlib_signs_in_and_refreshes() -> Result<()> {
    run(async |server| {
        let mut command = Command::new(installed()?.join("python/bin/python"));
        command.arg(sources().join("authlib_client.py"));
        signs_in(server, command).await
    })
}

#[test]
fn the_oauth2_crate_signs_in_and_refreshes() -> Result<()> {
    run(async |server| signs_in(server, Command::new(installed()?.join("rust/debug/stock-client"))).await)
}

#[test]
fn the_conformance_suite_of_mcp_passes_dm_07() -> Result<()> {
    run(async |server| {
        let client = make_client(server, "Conformance", "http://127.0.0.1/callback").await?;
        let port = ports::free()?;
        let modules = installed()?.join("node_modules");
        let results = tempfile::tempdir()?;
        let mut child = Command::new(modules.join(".bin/node"))
            .arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"))
            .args(["authorization", "--url", &server.http.url, "--client-id", &client])
            .args(["--resource", &format!("{}/mcp", server.http.url), "-p", &port.to_string(), "-o"])
            .arg(results.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("the suite does not run: run `cargo xtask clients`")?;
        let mut lines = BufReader::new(child.stdout.take().context("it says nothing")?).lines();
        let wanted = format!("{}/oauth/authorize", server.http.url);
        let mut said = Vec::new();
        let address = loop {
            let (next, rest) = tokio::task::spawn_blocking(move || (lines.next(), lines)).await?;
            lines = rest;
            let Some(line) = next.transpose()? else { bail!("no user was asked to sign in: {said:#?}") };
            let found = line.split_whitespace().find(|word| word.starts_with(&wanted)).map(str::to_owned);
            said.push(line);
            if let Some(address) = found {
                break address;
            }
        };
        let location = Tab::open(server)?.agree_to(&server.mailbox, &address, "ann@acme.test").await?;
        let answered = reqwest::Client::builder().no_proxy().build()?.get(location).send().await?;
        ensure!(answered.status().is_success(), "the suite does not take its answer");
        let (rest, ended) =
            tokio::task::spawn_blocking(move || (lines.map_while(Result::ok).collect::<Vec<_>>(), child.wait()))
                .await?;
        said.extend(rest);
        ensure!(ended?.success(), "{said:#?}");
        println!("{}", said.iter().rev().take(3).rev().cloned().collect::<Vec<_>>().join("\n"));
        Ok(())
    })
}
