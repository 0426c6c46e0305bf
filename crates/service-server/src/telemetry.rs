//! Logs and metrics. Neither ever holds a secret, an address or a name: logs have ids, metrics have route templates.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

use crate::config;

/// Sends the log to standard error, one line an event.
pub fn start_log(settings: &config::Log) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.filter)?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let started = if settings.json { log.json().flatten_event(true).try_init() } else { log.try_init() };
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))
}

/// The metrics of this process, in Prometheus' text form.
#[must_use]
pub fn metrics() -> Option<&'static PrometheusHandle> {
    static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
            PrometheusBuilder::new().set_buckets(&seconds).ok()?.install_recorder().ok()
        })
        .as_ref()
}
