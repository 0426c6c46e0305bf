//! One service at one address, and how a request goes there: which are repeated, and what is made of the answer.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::{RequestBuilder, Response, header};
use serde::{Serialize, de::DeserializeOwned};
use service_api::{
    endpoints::{Endpoint, Method},
    errors::ErrorBody,
    token::AccessToken,
};

use crate::{Error, Refusal};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(15);
const PATIENCE_TO_CONNECT: Duration = Duration::from_secs(10);
/// How long to wait before each further try of what may be repeated.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(400)];

/// A service at one address.
#[derive(Clone)]
pub struct Client {
    base_url: String,
    http: reqwest::Client,
    observer: Option<Observer>,
}

type Observer = Arc<dyn Fn(&Exchange<'_>) + Send + Sync>;

/// One request as a log may show it: without query, headers and bodies.
#[derive(Debug)]
pub struct Exchange<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub status: Option<u16>,
    pub request_id: Option<&'a str>,
    pub took: Duration,
}

/// An answer as it came.
pub struct Raw {
    pub status: u16,
    pub body: Vec<u8>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.base_url)
    }
}

impl Client {
    /// `base_url` has no trailing slash. Redirects are not followed: a token goes where it was meant to go.
    pub fn new(base_url: &str) -> Result<Self, Error> {
        let mut http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(PATIENCE_TO_CONNECT)
            .timeout(PATIENCE)
            .user_agent(concat!("service-client/", env!("CARGO_PKG_VERSION")));
        if base_url.starts_with("http://") {
            // On this machine only: no certificates to read, and no proxy that tokens would pass in plain text.
            http = http.tls_certs_only([]).no_proxy();
        }
        Ok(Self { base_url: base_url.trim_end_matches('/').to_owned(), http: http.build()?, observer: None })
    }

    /// Tells `observer` of every request.
    #[must_use]
    pub fn observed(self, observer: impl Fn(&Exchange<'_>) + Send + Sync + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// A request to an endpoint; `ids` fill what varies in its path.
    pub(crate) fn call(&self, endpoint: &Endpoint, ids: &[&str]) -> Call<'_> {
        let mut ids = ids.iter();
        // What is no id names nothing, and leads nowhere else.
        let mut next = || ids.next().copied().filter(|id| is_id(id)).unwrap_or("-");
        let fill = |segment| if str::starts_with(segment, '{') { next() } else { segment };
        let path = endpoint.path.split('/').map(fill).collect::<Vec<_>>().join("/");
        let url = format!("{}{path}", self.base_url);
        let request = match endpoint.method {
            Method::Get => self.http.get(url),
            Method::Post => self.http.post(url),
            Method::Delete => self.http.delete(url),
            Method::Patch => self.http.patch(url),
        };
        // Reading twice is reading; deleting what is gone is answered as the first time.
        let repeatable = matches!(endpoint.method, Method::Get | Method::Delete);
        Call { client: self, method: endpoint.method.as_str(), path, request, repeatable }
    }

    /// Any request at all, for those that have no function here. The answer is returned whatever its status.
    pub async fn raw(
        &self,
        method: &str,
        path_and_query: &str,
        token: &AccessToken,
        body: Option<Vec<u8>>,
    ) -> Result<Raw, Error> {
        let verb = reqwest::Method::from_bytes(method.as_bytes()).map_err(|_| Error::Unexpected(405))?;
        let path = path_and_query.split('?').next().unwrap_or_default().to_owned();
        let mut request = self.http.request(verb, format!("{}{path_and_query}", self.base_url));
        if let Some(body) = body {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body);
        }
        let call = Call { client: self, method, path, request, repeatable: method == "GET" }.bearer(token);
        let response = call.send().await?;
        let status = response.status().as_u16();
        if status == 401 {
            return Err(refusal(response).await);
        }
        Ok(Raw { status, body: read(response).await? })
    }
}

/// One request, on its way.
pub(crate) struct Call<'a> {
    client: &'a Client,
    method: &'a str,
    path: String,
    request: RequestBuilder,
    repeatable: bool,
}

impl Call<'_> {
    pub(crate) fn bearer(mut self, token: &AccessToken) -> Self {
        self.request = self.request.bearer_auth(token.expose());
        self
    }

    pub(crate) fn query(mut self, pairs: &[(&str, Option<&str>)]) -> Self {
        let given: Vec<_> = pairs.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
        if !given.is_empty() {
            self.request = self.request.query(&given);
        }
        self
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Self {
        self.request = self.request.json(body);
        self
    }

    /// Says that the service promises the same result for the same request.
    pub(crate) fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    pub(crate) async fn answer<T: DeserializeOwned>(self) -> Result<T, Error> {
        let response = self.succeed().await?;
        let status = response.status().as_u16();
        let bytes = read(response).await?;
        serde_json::from_slice(&bytes).map_err(|_| Error::Unexpected(status))
    }

    pub(crate) async fn done(self) -> Result<(), Error> {
        self.succeed().await.map(drop)
    }

    async fn succeed(self) -> Result<Response, Error> {
        let response = self.send().await?;
        if response.status().is_success() { Ok(response) } else { Err(refusal(response).await) }
    }

    /// Sends it; again after a passing trouble, if that is safe.
    async fn send(self) -> Result<Response, Error> {
        for pause in PAUSES.into_iter().filter(|_| self.repeatable) {
            let Some(copy) = self.request.try_clone() else { break };
            match self.send_once(copy).await {
                Ok(response) if !matches!(response.status().as_u16(), 502..=504) => return Ok(response),
                Err(error) if !error.is_passing() => return Err(error),
                _ => tokio::time::sleep(pause).await,
            }
        }
        let last = self.request.try_clone().ok_or(Error::Unexpected(0))?;
        self.send_once(last).await
    }

    async fn send_once(&self, request: RequestBuilder) -> Result<Response, Error> {
        let began = Instant::now();
        let sent = request.send().await;
        if let Some(observer) = &self.client.observer {
            let response = sent.as_ref().ok();
            observer(&Exchange {
                method: self.method,
                path: &self.path,
                status: response.map(|response| response.status().as_u16()),
                request_id: response.and_then(|response| response.headers().get("x-request-id")?.to_str().ok()),
                took: began.elapsed(),
            });
        }
        Ok(sent?)
    }
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Bytes of an answer that are read: no answer of the service is nearly as long.
const MOST_BYTES: usize = 8 * 1024 * 1024;

async fn read(mut response: Response) -> Result<Vec<u8>, Error> {
    let status = response.status().as_u16();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > MOST_BYTES {
            return Err(Error::Unexpected(status));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// What an answer that is no success says.
async fn refusal(response: Response) -> Error {
    let status = response.status().as_u16();
    let text = |name| response.headers().get(name)?.to_str().ok();
    let retry_after = text(header::RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
    let scope = text(header::WWW_AUTHENTICATE).and_then(|challenge| {
        let (_, rest) = challenge.split_once("scope=\"")?;
        Some(rest.split('"').next()?.to_owned())
    });
    let Ok(bytes) = read(response).await else { return Error::Unexpected(status) };
    match serde_json::from_slice::<ErrorBody>(&bytes) {
        Ok(body) => Error::Refused(Box::new(Refusal { status, body, retry_after, scope })),
        Err(_) => Error::Unexpected(status),
    }
}
