//! The quickstarts with the command, executed as they stand on a terminal, against a real server.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_testkit::{
    documents::{self, Shell},
    ports,
    server::{Setup, TestServer},
};

use crate::machine::binary;

const DEMO_USER: &str = "demo@service.test";

#[test]
fn the_quickstart_for_users_is_true() -> Result<()> {
    run("docs/quickstart/use.md")
}

#[test]
fn the_quickstart_for_developers_is_true() -> Result<()> {
    run("docs/quickstart/build.md")
}

/// Runs the transcript of a document with what `cargo xtask dev` serves.
fn run(document: &str) -> Result<()> {
    let address = format!("127.0.0.1:{}", ports::free()?);
    let setup = Setup::default().on_system_clock().set("http.listen", &address);
    setup.set("base_url", &format!("http://{address}")).run(async |server| {
        create_demo(server).await?;
        let directory = tempfile::tempdir()?;
        let shell = Shell {
            directory: directory.path().to_owned(),
            programs: binary().parent().context("no folder")?.to_owned(),
            environment: vec![("SERVICE_CREDENTIAL_STORE", "file")],
            replaced: vec![("localhost:8080".to_owned(), address.clone())],
            mailbox: &server.mailbox,
            user: DEMO_USER,
            leaks: &server.leaks,
        };
        shell.run(&documents::read(document)?).await
    })
}

/// Creates the demo user with two projects and a workspace.
async fn create_demo(server: &TestServer) -> Result<()> {
    let demo = server.sign_in(DEMO_USER, "read write").await?;
    for (path, name) in [("projects", "Reading list"), ("projects", "Garden"), ("workspaces", "Demo workspace")] {
        let request = server.http.request(Method::POST, &format!("/v1/{path}"));
        let created = server.http.send(request.bearer_auth(&demo.access_token).json(&json!({ "name": name }))).await?;
        ensure!(created.status == 201, "{name} was not created: {}", created.text);
        // Lists are in the order of milliseconds.
        let created_at = server.now().as_millisecond();
        while server.now().as_millisecond() == created_at {}
    }
    server.http.post("/oauth/revoke", &json!({ "client_id": "service-cli", "token": demo.refresh_token })).await?;
    server.mailbox.clear();
    Ok(())
}
