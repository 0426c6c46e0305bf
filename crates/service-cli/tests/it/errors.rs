//! Tests of errors: their messages and exit codes.

use std::{fs, net::SocketAddr};

use anyhow::{Context as _, Result, ensure};
use service_testkit::fault_proxy::FaultProxy;

use crate::{
    machine::{Machine, run, run_processes, start_node},
    pty::Pty,
};

#[test]
fn a_missing_scope_is_named_with_the_granted_ones() -> Result<()> {
    run(async |server, machine| {
        let ana = server.sign_in("ana@acme.test", "read").await?;
        let variables = [("SERVICE_TOKEN", ana.access_token.as_str())];
        let expected = "\
E| error: This needs the tokens:write scope. SERVICE_TOKEN has: read.
E| next: To use your own session: unset SERVICE_TOKEN
exit 5";
        assert_eq!(machine.show_with(&["token", "create", "--personal"], &variables).await?, expected);
        let ran = machine.run_with(&["token", "create", "--personal", "--json"], &variables).await?;
        let error = &serde_json::from_str::<serde_json::Value>(&ran.stderr)?["error"];
        let named = (error["code"].as_str(), error["requiredScope"].as_str());
        assert_eq!(named, (Some("missing_scope"), Some("tokens:write")));
        assert_eq!((error["grantedScopes"][0].as_str(), error["status"].as_u64()), (Some("read"), Some(403)));
        assert_eq!((error["source"].as_str(), ran.stdout.as_str()), (Some("SERVICE_TOKEN"), ""));
        Ok(())
    })
}

#[test]
fn an_unknown_host_is_not_blamed_on_the_token() -> Result<()> {
    run(async |server, _| {
        let ana = server.sign_in("ana@acme.test", "read").await?;
        let lost = Machine::new("https://service.invalid", &server.leaks)?.with("SERVICE_TOKEN", &ana.access_token);
        let expected = "\
E| error: Can't reach service.invalid (host not found). Your credentials were not checked.
E| next: Check your connection, VPN or SERVICE_API_URL
exit 7";
        assert_eq!(lost.show(&["whoami"]).await?, expected);
        Ok(())
    })
}

#[test]
fn a_silent_service_times_out() -> Result<()> {
    run(async |server, _| {
        let ana = server.sign_in("ana@acme.test", "read").await?;
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", silent.local_addr()?);
        let waiting = Machine::new(&url, &server.leaks)?.with("SERVICE_TOKEN", &ana.access_token);
        let shown = waiting.show(&["project", "list"]).await?;
        assert_eq!(shown, "E| error: <host> didn't respond in time.\nexit 7");
        Ok(())
    })
}

/// The node's connection to its database is cut.
#[test]
fn an_unavailable_service_is_not_blamed_on_the_token() -> Result<()> {
    run_processes(async |server| {
        let proxy = FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], server.cluster.port())))?;
        let database = server.cluster.service_url_at(proxy.address.port(), &server.database);
        let node = start_node(server, &[("database.url", &database)])?;
        let machine = Machine::new(&node.http.url, &server.leaks)?;
        machine.log_in_with_mailbox(&server.mailbox, "ana@acme.test").await?;
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
fn a_lock_that_is_never_released_is_an_error() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire_access_token()?;
        let lock = fs::File::options().write(true).open(machine.config_dir().join("credentials.lock"))?;
        lock.lock()?;
        let shown = machine.show(&["project", "list"]).await?;
        assert_eq!(
            shown,
            "E| error: Another `service` command has been refreshing the session for 30 seconds. Try again.\nexit 7"
        );
        Ok(())
    })
}

#[test]
fn an_unfinished_sign_in_times_out() -> Result<()> {
    run(async |_, machine| {
        let mut pty = Pty::start(machine, "login --method browser --no-browser --store file --timeout 1", &[])?;
        pty.expect("1. Open this URL on any computer and sign in:").await?;
        pty.expect("Sign-in timed out after 1 second. Nothing was saved.").await?;
        let (_, exit) = pty.end().await?;
        ensure!(exit == Some(4) && !machine.credentials_path().exists(), "{exit:?}");
        Ok(())
    })
}

#[test]
fn a_mistyped_option_gets_a_suggestion() -> Result<()> {
    run(async |_, machine| {
        let ran = machine.run(&["project", "list", "--worspace-id", "x"]).await?;
        let first = ran.stderr.lines().next().context("no error was printed")?;
        assert_eq!((ran.code, first), (Some(2), "error: unexpected argument '--worspace-id' found"));
        assert!(ran.stderr.contains("'--workspace-id'"), "{}", ran.stderr);
        Ok(())
    })
}
