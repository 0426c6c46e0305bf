//! Metrics of exports of account data.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use crate::telemetry::labels::{EXPORT_DOWNLOAD_OUTCOMES, OutcomeLabels};

/// Counters of exports of account data.
#[derive(Default)]
pub struct ExportMetrics {
    pub started: Counter,
    downloads: Family<OutcomeLabels, Counter>,
}

impl ExportMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        for outcome in EXPORT_DOWNLOAD_OUTCOMES {
            drop(self.downloads.get_or_create(&OutcomeLabels { outcome }));
        }
        registry.register("account_exports", "Exports of account data that users started", self.started.clone());
        registry.register(
            "account_export_downloads",
            "Downloads of account data that have ended, by outcome",
            self.downloads.clone(),
        );
    }

    /// Counts a download that has ended.
    pub fn download_ended(&self, outcome: &'static str) {
        debug_assert!(EXPORT_DOWNLOAD_OUTCOMES.contains(&outcome), "{outcome}");
        self.downloads.get_or_create(&OutcomeLabels { outcome }).inc();
    }
}
