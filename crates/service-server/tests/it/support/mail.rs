//! Waiting for mail.

use anyhow::{Context as _, Result};
use service_testkit::server::TestServer;
use std::time::Duration;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Asks the database again and again until it says yes.
pub(crate) async fn until(server: &TestServer, question: &str) -> Result<()> {
    let yes = async {
        while server.sql(question).await?.as_deref() != Some("t") {}
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, yes).await.with_context(|| format!("never: {question}"))?
}
