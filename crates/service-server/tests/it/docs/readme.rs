//! The transcript in README.md, executed as it stands: prose that cannot rot.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};
use service_rules::space::Space;
use service_testkit::server::{Setup, TestServer};

#[test]
fn the_transcript_in_the_readme_is_true() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        make_demo(server).await?;
        let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md"))?;
        let transcript = readme.split("<!-- transcript -->").nth(1).context("the README has no transcript")?;
        let block = transcript.split("```console\n").nth(1).and_then(|rest| rest.split("```").next());
        let block = block.context("the transcript is not in a console block")?;

        let commands: Vec<_> = block.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
        let expected: Vec<_> = block.lines().filter(|line| !line.starts_with("$ ")).collect();
        assert!(commands.len() >= 8, "only {} commands were found", commands.len());

        let folder = tempfile::tempdir()?;
        let mut shell = Command::new("bash");
        shell
            .args(["-euo", "pipefail", "-c", &commands.join("\n")])
            .current_dir(folder.path())
            .env("BASE", &server.http.url)
            .env("MAILBOX", server.mailbox.web_url());
        // The server runs on this thread: waiting for the shell must not stop it.
        let output = tokio::task::spawn_blocking(move || shell.output()).await??;
        register_tokens(server, folder.path())?;
        let printed = String::from_utf8(output.stdout)?;
        assert_eq!(printed.lines().collect::<Vec<_>>(), expected, "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success());
        Ok(())
    })
}

/// What `cargo xtask dev` makes, as far as the transcript shows it.
async fn make_demo(server: &TestServer) -> Result<()> {
    let demo = server.sign_in("demo@service.test", "read").await?;
    for name in ["Reading list", "Garden"] {
        server.make_project(Space::Personal, demo.user_id, name).await?;
        // The list is in the order of milliseconds.
        let made_at = server.now().as_millisecond();
        while server.now().as_millisecond() == made_at {}
    }
    // The transcript asks for a code of its own right away.
    server.sql("delete from recent_hits").await?;
    server.mailbox.clear();
    Ok(())
}

fn register_tokens(server: &TestServer, folder: &Path) -> Result<()> {
    for file in ["tokens.json", "next.json"] {
        let tokens: serde_json::Value = serde_json::from_slice(&fs::read(folder.join(file))?)?;
        for field in ["access_token", "refresh_token"] {
            server.leaks.register(field, tokens[field].as_str().context("no token")?);
        }
    }
    Ok(())
}
