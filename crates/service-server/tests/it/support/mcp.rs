//! Messages to `/mcp`, as clients of each revision send them.

use anyhow::{Result, ensure};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer},
};

use crate::support::mcp_tokens;

/// The revisions that clients of today speak.
pub(crate) const REVISIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
/// The revision that carries its version in every message.
pub(crate) const NEWEST: &str = "2026-07-28";

/// The access token of a new MCP pair with these scopes.
pub(crate) async fn token(server: &TestServer, user: &SignedIn, scope: &str) -> Result<String> {
    Ok(mcp_tokens::pair(server, user, &json!({ "scope": scope })).await?.access_token)
}

/// A message of a revision, as a request.
pub(crate) fn request(server: &TestServer, revision: &str, method: &str, params: &Value) -> RequestBuilder {
    let mut params = params.clone();
    let mut request = server.http.request(reqwest::Method::POST, "/mcp");
    if revision >= NEWEST {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": params["_meta"]["capabilities"].as_object().cloned().unwrap_or_default(),
        });
        let trace = params["_meta"]["traceparent"].clone();
        params["_meta"] = meta;
        if !trace.is_null() {
            params["_meta"]["traceparent"] = trace;
        }
        request = request.header("mcp-method", method);
        if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
            request = request.header("mcp-name", name);
        }
    }
    request
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", revision)
        .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

/// Sends a message of a revision.
pub(crate) async fn send(
    server: &TestServer,
    token: &str,
    revision: &str,
    method: &str,
    params: &Value,
) -> Result<TestResponse> {
    server.http.send(request(server, revision, method, params).bearer_auth(token)).await
}

/// Calls a tool in the newest revision. Returns the response whatever it is.
pub(crate) async fn call(server: &TestServer, token: &str, tool: &str, arguments: &Value) -> Result<TestResponse> {
    send(server, token, NEWEST, "tools/call", &json!({ "name": tool, "arguments": arguments })).await
}

/// Calls a tool, which must succeed. Returns its structured content.
pub(crate) async fn done(server: &TestServer, token: &str, tool: &str, arguments: &Value) -> Result<Value> {
    let response = call(server, token, tool, arguments).await?;
    let result = &response.body["result"];
    ensure!(response.status == 200 && result["isError"] == false, "{tool}: {}", response.text);
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    ensure!(serde_json::from_str::<Value>(text)? == result["structuredContent"], "the text says something else");
    Ok(result["structuredContent"].clone())
}

/// Calls a tool, which must be refused. Returns the text of its result.
pub(crate) async fn refused(server: &TestServer, token: &str, tool: &str, arguments: &Value) -> Result<String> {
    let response = call(server, token, tool, arguments).await?;
    let result = &response.body["result"];
    ensure!(response.status == 200 && result["isError"] == true, "{tool}: {}", response.text);
    Ok(result["content"][0]["text"].as_str().unwrap_or_default().to_owned())
}
