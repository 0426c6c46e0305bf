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
use crate::{build_program, root};

/// A client, and the program that drives it.
pub(super) struct McpClient {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    program: Program,
    /// Variables of the program.
    variables: &'static [(&'static str, &'static str)],
    /// Names itself by the address of a metadata document, instead of registering.
    by_document: bool,
    /// Whether its user allows reading only at first, so that the client has to ask again before it writes.
    narrowed: bool,
    /// The steps, in order, with how often the client sends its user to the browser for each.
    steps: &'static [(&'static str, u32)],
}

impl McpClient {
    /// Whether it has to be built first.
    pub(super) const fn is_rust(&self) -> bool {
        matches!(self.program, Program::Rust)
    }
}

enum Program {
    /// A script in clients/mcp.
    Script(&'static str),
    Python,
    Rust,
    /// The command of this project.
    Service,
}

/// The user is asked again before the first write, and not after it.
const STEPPED_UP: &[(&str, u32)] = &[
    ("connect", 1),
    ("list", 0),
    ("read", 0),
    ("read after expiry", 0),
    ("write", 1),
    ("read after write", 0),
    ("write again", 0),
    ("end", 0),
];

/// The user is asked once.
const ALLOWED: &[(&str, u32)] = &[
    ("connect", 1),
    ("list", 0),
    ("read", 0),
    ("read after expiry", 0),
    ("write", 0),
    ("read after write", 0),
    ("write again", 0),
    ("end", 0),
];

/// A client that steps up. Its name, text and program are to be filled in.
const CLIENT: McpClient = McpClient {
    name: "",
    what: "",
    program: Program::Script("typescript.mjs"),
    variables: &[],
    by_document: false,
    narrowed: true,
    steps: STEPPED_UP,
};

pub(super) const ALL: [McpClient; 14] = [
    McpClient { name: "ts-v2", what: "TypeScript SDK 2, revision 2025-11-25", variables: &[("SDK", "v2")], ..CLIENT },
    McpClient {
        name: "ts-v2-2026",
        what: "TypeScript SDK 2, revision 2026-07-28",
        variables: &[("SDK", "v2"), ("PIN", "2026-07-28")],
        ..CLIENT
    },
    McpClient {
        name: "ts-v2-document",
        what: "TypeScript SDK 2, revision 2026-07-28, by metadata document",
        variables: &[("SDK", "v2"), ("PIN", "2026-07-28")],
        by_document: true,
        ..CLIENT
    },
    // Version 1 answers a missing scope with a refresh if it can, which brings no scope.
    McpClient {
        name: "ts-v1",
        what: "TypeScript SDK 1: writes, reads and writes again, and its user is asked once",
        variables: &[("SDK", "v1")],
        narrowed: false,
        steps: ALLOWED,
        ..CLIENT
    },
    McpClient {
        name: "ts-v1-step-up",
        what: "TypeScript SDK 1 in an app that keeps no refresh tokens",
        variables: &[("SDK", "v1"), ("WITHOUT_REFRESH", "yes")],
        steps: &[("connect", 1), ("list", 0), ("write", 1), ("read after write", 0), ("write again", 0), ("end", 0)],
        ..CLIENT
    },
    McpClient { name: "python", what: "Python SDK 2", program: Program::Python, ..CLIENT },
    McpClient {
        name: "python-document",
        what: "Python SDK 2, by metadata document",
        program: Program::Python,
        by_document: true,
        ..CLIENT
    },
    // The Inspector asks for more scopes only if it was told how to name itself.
    McpClient {
        name: "inspector",
        what: "The Inspector's command line, revision 2025-11-25",
        program: Program::Script("inspector.mjs"),
        variables: &[("ERA", "legacy")],
        narrowed: false,
        steps: ALLOWED,
        ..CLIENT
    },
    McpClient {
        name: "inspector-document",
        what: "The Inspector's command line, revision 2026-07-28, by metadata document",
        program: Program::Script("inspector.mjs"),
        variables: &[("ERA", "modern")],
        by_document: true,
        ..CLIENT
    },
    McpClient {
        name: "mcp-remote",
        what: "mcp-remote, under a client that only speaks stdio",
        program: Program::Script("stdio.mjs"),
        ..CLIENT
    },
    McpClient {
        name: "service",
        what: "service mcp serve, under a client that only speaks stdio",
        program: Program::Service,
        narrowed: false,
        // Its user signs in and creates the tokens in a terminal. The bridge never asks.
        steps: &[
            ("prepare", 1),
            ("prepare", 0),
            ("connect", 0),
            ("list", 0),
            ("read", 0),
            ("read after expiry", 0),
            ("write", 0),
            ("read after write", 0),
            ("write again", 0),
            ("end", 0),
        ],
        ..CLIENT
    },
    McpClient { name: "rmcp", what: "rmcp's own client, revision 2025-11-25", program: Program::Rust, ..CLIENT },
    McpClient {
        name: "rmcp-document",
        what: "rmcp's own client, revision 2026-07-28, by metadata document",
        program: Program::Rust,
        variables: &[("PIN", "2026-07-28")],
        by_document: true,
        ..CLIENT
    },
    McpClient {
        name: "authorization-suite",
        what: "The authorization scenarios of the official conformance suite",
        program: Program::Script("authorization.mjs"),
        narrowed: false,
        steps: &[("end", 1)],
        ..CLIENT
    },
];

/// Lets a client do everything that it has to do, and checks that it did.
pub(super) async fn run(server: &TestServer, certificate: &Certificate, client: &McpClient) -> Result<()> {
    let user = User::new(server, client.name, client.narrowed).await?;
    let home = tempfile::tempdir()?;
    let mut command = program(&client.program);
    surround(&mut command, server, home.path())?;
    if let Program::Service = client.program {
        let service = build_program("service", !cfg!(debug_assertions))?;
        let log_in = ["login --store file", "mcp login --personal --scope 'read write'"]
            .map(|arguments| format!("{} {arguments}", service.display()));
        command
            .env("SERVICE_API_URL", &server.http.url)
            .env("SERVICE_CONFIG_DIR", home.path())
            .env("SERVICE_BROWSER", "true")
            .env("PREPARE", json!(log_in).to_string())
            .env("COMMAND", json!([service, "mcp", "serve"]).to_string());
    }
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
        Program::Script(name) => script(name),
        Program::Service => script("stdio.mjs"),
        Program::Python => {
            let mut command = Command::new(installed.join("python/bin/python"));
            command.arg(installed.join("python_client.py"));
            command
        }
        Program::Rust => Command::new(installed.join("rmcp/debug/rmcp-client")),
    }
}

fn script(name: &str) -> Command {
    let installed = root().join("target/clients/mcp");
    let mut command = Command::new(installed.join("node_modules/.bin/node"));
    command.arg(installed.join(name));
    command
}

/// Sets what every client finds around it: the server, its tools, and an empty home.
fn surround(command: &mut Command, server: &TestServer, home: &Path) -> Result<()> {
    let modules = root().join("target/clients/mcp/node_modules").canonicalize()?;
    let (url, node) = (format!("{}/mcp", server.http.url), modules.join(".bin/node"));
    let mcp_remote = modules.join("mcp-remote/dist/proxy.js");
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
        .env("COMMAND", json!([node, mcp_remote, url, "--auth-timeout", "120"]).to_string());
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
