//! Tests of `service open`.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    machine::{Machine, run},
    project::{error, object},
    token::sign_in_with_workspace,
    whoami::create_token,
};

/// A browser that writes the URL and whether it has a token to a named pipe. Returns its path and that of the pipe.
fn make_browser(machine: &Machine) -> Result<(String, std::path::PathBuf)> {
    let (script, pipe) = (machine.home.path().join("browser.sh"), machine.home.path().join("opened"));
    fs::write(&script, format!("#!/bin/sh\necho \"$1 ${{SERVICE_TOKEN-no token}}\" > {}\n", pipe.display()))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700))?;
    ensure!(std::process::Command::new("mkfifo").arg(&pipe).status()?.success(), "no pipe");
    Ok((script.display().to_string(), pipe))
}

#[test]
fn a_page_opens_in_the_browser_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        server.advance(61);
        let (token, _) = create_token(server, "bob@acme.test", &json!({})).await?;
        let (browser, pipe) = make_browser(machine)?;
        let opened = tokio::task::spawn_blocking(move || fs::read_to_string(pipe));
        let variables = [("SERVICE_BROWSER", browser.as_str()), ("SERVICE_TOKEN", token.as_str())];
        let shown = machine.show_with(&["open", "tokens"], &variables).await?;
        assert_eq!(shown, "E| ok: Opened <server>/account/tokens in your browser.\nexit 0");
        let opened = timeout(Duration::from_secs(20), opened).await???;
        assert_eq!(opened.trim(), format!("{}/account/tokens no token", machine.url), "the browser got the token");
        Ok(())
    })
}

#[test]
fn without_a_browser_the_url_is_printed_fh_19() -> Result<()> {
    run(async |server, machine| {
        assert_eq!(machine.show(&["open", "--no-browser"]).await?, "O| <server>/account\nexit 0");
        let expected = "E| No browser available. Open this URL:\nO| <server>/account\nexit 0";
        assert_eq!(machine.show(&["open"]).await?, expected);
        assert_eq!(object(machine, &["open", "docs"]).await?, json!({ "url": format!("{}/docs", machine.url) }));
        assert_eq!(machine.run(&["open", "nothing"]).await?.code, Some(2));
        let (failure, code) = error(machine, &["open", "workspace"]).await?;
        assert_eq!((failure["code"].as_str(), code), (Some("not_signed_in"), Some(4)));

        let acme = sign_in_with_workspace(server, machine).await?;
        let shown = machine.show(&["open", "workspace", "--no-browser"]).await?;
        let expected = "\
E| error: Your personal space has no page of its own.
E| next: Choose a workspace with --workspace-id <id>
exit 2";
        assert_eq!(shown, expected);
        let shown = machine.run(&["open", "workspace-activity", "--no-browser", "--workspace-id", &acme]).await?;
        assert_eq!(shown.stdout, format!("{}/workspaces/{acme}/activity\n", machine.url));
        Ok(())
    })
}

#[test]
fn every_page_exists_fh_19() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        let help = machine.run(&["open", "--help"]).await?.stdout;
        let pages: Vec<_> = help.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split(':').next()).collect();
        ensure!(pages.len() > 8, "only {pages:?} in {help}");
        for page in pages {
            let url = machine.run(&["open", page, "--no-browser", "--workspace-id", &acme]).await?.stdout;
            let path = url.trim().strip_prefix(&machine.url).with_context(|| format!("{page}: {url}"))?.to_owned();
            let status = server.http.get(&path, None).await?.status;
            ensure!(matches!(status.as_u16(), 200 | 302 | 303), "{page} has {status}");
        }
        Ok(())
    })
}
