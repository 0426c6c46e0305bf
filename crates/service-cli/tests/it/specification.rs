//! Runs the five commands that the specification names, against a server in a separate process.

use anyhow::{Context as _, Result, ensure};

use crate::{
    machine::{EMAIL, Machine, run_processes, start_node},
    pty::Pty,
};

#[test]
fn the_five_commands_of_the_specification_work_as_they_are_written() -> Result<()> {
    run_processes(async |server| {
        let node = start_node(server, &[])?;
        let machine = Machine::new(&node.http.url, &server.leaks)?;

        let mut pty = Pty::start(&machine, "login", &[("SERVICE_CREDENTIAL_STORE", "file")])?;
        pty.expect("Email: ").await?;
        pty.line(EMAIL).await?;
        pty.expect("Code: ").await?;
        let code = server.mailbox.next_mail_to(EMAIL).await?.code().context("the mail has no code")?;
        machine.leaks.register("otp code", &code);
        pty.line(&code).await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        std::fs::write(machine.home.path().join("new.json"), r#"{"name":"Acme"}"#)?;
        let created = machine.run(&["api", "POST", "/v1/workspaces", "--input", "new.json"]).await?;
        let created: serde_json::Value = serde_json::from_str(&created.stdout)?;
        let acme = created["id"].as_str().context("no workspace")?;

        let created = machine.run(&["token", "create", "--workspace-id", acme]).await?;
        let token = created.stdout.trim().to_owned();
        machine.leaks.register("CLI token", &token);
        let listed = machine.run(&["token", "list"]).await?;
        let id = listed.stdout.split('\t').next().context("no id")?.to_owned();
        // In CI there is only the variable.
        let ci = Machine::new(&machine.url, &machine.leaks)?.with("CI", "true").with("SERVICE_TOKEN", &token);
        let who = ci.run(&["whoami"]).await?;
        ensure!(who.stdout.contains(EMAIL) && who.stdout.contains(&id) && who.code == Some(0), "{who:?}");
        assert_eq!(machine.run(&["token", "revoke", &id, "--yes"]).await?.code, Some(0));
        assert_eq!(ci.run(&["whoami"]).await?.code, Some(4));
        Ok(())
    })
}
