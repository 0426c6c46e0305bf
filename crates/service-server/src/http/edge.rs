//! The edge: what every request passes before and after its handler.
//!
//! 1. The request gets an id, and the address of its caller.
//! 2. A head that is too large is rejected, the body is received, and requests beyond the limit of this node are rejected.
//! 3. The handler runs within a deadline. A panic becomes an error response.
//! 4. Errors are rendered, and every response gets its headers.
//! 5. One log line, one metric and, if the request is sampled, one span are recorded with the route's template: never a
//!    path, a query or a header. Lines that a flow logs have the id and the route of the request.

use std::{
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::Arc,
    task::Poll,
};

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    response::Response,
};
use futures_util::{FutureExt as _, future::BoxFuture, poll};
use service_api::instant;
use service_rules::{limits::Allowance, network, trace_context::TraceParent, user_agent::UserAgent};
use tokio::time::{Instant, timeout};

use crate::{
    app::App,
    crypto::random,
    database::restore_fence::Fence,
    flows::RequestMeta,
    http::{
        body,
        connection::{Peer, Serves},
        cors,
        errors::{ApiError, EdgeError, RATE_LIMIT, RATE_LIMIT_POLICY},
        exchange::Exchange,
        outgoing, pages, router,
        routes::{Found, Routes},
    },
    locales::{Language, Texts},
    node_limits::network_places::Holder,
    telemetry::{
        current_request::{self, CurrentRequest},
        labels::UNMATCHED,
        traces::{ActiveSpan, RequestSpan},
    },
};

const MAX_HEAD_BYTES: usize = 16 * 1024;
const MAX_URI_BYTES: usize = 8 * 1024;
/// The headers that most responses have, with room for some more.
pub(super) const USUAL_HEADERS: usize = 12;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Two years, the value that browsers' preload lists require.
const STRICT_TRANSPORT_SECURITY_VALUE: HeaderValue = HeaderValue::from_static("max-age=63072000; includeSubDomains");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const TOKEN_EXPIRES: HeaderName = HeaderName::from_static("service-token-expires");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Serves the requests of a public listener.
#[derive(Clone)]
pub struct Edge {
    app: App,
    routes: Arc<Routes>,
}

impl Edge {
    /// Fails if two routes cannot be told apart.
    pub fn new(app: &App) -> anyhow::Result<Self> {
        Ok(Self { app: app.clone(), routes: Arc::new(router::routes(app)?) })
    }
}

impl Serves for Edge {
    fn serve(self, peer: Peer, request: Request) -> BoxFuture<'static, Response> {
        let Self { app, routes } = self;
        Box::pin(async move { serve(&app, &routes, peer.address, request).await })
    }
}

/// Serves a request: request id, limits, handler, response headers, log and metrics.
async fn serve(app: &App, routes: &Routes, peer: SocketAddr, mut request: Request) -> Response {
    let began = Instant::now();
    let method = method_name(request.method());
    let mut found = routes.find(request.method(), request.uri().path());
    let route = found.template;
    let shows_page = found.is_page || (route == UNMATCHED && pages::unmatched::accepts_html(request.headers()));
    let id = proxy_request_id(app, peer, request.headers()).unwrap_or_else(|| random::request_id(app.clock.now()));
    let address = caller_address(app, peer, request.headers());
    let meta = request_meta(app, address, &id, request.headers());
    let language = meta.language;
    let exchange = Exchange::begin(request.extensions_mut(), found.endpoint);
    request.extensions_mut().insert(meta);
    if let Some(variables) = found.variables.take() {
        request.extensions_mut().insert(variables);
    }
    let trace = begin_trace(app, peer, request.headers(), RequestSpan { method, route, id: id.clone() });
    // What a flow logs carries the id of its request, at any level of the log.
    let current = CurrentRequest::new(id.clone(), route, trace.as_ref().map(ActiveSpan::trace));
    let response = match check_head(&request) {
        Err(refused) => ApiError::from(refused).into(),
        Ok(()) => current_request::within(current, run(app, holder(app, address), request, &found)).await,
    };
    let mut response = finish(response, &id, shows_page.then(|| app.locales.of(language)));
    if app.config.base_url.starts_with("https://") {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, STRICT_TRANSPORT_SECURITY_VALUE);
    }
    if let Some(at) = exchange.token_expires()
        && let Ok(value) = HeaderValue::from_str(&instant::to_text(at))
    {
        response.headers_mut().insert(TOKEN_EXPIRES, value);
    }
    add_rate_limit_headers(&mut response, &exchange);

    let status = response.status().as_u16();
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!(method, route, status, ms = seconds * 1_000.0, request.id = &*id, "Request");
    app.metrics.observe(route, status, seconds);
    if let Some(trace) = trace {
        trace.finish(status);
    }
    response
}

/// What a flow may know of a request.
fn request_meta(app: &App, address: IpAddr, id: &Arc<str>, headers: &HeaderMap) -> RequestMeta {
    let device = pages::request_browser::device(headers);
    let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
    RequestMeta::new(address, id.clone(), app.audit_keys.clone(), device)
        .with_language(Language::accepted(headers))
        .with_agent(agent.map(UserAgent::parse).unwrap_or_default())
}

/// Receives the body, takes a request slot, and runs the handler within the deadline.
async fn run(app: &App, holder: Holder, request: Request, found: &Found<'_>) -> Response {
    if is_fenced(app) {
        return ApiError::from(EdgeError::Fenced).into();
    }
    let request = if body::is_expected(&request) {
        // A body that arrives slowly takes no request slot.
        match Box::pin(body::receive(app, holder, request)).await {
            Ok(_) if is_fenced(app) => return ApiError::from(EdgeError::Fenced).into(),
            Ok(request) => request,
            Err(refused) => return refused.into(),
        }
    } else {
        request
    };
    let Ok(_room) = app.in_flight.try_acquire() else { return ApiError::from(EdgeError::Busy).into() };
    let reader = cors::allowed_origin(app, request.headers(), request.uri().path()).await;
    if let Some(answer) = reader.as_ref().and_then(|_| cors::preflight(&request)) {
        return cors::add_headers(answer, reader);
    }
    let mut work = AssertUnwindSafe(found.handle(request, app.clone())).catch_unwind();
    // Most requests wait for nothing, and need no timer.
    let handled = match poll!(&mut work) {
        Poll::Ready(handled) => Ok(handled),
        Poll::Pending => timeout(app.config.http.deadline, work).await,
    };
    let mut response = match handled {
        Ok(Ok(response)) => response,
        Ok(Err(_panic)) => ApiError::from(EdgeError::Defect).into(),
        Err(_) => ApiError::from(EdgeError::TooSlow).into(),
    };
    if let Some(allowed) = found.allowed {
        response.headers_mut().insert(header::ALLOW, allowed.clone());
    }
    cors::add_headers(outgoing::take_places(app, holder, response).await, reader)
}

/// Whether the database looks restored from a backup, or has not been compared yet.
pub(super) fn is_fenced(app: &App) -> bool {
    matches!(app.fence(), Fence::NotCompared | Fence::Closed(_))
}

/// Adds the rate-limit headers, unless the response has them already.
fn add_rate_limit_headers(response: &mut Response, exchange: &Exchange) {
    let Some(left) = exchange.allowances().filter(|_| !response.headers().contains_key(RATE_LIMIT)) else { return };
    for (name, text) in [RATE_LIMIT_POLICY, RATE_LIMIT].into_iter().zip(rate_limit_values(left)) {
        if let Ok(value) = HeaderValue::try_from(text) {
            response.headers_mut().insert(name, value);
        }
    }
}

/// Returns the values of `RateLimit-Policy` and `RateLimit`. Every response has them, so they are put together without the
/// machinery of `format!`.
fn rate_limit_values(allowances: &[Allowance]) -> [String; 2] {
    let (mut policy, mut rate) = (String::with_capacity(64), String::with_capacity(64));
    let mut digits = itoa::Buffer::new();
    for Allowance { policy: name, quota, window_seconds, remaining, reset } in allowances {
        let sides = [
            (&mut policy, [(";q=", quota), (";w=", window_seconds)]),
            (&mut rate, [(";r=", remaining), (";t=", reset)]),
        ];
        for (text, parameters) in sides {
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push('"');
            text.push_str(name);
            text.push('"');
            for (key, value) in parameters {
                text.push_str(key);
                text.push_str(digits.format(*value));
            }
        }
    }
    [policy, rate]
}

/// Renders an error, as a page in a language or as JSON, and adds the headers that all responses have.
pub(super) fn finish(mut response: Response, id: &str, page: Option<&Texts>) -> Response {
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        if let Some(cause) = error.cause() {
            tracing::error!(cause, request.id = id, "Request failed");
        }
        let allowed = std::mem::take(response.headers_mut());
        response = match page {
            Some(texts) => pages::problem::show(texts, &error, id),
            None => error.render(id),
        };
        response.headers_mut().extend(allowed);
    }
    let headers = response.headers_mut();
    headers.reserve(USUAL_HEADERS.saturating_sub(headers.len()));
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Other origins cannot embed our responses. This does not affect CORS.
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    }
    response
}

/// Rejects heads that are too large.
pub(super) fn check_head(request: &Request) -> Result<(), EdgeError> {
    let headers = request.headers();
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if uri > MAX_URI_BYTES {
        Err(EdgeError::UriTooLong)
    } else if bytes > MAX_HEAD_BYTES {
        Err(EdgeError::HeadTooLarge)
    } else {
        Ok(())
    }
}

/// Returns the address of the caller: the peer, or the address that a trusted proxy forwards.
fn caller_address(app: &App, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
    let trusted = &app.config.http.trusted_proxies;
    let peer_address = peer.ip().to_canonical();
    if !trusted.iter().any(|network| network.contains(&peer_address)) {
        warn_of_forwarding_peer(app, peer_address, headers);
        return peer_address;
    }
    let values = headers.get_all(FORWARDED_FOR).iter().map(|value| value.to_str().unwrap_or("unreadable"));
    network::caller(peer.ip(), &values.collect::<Vec<_>>().join(","), trusted)
}

/// Returns the holder of the request's places: the caller, or the proxy if it forwards no address.
fn holder(app: &App, address: IpAddr) -> Holder {
    let is_proxy = app.config.http.trusted_proxies.iter().any(|network| network.contains(&address));
    if is_proxy { Holder::TrustedProxy } else { Holder::Caller(address) }
}

/// Warns that a private peer forwards addresses. It is probably the operator's own proxy. Unless it is trusted, all of
/// its callers count as one.
fn warn_of_forwarding_peer(app: &App, peer: IpAddr, headers: &HeaderMap) {
    if !headers.contains_key(FORWARDED_FOR) || network::is_public(peer) {
        return;
    }
    app.metrics.forwarding_peers_ignored.inc();
    if app.alarms.warns_of_forwarding_peer() {
        tracing::warn!(
            %peer,
            "A peer in a private network forwards addresses, which are ignored: if it is your proxy, add it to \
             http.trusted_proxies, or limits count all of its callers as one"
        );
    }
}

/// Returns the request id that a trusted proxy set, if its characters are harmless.
fn proxy_request_id(app: &App, peer: SocketAddr, headers: &HeaderMap) -> Option<Arc<str>> {
    let given = headers.get(REQUEST_ID)?.to_str().ok()?;
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let usable = (8..=64).contains(&given.len()) && given.bytes().all(harmless);
    (usable && is_trusted_proxy(app, peer)).then(|| given.into())
}

fn is_trusted_proxy(app: &App, peer: SocketAddr) -> bool {
    app.config.http.trusted_proxies.iter().any(|network| network.contains(&peer.ip().to_canonical()))
}

/// Begins the span of a request, in the trace of a trusted proxy or in a new one. Other peers choose no trace, and do not
/// decide what is sampled.
fn begin_trace(app: &App, peer: SocketAddr, headers: &HeaderMap, request: RequestSpan) -> Option<ActiveSpan> {
    let traces = app.traces.as_ref()?;
    let mut sent = headers.get_all(TRACE_PARENT).iter();
    let parent = match (sent.next(), sent.next()) {
        (Some(parent), None) if is_trusted_proxy(app, peer) => parent.to_str().ok().and_then(TraceParent::parse),
        _ => None,
    };
    traces.begin(request, parent.as_ref(), app.clock.now())
}

/// Returns the name of a method for the log. An unknown method is the caller's own text, and is not logged.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
