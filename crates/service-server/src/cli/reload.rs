//! SIGHUP: a running node reads secrets, certificates and the log filter again.
//!
//! 1. The configuration is read as at the start. If it is invalid, nothing changes.
//! 2. What can be replaced is replaced: new connections use it.
//! 3. The log says what was reloaded, and which settings have changed that need a restart.

use std::path::Path;

use tokio::signal::unix::Signal;

use crate::{
    app::App,
    config::{Config, Sources},
    telemetry::Log,
};

/// Settings that a running node takes over. Files of certificates are read again, too.
const RELOADABLE: [&str; 6] =
    ["database.url", "database.feed_urls", "mail.password", "mail.second_password", "log.filter", "traces.token"];

/// A node that can be told to reload.
pub(crate) struct Reloading<'a> {
    pub(crate) app: &'a App,
    pub(crate) file: Option<&'a Path>,
    pub(crate) log: &'a Log,
    /// What the node runs with.
    pub(crate) running: Sources,
}

impl Reloading<'_> {
    /// Reloads at every signal. Never ends.
    pub(crate) async fn at_every(mut self, mut signal: Signal) {
        while signal.recv().await.is_some() {
            if let Err(error) = self.reload() {
                tracing::error!(error = format!("{error:#}"), "Nothing was reloaded");
            }
        }
        std::future::pending::<()>().await;
    }

    fn reload(&mut self) -> anyhow::Result<()> {
        let sources = Sources::gather(self.file, std::env::vars_os());
        let config =
            Config::read(&sources).map_err(|problems| anyhow::anyhow!("the configuration is invalid:\n{problems}"))?;
        let feeds = (config.database.feed_urls.len(), self.app.config.database.feed_urls.len());
        let is_reloadable =
            |key: &str| RELOADABLE.contains(&key) && (key != "database.feed_urls" || feeds.0 == feeds.1);
        let (reloaded, waiting): (Vec<_>, Vec<_>) =
            sources.changed_since(&self.running).partition(|key| is_reloadable(key));
        self.app.reload(&config)?;
        self.log.replace_filter(&config.log.filter)?;
        for key in &reloaded {
            self.running.take_over(key, &sources);
        }
        tracing::warn!(changed = reloaded.join(", "), "Reloaded secrets, certificates and the log filter");
        if !waiting.is_empty() {
            tracing::warn!(changed = waiting.join(", "), "Changed settings need a restart");
        }
        Ok(())
    }
}
