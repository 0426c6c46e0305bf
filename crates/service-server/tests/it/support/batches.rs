//! Requests that arrive together.

use std::future::Future;

use anyhow::{Context as _, Result};
use futures_util::future::{join_all, try_join_all};
use service_testkit::server::TestServer;

/// Holds every connection until all requests wait for one, so that those that come second share statements.
pub(crate) async fn together<T>(server: &TestServer, requests: Vec<impl Future<Output = T>>) -> Result<Vec<T>> {
    let connections = server.app.config.database.credential_connections;
    let held = try_join_all((0..connections).map(|_| server.app.database.connect())).await?;
    let (free, count) = (server.app.in_flight.available_permits(), requests.len());
    let release = async {
        while server.app.in_flight.available_permits() + count > free {
            tokio::task::yield_now().await;
        }
        drop(held);
    };
    let (responses, ()) = tokio::join!(join_all(requests), release);
    Ok(responses)
}

/// The value of a metric without labels.
pub(crate) fn metric(server: &TestServer, name: &str) -> Result<usize> {
    let text = server.app.metrics.render_prometheus();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
    Ok(line.trim().trim_end_matches(".0").parse()?)
}
