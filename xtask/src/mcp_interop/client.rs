//! The clients, and what each has to do.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_testkit::{
    document_host::{Certificate, DocumentHost, response},
    server::TestServer,
    tour::make_client,
};
use tokio::{net::TcpListener, process::Command};

use super::{
    conversation::{Done, converse},
    user::User,
};
use crate::root;

/// A client, and the program that drives it.
pub(super) struct McpClient {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    program: Program,
    /// Variables of the program.
    variables: &'static [(&'static str, &'static str)],
    /// Names itself by the address of a metadata document, instead of registering.
    by_document: bool,
    /// The steps, in order, with how often the client sends its user to the browser for each.
    steps: &'static [(&'static str, u32)],
}

enum Program {
    /// A script in clients/mcp.
    Script(&'static str),
    Python,
    Rust,
}

const EVERYTHING: &[(&str, u32)] = &[
    ("connect", 1),
    ("list", 0),
    ("read", 0),
    ("read after expiry", 0),
    ("write", 1),
    ("read after write", 0),
    ("write again", 0),
    ("end", 0),
];

const READING: &[(&str, u32)] = &[("connect", 1), ("list", 0), ("read", 0), ("read after expiry", 0), ("end", 0)];

pub(super) const ALL: [McpClient; 13] = [
    typescript("ts-v2", "TypeScript SDK 2, revision 2025-11-25", &[("SDK", "v2")], EVERYTHING),
    typescript(
        "ts-v2-2026",
        "TypeScript SDK 2, revision 2026-07-28",
        &[("SDK", "v2"), ("PIN", "2026-07-28")],
        EVERYTHING,
    ),
    by_document(typescript(
        "ts-v2-document",
        "TypeScript SDK 2, revision 2026-07-28, by metadata document",
        &[("SDK", "v2"), ("PIN", "2026-07-28")],
        EVERYTHING,
    )),
    typescript("ts-v1", "TypeScript SDK 1: refreshes", &[("SDK", "v1")], READING),
    typescript(
        "ts-v1-writes",
        "TypeScript SDK 1: writes, reads and writes again, and its user is asked once for that",
        &[("SDK", "v1"), ("WITHOUT_REFRESH", "yes")],
        &[("connect", 1), ("list", 0), ("write", 1), ("read after write", 0), ("write again", 0), ("end", 0)],
    ),
    McpClient {
        name: "python",
        what: "Python SDK 2",
        program: Program::Python,
        variables: &[],
        by_document: false,
        steps: EVERYTHING,
    },
    McpClient {
        name: "python-document",
        what: "Python SDK 2, by metadata document",
        program: Program::Python,
        variables: &[],
        by_document: true,
        steps: EVERYTHING,
    },
    // It recovers from a missing scope only if it was told how to name itself.
    inspector(
        "inspector",
        "The Inspector's command line, revision 2025-11-25: refreshes",
        &[("ERA", "legacy"), ("READ_ONLY", "yes")],
        READING,
    ),
    by_document(inspector(
        "inspector-document",
        "The Inspector's command line, revision 2026-07-28, by metadata document",
        &[("ERA", "modern")],
        EVERYTHING,
    )),
    McpClient {
        name: "mcp-remote",
        what: "mcp-remote, under a client that only speaks stdio",
        program: Program::Script("stdio.mjs"),
        variables: &[("BRIDGE", "mcp-remote")],
        by_document: false,
        steps: EVERYTHING,
    },
    McpClient {
        name: "rmcp",
        what: "rmcp's own client, revision 2025-11-25",
        program: Program::Rust,
        variables: &[],
        by_document: false,
        steps: EVERYTHING,
    },
    McpClient {
        name: "rmcp-document",
        what: "rmcp's own client, revision 2026-07-28, by metadata document",
        program: Program::Rust,
        variables: &[("PIN", "2026-07-28")],
        by_document: true,
        steps: EVERYTHING,
    },
    McpClient {
        name: "authorization-suite",
        what: "The authorization scenarios of the official conformance suite",
        program: Program::Script("authorization.mjs"),
        variables: &[],
        by_document: false,
        steps: &[("end", 1)],
    },
];

const fn typescript(
    name: &'static str,
    what: &'static str,
    variables: &'static [(&'static str, &'static str)],
    steps: &'static [(&'static str, u32)],
) -> McpClient {
    McpClient { name, what, program: Program::Script("typescript.mjs"), variables, by_document: false, steps }
}

const fn inspector(
    name: &'static str,
    what: &'static str,
    variables: &'static [(&'static str, &'static str)],
    steps: &'static [(&'static str, u32)],
) -> McpClient {
    McpClient { name, what, program: Program::Script("inspector.mjs"), variables, by_document: false, steps }
}

const fn by_document(client: McpClient) -> McpClient {
    McpClient { by_document: true, ..client }
}

/// Lets a client do everything that it has to do, and checks that it did.
pub(super) async fn run(server: &TestServer, certificate: &Certificate, client: &McpClient) -> Result<()> {
    let user = User::new(server, client.name).await?;
    let home = tempfile::tempdir()?;
    let mut command = program(&client.program);
    surround(&mut command, server, home.path())?;
    command.envs(client.variables.iter().copied());
    command.env("CLIENT_ID", make_client(server, "Conformance", "http://127.0.0.1/callback").await?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let document = format!("https://{}/client.json", listener.local_addr()?);
    let host = DocumentHost::start(listener, certificate, metadata_document(&document), false)?;
    if client.by_document {
        command.env("DOCUMENT", &document);
    }
    let steps = converse(&user, command).await?;
    check(client, &user, &steps)?;
    ensure!((host.asked() > 0) == client.by_document, "its metadata document was fetched {} times", host.asked());
    Ok(())
}

fn program(program: &Program) -> Command {
    let installed = root().join("target/clients/mcp");
    match program {
        Program::Script(name) => {
            let mut command = Command::new(installed.join("node_modules/.bin/node"));
            command.arg(installed.join(name));
            command
        }
        Program::Python => {
            let mut command = Command::new(installed.join("python/bin/python"));
            command.arg(installed.join("python_client.py"));
            command
        }
        Program::Rust => Command::new(installed.join("rmcp/debug/rmcp-client")),
    }
}

/// Sets what every client finds around it: the server, its tools, and an empty home.
fn surround(command: &mut Command, server: &TestServer, home: &Path) -> Result<()> {
    let modules = root().join("target/clients/mcp/node_modules").canonicalize()?;
    let (url, node) = (format!("{}/mcp", server.http.url), modules.join(".bin/node"));
    let bridge = modules.join("mcp-remote/dist/proxy.js");
    command
        .current_dir(home)
        .env("HOME", home)
        .env("MCP_STORAGE_DIR", home)
        .env("MCP_INSPECTOR_SECRET_STORE", "file")
        .env("MCP_REMOTE_CONFIG_DIR", home)
        .env("NO_PROXY", "127.0.0.1")
        // Programs that open a browser by themselves open none; the harness opens what they print.
        .env("BROWSER", "true")
        .env("RUST_BACKTRACE", "0")
        .env("MCP_AUTO_OPEN_ENABLED", "true")
        .env("ISSUER", &server.http.url)
        .env("MCP_URL", &url)
        .env("INSPECTOR", modules.join("@modelcontextprotocol/inspector/clients/launcher/build/index.js"))
        .env("CONFORMANCE", modules.join("@modelcontextprotocol/conformance/dist/index.js"))
        .env("COMMAND", json!([node, bridge, url, "--auth-timeout", "120"]).to_string());
    Ok(())
}

/// A metadata document with the redirect URIs of every client here. They are on this machine, where the port does not count.
fn metadata_document(address: &str) -> Vec<u8> {
    let document = json!({
        "client_id": address,
        "client_name": "Client with a document",
        "redirect_uris": ["http://127.0.0.1/callback", "http://127.0.0.1/oauth/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "none",
    });
    response("200 OK", "Content-Type: application/json\r\n", &document.to_string())
}

fn check(client: &McpClient, user: &User<'_>, steps: &[Done]) -> Result<()> {
    let did: Vec<_> = steps.iter().map(|done| (done.step.as_str(), done.asked)).collect();
    ensure!(did == client.steps, "it did {did:?}, with how often its user was sent to the browser");
    for done in steps {
        ensure!(done.consents == done.asked, "{}: the user was asked {} times for consent", done.step, done.consents);
        let result = || done.details["result"].as_str().with_context(|| format!("{} has no result", done.step));
        match done.step.as_str() {
            "read" | "read after expiry" => ensure!(result()?.contains(&user.email), "it is {}", result()?),
            "read after write" => ensure!(result()?.contains("Pack 1"), "the pack is missing: {}", result()?),
            _ => {}
        }
    }
    Ok(())
}
