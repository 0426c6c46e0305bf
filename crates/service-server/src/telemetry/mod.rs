//! Logs, metrics and traces. None of them contains secrets, addresses or names: logs have ids, metrics and traces have
//! route templates.

pub mod alarms;
pub mod labels;
mod metrics;
mod process;
pub mod traces;

use tracing::Metadata;
use tracing_subscriber::{
    EnvFilter, Layer as _, Registry,
    filter::{FilterExt as _, filter_fn},
    fmt,
    layer::{Filter, SubscriberExt as _},
    registry, reload,
    util::SubscriberInitExt as _,
};

pub use self::metrics::Metrics;
use crate::config;

/// Writes the log to standard error, one line per event. A line has the span that it was logged in: the request, or the
/// background task.
pub fn start_log(settings: &config::LogConfig) -> anyhow::Result<LogFilter> {
    let layer = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let (filter, handle) = reload::Layer::new(EnvFilter::try_new(&settings.filter)?);
    let filter = filter.and(filter_fn(is_ours));
    let started = if settings.json {
        let json = layer.json().flatten_event(true).with_span_list(false);
        registry().with(json.with_filter(filter)).try_init()
    } else {
        registry().with(layer.with_filter(filter)).try_init()
    };
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))?;
    Ok(LogFilter(handle))
}

/// The filter of the running log.
pub struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    pub fn replace(&self, setting: &str) -> anyhow::Result<()> {
        Ok(self.0.reload(EnvFilter::try_new(setting)?)?)
    }
}

/// No setting makes `rmcp` log anything: it logs whole messages of users. What fails there, we log.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target() != "rmcp" && !metadata.target().starts_with("rmcp::")
}

/// The filter of the log.
pub fn log_filter(setting: &str) -> anyhow::Result<impl Filter<Registry> + Send + Sync + use<>> {
    Ok(EnvFilter::try_new(setting)?.and(filter_fn(is_ours)))
}
