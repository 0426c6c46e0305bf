//! Requests to hosts that others run, with protection against SSRF: the name is resolved once, only public addresses
//! and explicitly allowed networks are connected to, no redirect is followed, and size and time are limited.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, Response,
    body::{Bytes, Incoming},
    header::{self, HeaderValue},
    rt::{Read, Write},
};
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use rustls::{ClientConfig, pki_types::ServerName};
use service_rules::network;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use url::{Host, Position, Url};
use zeroize::Zeroizing;

/// Bounds and default of the cache lifetime, in seconds, whatever `Cache-Control` says.
const MIN_FRESH_SECONDS: i64 = 300;
const DEFAULT_FRESH_SECONDS: i64 = 3_600;
const MAX_FRESH_SECONDS: i64 = 86_400;
/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 4;

/// Sends requests to other hosts.
pub struct Outbound {
    tls: RwLock<TlsConnector>,
}

/// A request to another host. It is a GET request unless it has a body.
pub struct OutboundRequest<'a> {
    pub url: &'a Url,
    /// What is posted.
    pub body: Option<OutboundBody<'a>>,
    pub authorization: Option<HeaderValue>,
    pub allowed: AllowedNetworks<'a>,
    pub accepted: AcceptedResponse,
}

/// The body of a request to another host.
#[derive(Clone, Copy)]
pub enum OutboundBody<'a> {
    Form(&'a str),
    Json(&'a [u8]),
}

/// Networks that may be connected to although they are not public.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowedNetworks<'a> {
    pub networks: &'a [IpNet],
    pub plain_http: PlainHttp,
}

/// Which URLs may have the scheme `http`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    #[default]
    Nowhere,
    /// Those on this machine.
    Loopback,
    Anywhere,
}

/// Which response is read, and how much of it.
#[derive(Clone, Copy, Debug)]
pub struct AcceptedResponse {
    pub statuses: &'static [u16],
    pub media_types: &'static [&'static str],
    pub max_bytes: usize,
    /// The timeout of the whole request: from the resolution of the name to the last byte of the body.
    pub timeout: Duration,
}

/// A response of another host.
pub struct OutboundResponse {
    pub status: u16,
    pub body: Zeroizing<Vec<u8>>,
    /// How long the body may be cached, in seconds.
    pub fresh_for: i64,
}

/// Why a request to another host has no usable response, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("its scheme is not https")]
    Insecure,
    #[error("its name has no address")]
    NoAddress,
    #[error("it has an address that is not public")]
    NotPublic,
    #[error("it cannot be reached")]
    Unreachable,
    #[error("its certificate is not trusted")]
    Untrusted,
    #[error("it answers with a redirect")]
    Redirected,
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("it does not answer with JSON")]
    MediaType,
    #[error("it does not answer with HTTP")]
    NotHttp,
    #[error("it is too large")]
    TooLarge,
    #[error("it takes too long")]
    TooSlow,
    #[error("another one is being fetched for the same user")]
    UserBusy,
    #[error("too many requests to its host are running")]
    HostBusy,
    #[error("too many requests are running")]
    Busy,
}

impl AllowedNetworks<'_> {
    /// Whether this address may be connected to.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        network::is_public(address) || self.networks.iter().any(|network| network.contains(&address.to_canonical()))
    }

    /// Checks scheme and host of a URL, as far as that is possible without resolving the name of the host.
    pub fn check(&self, url: &Url) -> Result<(), FetchError> {
        let literal = match url.host().ok_or(FetchError::NoAddress)? {
            Host::Ipv4(address) => Some(IpAddr::from(address)),
            Host::Ipv6(address) => Some(IpAddr::from(address)),
            Host::Domain(_) => None,
        };
        let may_be_plain = match self.plain_http {
            PlainHttp::Nowhere => false,
            PlainHttp::Loopback => is_loopback(url),
            PlainHttp::Anywhere => true,
        };
        if url.scheme() != "https" && !(url.scheme() == "http" && may_be_plain) {
            return Err(FetchError::Insecure);
        }
        if literal.is_none_or(|address| self.contains(address)) { Ok(()) } else { Err(FetchError::NotPublic) }
    }
}

/// Whether a URL names this machine.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl Outbound {
    #[must_use]
    pub fn new(tls: ClientConfig) -> Self {
        Self { tls: RwLock::new(TlsConnector::from(Arc::new(tls))) }
    }

    /// Replaces what is trusted, for new connections.
    pub fn replace_tls(&self, tls: ClientConfig) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = TlsConnector::from(Arc::new(tls));
    }

    /// Sends a request and reads its response.
    pub async fn send(&self, request: &OutboundRequest<'_>) -> Result<OutboundResponse, FetchError> {
        // The state of a TLS handshake is large, and most callers of this find what they need in a cache.
        timeout(request.accepted.timeout, Box::pin(self.send_now(request))).await.unwrap_or(Err(FetchError::TooSlow))
    }

    async fn send_now(&self, request: &OutboundRequest<'_>) -> Result<OutboundResponse, FetchError> {
        let url = request.url;
        request.allowed.check(url)?;
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(FetchError::NoAddress);
        };
        let addresses = resolve(&request.allowed, &host, port).await?;
        let is_plain = url.scheme() != "https";
        // A name that is `localhost` by its spelling must be this machine by its address as well.
        let is_loopback = || addresses.iter().all(|address| address.ip().is_loopback());
        if is_plain && request.allowed.plain_http != PlainHttp::Anywhere && !is_loopback() {
            return Err(FetchError::Insecure);
        }
        let stream = connect(&addresses).await?;
        if is_plain {
            return exchange(TokioIo::new(stream), request).await;
        }
        let name = match host {
            Host::Domain(name) => ServerName::try_from(name.to_owned()).map_err(|_| FetchError::NoAddress)?,
            Host::Ipv4(address) => ServerName::from(IpAddr::from(address)),
            Host::Ipv6(address) => ServerName::from(IpAddr::from(address)),
        };
        let tls = self.tls.read().unwrap_or_else(PoisonError::into_inner).clone();
        let stream = tls.connect(name, stream).await.map_err(|_| FetchError::Untrusted)?;
        exchange(TokioIo::new(stream), request).await
    }
}

/// Resolves a host. Fails if any address of the host may not be connected to.
async fn resolve(allowed: &AllowedNetworks<'_>, host: &Host<&str>, port: u16) -> Result<Vec<SocketAddr>, FetchError> {
    let found: Vec<SocketAddr> = match host {
        Host::Ipv4(address) => vec![SocketAddr::from((*address, port))],
        Host::Ipv6(address) => vec![SocketAddr::from((*address, port))],
        Host::Domain(name) => {
            tokio::net::lookup_host((*name, port)).await.map_err(|_| FetchError::NoAddress)?.collect()
        }
    };
    if found.is_empty() {
        return Err(FetchError::NoAddress);
    }
    if found.iter().any(|address| !allowed.contains(address.ip())) { Err(FetchError::NotPublic) } else { Ok(found) }
}

/// Connects to the first address that accepts the connection.
async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, FetchError> {
    for address in addresses.iter().take(MAX_ADDRESSES) {
        if let Ok(stream) = TcpStream::connect(address).await {
            return Ok(stream);
        }
    }
    Err(FetchError::Unreachable)
}

/// Sends the request over a connection and reads the response.
async fn exchange(
    stream: impl Read + Write + Unpin + Send + 'static,
    request: &OutboundRequest<'_>,
) -> Result<OutboundResponse, FetchError> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(stream).await.map_err(|_| FetchError::Unreachable)?;
    let carrying = AbortOnDrop(tokio::spawn(connection));
    let answer = sender.send_request(compose(request)?).await.map_err(|_| FetchError::NotHttp)?;
    let read = read(answer, &request.accepted).await;
    drop(carrying);
    read
}

fn compose(request: &OutboundRequest<'_>) -> Result<Request<Full<Bytes>>, FetchError> {
    let url = request.url;
    let authority = url.port().map_or_else(
        || url.host_str().unwrap_or_default().to_owned(),
        |port| format!("{}:{port}", url.host_str().unwrap_or_default()),
    );
    let target = &url[Position::BeforePath..Position::AfterQuery];
    let (method, media_type, body) = match request.body {
        Some(OutboundBody::Form(form)) => (Method::POST, Some("application/x-www-form-urlencoded"), form.as_bytes()),
        Some(OutboundBody::Json(json)) => (Method::POST, Some("application/json"), json),
        None => (Method::GET, None, &[] as &[u8]),
    };
    let mut composed = Request::builder()
        .method(method)
        .uri(target)
        .header(header::HOST, authority)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "serviced");
    if let Some(media_type) = media_type {
        composed = composed.header(header::CONTENT_TYPE, media_type);
    }
    if let Some(authorization) = &request.authorization {
        composed = composed.header(header::AUTHORIZATION, authorization);
    }
    composed.body(Full::from(Bytes::copy_from_slice(body))).map_err(|_| FetchError::NoAddress)
}

/// The task of a connection, which is aborted when this is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<hyper::Result<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Checks the response and reads its body.
async fn read(answer: Response<Incoming>, accepted: &AcceptedResponse) -> Result<OutboundResponse, FetchError> {
    let (status, headers) = (answer.status(), answer.headers());
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    if status.is_redirection() {
        return Err(FetchError::Redirected);
    }
    if !accepted.statuses.contains(&status.as_u16()) {
        return Err(FetchError::Status(status.as_u16()));
    }
    let media_type = text(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !accepted.media_types.contains(&media_type.as_str()) || headers.contains_key(header::CONTENT_ENCODING) {
        return Err(FetchError::MediaType);
    }
    if text(header::CONTENT_LENGTH).parse().is_ok_and(|length: usize| length > accepted.max_bytes) {
        return Err(FetchError::TooLarge);
    }
    let fresh_for = fresh_for(text(header::CACHE_CONTROL));
    let body =
        Limited::new(answer.into_body(), accepted.max_bytes).collect().await.map_err(|_| FetchError::TooLarge)?;
    Ok(OutboundResponse { status: status.as_u16(), body: Zeroizing::new(body.to_bytes().to_vec()), fresh_for })
}

/// Returns the cache lifetime in seconds.
fn fresh_for(cache_control: &str) -> i64 {
    let seconds = cache_control.split(',').find_map(|part| part.trim().strip_prefix("max-age=")?.parse().ok());
    seconds.unwrap_or(DEFAULT_FRESH_SECONDS).clamp(MIN_FRESH_SECONDS, MAX_FRESH_SECONDS)
}
