//! Logs and metrics. Neither ever holds a secret, an address or a name: logs have ids, metrics have route templates.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use service_rules::rotation::Verdict;
use tracing_subscriber::EnvFilter;

use crate::config;

/// Sends the log to standard error, one line an event.
pub fn start_log(settings: &config::Log) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.filter)?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let started = if settings.json { log.json().flatten_event(true).try_init() } else { log.try_init() };
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))
}

/// What a node counts.
pub struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<OnRoute, Histogram>,
    refreshes: Family<Refreshed, Counter>,
    pub mails_sent: Counter,
    pub mails_failed: Counter,
    pub rows_cleaned: Counter,
    pub audit_events_sealed: Counter,
    pub audit_unsealed_age: Gauge<f64, AtomicU64>,
    pub database_connections: Gauge,
    pub database_connections_free: Gauge,
    pub revocations: Gauge,
    pub revocations_age: Gauge<f64, AtomicU64>,
    pub room: Gauge,
    pub bodies_room: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OnRoute {
    route: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refreshed {
    outcome: &'static str,
}

const SECONDS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("service");
        let seconds = Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram);
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            seconds,
            refreshes: Family::default(),
            mails_sent: Counter::default(),
            mails_failed: Counter::default(),
            rows_cleaned: Counter::default(),
            audit_events_sealed: Counter::default(),
            audit_unsealed_age: Gauge::default(),
            database_connections: Gauge::default(),
            database_connections_free: Gauge::default(),
            revocations: Gauge::default(),
            revocations_age: Gauge::default(),
            room: Gauge::default(),
            bodies_room: Gauge::default(),
        };
        registry.register("requests", "Requests answered, by route and status", metrics.requests.clone());
        registry.register("request_seconds", "Time from a request's head to its answer", metrics.seconds.clone());
        registry.register("refreshes", "Refresh tokens presented, by what that meant", metrics.refreshes.clone());
        registry.register("mails_sent", "Mails handed over to the mail server", metrics.mails_sent.clone());
        registry.register("mails_failed", "Attempts to hand a mail over that failed", metrics.mails_failed.clone());
        registry.register("rows_cleaned", "Expired rows deleted", metrics.rows_cleaned.clone());
        registry.register("audit_events_sealed", "Audit events sealed", metrics.audit_events_sealed.clone());
        registry.register(
            "audit_unsealed_age_seconds",
            "Age of the oldest event under no seal",
            metrics.audit_unsealed_age.clone(),
        );
        registry.register("database_connections", "Connections held", metrics.database_connections.clone());
        registry.register("database_connections_free", "Of these, idle", metrics.database_connections_free.clone());
        registry.register("revocations", "Endings remembered", metrics.revocations.clone());
        let age = metrics.revocations_age.clone();
        registry.register(
            "revocations_age_seconds",
            "Since revocations were last read; beyond 30 nothing is accepted",
            age,
        );
        registry.register("requests_room", "Requests that could be taken on now", metrics.room.clone());
        registry.register("bodies_room", "Bodies that could be awaited now", metrics.bodies_room.clone());
        metrics.registry = registry;
        metrics
    }
}

impl Metrics {
    pub fn observe(&self, route: &'static str, status: u16, seconds: f64) {
        self.requests.get_or_create(&Answered { route, status }).inc();
        self.seconds.get_or_create(&OnRoute { route }).observe(seconds);
    }

    /// Counts a refresh token that was presented, by what the rules made of it.
    pub fn refreshed(&self, verdict: Verdict) {
        let outcome = match verdict {
            Verdict::Rotate => "rotated",
            Verdict::Repeat => "repeated",
            Verdict::Supersede => "superseded",
            Verdict::FastForward => "fast_forwarded",
            Verdict::Refuse(_) => "refused",
            Verdict::Revoke(_) => "replayed",
        };
        self.refreshes.get_or_create(&Refreshed { outcome }).inc();
    }

    /// In Prometheus' text form.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        encode(&mut text, &self.registry).unwrap_or_default();
        text
    }
}
