//! When something else goes wrong: what is said, and how the command ends.

use std::{fs, net::SocketAddr};

use anyhow::{Context as _, Result, ensure};
use service_testkit::fault_proxy::FaultProxy;

use crate::{
    machine::{Machine, run, run_processes, start_node},
    pty::Pty,
};

#[test]
fn a_scope_that_is_missing_is_named_beside_those_that_are_there() -> Result<()> {
    run(async |server, machine| {
        let ana = server.sign_in("ana@acme.test", "read").await?;
        let variables = [("SERVICE_TOKEN", ana.access_token.as_str())];
        let expected = "\
E| error: This needs the write scope. SERVICE_TOKEN has: read.
E| next: use your own sign-in: unset SERVICE_TOKEN
exit 5";
        assert_eq!(machine.show_with(&["token", "create", "--personal"], &variables).await?, expected);
        let ran = machine.run_with(&["token", "create", "--personal", "--json"], &variables).await?;
        let error = &serde_json::from_str::<serde_json::Value>(&ran.stderr)?["error"];
        assert_eq!((error["code"].as_str(), error["requiredScope"].as_str()), (Some("missing_scope"), Some("write")));
        assert_eq!((error["grantedScopes"][0].as_str(), error["status"].as_u64()), (Some("read"), Some(403)));
        assert_eq!((error["source"].as_str(), ran.stdout.as_str()), (Some("SERVICE_TOKEN"), ""));
        Ok(())
    })
}

#[test]
fn a_name_that_nobody_knows_is_not_the_tokens_fault() -> Result<()> {
    run(async |server, _| {
        let ana = server.sign_in("ana@acme.test", "read").await?;
        let lost = Machine::new("https://nobody.invalid", &server.leaks)?.with("SERVICE_TOKEN", &ana.access_token);
        let expected = "\
E| error: Could not check the token: Could not reach nobody.invalid: name not found. It may still be fine.
E| next: check your connection, VPN or SERVICE_API_URL
exit 7";
        assert_eq!(lost.show(&["whoami"]).await?, expected);
        Ok(())
    })
}

#[test]
fn a_service_that_never_answers_is_given_up() -> Result<()> {
    run(async |server, _| {
        let ana = server.sign_in("ana@acme.test", "read").await?;
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", silent.local_addr()?);
        let waiting = Machine::new(&url, &server.leaks)?.with("SERVICE_TOKEN", &ana.access_token);
        let shown = waiting.show(&["project", "list"]).await?;
        assert_eq!(shown, "E| error: <host> did not answer in time.\nexit 7");
        Ok(())
    })
}

/// A real node whose database is gone.
#[test]
fn a_service_in_trouble_is_told_apart_from_a_bad_token() -> Result<()> {
    run_processes(async |server| {
        let proxy = FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], server.cluster.port())))?;
        let database = server.cluster.service_url_at(proxy.address.port(), &server.database);
        let node = start_node(server, &[("database.url", &database)])?;
        let machine = Machine::new(&node.door.url, &server.leaks)?;
        machine.log_in_by(&server.mailbox, "ana@acme.test").await?;
        assert_eq!(machine.run(&["workspace", "list"]).await?.code, Some(0));
        proxy.cut();
        let ran = machine.run(&["workspace", "list"]).await?;
        let said = "error: The service had a problem (503, request req_";
        assert!(ran.stderr.starts_with(said) && ran.stderr.ends_with("Try again shortly.\n"), "{ran:?}");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(7), ""));
        proxy.mend();
        Ok(())
    })
}

#[test]
fn a_lock_that_is_never_let_go_is_not_ignored() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire()?;
        let lock = fs::File::options().write(true).open(machine.config().join("credentials.lock"))?;
        lock.lock()?;
        let shown = machine.show(&["project", "list"]).await?;
        assert_eq!(
            shown,
            "E| error: Another service command has been renewing the sign-in for 30 s. Try again.\nexit 7"
        );
        Ok(())
    })
}

#[test]
fn a_sign_in_that_nobody_finishes_ends_by_itself() -> Result<()> {
    run(async |_, machine| {
        let mut pty = Pty::start(machine, "login --method browser --no-browser --store file --timeout 1", &[])?;
        pty.expect("1. Open this on any computer:").await?;
        pty.expect("Nobody finished the sign-in within 1 second. Nothing was saved.").await?;
        let (_, exit) = pty.end().await?;
        ensure!(exit == Some(4) && !machine.file().exists(), "{exit:?}");
        Ok(())
    })
}

#[test]
fn a_word_that_was_mistyped_is_guessed() -> Result<()> {
    run(async |_, machine| {
        let ran = machine.run(&["project", "list", "--worspace-id", "x"]).await?;
        let first = ran.stderr.lines().next().context("nothing was said")?;
        assert_eq!((ran.code, first), (Some(2), "error: unexpected argument '--worspace-id' found"));
        assert!(ran.stderr.contains("'--workspace-id'"), "{}", ran.stderr);
        Ok(())
    })
}
