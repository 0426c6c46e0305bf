//! `serviced admin` as an operator uses it: the real command beside a running node.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use service_api::workspaces::Role;
use service_testkit::server::{Setup, TestServer};

use crate::support::admin::{admin, run};
use crate::support::refresh::check_refused;

/// Waits until the node refuses the token; five seconds at most.
async fn check_ended(server: &TestServer, token: &str, reason: &str) -> Result<()> {
    let began = Instant::now();
    loop {
        let response = server.http.get("/v1/whoami?workspaceId=personal", Some(token)).await?;
        if response.status != 200 {
            ensure!(response.body["details"]["reason"] == reason, "{}", response.text);
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
        assert!(!success && printed.contains("user not found, or already disabled"), "{printed}");
        run(server, &["user", "enable", "ann@acme.test"])?;

        let workspace = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?.to_string();
        run(server, &["member", "remove", "ann@acme.test", &workspace])?;
        let (success, printed) = admin(server, &["member", "remove", "ann@acme.test", &workspace])?;
        assert!(!success && printed.contains("member not found"), "{printed}");
        run(server, &["workspace", "delete", &workspace])?;
        assert!(!admin(server, &["workspace", "delete", &workspace])?.0);

        let bob = server.sign_in("bob@acme.test", "read").await?;
        let printed = run(server, &["epoch", "bump"])?;
        assert!(printed.contains("All users have to sign in again"), "{printed}");
        check_ended(server, &bob.access_token, "revoked_by_admin").await?;
        check_refused(&server.refresh(&bob.refresh_token).await?, Some("revoked_by_admin"));
        for wrong in [["user", "disable", "unknown@acme.test"], ["user", "disable", "x"], ["workspace", "delete", "x"]]
        {
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
        assert_eq!(server.http.post("/oauth/introspect", &body).await?.body["active"], true);
        Ok(())
    })
}
