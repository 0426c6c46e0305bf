//! The spans that wait for their export: a bounded queue, into which requests put without ever waiting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::otlp::Span;
use crate::telemetry::Metrics;

/// The largest number of spans that wait. Further spans are dropped.
pub const QUEUE_SPANS: usize = 8_192;
/// The largest number of spans in one request to the collector.
pub const BATCH_SPANS: usize = 512;

/// Spans that wait for their export.
pub(super) struct SpanQueue {
    waiting: Mutex<Vec<Span>>,
    batch_is_full: Notify,
    metrics: Arc<Metrics>,
}

impl SpanQueue {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { waiting: Mutex::default(), batch_is_full: Notify::new(), metrics }
    }

    /// Adds a span, or drops it if too many wait.
    pub(super) fn push(&self, span: Span) {
        let mut waiting = self.waiting();
        if waiting.len() >= QUEUE_SPANS {
            drop(waiting);
            return self.metrics.spans_dropped(1);
        }
        waiting.push(span);
        if waiting.len() >= BATCH_SPANS {
            self.batch_is_full.notify_one();
        }
    }

    /// Takes the oldest spans.
    pub(super) fn take_batch(&self) -> Vec<Span> {
        let mut waiting = self.waiting();
        let batch = waiting.len().min(BATCH_SPANS);
        waiting.drain(..batch).collect()
    }

    pub(super) async fn batch_is_full(&self) {
        self.batch_is_full.notified().await;
    }

    /// Drops all spans, and returns how many.
    pub(super) fn drop_waiting(&self) -> usize {
        let dropped = std::mem::take(&mut *self.waiting()).len();
        self.metrics.spans_dropped(u64::try_from(dropped).unwrap_or(u64::MAX));
        dropped
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Span>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use service_rules::trace_context::{SpanId, TraceId};

    use super::{super::otlp::SpanKind, *};

    fn span(number: u128) -> Span {
        Span {
            trace_id: TraceId([1; 16]),
            id: SpanId([1; 8]),
            parent: None,
            kind: SpanKind::Client,
            name: ["select", "users"],
            began: number,
            ended: number,
            attributes: Vec::new(),
            failed: false,
        }
    }

    #[test]
    fn the_queue_is_bounded_and_what_it_drops_is_counted() {
        let metrics = Arc::<Metrics>::default();
        let queue = SpanQueue::new(metrics.clone());
        for number in 0..QUEUE_SPANS + 7 {
            queue.push(span(number as u128));
        }
        let dropped = |count: usize| {
            let line = format!("service_trace_spans_total{{outcome=\"dropped\"}} {count}\n");
            assert!(metrics.render_prometheus().contains(&line), "not {count}");
        };
        dropped(7);
        let batch = queue.take_batch();
        assert_eq!((batch.len(), batch[0].began), (BATCH_SPANS, 0), "the oldest come first");
        queue.push(span(0));
        dropped(7);
        assert_eq!(queue.drop_waiting(), QUEUE_SPANS - BATCH_SPANS + 1);
        dropped(7 + QUEUE_SPANS - BATCH_SPANS + 1);
        assert!(queue.take_batch().is_empty());
    }
}
