//! A client that may report and introspect.

use anyhow::{Context as _, Result};
use service_server::flows::clients::{self, ClientToRegister};
use service_testkit::server::TestServer;

/// A client that may introspect, and its secret.
pub(crate) async fn reports(server: &TestServer) -> Result<(String, String)> {
    let wanted = ClientToRegister {
        name: "Reports".into(),
        with_secret: true,
        may_introspect: true,
        ..ClientToRegister::default()
    };
    let made = clients::create(&server.app, &wanted).await?;
    let secret = made.secret.context("it has no secret")?.expose().to_owned();
    server.leaks.register("client secret", &secret);
    Ok((made.id, secret))
}
