//! `serviced admin` as an operator uses it: the real command beside a running node.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use service_api::workspaces::Role;
use service_testkit::{
    process::command,
    server::{Setup, TestServer},
};

use crate::refresh::check_refused;

/// Runs a command; what it printed, and whether it succeeded.
pub(crate) fn admin(server: &TestServer, arguments: &[&str]) -> Result<(bool, String)> {
    let mut command = command(Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, "admin");
    let output = command.args(arguments).output()?;
    let printed = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8(printed)?))
}

pub(crate) fn run(server: &TestServer, arguments: &[&str]) -> Result<String> {
    let (success, printed) = admin(server, arguments)?;
    ensure!(success, "{arguments:?}: {printed}");
    Ok(printed)
}

/// Waits until the node refuses the token; five seconds at most.
async fn check_ended(server: &TestServer, token: &str, reason: &str) -> Result<()> {
    let began = Instant::now();
    loop {
        let answer = server.door.get("/v1/whoami?workspaceId=personal", Some(token)).await?;
        if answer.status != 200 {
            ensure!(answer.body["details"]["reason"] == reason, "{}", answer.text);
            return Ok(());
        }
        ensure!(began.elapsed() < Duration::from_secs(5), "still accepted");
    }
}

#[test]
fn an_operator_ends_access_and_every_node_hears_of_it() -> Result<()> {
    let setup = Setup::default().on_system_clock().set("limits.otp_sends_per_address", "1000/60");
    setup.run(async |server| {
        let sign_in = async || server.sign_in("ann@acme.test", "read").await;
        let ann = sign_in().await?;
        assert!(run(server, &["user", "sign-out", "ann@acme.test"])?.contains(&ann.user_id.to_string()));
        check_ended(server, &ann.access_token, "revoked_by_admin").await?;
        run(server, &["user", "disable", "ANN@acme.test"])?;
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("revoked_by_admin"));
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.error(), "invalid_grant");
        let (success, printed) = admin(server, &["user", "disable", "ann@acme.test"])?;
        assert!(!success && printed.contains("no such user that is not disabled yet"), "{printed}");
        run(server, &["user", "enable", "ann@acme.test"])?;

        let workspace = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?.to_string();
        run(server, &["member", "remove", "ann@acme.test", &workspace])?;
        let (success, printed) = admin(server, &["member", "remove", "ann@acme.test", &workspace])?;
        assert!(!success && printed.contains("no such member"), "{printed}");
        run(server, &["workspace", "delete", &workspace])?;
        assert!(!admin(server, &["workspace", "delete", &workspace])?.0);

        let bob = server.sign_in("bob@acme.test", "read").await?;
        let printed = run(server, &["epoch", "bump"])?;
        assert!(printed.contains("everybody has to sign in again"), "{printed}");
        check_ended(server, &bob.access_token, "revoked_by_admin").await?;
        check_refused(&server.refresh(&bob.refresh_token).await?, Some("revoked_by_admin"));
        for wrong in [["user", "disable", "nobody@acme.test"], ["user", "disable", "x"], ["workspace", "delete", "x"]] {
            assert!(!admin(server, &wrong)?.0, "{wrong:?}");
        }
        Ok(())
    })
}

#[test]
fn a_client_that_introspects_is_made_once_and_shown_once() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let printed = run(server, &["client", "create", "Reports", "--introspect"])?;
        let shown = |name: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            line.map(str::to_owned).with_context(|| format!("no {name}"))
        };
        let (id, secret) = (shown("client_id")?, shown("client_secret")?);
        server.leaks.register("client secret", &secret);
        let body = serde_json::json!({ "token": ann.access_token, "client_id": id, "client_secret": secret });
        assert_eq!(server.door.post("/oauth/introspect", &body).await?.body["active"], true);
        Ok(())
    })
}
