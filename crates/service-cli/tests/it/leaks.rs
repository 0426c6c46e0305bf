//! No command reveals a secret: not in its output, not in the process list, not with verbose logging.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    machine::{EMAIL, run},
    token::sign_in_with_workspace,
    whoami::create_token,
};

#[test]
fn only_token_create_and_rotate_print_a_secret() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        server.advance(61);
        let (token, _) = create_token(server, EMAIL, &json!({})).await?;
        let commands: [&[&str]; 25] = [
            &["whoami"],
            &["token", "list"],
            &["token", "list", "--status", "all"],
            &["workspace", "list"],
            &["workspace", "show"],
            &["workspace", "use", &acme],
            &["project", "list"],
            &["pack", "search", "words"],
            &["session", "list"],
            &["project", "create", "Garden"],
            &["project", "edit", "proj_nope", "--name", "x"],
            &["pack", "list"],
            &["audit"],
            &["config", "list"],
            &["open", "--no-browser"],
            &["api", "GET", "/v1/cli/tokens", "--paginate"],
            &["api", "GET", "/v1/whoami"],
            &["api", "GET", "/v1/nothing"],
            &["doctor"],
            &["doctor", "--mcp"],
            &["mcp", "login", "--personal"],
            &["mcp", "status"],
            &["mcp", "config", "claude-desktop"],
            &["whoami", "--workspace-id", "wsp_nope"],
            &["login"],
        ];
        for extra in [&["--verbose"][..], &["--json"], &["--verbose", "--json"]] {
            for variables in [vec![("SERVICE_LOG", "trace")], vec![("SERVICE_LOG", "trace"), ("SERVICE_TOKEN", &token)]]
            {
                machine.expire_access_token()?;
                for command in commands {
                    let ran = machine.run_with(&[command, extra].concat(), &variables).await?;
                    let shown = format!("{}{}", ran.stdout, ran.stderr);
                    machine.leaks.assert_clean(&command.join(" "), shown.as_bytes());
                    ensure!(!shown.contains("eyJ"), "{command:?} shows a token");
                }
            }
        }
        let told = machine.run(&["whoami", "--verbose"]).await?.stderr;
        ensure!(told.contains("debug: GET /v1/whoami 200 req_"), "{told}");
        Ok(())
    })
}

#[test]
fn a_token_is_in_no_process_list_ci_04() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire_access_token()?;
        // The command waits for the lock, so that its process can be inspected.
        let lock = fs::File::options().write(true).open(machine.config_dir().join("credentials.lock"))?;
        lock.lock()?;
        let mut child = machine.command().arg("whoami").spawn()?;
        let line = fs::read(format!("/proc/{}/cmdline", child.id()))?;
        machine.leaks.assert_clean("the process list", &line);
        let variables = fs::read(format!("/proc/{}/environ", child.id()))?;
        machine.leaks.assert_clean("the environment", &variables);
        child.kill()?;
        child.wait()?;
        // There is no option for a token.
        let refused = machine.run(&["whoami", "--token", "svc_cli_x"]).await?;
        assert_eq!(refused.code, Some(2));
        Ok(())
    })
}

#[test]
fn json_errors_are_one_object_with_a_code() -> Result<()> {
    run(async |_, machine| {
        for (arguments, code, exit) in [
            (&["token", "list", "--json"][..], "not_signed_in", 4),
            (&["token", "list", "--json", "--nonsense"], "usage", 2),
            (&["api", "PUT", "/v1/projects", "--json"], "usage", 2),
            (&["login", "--json"], "needs_terminal", 2),
            (&["token", "list", "--jq", "."], "not_signed_in", 4),
        ] {
            let ran = machine.run(arguments).await?;
            let object: Value = serde_json::from_str(&ran.stderr).with_context(|| ran.stderr.clone())?;
            assert_eq!((object["error"]["code"].as_str(), ran.code), (Some(code), Some(exit)), "{arguments:?}");
            assert_eq!(ran.stdout, "");
        }
        Ok(())
    })
}
