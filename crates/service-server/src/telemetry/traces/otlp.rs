//! Spans in the encoding that collectors read: OTLP 1 as JSON.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use uuid::Uuid;

use service_rules::trace_context::{SpanId, TraceId};

/// A span that is over.
pub(super) struct Span {
    pub(super) trace_id: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) kind: SpanKind,
    /// Two words. The second may be empty.
    pub(super) name: [&'static str; 2],
    /// Nanoseconds since 1970.
    pub(super) began: u128,
    /// Nanoseconds since 1970.
    pub(super) ended: u128,
    pub(super) attributes: Vec<(&'static str, Value)>,
    pub(super) failed: bool,
}

/// The kind of a span, with its number in OTLP.
#[derive(Clone, Copy)]
pub(super) enum SpanKind {
    Server = 2,
    Client = 3,
}

/// The value of an attribute.
pub(super) enum Value {
    Text(&'static str),
    Number(u32),
    RequestId(Arc<str>),
}

/// The code of the status of a failed span in OTLP.
const STATUS_ERROR: u8 = 2;

impl Span {
    /// Moves the span out of its place.
    pub(super) fn take(&mut self) -> Self {
        Self { attributes: std::mem::take(&mut self.attributes), ..*self }
    }

    fn to_json(&self) -> Json {
        let attributes: Vec<_> = self.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
        let mut span = json!({
            "traceId": self.trace_id.to_string(),
            "spanId": self.id.to_string(),
            "name": self.name.join(" ").trim_end(),
            "kind": self.kind as u8,
            // JSON has no integers of 64 bits: they are texts.
            "startTimeUnixNano": self.began.to_string(),
            "endTimeUnixNano": self.ended.to_string(),
            "attributes": attributes,
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = parent.to_string().into();
        }
        if self.failed {
            span["status"] = json!({ "code": STATUS_ERROR });
        }
        span
    }
}

fn attribute(key: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({ "stringValue": text }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::RequestId(id) => json!({ "stringValue": **id }),
    };
    json!({ "key": key, "value": value })
}

/// Returns the body of a request to a collector (`ExportTraceServiceRequest`).
pub(super) fn export_request(spans: &[Span], node_id: Uuid) -> Vec<u8> {
    let spans: Vec<_> = spans.iter().map(Span::to_json).collect();
    let resource = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let request = json!({ "resourceSpans": [{
        "resource": { "attributes": [
            resource("service.name", "serviced"),
            resource("service.version", env!("CARGO_PKG_VERSION")),
            resource("service.instance.id", &node_id.to_string()),
        ] },
        "scopeSpans": [{ "scope": { "name": "serviced" }, "spans": spans }],
    }] });
    request.to_string().into_bytes()
}

/// Returns how many spans a collector has rejected although it took the request (`ExportTraceServiceResponse`).
pub(super) fn rejected_spans(response: &[u8]) -> u64 {
    let response = serde_json::from_slice::<Json>(response).unwrap_or_default();
    let rejected = &response["partialSuccess"]["rejectedSpans"];
    rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_encoded_as_the_specification_says() {
        let span = Span {
            trace_id: TraceId([0x4b; 16]),
            id: SpanId([0x0f; 8]),
            parent: Some(SpanId([1; 8])),
            kind: SpanKind::Server,
            name: ["GET", "/v1/projects/{projectId}"],
            began: 1_800_000_000_000_000_001,
            ended: 1_800_000_000_500_000_000,
            attributes: vec![
                ("http.route", Value::Text("/v1/projects/{projectId}")),
                ("http.response.status_code", Value::Number(503)),
                ("request.id", Value::RequestId("0198".into())),
            ],
            failed: true,
        };
        let sent: Json = serde_json::from_slice(&export_request(&[span], Uuid::nil())).expect("JSON");
        let encoded = &sent["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(
            *encoded,
            json!({
                "traceId": "4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b",
                "spanId": "0f0f0f0f0f0f0f0f",
                "parentSpanId": "0101010101010101",
                "name": "GET /v1/projects/{projectId}",
                "kind": 2,
                "startTimeUnixNano": "1800000000000000001",
                "endTimeUnixNano": "1800000000500000000",
                "attributes": [
                    { "key": "http.route", "value": { "stringValue": "/v1/projects/{projectId}" } },
                    { "key": "http.response.status_code", "value": { "intValue": "503" } },
                    { "key": "request.id", "value": { "stringValue": "0198" } },
                ],
                "status": { "code": 2 },
            })
        );
    }

    #[test]
    fn a_collector_says_how_many_spans_it_rejected() {
        for (response, rejected) in [
            (r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"full"}}"#, 3),
            (r#"{"partialSuccess":{"rejectedSpans":3}}"#, 3),
            (r#"{"partialSuccess":null}"#, 0),
            (r#"{"partialSuccess":{"rejectedSpans":"-3"}}"#, 0),
            ("{}", 0),
            ("", 0),
            ("[1]", 0),
        ] {
            assert_eq!(rejected_spans(response.as_bytes()), rejected, "{response}");
        }
    }
}
