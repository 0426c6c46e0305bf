//! Traces: a span for each sampled request, with a child for each database statement and each request to another host.
//!
//! What a span says is known when the service is compiled: names and attributes are `&'static str` or numbers. The only
//! exception is the request id. So no span can contain a token, an address or another value of a request.

mod collector;
mod otlp;
mod queue;

use std::{
    panic::Location,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use service_rules::{
    Timestamp,
    trace_context::{SampleRatio, SpanId, TraceId, TraceParent},
};
use tokio::time::Instant;
use uuid::Uuid;

use self::{
    collector::Collector,
    otlp::{Span, SpanKind, Value},
    queue::SpanQueue,
};
pub use self::{
    collector::CollectorSecrets,
    queue::{BATCH_SPANS, QUEUE_SPANS},
};
use super::current_request;
use crate::{config::TracesConfig, crypto::random, telemetry::Metrics};

/// Records spans, and exports them.
pub struct Traces {
    ratio: SampleRatio,
    queue: Arc<SpanQueue>,
    collector: Collector,
    metrics: Arc<Metrics>,
    /// Whether the last export failed.
    failing: AtomicBool,
}

impl Traces {
    /// `None`: no collector is set. Connects to nothing.
    pub fn new(config: &TracesConfig, node_id: Uuid, metrics: &Arc<Metrics>) -> anyhow::Result<Option<Self>> {
        let Some(endpoint) = &config.endpoint else { return Ok(None) };
        Ok(Some(Self {
            ratio: config.sample_ratio,
            queue: Arc::new(SpanQueue::new(metrics.clone())),
            collector: Collector::new(endpoint.clone(), config, node_id)?,
            metrics: metrics.clone(),
            failing: AtomicBool::new(false),
        }))
    }

    /// Begins the span of a request; `None`: it is not sampled.
    #[must_use]
    pub fn begin(&self, request: RequestSpan, parent: Option<&TraceParent>, now: Timestamp) -> Option<ActiveSpan> {
        let trace_id = parent.map(|parent| parent.trace_id).or_else(|| random::bytes().ok().map(TraceId))?;
        if !self.ratio.samples(trace_id, parent) {
            return None;
        }
        let trace = RequestTrace(Arc::new(TraceState {
            trace_id,
            root: SpanId(random::bytes().ok()?),
            began: Instant::now(),
            began_at: now,
            flow: OnceLock::new(),
            queue: self.queue.clone(),
        }));
        let span = Span {
            id: trace.0.root,
            parent: parent.map(|parent| parent.span_id),
            attributes: vec![
                ("http.request.method", Value::Text(request.method)),
                ("http.route", Value::Text(request.route)),
                ("request.id", Value::RequestId(request.id)),
            ],
            ..trace.begin([request.method, request.route], SpanKind::Server)?
        };
        Some(ActiveSpan { trace, span: Box::new(span), is_over: false })
    }

    /// Waits until a batch is full.
    pub async fn batch_is_full(&self) {
        self.queue.batch_is_full().await;
    }

    /// Exports one batch of the spans that wait; `false`: there are none, or the collector did not take them. What it did
    /// not take is not sent again: newer spans are waiting.
    pub async fn export_batch(&self) -> bool {
        let batch = self.queue.take_batch();
        if batch.is_empty() {
            return false;
        }
        let sent = self.collector.send(&batch).await;
        let all = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let failed = sent.map_or(all, |rejected| rejected.min(all));
        self.metrics.spans_exported(all - failed);
        self.metrics.spans_failed(failed);
        match sent {
            Err(error) if !self.failing.swap(true, Ordering::Relaxed) => {
                tracing::warn!(error = error.to_string(), "The collector does not take traces");
            }
            Ok(_) if self.failing.swap(false, Ordering::Relaxed) => {
                tracing::info!("The collector takes traces again");
            }
            _ => {}
        }
        sent.is_ok()
    }

    /// Drops all spans that wait, and returns how many.
    pub fn drop_waiting(&self) -> usize {
        self.queue.drop_waiting()
    }

    /// Reads the token of another configuration and the certificates again. Changes nothing.
    pub fn prepare_reload(&self, own: &TracesConfig, new: &TracesConfig) -> anyhow::Result<CollectorSecrets> {
        self.collector.prepare_reload(own, new)
    }

    /// Connects to the collector with these from now on.
    pub fn take_over(&self, secrets: CollectorSecrets) {
        self.collector.take_over(secrets);
    }
}

/// What the span of a request says about it.
pub struct RequestSpan {
    pub method: &'static str,
    /// The template of the route.
    pub route: &'static str,
    pub id: Arc<str>,
}

/// The trace of a request that is sampled.
#[derive(Clone)]
pub struct RequestTrace(Arc<TraceState>);

struct TraceState {
    trace_id: TraceId,
    /// The span of the request, which is the parent of all others.
    root: SpanId,
    began: Instant,
    began_at: Timestamp,
    flow: OnceLock<&'static str>,
    queue: Arc<SpanQueue>,
}

impl RequestTrace {
    fn begin(&self, name: [&'static str; 2], kind: SpanKind) -> Option<Span> {
        let began = self.now();
        Some(Span {
            trace_id: self.0.trace_id,
            id: SpanId(random::bytes().ok()?),
            parent: Some(self.0.root),
            kind,
            name,
            began,
            ended: began,
            attributes: Vec::new(),
            failed: false,
        })
    }

    /// The time in nanoseconds since 1970: when the request began, by the clock, and what has passed since then.
    fn now(&self) -> u128 {
        let began_at = u128::try_from(self.0.began_at.as_nanosecond()).unwrap_or_default();
        began_at + self.0.began.elapsed().as_nanos()
    }
}

/// A span that is not over. It ends when it is dropped.
pub struct ActiveSpan {
    trace: RequestTrace,
    /// Boxed, because every future with a statement holds one.
    span: Box<Span>,
    is_over: bool,
}

impl ActiveSpan {
    /// The trace that this span belongs to.
    #[must_use]
    pub fn trace(&self) -> RequestTrace {
        self.trace.clone()
    }

    /// Ends the span of a request. If it is dropped instead, the client did not wait for the response.
    pub fn finish(mut self, status: u16) {
        self.span.attributes.push(("http.response.status_code", Value::Number(status.into())));
        self.span.failed = status >= 500;
        self.is_over = true;
    }
}

impl Drop for ActiveSpan {
    fn drop(&mut self) {
        let mut span = self.span.take();
        span.ended = self.trace.now();
        if !self.is_over {
            span.attributes.push(("error.type", Value::Text("cancelled")));
        }
        if span.id == self.trace.0.root
            && let Some(flow) = self.trace.0.flow.get()
        {
            span.attributes.push(("flow", Value::Text(flow)));
        }
        self.trace.0.queue.push(span);
    }
}

/// Names the flow of the current request, where the route does not tell it. The first name stays.
pub fn name_flow(flow: &'static str) {
    if let Some(trace) = current_request::trace() {
        trace.0.flow.get_or_init(|| flow);
    }
}

/// Begins the span of a statement at a place in the store; `None`: the current task has no trace. Of the statement itself
/// only its first word is recorded.
#[must_use]
pub fn statement(sql: &str, place: &'static Location<'static>) -> Option<ActiveSpan> {
    let trace = current_request::trace()?;
    let file = place.file().rsplit_once('/').map_or(place.file(), |(_, file)| file);
    let operation = operation(sql);
    let mut span = trace.begin([operation, file.trim_end_matches(".rs")], SpanKind::Client)?;
    span.attributes = vec![
        ("db.system.name", Value::Text("postgresql")),
        ("db.operation.name", Value::Text(operation)),
        ("code.file.path", Value::Text(file)),
        ("code.line.number", Value::Number(place.line())),
    ];
    Some(ActiveSpan { trace, span: Box::new(span), is_over: false })
}

/// Begins the span of a wait or of a request to another host; `None`: the current task has no trace.
#[must_use]
pub fn part(name: [&'static str; 2]) -> Option<ActiveSpan> {
    let trace = current_request::trace()?;
    let span = trace.begin(name, SpanKind::Client)?;
    Some(ActiveSpan { trace, span: Box::new(span), is_over: false })
}

/// Ends the span of a part of a request, with the kind of its error. If it is dropped instead, the part was cancelled.
pub fn end(span: Option<ActiveSpan>, error: Option<&'static str>) {
    let Some(mut active) = span else { return };
    if let Some(kind) = error {
        active.span.attributes.push(("error.type", Value::Text(kind)));
        active.span.failed = true;
    }
    active.is_over = true;
}

/// Returns the first word of a statement, behind its comment, if it is one of those that are known.
fn operation(sql: &str) -> &'static str {
    let code = sql.trim_start();
    let code = code.strip_prefix("/*").and_then(|rest| rest.split_once("*/")).map_or(code, |(_, code)| code);
    let first = code.split_whitespace().next().unwrap_or_default();
    let known = ["select", "insert", "update", "delete", "with", "lock", "begin", "commit"];
    known.into_iter().find(|word| *word == first).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::{current_request::CurrentRequest, *};

    #[test]
    fn of_a_statement_only_a_known_first_word_is_recorded() {
        assert_eq!(operation("select 'secret'"), "select");
        assert_eq!(operation("\n  /* every shard */\n update users set x = 1"), "update");
        assert_eq!(operation("with found as (select 1) select * from found"), "with");
        for other in ["", "secret", "/* never closed select", "SELECT 1", "select'secret'"] {
            assert_eq!(operation(other), "other", "{other}");
        }
    }

    #[tokio::test]
    async fn without_a_trace_nothing_begins() {
        assert!(statement("select 1", Location::caller()).is_none());
        let request = CurrentRequest::new("req_1".into(), "/oauth/token", None);
        current_request::within(request, async {
            name_flow("refresh_grant");
            assert!(part(["connection", ""]).is_none());
        })
        .await;
    }
}
