//! A call of the MCP tool `whoami` against a bare `rmcp` server whose tool returns the same result.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use axum::{
    Router,
    http::{HeaderMap, header},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ServerCapabilities, ServerConfig},
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::{Value, json};
use service_testkit::response::TestClient;

use super::{Bench, Measured, whoami};

/// A server with one tool, which returns this.
#[derive(Clone)]
struct BareServer(Arc<Value>);

impl ServerHandler for BareServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::structured((*self.0).clone()).into())
    }
}

/// The router of the bare server.
pub(super) fn bare(result: Value) -> Router {
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
    let server = BareServer(Arc::new(result));
    let service: StreamableHttpService<BareServer, NeverSessionManager> =
        StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), config);
    Router::new().route_service("/mcp", service)
}

pub(super) async fn measure(bench: &Bench) -> Result<Measured> {
    let token = whoami::sign_in(bench, "mcp@acme.test", "write").await?;
    let http = &bench.server.http;
    let asked =
        http.request(reqwest::Method::POST, "/v1/mcp/tokens").bearer_auth(&token).json(&json!({ "scope": "write" }));
    let pair = http.send(asked).await?;
    ensure!(pair.status == 201, "no MCP tokens: {}", pair.text);
    let token = pair.field("access_token").to_owned();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "whoami" } }).to_string();
    let accept = "application/json, text/event-stream";
    let request = http.request(reqwest::Method::POST, "/mcp").bearer_auth(&token).header(header::ACCEPT, accept);
    let called = http.send(request.header(header::CONTENT_TYPE, "application/json").body(call.clone())).await?;
    ensure!(called.status == 200, "whoami does not work: {}", called.text);
    let result = called.body["result"]["structuredContent"].clone();
    let bare = super::bare::Bare::start(&HeaderMap::new(), &result.to_string())?;
    let ours: SocketAddr = address(http)?;
    let sent = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: {accept}\r\nContent-Length: {}\r\n\r\n{call}",
        call.len()
    );
    let mut measured = Measured { name: "mcp_whoami", ours: Vec::new(), bare: Vec::new() };
    for _ in 0..bench.rounds {
        measured.bare.push(whoami::run(bench, bare.address, &sent).await?);
        measured.ours.push(whoami::run(bench, ours, &sent).await?);
    }
    Ok(measured)
}

fn address(http: &TestClient) -> Result<SocketAddr> {
    http.url.trim_start_matches("http://").parse().context("no address")
}
