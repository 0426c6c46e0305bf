//! A JSON-RPC message of an MCP client: what the bridge has to know about it, and the HTTP headers that belong to it.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::failure::{Failure, FailureCode};

/// The revision from which requests have the headers `Mcp-Method` and `Mcp-Name`.
const HEADERS_SINCE: &str = "2026-07-28";
/// The member of `params._meta` with the revision of a request.
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// JSON-RPC error codes. Those of the bridge are in the range for implementations.
pub(super) const PARSE_ERROR: i64 = -32700;
pub(super) const INVALID_REQUEST: i64 = -32600;
const SIGN_IN_REQUIRED: i64 = -32001;
const NOT_ALLOWED: i64 = -32003;
const BRIDGE_ERROR: i64 = -32000;

#[derive(Debug)]
pub(super) struct Message {
    /// The ID of a request. A notification or a response has none here, because nothing answers it.
    pub(super) id: Option<Value>,
    pub(super) method: Option<String>,
    /// The revision that the message names itself.
    version: Option<String>,
    /// The tool, prompt or resource that the message names.
    name: Option<String>,
    /// The request that a notification cancels.
    pub(super) cancels: Option<Value>,
}

impl Message {
    /// Parses a line. The error is the answer to it.
    pub(super) fn parse(line: &[u8]) -> Result<Self, Value> {
        let message: Value = serde_json::from_slice(line)
            .map_err(|_| error_answer(&Value::Null, PARSE_ERROR, "The message isn't valid JSON."))?;
        if message.is_array() {
            let text = "Batches aren't supported. Send one message per line.";
            return Err(error_answer(&Value::Null, INVALID_REQUEST, text));
        }
        let method = message["method"].as_str().map(str::to_owned);
        let is_response = message.get("result").is_some() || message.get("error").is_some();
        let id = message.get("id").filter(|_| !is_response).cloned();
        if method.is_none() && !is_response {
            let text = "The message isn't a JSON-RPC request, notification or response.";
            return Err(error_answer(&id.unwrap_or_default(), INVALID_REQUEST, text));
        }
        let params = &message["params"];
        let key = match method.as_deref().unwrap_or_default() {
            "tools/call" | "prompts/get" => "name",
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => "",
        };
        let cancels = params.get("requestId").filter(|_| method.as_deref() == Some("notifications/cancelled"));
        Ok(Self {
            id,
            version: params["_meta"][META_VERSION].as_str().map(str::to_owned),
            name: params.get(key).and_then(Value::as_str).map(str::to_owned),
            cancels: cancels.cloned(),
            method,
        })
    }

    /// The headers of the HTTP request. `negotiated` is the revision that `initialize` has negotiated, for clients that do not
    /// name one in every message.
    pub(super) fn headers(&self, negotiated: Option<&str>) -> Vec<(&'static str, String)> {
        // `initialize` negotiates the revision, so no header names one before.
        let negotiated = negotiated.filter(|_| self.method.as_deref() != Some("initialize"));
        let Some(version) = self.version.as_deref().or(negotiated) else { return Vec::new() };
        let mut headers = vec![("mcp-protocol-version", version.to_owned())];
        if let Some(method) = self.method.as_ref().filter(|_| version >= HEADERS_SINCE) {
            headers.push(("mcp-method", method.clone()));
            headers.extend(self.name.as_deref().map(|name| ("mcp-name", encode_header(name))));
        }
        headers
    }
}

/// Encodes a value that HTTP would change or reject, as revision 2026-07-28 says.
fn encode_header(value: &str) -> String {
    let has_outer_space = value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']);
    let looks_encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    if has_outer_space || looks_encoded || value.contains(|c| !(' '..='~').contains(&c)) {
        format!("=?base64?{}?=", BASE64_STANDARD.encode(value))
    } else {
        value.to_owned()
    }
}

pub(super) fn error_answer(id: &Value, code: i64, text: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } })
}

/// The answer to a request that failed before the server could answer it: what happened, and what to do next.
pub(super) fn failure_answer(id: &Value, failure: &Failure) -> Value {
    let code = match failure.code.exit_code() {
        4 => SIGN_IN_REQUIRED,
        5 => NOT_ALLOWED,
        _ if failure.code == FailureCode::InvalidInput => INVALID_REQUEST,
        _ => BRIDGE_ERROR,
    };
    let next = failure.hints.first().map(|hint| format!(" Next: {hint}")).unwrap_or_default();
    let mut answer = error_answer(id, code, &format!("{}{next}", failure.message));
    let mut data = failure.to_json()["error"].take();
    if let Value::Object(members) = &mut data {
        members.remove("message");
    }
    answer["error"]["data"] = data;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(message: &Value, negotiated: Option<&str>) -> Vec<(&'static str, String)> {
        Message::parse(message.to_string().as_bytes()).unwrap().headers(negotiated)
    }

    #[test]
    fn headers_follow_the_body() {
        let named = |name: &str| {
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": { "name": name, "_meta": { META_VERSION: "2026-07-28" } } })
        };
        let all = headers(&named("whoami"), Some("2025-11-25"));
        let expected = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "whoami")];
        assert_eq!(all, expected.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(headers(&named("café "), None)[2].1, "=?base64?Y2Fmw6kg?=");
        assert_eq!(headers(&named("=?base64?x?="), None)[2].1, "=?base64?PT9iYXNlNjQ/eD89?=");

        let read = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read",
            "params": { "uri": "pack://a b", "_meta": { META_VERSION: "2026-07-28" } } });
        assert_eq!(headers(&read, None)[2], ("mcp-name", "pack://a b".to_owned()));

        let old = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "whoami" } });
        assert_eq!(headers(&old, Some("2025-06-18")), [("mcp-protocol-version", "2025-06-18".to_owned())]);
        assert_eq!(headers(&old, None), []);
        let first = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} });
        assert_eq!(headers(&first, Some("2025-06-18")), []);
    }

    #[test]
    fn only_requests_are_answered() {
        let parse = |message: Value| Message::parse(message.to_string().as_bytes());
        assert_eq!(parse(json!({ "jsonrpc": "2.0", "id": "a", "method": "ping" })).unwrap().id, Some("a".into()));
        assert!(parse(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap().id.is_none());
        assert!(parse(json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).unwrap().id.is_none());
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
        assert_eq!(parse(cancel).unwrap().cancels, Some(7.into()));
        assert_eq!(parse(json!({ "id": 3 })).unwrap_err()["error"]["code"], INVALID_REQUEST);
        assert_eq!(parse(json!([])).unwrap_err()["error"]["code"], INVALID_REQUEST);
        assert_eq!(Message::parse(b"{").unwrap_err()["error"]["code"], PARSE_ERROR);
    }
}
