//! Fetching a document that a stranger named, without being turned inward: the name is resolved once, no address of ours or
//! of the machine's own network is connected to, no redirect is followed, and little is read.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, body::Bytes, header};
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use quick_cache::sync::Cache;
use rustls::{ClientConfig, pki_types::ServerName};
use service_rules::network;
use tokio::{
    net::TcpStream,
    sync::{Mutex, OwnedMutexGuard, Semaphore},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

const WITHIN: Duration = Duration::from_secs(5);
const LARGEST: usize = 5 * 1_024;
const FETCHED_AT_ONCE: usize = 16;
const TURNS: usize = 1_024;
const WAIT_FOR_TURN: Duration = Duration::from_secs(1);
/// What failed is not tried again for so long.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// However the document's server wants it to be kept, in seconds.
const KEPT_AT_LEAST: i64 = 300;
const KEPT_USUALLY: i64 = 3_600;
const KEPT_AT_MOST: i64 = 86_400;

/// What fetching takes, shared by all who fetch.
pub struct Documents {
    tls: TlsConnector,
    /// Networks that may be connected to although they are not public.
    allowed: Vec<IpNet>,
    at_once: Semaphore,
    turns: Cache<String, Arc<Mutex<Option<Instant>>>>,
}

/// Held by whoever fetches a document; remembers when that last failed.
pub struct Turn(std::sync::Mutex<OwnedMutexGuard<Option<Instant>>>);

impl Turn {
    pub fn failed(&self) {
        **self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

pub struct Fetched {
    pub body: Vec<u8>,
    pub fresh_for: i64,
}

/// Why nothing was fetched: for the log, in words of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFetched {
    NoAddress,
    NotPublic,
    Unreachable,
    Untrusted,
    Answer,
    TooLarge,
    TooSlow,
}

impl NotFetched {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoAddress => "its name has no address",
            Self::NotPublic => "it has an address that is not public",
            Self::Unreachable => "it cannot be reached",
            Self::Untrusted => "its certificate is not trusted",
            Self::Answer => "it is not answered with 200 and JSON",
            Self::TooLarge => "it is too large",
            Self::TooSlow => "it takes too long",
        }
    }
}

impl Documents {
    #[must_use]
    pub fn new(tls: ClientConfig, allowed: Vec<IpNet>) -> Self {
        let tls = TlsConnector::from(Arc::new(tls));
        Self { tls, allowed, at_once: Semaphore::new(FETCHED_AT_ONCE), turns: Cache::new(TURNS) }
    }

    /// The turn to fetch a document; `None`: others have waited for it for too long, or it has just failed.
    pub async fn turn(&self, id: &str) -> Option<Turn> {
        let made: Result<_, std::convert::Infallible> =
            self.turns.get_or_insert_with(id, || Ok(Arc::new(Mutex::new(None))));
        let held = timeout(WAIT_FOR_TURN, made.unwrap_or_default().lock_owned()).await.ok()?;
        let failed_lately = held.is_some_and(|failed: Instant| failed.elapsed() < AGAIN_AFTER);
        (!failed_lately).then(|| Turn(std::sync::Mutex::new(held)))
    }

    fn may_connect(&self, address: IpAddr) -> bool {
        network::is_public(address) || self.allowed.iter().any(|network| network.contains(&address.to_canonical()))
    }
}

pub async fn fetch(documents: &Documents, url: &Url) -> Result<Fetched, NotFetched> {
    let Ok(_place) = documents.at_once.try_acquire() else { return Err(NotFetched::TooSlow) };
    timeout(WITHIN, fetch_now(documents, url)).await.unwrap_or(Err(NotFetched::TooSlow))
}

async fn fetch_now(documents: &Documents, url: &Url) -> Result<Fetched, NotFetched> {
    let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else { return Err(NotFetched::NoAddress) };
    let address = resolve(documents, &host, port).await?;
    let stream = TcpStream::connect(address).await.map_err(|_| NotFetched::Unreachable)?;
    let name = match host {
        Host::Domain(name) => ServerName::try_from(name.to_owned()).map_err(|_| NotFetched::NoAddress)?,
        Host::Ipv4(address) => ServerName::from(IpAddr::from(address)),
        Host::Ipv6(address) => ServerName::from(IpAddr::from(address)),
    };
    let stream = documents.tls.connect(name, stream).await.map_err(|_| NotFetched::Untrusted)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|_| NotFetched::Unreachable)?;
    let authority = url.port().map_or_else(
        || url.host_str().unwrap_or_default().to_owned(),
        |port| format!("{}:{port}", url.host_str().unwrap_or_default()),
    );
    let request = Request::get(url.path())
        .header(header::HOST, authority)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "serviced")
        .body(Empty::<Bytes>::new())
        .map_err(|_| NotFetched::NoAddress)?;
    let carrying = AbortOnDrop(tokio::spawn(connection));
    let answer = sender.send_request(request).await.map_err(|_| NotFetched::Answer)?;
    let read = read(answer).await;
    drop(carrying);
    read
}

/// Carries a connection for as long as somebody reads from it.
struct AbortOnDrop(tokio::task::JoinHandle<hyper::Result<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One address to connect to: if any that the name has is not public, none is.
async fn resolve(documents: &Documents, host: &Host<&str>, port: u16) -> Result<SocketAddr, NotFetched> {
    let found: Vec<SocketAddr> = match host {
        Host::Ipv4(address) => vec![SocketAddr::from((*address, port))],
        Host::Ipv6(address) => vec![SocketAddr::from((*address, port))],
        Host::Domain(name) => {
            tokio::net::lookup_host((*name, port)).await.map_err(|_| NotFetched::NoAddress)?.collect()
        }
    };
    if found.iter().any(|address| !documents.may_connect(address.ip())) {
        return Err(NotFetched::NotPublic);
    }
    found.first().copied().ok_or(NotFetched::NoAddress)
}

async fn read(answer: hyper::Response<hyper::body::Incoming>) -> Result<Fetched, NotFetched> {
    let headers = answer.headers();
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok()).unwrap_or_default();
    let media_type = text(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if answer.status() != 200 || media_type != "application/json" || headers.contains_key(header::CONTENT_ENCODING) {
        return Err(NotFetched::Answer);
    }
    if text(header::CONTENT_LENGTH).parse().is_ok_and(|length: usize| length > LARGEST) {
        return Err(NotFetched::TooLarge);
    }
    let fresh_for = fresh_for(text(header::CACHE_CONTROL));
    let body = Limited::new(answer.into_body(), LARGEST).collect().await.map_err(|_| NotFetched::TooLarge)?;
    Ok(Fetched { body: body.to_bytes().to_vec(), fresh_for })
}

fn fresh_for(cache_control: &str) -> i64 {
    let seconds = cache_control.split(',').find_map(|part| part.trim().strip_prefix("max-age=")?.parse().ok());
    seconds.unwrap_or(KEPT_USUALLY).clamp(KEPT_AT_LEAST, KEPT_AT_MOST)
}
