//! Tests of `service api`.

use std::process::Stdio;

use anyhow::{Result, ensure};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use crate::{machine::run, token::sign_in_with_workspace};

#[test]
fn the_response_of_any_request_is_printed_unchanged() -> Result<()> {
    run(async |server, machine| {
        sign_in_with_workspace(server, machine).await?;
        let ran = machine.run(&["api", "get", "/v1/whoami", "--jq", ".user.email"]).await?;
        assert_eq!((ran.stdout.as_str(), ran.code), ("ana@acme.test\n", Some(0)));
        let ran = machine.run(&["api", "GET", "/v1/projects/proj_nope"]).await?;
        let body: Value = serde_json::from_str(&ran.stdout)?;
        assert_eq!((body["error"].as_str(), ran.code), (Some("not_found"), Some(6)));
        let mut child = tokio::process::Command::from(machine.command())
            .args(["api", "POST", "/v1/projects", "--input", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(br#"{"name":"Garden","scope":"personal"}"#).await?;
        }
        let output = child.wait_with_output().await?;
        ensure!(output.status.success());
        let created: Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!(created["name"], "Garden");
        assert_eq!(machine.run(&["api", "POST", "/v1/projects", "--input", "/nowhere"]).await?.code, Some(2));
        // An endpoint with a workspace gets the current one.
        let acme = machine.run(&["workspace", "list", "--jq", ".workspaces[0].id"]).await?.stdout.trim().to_owned();
        machine.run(&["workspace", "use", &acme]).await?;
        let created = machine.run(&["api", "POST", "/v1/projects", "--input", "p.json"]).await?;
        assert_eq!(created.code, Some(2), "the input file does not exist");
        std::fs::write(machine.home.path().join("p.json"), r#"{"name":"Shared"}"#)?;
        let created =
            machine.run(&["api", "POST", "/v1/projects", "--input", "p.json", "--jq", ".workspaceId"]).await?;
        assert_eq!(created.stdout.trim(), acme);
        assert_eq!(machine.run(&["api", "GET", "/v1/workspaces"]).await?.code, Some(0));
        let refused = machine.run(&["api", "POST", "/v1/projects"]).await?;
        assert_eq!(
            (refused.code, refused.stderr.lines().next()),
            (Some(2), Some("error: POST needs a body. Pass it with --input FILE (or - for stdin)."))
        );
        let refreshed = {
            server.advance(1000);
            machine.run(&["api", "GET", "/v1/whoami"]).await?
        };
        assert_eq!(refreshed.code, Some(0), "{refreshed:?}");
        Ok(())
    })
}
