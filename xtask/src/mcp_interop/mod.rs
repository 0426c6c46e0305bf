//! `cargo xtask mcp-interop`: MCP clients that others wrote, unmodified, connect to the service from nothing but its
//! address, and the official conformance suite.
//!
//! A client finds out how to sign in, registers itself, and sends its user to a real browser, where the user signs in
//! and agrees. Then the client reads; reads again when its access token has expired; and writes, for which it has to ask the
//! user once more. `clients/mcp` has the programs, and `talk.mjs` says how they talk with this one.

mod client;
mod conformance;
mod conversation;
mod user;

use std::{fs, path::Path, time::Instant};

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    document_host::{Certificate, certificate},
    ports,
    server::{Setup, TestServer},
};

use crate::{clients, root, say, say_error, tools};

#[derive(clap::Args)]
pub(crate) struct McpInteropOptions {
    /// Run only this client; can be repeated
    #[arg(long = "client", value_name = "NAME")]
    clients: Vec<String>,
    /// List the clients
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(options: &McpInteropOptions) -> Result<()> {
    let suite = (conformance::NAME, conformance::WHAT);
    let known = || client::ALL.iter().map(|client| (client.name, client.what)).chain([suite]);
    if options.list {
        for (name, what) in known() {
            say(&format!("{name:24} {what}"));
        }
        return Ok(());
    }
    for name in &options.clients {
        ensure!(known().any(|(one, _)| one == name), "no client is called {name}; --list shows their names");
    }
    let wanted = |name: &str| options.clients.is_empty() || options.clients.iter().any(|one| one == name);
    install()?;
    if client::ALL.iter().any(|client| client.is_rust() && wanted(client.name)) {
        say_error("Building an MCP client in Rust …");
        clients::build(&root().join("clients/mcp/rmcp"), &root().join("target/clients/mcp/rmcp"))?;
    }
    let mut lines = Vec::new();
    for client in client::ALL.iter().filter(|client| wanted(client.name)) {
        say_error(&format!("── {}: {}", client.name, client.what));
        let began = Instant::now();
        with_server(async |server, certificate| client::run(server, certificate, client).await)
            .with_context(|| format!("{} failed", client.name))?;
        lines.push(format!("{:6.1} s  {}", began.elapsed().as_secs_f32(), client.name));
    }
    if wanted(conformance::NAME) {
        let began = Instant::now();
        conformance::run()?;
        lines.push(format!("{:6.1} s  {}", began.elapsed().as_secs_f32(), conformance::NAME));
    }
    for line in lines {
        say(&line);
    }
    Ok(())
}

/// Installs the clients below target/clients/mcp, unless they are there.
fn install() -> Result<()> {
    let (sources, target) = (root().join("clients/mcp"), root().join("target/clients/mcp"));
    fs::create_dir_all(&target)?;
    for entry in fs::read_dir(&sources)? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            fs::copy(&path, target.join(name))?;
        }
    }
    let lock = fs::read(sources.join("package-lock.json"))?;
    let marker = target.join("installed");
    if fs::read(&marker).ok().as_ref() != Some(&lock) {
        say_error("MCP clients from npm …");
        tools::install_node(&target)?;
        fs::write(marker, lock)?;
    }
    tools::install_python(&target.join("python"), &sources.join("requirements.txt"))
}

/// Runs a test against a server whose name is its address, as clients insist on. Its clock stands still until a test moves
/// it, and it fetches metadata documents from this machine.
fn with_server(test: impl AsyncFnOnce(&TestServer, &Certificate) -> Result<()>) -> Result<()> {
    let address = format!("127.0.0.1:{}", ports::free()?);
    let certificate = certificate()?;
    let authority = tempfile::NamedTempFile::new()?;
    fs::write(authority.path(), certificate.cert.pem())?;
    Setup::default()
        .set("http.listen", &address)
        .set("base_url", &format!("http://{address}"))
        .set("documents.ca_file", text_of(authority.path())?)
        .set("documents.allowed_networks", "127.0.0.1/32")
        .run(async |server| test(server, &certificate).await)
}

fn text_of(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is no text", path.display()))
}
