//! Logs, metrics and traces. None of them contains secrets, addresses or names: logs have ids, metrics and traces have
//! route templates.

mod account_metrics;
pub mod alarms;
pub mod current_request;
pub mod export_metrics;
pub mod labels;
mod log_format;
mod log_writer;
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

use self::log_writer::{LogWriter, WriterThread};
pub use self::{log_format::WithRequest, metrics::Metrics};
use crate::config;

/// Writes the log to standard error, one line per event. A line has the request or the background task that it is about.
pub fn start_log(settings: &config::LogConfig) -> anyhow::Result<Log> {
    let (writer, thread) = LogWriter::start(std::io::stderr())?;
    let layer = fmt::layer().with_writer(writer);
    let (filter, handle) = reload::Layer::new(EnvFilter::try_new(&settings.filter)?);
    let filter = filter.and(filter_fn(is_ours));
    let started = if settings.json {
        let json = layer.json().event_format(WithRequest::json());
        registry().with(json.with_filter(filter)).try_init()
    } else {
        registry().with(layer.event_format(WithRequest::text()).with_filter(filter)).try_init()
    };
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))?;
    Ok(Log { filter: handle, _thread: thread })
}

/// The running log. When it is dropped, all lines are written; later ones are written at once.
#[must_use]
pub struct Log {
    filter: reload::Handle<EnvFilter, Registry>,
    _thread: WriterThread,
}

impl Log {
    /// Replaces the filter.
    pub fn replace_filter(&self, setting: &str) -> anyhow::Result<()> {
        Ok(self.filter.reload(EnvFilter::try_new(setting)?)?)
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
