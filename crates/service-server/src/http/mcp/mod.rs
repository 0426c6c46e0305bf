//! `/mcp`: the service as an MCP server.
//!
//! 1. `guard` admits a request as the API does: it has a valid access token, which is for `/mcp`, and the scope that its
//!    message needs. It is within the limits of its user.
//! 2. `rmcp` speaks the protocol, in every revision, without sessions. Any node can serve any request.
//! 3. `server` answers the messages. `tools` lists the tools, `calls` runs them with the flows of the API, and `resources`
//!    serves packs.
//!    `asking` asks the user back.

mod arguments;
mod asking;
mod calls;
#[cfg(feature = "mcp-conformance")]
mod conformance;
mod guard;
mod resources;
mod server;
mod tools;

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use http_body_util::combinators::BoxBody;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};
use service_api::errors::ErrorCode;

use self::{guard::Admitted, server::McpServer};
use crate::{
    app::App,
    http::errors::{ApiError, EdgeError, error},
};

/// What answers the messages.
#[cfg(not(feature = "mcp-conformance"))]
type Server = McpServer;
#[cfg(feature = "mcp-conformance")]
type Server = conformance::Fixtures<McpServer>;

/// Speaks the protocol with the clients of this node.
#[derive(Clone)]
pub struct Protocol(Arc<StreamableHttpService<Server, NeverSessionManager>>);

impl Protocol {
    #[must_use]
    pub fn new(app: &App) -> Self {
        // The guard has checked Host and Origin, and the edge has limited the body.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_sse_keep_alive(None)
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(app.config.http.body_limit);
        app.metrics.begin_tools(tools::ALL.iter().map(|tool| tool.described.name.as_ref()));
        let app = app.clone();
        let server = move || Ok(Server::from(McpServer::new(app.clone())));
        Self(Arc::new(StreamableHttpService::new(server, Arc::default(), config)))
    }
}

/// Receives one message, and responds to it.
pub async fn receive(app: &App, Protocol(protocol): &Protocol, request: Request) -> Response {
    let Admitted { request, failure } = match guard::admit(app, request).await {
        Ok(admitted) => admitted,
        Err(refused) => return refused.into_response(),
    };
    let response = protocol.handle(request).await;
    // Trouble on our side is an error of HTTP, so that clients and operators notice it as for any other endpoint.
    match failure.get() {
        Some(failed) => failed.clone().into_response(),
        None => finish(response),
    }
}

/// Passes a message on. What `rmcp` says as plain text becomes an error of the API.
fn finish(response: Response<BoxBody<Bytes, Infallible>>) -> Response {
    let status = response.status();
    if status.is_success() || is_json(response.headers()) {
        return response.map(Body::new);
    }
    if status.is_server_error() {
        // Whether the message was answered is unknown.
        return ApiError::from(EdgeError::TooSlow).into_response();
    }
    let (code, text) = match status {
        StatusCode::NOT_ACCEPTABLE => {
            (ErrorCode::InvalidRequest, "The Accept header must name both application/json and text/event-stream.")
        }
        StatusCode::PAYLOAD_TOO_LARGE => (ErrorCode::PayloadTooLarge, "The message is too large. Send a smaller one."),
        _ => (
            ErrorCode::InvalidRequest,
            "The body isn't an MCP message of a supported revision. Send one JSON-RPC message, and in \
             MCP-Protocol-Version a revision from 2025-03-26 to 2026-07-28.",
        ),
    };
    error(code, text).into_response()
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}
