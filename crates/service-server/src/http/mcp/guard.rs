//! What a request to `/mcp` has to have before its message is answered.

use std::sync::{Arc, OnceLock};

use axum::{
    body::Body,
    extract::{FromRequestParts as _, Request},
    http::{HeaderMap, header, uri::Authority},
};
use serde_json::{Map, Value};
use service_api::{
    errors::ErrorCode::Forbidden,
    scope::{Action, Resource, Scope},
};
use service_rules::space::Requested;
use url::{Host, Url};

use crate::{
    app::App,
    config::is_local,
    flows::clients,
    http::{
        body,
        caller::McpCaller,
        errors::{ApiError, MalformedRequest, error},
        mcp::tools::{self, Tool},
        query::Query,
        space,
    },
    node_limits::user_limits::Usage,
    telemetry::current_request::{self, CurrentRequest},
};

/// A request that the guard has admitted.
pub(super) struct Admitted {
    /// Its extensions hold an [`AdmittedCaller`].
    pub(super) request: Request,
    /// Set if something went wrong on our side while the message was answered.
    pub(super) failure: Arc<OnceLock<ApiError>>,
}

/// The caller of an admitted request, for the methods of the MCP server.
#[derive(Clone)]
pub(super) struct AdmittedCaller {
    pub(super) caller: McpCaller,
    /// The space that the URL names.
    pub(super) space: Requested,
    /// For logs and traces: `rmcp` answers messages in other tasks.
    pub(super) request: Option<Arc<CurrentRequest>>,
    failure: Arc<OnceLock<ApiError>>,
}

impl AdmittedCaller {
    /// Whether the token has a scope to read this.
    pub(super) fn may_read(&self, resource: Resource) -> bool {
        self.caller.credential().check_scope(Scope::of(Action::Read, resource)).is_ok()
    }

    /// Makes the response of this request an error of HTTP.
    pub(super) fn fail(&self, failure: ApiError) {
        // The first failure is the cause of any other.
        self.failure.get_or_init(|| failure);
    }
}

/// Admits a request, or says why not.
pub(super) async fn admit(app: &App, request: Request) -> Result<Admitted, ApiError> {
    let (mut parts, _) = request.into_parts();
    check_host(app, &parts.headers)?;
    let caller = McpCaller::from_request_parts(&mut parts, app).await?;
    let query = Query::read(&parts)?;
    let space = space::requested(&query)?;
    let bytes = body::json_bytes(&mut parts)?;
    let message = read_message(&bytes);
    let needed = message.as_ref().ok().and_then(Needs::of);
    caller.count(&parts, app, needed.map_or(Usage::Read, |needs| needs.usage))?;
    let message = message?;
    check_origin(app, &parts.headers).await?;
    if let Some(scope) = needed.and_then(|needs| needs.scope) {
        caller.check_scope(app, scope)?;
    }
    record_trace(&message);
    let failure = Arc::<OnceLock<ApiError>>::default();
    parts.extensions.insert(AdmittedCaller {
        caller,
        space,
        request: current_request::current(),
        failure: failure.clone(),
    });
    let body = Body::from(Value::Object(message).to_string());
    Ok(Admitted { request: Request::from_parts(parts, body), failure })
}

/// Parses the message strictly. The MCP server gets what was parsed here, so that it means the same to both. The parameters
/// are its last member: `rmcp` would parse them again and again if they came before the method.
fn read_message(bytes: &[u8]) -> Result<Map<String, Value>, MalformedRequest> {
    let Value::Object(mut message) = body::parse_json(bytes)? else {
        return Err(MalformedRequest::Body("The body must be one JSON-RPC message. Send no batches.".into()));
    };
    if let Some(params) = message.remove("params") {
        message.insert("params".into(), params);
    }
    Ok(message)
}

/// What a message needs.
#[derive(Clone, Copy)]
struct Needs {
    scope: Option<Scope>,
    usage: Usage,
}

impl Needs {
    /// `None`: the message needs a token and no scope.
    fn of(message: &Map<String, Value>) -> Option<Self> {
        match message.get("method")?.as_str()? {
            "tools/call" => tools::find(message.get("params")?["name"].as_str()?).map(Self::of_tool),
            "resources/read" => {
                Some(Self { scope: Some(Scope::of(Action::Read, Resource::Packs)), usage: Usage::Read })
            }
            _ => None,
        }
    }

    fn of_tool(tool: &Tool) -> Self {
        let usage = match tool.scope {
            _ if tool.is_search() => Usage::Search,
            Some(Scope { action: Action::Write, .. }) => Usage::Write,
            _ => Usage::Read,
        };
        Self { scope: tool.scope, usage }
    }
}

/// Refuses a host that is not ours: a page that made its own name point to this machine (DNS rebinding) names its own host.
fn check_host(app: &App, headers: &HeaderMap) -> Result<(), ApiError> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()?.parse::<Authority>().ok());
    let known = host.is_some_and(|host| {
        let own = app.config.base_url.split_once("://").map_or("", |(_, own)| own);
        let text = host.as_str().to_ascii_lowercase();
        text == own || is_local(host.host()) || app.config.http.mcp_hosts.contains(&text)
    });
    if known {
        return Ok(());
    }
    let text = "This Host isn't served here. Use the URL of the service. If a proxy changes the Host header, its operator \
                can add the host to http.mcp_hosts.";
    Err(error(Forbidden, text))
}

/// Refuses a web page that is neither ours, nor on the user's machine, nor of a client.
async fn check_origin(app: &App, headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let local = Url::parse(origin).is_ok_and(|url| match url.host() {
        Some(Host::Domain(name)) => is_local(name),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    });
    if origin == app.config.base_url || local || clients::is_origin(app, origin).await? {
        return Ok(());
    }
    let text = "This Origin isn't one of a registered client. Register a redirect URI at this origin first.";
    Err(error(Forbidden, text))
}

/// Puts the trace id of the client into the log lines of this request (W3C Trace Context).
fn record_trace(message: &Map<String, Value>) {
    let parent = message.get("params").and_then(|params| params["_meta"]["traceparent"].as_str()).unwrap_or_default();
    let mut parts = parent.split('-');
    let is_hex = |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let (Some(version), Some(trace)) = (parts.next(), parts.next())
        && is_hex(version, 2)
        && is_hex(trace, 32)
    {
        current_request::note_client_trace(trace);
        tracing::debug!("A client follows this request in a trace");
    }
}
