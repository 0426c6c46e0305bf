//! The MCP endpoint: JSON-RPC messages by streamable HTTP, passed on unchanged.

use std::{collections::VecDeque, time::Duration};

use reqwest::{Response as HttpResponse, header};
use serde_json::Value;
use service_api::{endpoints, token::AccessToken};

use crate::{
    Client, Error,
    client::{MAX_RESPONSE_BYTES, parse_refusal, read},
    error::Trouble,
};

const EVENT_STREAM: &str = "text/event-stream";
/// How long a response to a message can take to begin, and then to continue.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The JSON-RPC messages with which the MCP endpoint responds to one message.
#[derive(Debug)]
pub struct McpResponse {
    /// Messages that were read and not returned yet.
    ready: VecDeque<Vec<u8>>,
    stream: Option<(HttpResponse, EventReader)>,
}

impl Client {
    /// Sends a JSON-RPC message to the MCP endpoint. `headers` are the MCP headers that belong to the message.
    ///
    /// A message is never sent twice, because a tool can change something.
    ///
    /// # Errors
    /// [`Error::Refused`] with `invalid_token` if the token is rejected, with `insufficient_scope` if the message needs another
    /// scope. An error response that is itself a JSON-RPC message is not an error here.
    pub async fn post_mcp(
        &self,
        token: &AccessToken,
        message: Vec<u8>,
        headers: &[(&str, &str)],
    ) -> Result<McpResponse, Error> {
        let mut all = vec![("accept", "application/json, text/event-stream")];
        all.extend_from_slice(headers);
        let sent = self.post_streamed(endpoints::MCP.path(), token, &all, message);
        let response = within_idle_timeout(sent).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if status.is_success() && content_type.starts_with(EVENT_STREAM) {
            return Ok(McpResponse { ready: VecDeque::new(), stream: Some((response, EventReader::default())) });
        }
        let body = within_idle_timeout(read(response)).await?;
        if is_message(&body) {
            return Ok(McpResponse { ready: VecDeque::from([body]), stream: None });
        }
        match status.as_u16() {
            200..300 if body.is_empty() => Ok(McpResponse { ready: VecDeque::new(), stream: None }),
            status @ 200..300 => Err(Error::Unexpected(status)),
            status => Err(parse_refusal(status, &headers, &body)),
        }
    }
}

impl McpResponse {
    /// The next message, or `None` after the last one. It is valid JSON.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the connection breaks; [`Error::Unexpected`] if a message is too large or not JSON.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            let Some((response, events)) = &mut self.stream else { return Ok(None) };
            let status = response.status().as_u16();
            let chunk = within_idle_timeout(async { Ok(response.chunk().await?) }).await?;
            let Some(chunk) = chunk else {
                self.stream = None;
                continue;
            };
            let messages = events.read(&chunk).ok_or(Error::Unexpected(status))?;
            if !messages.iter().all(|message| is_message(message)) {
                return Err(Error::Unexpected(status));
            }
            self.ready.extend(messages);
        }
    }
}

async fn within_idle_timeout<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(IDLE_TIMEOUT, work).await.unwrap_or(Err(Error::Unreachable(Trouble::TimedOut)))
}

/// Whether this is a JSON-RPC message, or a batch of them.
fn is_message(bytes: &[u8]) -> bool {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(members)) => members.get("jsonrpc").is_some_and(|version| version == "2.0"),
        Ok(Value::Array(messages)) => !messages.is_empty(),
        _ => false,
    }
}

/// Splits a stream of server-sent events into the data of its events. It keeps at most one event.
#[derive(Debug, Default)]
struct EventReader {
    /// The bytes of a line that has not ended.
    line: Vec<u8>,
    /// The data lines of an event that has not ended.
    data: Vec<u8>,
}

impl EventReader {
    /// Reads more of the stream, and returns the data of the events that end in it. `None` if an event is too large.
    fn read(&mut self, bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() + self.data.len() > MAX_RESPONSE_BYTES {
                return None;
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                events.extend(self.end_line(line.trim_ascii_end()));
            }
        }
        Some(events)
    }

    /// Takes a line, and returns the data of the event that it ends. Other fields, comments and empty events are ignored.
    fn end_line(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        if line.is_empty() {
            return Some(std::mem::take(&mut self.data)).filter(|data| !data.is_empty());
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a stream in pieces of this size.
    fn read_in_pieces(stream: &[u8], size: usize) -> Vec<String> {
        let mut reader = EventReader::default();
        let events = stream.chunks(size).flat_map(|piece| reader.read(piece).unwrap());
        events.map(|event| String::from_utf8(event).unwrap()).collect()
    }

    #[test]
    fn events_are_read_wherever_the_stream_is_cut() {
        let stream = b": priming\nid: 1\ndata:\n\nevent: message\r\ndata: {\"a\":1}\r\n\r\ndata: {\ndata: \"b\": 2}\n\ndata: cut";
        for size in 1..stream.len() {
            assert_eq!(read_in_pieces(stream, size), ["{\"a\":1}", "{\n\"b\": 2}"], "in pieces of {size}");
        }
    }

    #[test]
    fn an_event_without_end_is_not_kept_in_memory() {
        let mut reader = EventReader::default();
        let piece = vec![b'x'; 1024 * 1024];
        assert!((0..9).any(|_| reader.read(&piece).is_none()));
        let mut reader = EventReader::default();
        let lines = b"data: x\n".repeat(128 * 1024);
        assert!((0..80).any(|_| reader.read(&lines).is_none()));
    }

    #[test]
    fn only_json_rpc_is_passed_on() {
        assert!(is_message(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        for other in [&b""[..], b"null", b"[]", br#"{"error":"invalid_token"}"#, b"Not Acceptable"] {
            assert!(!is_message(other));
        }
    }
}
