//! Tests of `service config`, and of what its settings change.

use std::{fs, os::unix::fs::PermissionsExt as _};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    machine::{CommandOutput, EMAIL, Machine, run},
    project::{error, object},
    whoami::create_token,
};

/// Runs a command without `SERVICE_API_URL`.
async fn run_without_url(machine: &Machine, arguments: &[&str]) -> Result<CommandOutput> {
    machine.run_command(machine.command().args(arguments).env_remove("SERVICE_API_URL")).await
}

#[test]
fn settings_are_listed_set_and_removed_fh_19() -> Result<()> {
    run(async |_, machine| {
        assert_eq!(machine.show(&["config", "path"]).await?, "O| <config>/config.json\nexit 0");
        let listed = machine.show(&["config", "list"]).await?;
        let expected = "\
O| api-url\t<server>\tenvironment
O| browser\t\tdefault
O| credential-store\t\tdefault
O| no-input\tfalse\tdefault
O| profile\tdefault\tdefault
exit 0";
        assert_eq!(listed, expected);
        let expected = "\
E| error: The setting browser isn't set.
E| next: service config set browser <value>
exit 6";
        assert_eq!(machine.show(&["config", "get", "browser"]).await?, expected);
        let expected = "E| ok: Set browser to firefox --new.\nexit 0";
        assert_eq!(machine.show(&["config", "set", "browser", "firefox --new"]).await?, expected);
        assert_eq!(machine.show(&["config", "get", "browser"]).await?, "O| firefox --new\nexit 0");
        let got = object(machine, &["config", "get", "browser"]).await?;
        assert_eq!(got, json!({ "name": "browser", "value": "firefox --new", "source": "file" }));
        let file = machine.config_dir().join("config.json");
        assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
        assert_eq!(serde_json::from_slice::<Value>(&fs::read(&file)?)?, json!({ "browser": "firefox --new" }));
        let removed = object(machine, &["config", "unset", "browser", "profile"]).await?;
        assert_eq!(removed, json!({ "removed": ["browser"] }));
        assert_eq!(serde_json::from_slice::<Value>(&fs::read(&file)?)?, json!({}));
        for (setting, value) in [("no-input", "maybe"), ("api-url", "ftp://x.test"), ("browser", "")] {
            let (failure, code) = error(machine, &["config", "set", setting, value]).await?;
            assert_eq!((failure["code"].as_str(), code), (Some("usage"), Some(2)), "{setting}");
        }
        assert_eq!(machine.run(&["config", "set", "colour", "red"]).await?.code, Some(2));
        let shown = machine.show(&["config", "set", "api-url", "https://service.example"]).await?;
        let warning = "E| warning: SERVICE_API_URL is set and overrides it.";
        ensure!(shown.contains(warning), "{shown}");
        Ok(())
    })
}

#[test]
fn a_setting_applies_unless_the_environment_overrides_it_fh_19() -> Result<()> {
    run(async |server, machine| {
        let (failure, code) = {
            let ran = run_without_url(machine, &["whoami", "--json"]).await?;
            (serde_json::from_str::<Value>(&ran.stdout).or_else(|_| serde_json::from_str(&ran.stderr))?, ran.code)
        };
        assert_eq!(code, Some(2), "{failure}");
        assert_eq!(run_without_url(machine, &["config", "set", "api-url", &machine.url]).await?.code, Some(0));
        let opened = run_without_url(machine, &["open", "--no-browser"]).await?;
        assert_eq!(opened.stdout, format!("{}/account\n", machine.url));
        // The environment is stronger than the file.
        let elsewhere = [("SERVICE_API_URL", "https://other.example")];
        let opened = machine.run_with(&["open", "--no-browser"], &elsewhere).await?;
        assert_eq!(opened.stdout, "https://other.example/account\n");

        // A token is only sent to the server that its own environment names.
        let (token, _) = create_token(server, EMAIL, &json!({})).await?;
        let mut command = machine.command();
        command.arg("whoami").env_remove("SERVICE_API_URL").env("SERVICE_TOKEN", &token);
        let ran = machine.run_command(&mut command).await?;
        assert_eq!(ran.code, Some(2), "the token was sent to the server of the settings: {ran:?}");
        ensure!(ran.stderr.contains("SERVICE_TOKEN is set, but SERVICE_API_URL is not."), "{ran:?}");

        server.advance(61);
        machine.log_in(server).await?;
        assert_eq!(machine.run(&["config", "set", "profile", "work"]).await?.code, Some(0));
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(4), "the profile is not used");
        assert_eq!(machine.run(&["whoami", "--profile", "default"]).await?.code, Some(0));
        assert_eq!(machine.run_with(&["whoami"], &[("SERVICE_PROFILE", "default")]).await?.code, Some(0));
        Ok(())
    })
}

#[test]
fn a_file_that_cannot_be_used_is_not_ignored_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let file = machine.config_dir().join("config.json");
        fs::write(&file, r#"{"no-input":"maybe"}"#)?;
        let expected = "\
E| error: The setting no-input must be true or false.
E| next: service config set no-input <value>
exit 1";
        assert_eq!(machine.show(&["whoami"]).await?, expected);
        // The command itself can correct it.
        assert_eq!(machine.run(&["config", "set", "no-input", "false"]).await?.code, Some(0));
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        fs::write(&file, "{\"profile\":\n1}")?;
        let shown = machine.show(&["whoami"]).await?;
        ensure!(shown.starts_with("E| error: <config>/config.json is invalid (line 2, column"), "{shown}");
        ensure!(shown.ends_with("E| next: Correct the file, or delete it\nexit 1"), "{shown}");
        assert_eq!(machine.run(&["config", "path"]).await?.code, Some(0));
        assert_eq!(machine.run(&["--help"]).await?.code, Some(0));
        fs::remove_file(&file)?;
        std::os::unix::fs::symlink(machine.home.path().join("elsewhere"), &file)?;
        assert_eq!(machine.run(&["config", "set", "profile", "x"]).await?.code, Some(1), "a link was followed");
        Ok(())
    })
}

#[test]
fn a_token_is_no_setting_fh_19() -> Result<()> {
    run(async |server, machine| {
        let (token, _) = create_token(server, EMAIL, &json!({})).await?;
        let ran = machine.run(&["config", "set", "profile", &token]).await?;
        assert_eq!(ran.code, Some(2));
        let name = ran.stderr.lines().next().context("no error")?;
        ensure!(name.starts_with("error: profile must not be a token."), "{name}");
        ensure!(!machine.config_dir().join("config.json").exists(), "it was stored");
        Ok(())
    })
}
