//! Fetches client metadata documents, with protection against SSRF: the name is resolved once, only public addresses
//! are connected to, no redirect is followed, and the size is limited.

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
use service_api::ids::UserId;
use service_rules::network;
use tokio::{
    net::TcpStream,
    sync::{Mutex, OwnedMutexGuard, Semaphore},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_DOCUMENT_BYTES: usize = 5 * 1_024;
const MAX_FETCHES: usize = 16;
/// Limits for one host and for one user, so that one user cannot occupy all fetches of a host.
const MAX_FETCHES_PER_HOST: usize = 4;
const MAX_FETCHES_PER_USER: usize = 1;
const MAX_TRACKED_HOSTS: usize = 1_024;
const MAX_TRACKED_USERS: usize = 1_024;
const MAX_TRACKED_DOCUMENTS: usize = 1_024;
const TURN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a failed fetch is not retried.
const RETRY_FAILED_AFTER: Duration = Duration::from_secs(10);
/// Bounds and default of the cache lifetime, in seconds, whatever `Cache-Control` says.
const MIN_FRESH_SECONDS: i64 = 300;
const DEFAULT_FRESH_SECONDS: i64 = 3_600;
const MAX_FRESH_SECONDS: i64 = 86_400;

/// Fetches documents within the limits of this node.
pub struct DocumentFetcher {
    tls: TlsConnector,
    /// Networks that may be connected to although they are not public.
    allowed: Vec<IpNet>,
    at_once: Semaphore,
    users: Cache<UserId, Arc<Semaphore>>,
    hosts: Cache<String, Arc<Semaphore>>,
    turns: Cache<String, Arc<Mutex<Option<Instant>>>>,
}

/// The exclusive right to fetch a document. It records when a fetch last failed.
pub struct FetchTurn(std::sync::Mutex<OwnedMutexGuard<Option<Instant>>>);

impl FetchTurn {
    /// Records that the fetch failed.
    pub fn failed(&self) {
        **self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

/// A document that was fetched.
pub struct FetchedDocument {
    pub body: Vec<u8>,
    pub fresh_for: i64,
}

/// Why a document was not fetched, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("its name has no address")]
    NoAddress,
    #[error("it has an address that is not public")]
    NotPublic,
    #[error("it cannot be reached")]
    Unreachable,
    #[error("its certificate is not trusted")]
    Untrusted,
    #[error("it is not answered with 200 and JSON")]
    Answer,
    #[error("it is too large")]
    TooLarge,
    #[error("it takes too long")]
    TooSlow,
    #[error("another one is being fetched for the same user")]
    UserBusy,
    #[error("too many documents of its host are being fetched")]
    HostBusy,
    #[error("too many documents are being fetched")]
    Busy,
}

impl DocumentFetcher {
    #[must_use]
    pub fn new(tls: ClientConfig, allowed: Vec<IpNet>) -> Self {
        let tls = TlsConnector::from(Arc::new(tls));
        Self {
            tls,
            allowed,
            at_once: Semaphore::new(MAX_FETCHES),
            users: Cache::new(MAX_TRACKED_USERS),
            hosts: Cache::new(MAX_TRACKED_HOSTS),
            turns: Cache::new(MAX_TRACKED_DOCUMENTS),
        }
    }

    /// Waits for the turn to fetch a document; `None`: the wait was too long, or a fetch has just failed.
    pub async fn turn(&self, id: &str) -> Option<FetchTurn> {
        let made: Result<_, std::convert::Infallible> =
            self.turns.get_or_insert_with(id, || Ok(Arc::new(Mutex::new(None))));
        let held = timeout(TURN_TIMEOUT, made.unwrap_or_default().lock_owned()).await.ok()?;
        let failed_lately = held.is_some_and(|failed: Instant| failed.elapsed() < RETRY_FAILED_AFTER);
        (!failed_lately).then(|| FetchTurn(std::sync::Mutex::new(held)))
    }

    /// Whether this address may be connected to.
    fn may_connect(&self, address: IpAddr) -> bool {
        network::is_public(address) || self.allowed.iter().any(|network| network.contains(&address.to_canonical()))
    }
}

/// Fetches a document for a user. Fails at once if a limit is reached. So a slow host only occupies its own fetches,
/// and a user only one of them.
pub async fn fetch(documents: &DocumentFetcher, url: &Url, user_id: UserId) -> Result<FetchedDocument, FetchError> {
    let places = |count| Ok::<_, std::convert::Infallible>(Arc::new(Semaphore::new(count)));
    let Ok(of_user) = documents.users.get_or_insert_with(&user_id, || places(MAX_FETCHES_PER_USER));
    let Ok(_of_user) = of_user.try_acquire() else { return Err(FetchError::UserBusy) };
    let host = url.host_str().unwrap_or_default();
    let Ok(of_host) = documents.hosts.get_or_insert_with(host, || places(MAX_FETCHES_PER_HOST));
    let Ok(_of_host) = of_host.try_acquire() else { return Err(FetchError::HostBusy) };
    let Ok(_place) = documents.at_once.try_acquire() else { return Err(FetchError::Busy) };
    timeout(FETCH_TIMEOUT, fetch_now(documents, url)).await.unwrap_or(Err(FetchError::TooSlow))
}

async fn fetch_now(documents: &DocumentFetcher, url: &Url) -> Result<FetchedDocument, FetchError> {
    let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else { return Err(FetchError::NoAddress) };
    let address = resolve(documents, &host, port).await?;
    let stream = TcpStream::connect(address).await.map_err(|_| FetchError::Unreachable)?;
    let name = match host {
        Host::Domain(name) => ServerName::try_from(name.to_owned()).map_err(|_| FetchError::NoAddress)?,
        Host::Ipv4(address) => ServerName::from(IpAddr::from(address)),
        Host::Ipv6(address) => ServerName::from(IpAddr::from(address)),
    };
    let stream = documents.tls.connect(name, stream).await.map_err(|_| FetchError::Untrusted)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|_| FetchError::Unreachable)?;
    let authority = url.port().map_or_else(
        || url.host_str().unwrap_or_default().to_owned(),
        |port| format!("{}:{port}", url.host_str().unwrap_or_default()),
    );
    let request = Request::get(url.path())
        .header(header::HOST, authority)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "serviced")
        .body(Empty::<Bytes>::new())
        .map_err(|_| FetchError::NoAddress)?;
    let carrying = AbortOnDrop(tokio::spawn(connection));
    let answer = sender.send_request(request).await.map_err(|_| FetchError::Answer)?;
    let read = read(answer).await;
    drop(carrying);
    read
}

/// The task of a connection, which is aborted when this is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<hyper::Result<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Resolves a host to one address. Fails if any address of the host is not public.
async fn resolve(documents: &DocumentFetcher, host: &Host<&str>, port: u16) -> Result<SocketAddr, FetchError> {
    let found: Vec<SocketAddr> = match host {
        Host::Ipv4(address) => vec![SocketAddr::from((*address, port))],
        Host::Ipv6(address) => vec![SocketAddr::from((*address, port))],
        Host::Domain(name) => {
            tokio::net::lookup_host((*name, port)).await.map_err(|_| FetchError::NoAddress)?.collect()
        }
    };
    if found.iter().any(|address| !documents.may_connect(address.ip())) {
        return Err(FetchError::NotPublic);
    }
    found.first().copied().ok_or(FetchError::NoAddress)
}

/// Checks the response and reads its body.
async fn read(answer: hyper::Response<hyper::body::Incoming>) -> Result<FetchedDocument, FetchError> {
    let headers = answer.headers();
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok()).unwrap_or_default();
    let media_type = text(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if answer.status() != 200 || media_type != "application/json" || headers.contains_key(header::CONTENT_ENCODING) {
        return Err(FetchError::Answer);
    }
    if text(header::CONTENT_LENGTH).parse().is_ok_and(|length: usize| length > MAX_DOCUMENT_BYTES) {
        return Err(FetchError::TooLarge);
    }
    let fresh_for = fresh_for(text(header::CACHE_CONTROL));
    let body =
        Limited::new(answer.into_body(), MAX_DOCUMENT_BYTES).collect().await.map_err(|_| FetchError::TooLarge)?;
    Ok(FetchedDocument { body: body.to_bytes().to_vec(), fresh_for })
}

/// Returns the cache lifetime in seconds.
fn fresh_for(cache_control: &str) -> i64 {
    let seconds = cache_control.split(',').find_map(|part| part.trim().strip_prefix("max-age=")?.parse().ok());
    seconds.unwrap_or(DEFAULT_FRESH_SECONDS).clamp(MIN_FRESH_SECONDS, MAX_FRESH_SECONDS)
}
