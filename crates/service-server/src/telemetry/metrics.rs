//! The metrics of a node. Labels are route templates, outcomes and names of tables, limits and tasks: never values.

use std::{collections::HashSet, sync::atomic::AtomicU64};

use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry as MetricsRegistry,
};
use service_rules::{Timestamp, rotation::RotationVerdict};

use super::{
    account_metrics::AccountMetrics,
    export_metrics::ExportMetrics,
    labels::{
        self, BuildLabels, LimitLabels, OutcomeLabels, ProviderLabels, RequestLabels, RouteLabels, SupportLabels,
        TableLabels, TaskLabels, ToolLabels,
    },
    process,
};

/// The metrics of a node.
pub struct Metrics {
    registry: MetricsRegistry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram>,
    refreshes: Family<OutcomeLabels, Counter>,
    tool_calls: Family<ToolLabels, Counter>,
    support_calls: Family<SupportLabels, Counter>,
    provider_requests: Family<ProviderLabels, Counter>,
    domain_checks: Family<OutcomeLabels, Counter>,
    sso_sign_ins: Family<OutcomeLabels, Counter>,
    passkey_sign_ins: Family<OutcomeLabels, Counter>,
    pub account: AccountMetrics,
    pub exports: ExportMetrics,
    sso_logouts: Family<OutcomeLabels, Counter>,
    task_last_success: Family<TaskLabels, Gauge<f64, AtomicU64>>,
    limit_refusals: Family<LimitLabels, Counter>,
    trace_spans: Family<OutcomeLabels, Counter>,
    table_rows: Family<TableLabels, Gauge>,
    table_bytes: Family<TableLabels, Gauge>,
    process: process::ProcessMetrics,
    pub ready: Gauge,
    pub mails_waiting: Gauge,
    pub mails_waiting_age: Gauge<f64, AtomicU64>,
    pub revocation_seconds: Histogram,
    pub signing_keys_age: Gauge<f64, AtomicU64>,
    pub database_wait: Histogram,
    /// How many refreshes share a statement.
    pub refresh_batch: Histogram,
    pub otp_sends_refused: Counter,
    pub otp_sends_used: Gauge<f64, AtomicU64>,
    pub forwarding_peers_ignored: Counter,
    pub mails_sent: Counter,
    pub mails_failed: Counter,
    pub mails_suppressed: Counter,
    mail_bounces: Family<OutcomeLabels, Counter>,
    pub rows_cleaned: Counter,
    pub audit_events_sealed: Counter,
    pub audit_unsealed_age: Gauge<f64, AtomicU64>,
    pub database_connections: Gauge,
    pub database_connections_free: Gauge,
    pub revocations: Gauge,
    pub revocations_age: Gauge<f64, AtomicU64>,
    pub revocation_polls: Counter,
    pub heartbeat_age: Gauge<f64, AtomicU64>,
    pub room: Gauge,
    pub bodies_room: Gauge,
    pub connections_refused: Counter,
    pub support_handshakes_failed: Counter,
}

const REVOCATION_BUCKETS_SECONDS: [f64; 10] = [0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
const BATCH_BUCKETS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
const LATENCY_BUCKETS_SECONDS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

impl Default for Metrics {
    fn default() -> Self {
        let mut root = MetricsRegistry::default();
        let registry = root.sub_registry_with_prefix("service");
        let mut metrics = Self::unregistered();
        registry.register("requests", "Requests, by route and status", metrics.requests.clone());
        registry.register(
            "request_seconds",
            "Time from the head of a request to its response",
            metrics.seconds.clone(),
        );
        registry.register("refreshes", "Refresh tokens presented, by outcome", metrics.refreshes.clone());
        registry.register("mcp_tool_calls", "Calls of MCP tools, by tool and outcome", metrics.tool_calls.clone());
        registry.register(
            "provider_requests",
            "Requests to identity providers, by kind and outcome",
            metrics.provider_requests.clone(),
        );
        metrics.register_sign_ins(registry);
        metrics.register_support(registry);
        metrics.register_limits(registry);
        metrics.register_background(registry);
        metrics.register_revocations(registry);
        metrics.register_node(registry);
        register_build(registry);
        metrics.process.register(&mut root);
        metrics.registry = root;
        metrics.begin_at_zero();
        metrics
    }
}

impl Metrics {
    fn unregistered() -> Self {
        let seconds = Family::new_with_constructor((|| Histogram::new(LATENCY_BUCKETS_SECONDS)) as fn() -> Histogram);
        Self {
            registry: MetricsRegistry::default(),
            requests: Family::default(),
            seconds,
            refreshes: Family::default(),
            tool_calls: Family::default(),
            support_calls: Family::default(),
            provider_requests: Family::default(),
            domain_checks: Family::default(),
            sso_sign_ins: Family::default(),
            passkey_sign_ins: Family::default(),
            account: AccountMetrics::default(),
            exports: ExportMetrics::default(),
            sso_logouts: Family::default(),
            task_last_success: Family::default(),
            limit_refusals: Family::default(),
            trace_spans: Family::default(),
            table_rows: Family::default(),
            table_bytes: Family::default(),
            process: process::ProcessMetrics::default(),
            ready: Gauge::default(),
            mails_waiting: Gauge::default(),
            mails_waiting_age: Gauge::default(),
            revocation_seconds: Histogram::new(REVOCATION_BUCKETS_SECONDS),
            signing_keys_age: Gauge::default(),
            database_wait: Histogram::new(LATENCY_BUCKETS_SECONDS),
            refresh_batch: Histogram::new(BATCH_BUCKETS),
            otp_sends_refused: Counter::default(),
            otp_sends_used: Gauge::default(),
            forwarding_peers_ignored: Counter::default(),
            mails_sent: Counter::default(),
            mails_failed: Counter::default(),
            mails_suppressed: Counter::default(),
            mail_bounces: Family::default(),
            rows_cleaned: Counter::default(),
            audit_events_sealed: Counter::default(),
            audit_unsealed_age: Gauge::default(),
            database_connections: Gauge::default(),
            database_connections_free: Gauge::default(),
            revocations: Gauge::default(),
            revocations_age: Gauge::default(),
            revocation_polls: Counter::default(),
            heartbeat_age: Gauge::default(),
            room: Gauge::default(),
            bodies_room: Gauge::default(),
            connections_refused: Counter::default(),
            support_handshakes_failed: Counter::default(),
        }
    }

    /// Creates the counters whose labels are known.
    fn begin_at_zero(&self) {
        for route in labels::routes() {
            for status in labels::ALARMING_STATUSES {
                drop(self.requests.get_or_create(&RequestLabels { route, status }));
            }
        }
        for (family, outcomes) in [
            (&self.refreshes, labels::REFRESH_OUTCOMES),
            (&self.sso_sign_ins, labels::SSO_SIGN_IN_OUTCOMES),
            (&self.passkey_sign_ins, labels::PASSKEY_SIGN_IN_OUTCOMES),
            (&self.sso_logouts, labels::SSO_LOGOUT_OUTCOMES),
            (&self.domain_checks, labels::DOMAIN_CHECK_OUTCOMES),
            (&self.trace_spans, labels::SPAN_OUTCOMES),
            (&self.mail_bounces, labels::BOUNCE_OUTCOMES),
        ] {
            for outcome in outcomes {
                drop(family.get_or_create(&OutcomeLabels { outcome }));
            }
        }
        for limit in labels::LIMITS {
            drop(self.limit_refusals.get_or_create(&LimitLabels { limit }));
        }
        for request in labels::PROVIDER_REQUESTS {
            for outcome in labels::PROVIDER_OUTCOMES {
                drop(self.provider_requests.get_or_create(&ProviderLabels { request, outcome }));
            }
        }
    }

    /// Creates the counters of calls of these MCP tools.
    pub fn begin_tools(&self, tools: impl Iterator<Item = &'static str>) {
        for tool in tools {
            for outcome in labels::TOOL_OUTCOMES {
                drop(self.tool_calls.get_or_create(&ToolLabels { tool, outcome }));
            }
        }
    }

    /// Creates the counters of these calls of the support listener.
    pub fn begin_support_calls(&self, calls: impl Iterator<Item = &'static str>) {
        for call in calls {
            for outcome in labels::SUPPORT_OUTCOMES {
                drop(self.support_calls.get_or_create(&SupportLabels { call, outcome }));
            }
        }
    }

    fn register_support(&self, registry: &mut MetricsRegistry) {
        registry.register(
            "support_calls",
            "Calls of the support listener, by call and outcome",
            self.support_calls.clone(),
        );
        registry.register(
            "support_handshakes_failed",
            "Connections to the support listener without a valid client certificate",
            self.support_handshakes_failed.clone(),
        );
    }

    fn register_sign_ins(&self, registry: &mut MetricsRegistry) {
        registry.register(
            "passkey_sign_ins",
            "Attempts to sign in by a passkey, by outcome",
            self.passkey_sign_ins.clone(),
        );
        self.account.register(registry);
        self.exports.register(registry);
        registry.register(
            "sso_sign_ins",
            "Sign-ins through companies' identity providers, by outcome",
            self.sso_sign_ins.clone(),
        );
        registry.register("sso_logouts", "Logout tokens of identity providers, by outcome", self.sso_logouts.clone());
    }

    fn register_node(&self, registry: &mut MetricsRegistry) {
        registry.register("database_connections", "Open database connections", self.database_connections.clone());
        registry.register(
            "database_connections_free",
            "Idle database connections",
            self.database_connections_free.clone(),
        );
        registry.register(
            "database_wait_seconds",
            "Time that requests and tasks wait for a database connection",
            self.database_wait.clone(),
        );
        registry.register("refresh_batch_size", "Refreshes that one statement writes", self.refresh_batch.clone());
        registry.register("trace_spans", "Spans of traces, by outcome", self.trace_spans.clone());
        registry.register("ready", "1 if /readyz is 200", self.ready.clone());
        registry.register("requests_room", "Free request slots", self.room.clone());
        registry.register("bodies_room", "Free places for arriving request bodies", self.bodies_room.clone());
        registry.register(
            "connections_refused",
            "Connections closed because their network had its share",
            self.connections_refused.clone(),
        );
    }

    fn register_revocations(&self, registry: &mut MetricsRegistry) {
        registry.register("revocations", "Revocations in memory", self.revocations.clone());
        registry.register(
            "revocation_seconds",
            "Time from the newest revocation of a read until this node has read it",
            self.revocation_seconds.clone(),
        );
        registry.register(
            "signing_keys_age_seconds",
            "Seconds since the signing keys were last read; beyond 900 the node rejects all tokens",
            self.signing_keys_age.clone(),
        );
        let age = self.revocations_age.clone();
        registry.register(
            "revocations_age_seconds",
            "Seconds since revocations were last read; beyond 30 the node rejects all tokens",
            age,
        );
        registry.register("revocation_polls", "Polls for new revocations", self.revocation_polls.clone());
        registry.register(
            "heartbeat_age_seconds",
            "Seconds since the last confirmed heartbeat; beyond 30 the node rejects all tokens",
            self.heartbeat_age.clone(),
        );
    }

    fn register_limits(&self, registry: &mut MetricsRegistry) {
        registry.register(
            "limit_refusals",
            "Times that a shared limit was reached, by limit",
            self.limit_refusals.clone(),
        );
        registry.register(
            "otp_sends_refused",
            "Codes requested while the budget for all codes was used up; only known devices got one",
            self.otp_sends_refused.clone(),
        );
        registry.register("otp_sends_used_ratio", "Used part of the budget for all codes", self.otp_sends_used.clone());
        registry.register(
            "forwarding_peers_ignored",
            "Requests with a forwarded address from private peers outside of trusted_proxies",
            self.forwarding_peers_ignored.clone(),
        );
    }

    fn register_background(&self, registry: &mut MetricsRegistry) {
        registry.register(
            "task_last_success_timestamp_seconds",
            "When a background task last succeeded, in seconds since 1970, by task",
            self.task_last_success.clone(),
        );
        registry.register("domain_checks", "DNS checks of domains, by outcome", self.domain_checks.clone());
        registry.register("mails_sent", "Mails that the mail server accepted", self.mails_sent.clone());
        registry.register("mails_failed", "Failed attempts to send a mail", self.mails_failed.clone());
        registry.register(
            "mails_suppressed",
            "Mails that were put off, because their address bounced",
            self.mails_suppressed.clone(),
        );
        registry.register("mail_bounces", "Bounces that were reported, by outcome", self.mail_bounces.clone());
        registry.register(
            "mails_waiting",
            "Mails in the outbox; 10,000 stands for more, too",
            self.mails_waiting.clone(),
        );
        registry.register(
            "mails_waiting_age_seconds",
            "How long the oldest mail in the outbox has waited",
            self.mails_waiting_age.clone(),
        );
        registry.register("table_rows", "Rows as PostgreSQL estimates them, by table", self.table_rows.clone());
        registry.register("table_bytes", "Size with indexes and partitions, by table", self.table_bytes.clone());
        registry.register("rows_cleaned", "Expired rows deleted", self.rows_cleaned.clone());
        registry.register("audit_events_sealed", "Audit events sealed", self.audit_events_sealed.clone());
        registry.register(
            "audit_unsealed_age_seconds",
            "Age of the oldest unsealed audit event",
            self.audit_unsealed_age.clone(),
        );
    }

    /// Records a request.
    pub fn observe(&self, route: &'static str, status: u16, seconds: f64) {
        self.requests.get_or_create(&RequestLabels { route, status }).inc();
        self.seconds.get_or_create(&RouteLabels { route }).observe(seconds);
    }

    /// Counts a presented refresh token by verdict.
    pub fn refreshed(&self, verdict: RotationVerdict) {
        let outcome = match verdict {
            RotationVerdict::Rotate => "rotated",
            RotationVerdict::Repeat => "repeated",
            RotationVerdict::Supersede => "superseded",
            RotationVerdict::FastForward => "fast_forwarded",
            RotationVerdict::Refuse(_) => "refused",
            RotationVerdict::Revoke(_) => "replayed",
        };
        debug_assert!(labels::REFRESH_OUTCOMES.contains(&outcome), "{outcome}");
        self.refreshes.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Counts an attempt to sign in by a passkey.
    pub fn passkey_signed_in(&self, outcome: &'static str) {
        debug_assert!(labels::PASSKEY_SIGN_IN_OUTCOMES.contains(&outcome), "{outcome}");
        self.passkey_sign_ins.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Counts a sign-in through a company's identity provider.
    pub fn sso_signed_in(&self, outcome: &'static str) {
        debug_assert!(labels::SSO_SIGN_IN_OUTCOMES.contains(&outcome), "{outcome}");
        self.sso_sign_ins.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Counts a logout token of an identity provider.
    pub fn sso_logged_out(&self, outcome: &'static str) {
        debug_assert!(labels::SSO_LOGOUT_OUTCOMES.contains(&outcome), "{outcome}");
        self.sso_logouts.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Counts a call of an MCP tool.
    pub fn tool_called(&self, tool: &'static str, outcome: &'static str) {
        debug_assert!(labels::TOOL_OUTCOMES.contains(&outcome), "{outcome}");
        self.tool_calls.get_or_create(&ToolLabels { tool, outcome }).inc();
    }

    /// Counts a call of the support listener.
    pub fn support_called(&self, call: &'static str, outcome: &'static str) {
        debug_assert!(labels::SUPPORT_OUTCOMES.contains(&outcome), "{outcome}");
        self.support_calls.get_or_create(&SupportLabels { call, outcome }).inc();
    }

    /// Counts a request to an identity provider.
    pub fn provider_requested(&self, request: &'static str, outcome: &'static str) {
        debug_assert!(labels::PROVIDER_REQUESTS.contains(&request), "{request}");
        debug_assert!(labels::PROVIDER_OUTCOMES.contains(&outcome), "{outcome}");
        self.provider_requests.get_or_create(&ProviderLabels { request, outcome }).inc();
    }

    /// Counts that a limit that all nodes share was reached.
    pub fn limit_reached(&self, limit: &'static str) {
        debug_assert!(labels::LIMITS.contains(&limit), "{limit}");
        self.limit_refusals.get_or_create(&LimitLabels { limit }).inc();
    }

    /// Records the size of a table.
    pub fn table_measured(&self, table: String, rows: i64, bytes: i64) {
        let labels = TableLabels { table };
        self.table_rows.get_or_create(&labels).set(rows);
        self.table_bytes.get_or_create(&labels).set(bytes);
    }

    /// Counts a check of a domain's DNS record.
    pub fn domain_checked(&self, outcome: &'static str) {
        debug_assert!(labels::DOMAIN_CHECK_OUTCOMES.contains(&outcome), "{outcome}");
        self.domain_checks.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Counts spans that the collector took.
    pub fn spans_exported(&self, spans: u64) {
        self.trace_spans.get_or_create(&OutcomeLabels { outcome: "exported" }).inc_by(spans);
    }

    /// Counts spans that the collector did not take.
    pub fn spans_failed(&self, spans: u64) {
        self.trace_spans.get_or_create(&OutcomeLabels { outcome: "failed" }).inc_by(spans);
    }

    /// Counts a bounce.
    pub fn mail_bounced(&self, outcome: &'static str) {
        self.mail_bounces.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Counts spans that were dropped because too many waited.
    pub fn spans_dropped(&self, spans: u64) {
        self.trace_spans.get_or_create(&OutcomeLabels { outcome: "dropped" }).inc_by(spans);
    }

    /// Records that a round of a background task succeeded.
    pub fn task_succeeded(&self, task: &'static str, now: Timestamp) {
        let seconds = now.as_duration().as_secs_f64();
        self.task_last_success.get_or_create(&TaskLabels { task }).set(seconds);
    }

    /// Returns the metrics in the format of `OpenMetrics` 1.0.
    #[must_use]
    pub fn render_open_metrics(&self) -> String {
        self.process.measure();
        let mut text = String::new();
        // Writing to a string does not fail.
        encode(&mut text, &self.registry).unwrap_or_default();
        text
    }

    /// Returns the metrics in the text format of Prometheus, version 0.0.4. There the family of a counter has the name of its
    /// samples, with `_total`, and nothing marks the end.
    #[must_use]
    pub fn render_prometheus(&self) -> String {
        let open_metrics = self.render_open_metrics();
        let counters: HashSet<_> =
            open_metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
        let mut text = String::with_capacity(open_metrics.len() + 32 * counters.len());
        for line in open_metrics.lines().filter(|line| *line != "# EOF") {
            let described = ["# HELP ", "# TYPE "].into_iter().find_map(|what| {
                let (name, rest) = line.strip_prefix(what)?.split_once(' ')?;
                counters.contains(name).then_some([what, name, "_total ", rest])
            });
            text.extend(described.unwrap_or([line, "", "", ""]));
            text.push('\n');
        }
        text
    }
}

/// The version that runs, as labels of a metric that is always 1.
fn register_build(registry: &mut MetricsRegistry) {
    let build = Family::<BuildLabels, Gauge>::default();
    let commit = option_env!("SERVICE_BUILD_COMMIT").unwrap_or("unknown");
    build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION"), commit }).set(1);
    registry.register("build_info", "The version that runs; always 1", build);
}
