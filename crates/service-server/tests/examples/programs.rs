//! The examples: each runs as its README says, and does its work.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use service_rules::space::Space;
use service_server::flows::clients::{self, ClientToRegister};
use service_testkit::{
    browser::{Browser, Looks},
    ports,
    server::TestServer,
    tour::code_for,
};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::program::{Ended, command, installed, make_cli_token, root, run, with_server};

const EMAIL: &str = "ann@acme.test";
/// More than two pages, by what the examples ask for.
const PROJECTS: usize = 120;

/// Creates projects, and a CLI token for them.
async fn prepare(server: &TestServer, scope: &str) -> Result<String> {
    let token = make_cli_token(server, EMAIL, scope).await?;
    let user = server.sql("select id from users /* every shard */").await?.context("no user")?;
    let user = user.parse::<uuid::Uuid>()?.into();
    for number in 0..PROJECTS {
        server.make_project(Space::Personal, user, &format!("Project {number}")).await?;
    }
    Ok(token)
}

/// Runs a program with a CLI token in its environment.
async fn run_with_token(server: &TestServer, token: &str, program: &Path, arguments: &[&Path]) -> Result<Ended> {
    let home = tempfile::tempdir()?;
    let mut command = command(server, home.path(), program);
    command.args(arguments).env("SERVICE_TOKEN", token);
    run(server, command, EMAIL).await
}

#[test]
fn the_script_creates_and_lists_projects_fh_24() -> Result<()> {
    with_server(async |server| {
        let token = prepare(server, "projects:read projects:write").await?;
        let (python, script) = (installed("python")?.join("bin/python"), root().join("examples/script/projects.py"));
        let script = script.canonicalize()?;
        let said =
            run_with_token(server, &token, &python, &[&script, Path::new("Map of the harbour")]).await?.check()?;
        ensure!(said.starts_with("created proj_") && said.contains("  Map of the harbour\n"), "{said}");
        assert_eq!(said.lines().count(), PROJECTS + 2);
        let refused = run_with_token(server, &token, &python, &[&script, Path::new(" ")]).await?;
        ensure!(!refused.succeeded && refused.stderr.starts_with("not valid: "), "{refused:?}");
        let wrong = run_with_token(server, "svc_cli_made_up", &python, &[&script]).await?;
        ensure!(
            !wrong.succeeded && wrong.stderr.contains("(request ") && !wrong.stderr.contains("made_up"),
            "{wrong:?}"
        );
        Ok(())
    })
}

#[test]
fn the_rust_program_lists_projects_fh_24() -> Result<()> {
    with_server(async |server| {
        let token = prepare(server, "projects:read").await?;
        let here = std::env::current_exe()?;
        let program = here.ancestors().nth(2).context("no target directory")?.join("service-example");
        let said = run_with_token(server, &token, &program, &[]).await?.check()?;
        assert_eq!(said.lines().count(), PROJECTS);
        let wrong = run_with_token(server, "svc_cli_made_up", &program, &[]).await?;
        ensure!(
            !wrong.succeeded && wrong.stderr.contains("Create a new one") && !wrong.stderr.contains("made_up"),
            "{wrong:?}"
        );
        Ok(())
    })
}

/// Runs the command of the workflow's step, in the folder in which GitHub runs it. The lint step checks the workflow itself.
#[test]
fn the_script_of_the_workflow_lists_projects_fh_24() -> Result<()> {
    let workflow = fs::read_to_string(root().join("examples/github-workflow/projects.yml"))?;
    let step = workflow.lines().find_map(|line| line.trim().strip_prefix("run: ")).context("no step runs anything")?;
    with_server(async |server| {
        let token = prepare(server, "projects:read").await?;
        let run_step = async |token: &str| {
            let home = tempfile::tempdir()?;
            let mut command = command(server, home.path(), "bash");
            command.args(["-e", "-c", step]).current_dir(root()).env("SERVICE_TOKEN", token);
            run(server, command, EMAIL).await
        };
        let said = run_step(&token).await?.check()?;
        assert_eq!(said.lines().count(), PROJECTS);
        let wrong = run_step("svc_cli_made_up").await?;
        ensure!(
            !wrong.succeeded && wrong.stderr.contains("(request ") && !wrong.stderr.contains("made_up"),
            "{wrong:?}"
        );
        Ok(())
    })
}

#[test]
fn the_mcp_client_signs_in_and_calls_a_tool_fh_24() -> Result<()> {
    with_server(async |server| {
        let home = tempfile::tempdir()?;
        let mut command = command(server, home.path(), "node");
        command.arg(installed("mcp-client")?.join("client.mjs")).env("MCP_URL", format!("{}/mcp", server.http.url));
        let said = run(server, command, EMAIL).await?.check()?;
        ensure!(said.contains("Tools: ") && said.contains(EMAIL), "{said}");
        Ok(())
    })
}

#[test]
fn the_web_app_signs_a_user_in_and_out_fh_24() -> Result<()> {
    with_server(async |server| {
        let (home, port) = (tempfile::tempdir()?, ports::free()?);
        let origin = format!("http://127.0.0.1:{port}");
        let wanted = ClientToRegister {
            name: "Example".into(),
            redirect_uris: vec![format!("{origin}/callback")],
            with_secret: true,
            ..ClientToRegister::default()
        };
        let client = clients::create(&server.app, &wanted).await?;
        let secret = client.secret.context("no secret")?.expose().to_owned();
        server.leaks.register("client secret", &secret);
        let mut command = command(server, home.path(), "node");
        command.arg(installed("web-app")?.join("server.mjs"));
        command.env("CLIENT_ID", &client.id).env("CLIENT_SECRET", &secret).env("PORT", port.to_string());
        let mut app = command.spawn()?;
        let mut lines = BufReader::new(app.stdout.take().context("it says nothing")?).lines();
        ensure!(lines.next_line().await?.is_some_and(|line| line.contains(&origin)), "it does not listen");

        let browser = Browser::open(Looks::default()).await?;
        // An answer that no sign-in of this browser began is refused.
        browser.go(&format!("{origin}/callback?code=svc_ac_made_up&state=made-up")).await?;
        browser.wait_for("a[href='/sign-in']").await?;
        browser.click("a[href='/sign-in']").await?;
        browser.wait_for("input[name=email]").await?;
        browser.type_into("input[name=email]", EMAIL).await?;
        browser.click("button[type=submit]").await?;
        browser.wait_for("input[name=code]").await?;
        browser.type_into("input[name=code]", &code_for(server, EMAIL).await?).await?;
        browser.click("button.main").await?;
        browser.wait_for("input[name=space]").await?;
        browser.click("input[name=space]").await?;
        browser.click("button[value=allow]").await?;
        browser.wait_for("#user").await?;
        assert_eq!(browser.text("#user").await?.trim(), format!("Signed in as {EMAIL}"));
        assert_eq!(browser.run("return document.cookie").await?, "", "scripts can read the cookie");
        browser.click("form button").await?;
        browser.wait_for("a[href='/sign-in']").await?;
        let live = server.sql("select count(*) from grants /* every shard */ where revoked_at is null").await?;
        assert_eq!(live.as_deref(), Some("0"), "signing out revokes the session");
        app.kill().await?;
        let output = app.wait_with_output().await?;
        server.leaks.assert_clean("standard error of the web app", &output.stderr);
        Ok(())
    })
}

/// A program that is to be read in one go has at most 100 lines, and none teaches to weaken TLS.
#[test]
fn examples_are_short_fh_24() -> Result<()> {
    let programs = [
        "web-app/server.mjs",
        "script/projects.py",
        "rust/src/main.rs",
        "mcp-client/client.mjs",
        "github-workflow/list-projects.sh",
        "github-workflow/projects.yml",
    ];
    for program in programs {
        let path = root().join("examples").join(program);
        let text = fs::read_to_string(&path)?;
        ensure!(text.lines().count() < 100, "{program} has {} lines", text.lines().count());
        let readme = path.ancestors().find_map(|folder| fs::read_to_string(folder.join("README.md")).ok());
        ensure!(readme.is_some_and(|text| text.contains("SERVICE_API_URL") || text.contains("MCP_URL")), "{program}");
        for weakness in ["verify=False", "rejectUnauthorized", "NODE_TLS_REJECT", "--insecure", "danger_accept"] {
            ensure!(!text.contains(weakness), "{program} contains {weakness}");
        }
    }
    Ok(())
}
