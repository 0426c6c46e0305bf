//! What every request passes, in and out.
//!
//! 1. It gets an id, and the address it really comes from.
//! 2. Heads that are too large are turned away, the body is awaited, and what is more than this node can work on is
//!    turned away too.
//! 3. It runs within a deadline; a panic is an error like any other.
//! 4. Errors get their one shape, every response its headers.
//! 5. One line is logged, and one observation made, with the route's template: never a path, a query or a header.

use std::{
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    middleware::Next,
    response::Response,
};
use futures_util::FutureExt as _;
use service_api::{
    endpoints::{self, Access},
    instant,
    token::{Cli, TokenKind as _},
};
use service_rules::network;
use tokio::time::{Instant, timeout};

use crate::{
    app::App,
    flows::Asker,
    http::{
        body,
        caller::TokenExpires,
        cors,
        error::{ApiError, Trouble},
        pages,
    },
    mint,
};

const MAX_HEAD_BYTES: usize = 16 * 1024;
const MAX_HEADERS: usize = 100;
const MAX_URI_BYTES: usize = 8 * 1024;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TOKEN_EXPIRES: HeaderName = HeaderName::from_static("service-token-expires");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

pub async fn edge(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let method = name_of(request.method());
    let route = template(&request);
    let id: Arc<str> =
        given_id(&app, peer, request.headers()).unwrap_or_else(|| mint::request_id(app.clock.now()).to_string()).into();
    let address = caller_address(&app, peer, request.headers());
    request.extensions_mut().insert(Asker { address, request_id: id.clone() });

    let expires = watch_token(&mut request);
    let response = match check_head(&request) {
        Err(trouble) => ApiError::from(trouble).into(),
        Ok(()) => run(&app, request, next).await,
    };
    let mut response = finish(response, &id, is_page(route));
    if let Some(at) = expires.as_ref().and_then(|expires| expires.0.get())
        && let Ok(value) = HeaderValue::from_str(&instant::to_text(*at))
    {
        response.headers_mut().insert(TOKEN_EXPIRES, value);
    }

    let status = response.status().as_u16();
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!(method, route, status, ms = seconds * 1_000.0, request.id = &*id, "Request");
    app.metrics.observe(route, status, seconds);
    response
}

async fn run(app: &App, request: Request, next: Next) -> Response {
    // A body that drips in takes none of the room that others need.
    let request = match body::arrive(app, request).await {
        Ok(request) => request,
        Err(refused) => return refused.into(),
    };
    let Ok(_room) = app.in_flight.try_acquire() else { return ApiError::from(Trouble::Full).into() };
    let reader = cors::reader(app, request.headers(), request.uri().path()).await;
    if let Some(answer) = reader.as_ref().and_then(|_| cors::preflight(&request)) {
        return cors::allow(answer, reader);
    }
    let work = AssertUnwindSafe(next.run(request)).catch_unwind();
    let response = match timeout(app.config.http.deadline, work).await {
        Ok(Ok(response)) => response,
        Ok(Err(_panic)) => ApiError::from(Trouble::Defect).into(),
        Err(_) => ApiError::from(Trouble::TooSlow).into(),
    };
    cors::allow(response, reader)
}

/// A token for automation is to be told when it ends, with every answer.
fn watch_token(request: &mut Request) -> Option<TokenExpires> {
    let sent = request.headers().get(header::AUTHORIZATION)?.as_bytes();
    memchr::memmem::find(sent, Cli::PREFIX.as_bytes())?;
    let expires = TokenExpires::default();
    request.extensions_mut().insert(expires.clone());
    Some(expires)
}

/// Renders an error, and gives the response what all responses have.
fn finish(mut response: Response, id: &str, is_page: bool) -> Response {
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        if let Some(cause) = error.cause() {
            tracing::error!(cause, request.id = id, "Request failed");
        }
        let allowed = std::mem::take(response.headers_mut());
        response = if is_page { pages::problem::show(&error, id) } else { error.render(id) };
        response.headers_mut().extend(allowed);
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    }
    response
}

fn check_head(request: &Request) -> Result<(), Trouble> {
    let headers = request.headers();
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if uri > MAX_URI_BYTES {
        Err(Trouble::UriTooLong)
    } else if bytes > MAX_HEAD_BYTES || headers.len() > MAX_HEADERS {
        Err(Trouble::HeadTooLarge)
    } else {
        Ok(())
    }
}

fn caller_address(app: &App, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
    let trusted = &app.config.http.trusted_proxies;
    if trusted.is_empty() {
        return peer.ip().to_canonical();
    }
    let values = headers.get_all(FORWARDED_FOR).iter().map(|value| value.to_str().unwrap_or("unreadable"));
    network::caller(peer.ip(), &values.collect::<Vec<_>>().join(","), trusted)
}

/// A trusted proxy may name the request itself, in harmless characters.
fn given_id(app: &App, peer: SocketAddr, headers: &HeaderMap) -> Option<String> {
    let given = headers.get(REQUEST_ID)?.to_str().ok()?;
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let usable = (8..=64).contains(&given.len()) && given.bytes().all(harmless);
    let trusted = app.config.http.trusted_proxies.iter().any(|network| network.contains(&peer.ip().to_canonical()));
    (usable && trusted).then(|| given.to_owned())
}

/// A method that HTTP does not know is the caller's own word, which does not belong into the log.
fn name_of(method: &Method) -> &'static str {
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

/// Whether people look at what is there.
fn is_page(route: &str) -> bool {
    endpoints::ALL.iter().any(|endpoint| endpoint.path == route && endpoint.access == Access::Browser)
}

/// The template of the route, from the contract's table: whatever else was asked for has none.
fn template(request: &Request) -> &'static str {
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let known = endpoints::ALL.iter().find(|endpoint| Some(endpoint.path) == matched);
    known.map_or("unmatched", |endpoint| endpoint.path)
}
