//! Sending requests to the service: addresses, retries, and reading responses.

use std::{
    fmt,
    marker::PhantomData,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::{RequestBuilder, Response as HttpResponse, header};
use serde::{Serialize, de::DeserializeOwned};
use service_api::{
    endpoints::{Method, Operation, OperationRow},
    errors::ErrorBody,
    token::AccessToken,
};

use crate::{Error, Refusal};

/// The timeout of a request, from connecting to the end of the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// The timeout of a response that is read while it arrives.
pub(crate) const STREAM_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The delays before each retry of a repeatable request.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(400)];

/// A client of one service. See the [crate page](crate) for an example.
///
/// Cloning is cheap: clones share their connections.
#[derive(Clone)]
pub struct Client {
    base_url: String,
    http: reqwest::Client,
    observer: Option<Observer>,
}

type Observer = Arc<dyn Fn(&Exchange<'_>) + Send + Sync>;

/// A request and its response as a log can show them: without query, headers and bodies.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The path of the URL, without its query.
    pub path: &'a str,
    /// The HTTP status, or `None` if there was no response.
    pub status: Option<u16>,
    /// The ID by which the service logs the request.
    pub request_id: Option<&'a str>,
    /// The time from sending the request to the end of the response.
    pub took: Duration,
}

/// A response that was not parsed.
pub struct Raw {
    /// The HTTP status.
    pub status: u16,
    /// The body as it arrived.
    pub body: Vec<u8>,
}

/// A response to a request without a token, with its headers.
#[derive(Debug)]
pub struct PublicResponse {
    /// The HTTP status.
    pub status: u16,
    headers: header::HeaderMap,
    /// The body as it arrived.
    pub body: Vec<u8>,
}

impl PublicResponse {
    /// The value of a header, if it is text. Several headers of one name are joined with commas.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<_> = self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.base_url)
    }
}

impl Client {
    /// Makes a client for the service at `base_url`, such as `https://service.example`. It follows no redirects, so that a
    /// token is only sent to that host.
    ///
    /// # Errors
    /// [`Error::PlainText`] if the URL is neither `https` nor `http` on the loopback interface, because tokens would be sent in
    /// plain text.
    pub fn new(base_url: &str) -> Result<Self, Error> {
        if !is_private(base_url) {
            return Err(Error::PlainText);
        }
        let mut http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .user_agent(concat!("service-client/", env!("CARGO_PKG_VERSION")));
        if base_url.starts_with("http://") {
            // Loopback only: no certificates are needed, and no proxy may see the tokens in plain text.
            http = http.tls_certs_only([]).no_proxy();
        }
        Ok(Self { base_url: base_url.trim_end_matches('/').to_owned(), http: http.build()?, observer: None })
    }

    /// Calls `observer` after every request, including each retry.
    #[must_use]
    pub fn observed(self, observer: impl Fn(&Exchange<'_>) + Send + Sync + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    /// The URL of the service, without a trailing slash.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// A request without a body to an operation that takes none; `ids` fill the segments of its path that vary.
    pub(crate) fn call<Response>(&self, operation: &Operation<(), Response>, ids: &[&str]) -> Call<'_, Response> {
        self.request(&operation.row, ids)
    }

    /// A request with the body that the operation takes; `ids` fill the segments of its path that vary.
    pub(crate) fn call_with<Request: Serialize, Response>(
        &self,
        operation: &Operation<Request, Response>,
        ids: &[&str],
        body: &Request,
    ) -> Call<'_, Response> {
        let call = self.request(&operation.row, ids);
        Call { request: call.request.json(body), ..call }
    }

    fn request<Response>(&self, row: &OperationRow, ids: &[&str]) -> Call<'_, Response> {
        let endpoint = &row.endpoint;
        let mut ids = ids.iter();
        let mut next = || ids.next().map_or_else(|| "-".to_owned(), |id| path_segment(id));
        let fill = |segment: &str| if segment.starts_with('{') { next() } else { segment.to_owned() };
        let path = endpoint.path.split('/').map(fill).collect::<Vec<_>>().join("/");
        let url = format!("{}{path}", self.base_url);
        let request = match endpoint.method {
            Method::Get => self.http.get(url),
            Method::Post => self.http.post(url),
            Method::Delete => self.http.delete(url),
            Method::Patch => self.http.patch(url),
        };
        Call {
            client: self,
            method: endpoint.method.as_str(),
            path,
            request,
            // GET is safe, and a repeated DELETE is answered like the first.
            repeatable: matches!(endpoint.method, Method::Get | Method::Delete),
            has_body: row.response.is_some(),
            response: PhantomData,
        }
    }

    /// Sends any request, for operations that have no function here. A response is returned whatever its status, except one
    /// that asks for another token.
    ///
    /// # Errors
    /// [`Error::Refused`] for 401 and for 403 `insufficient_user_authentication`; [`Error::Unreachable`] without a response.
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
        let (repeatable, has_body, response) = (method == "GET", true, PhantomData::<fn() -> ()>);
        let call = Call { client: self, method, path, request, repeatable, has_body, response }.bearer(token);
        let response = call.exchange().await?;
        let status = response.status().as_u16();
        let challenged = response.headers().get(header::WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let too_old = challenged.is_some_and(|challenge| challenge.contains("insufficient_user_authentication"));
        if status == 401 || (status == 403 && too_old) {
            return Err(refusal(response).await);
        }
        Ok(Raw { status, body: read(response).await? })
    }
}

impl Client {
    /// Sends a request without a token, to find out how the service answers. The response is returned whatever its status.
    /// Names and values of headers that HTTP does not allow are left out.
    ///
    /// # Errors
    /// [`Error::Unreachable`] without a response; [`Error::Unexpected`] for a response that is too large.
    pub async fn public(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Result<PublicResponse, Error> {
        let verb = reqwest::Method::from_bytes(method.as_bytes()).map_err(|_| Error::Unexpected(405))?;
        let mut request = self.http.request(verb, format!("{}{path}", self.base_url)).headers(header_map(headers));
        if let Some(body) = body {
            request = request.body(body.to_owned());
        }
        let (path, response) = (path.to_owned(), PhantomData::<fn() -> ()>);
        let call = Call { client: self, method, path, request, repeatable: false, has_body: true, response };
        let response = call.exchange().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(PublicResponse { status, headers, body: read(response).await? })
    }

    /// Sends a JSON body with a token, and returns the response whatever its status, before its body was read.
    pub(crate) async fn post_streamed(
        &self,
        path: &str,
        token: &AccessToken,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<HttpResponse, Error> {
        let request = self.http.post(format!("{}{path}", self.base_url)).headers(header_map(headers));
        let request = request.header(header::CONTENT_TYPE, "application/json").timeout(STREAM_TIMEOUT).body(body);
        let (path, response) = (path.to_owned(), PhantomData::<fn() -> ()>);
        let call = Call { client: self, method: "POST", path, request, repeatable: false, has_body: true, response };
        call.bearer(token).exchange().await
    }
}

fn header_map(headers: &[(&str, &str)]) -> header::HeaderMap {
    let valid = headers.iter().filter_map(|(name, value)| {
        Some((header::HeaderName::from_bytes(name.as_bytes()).ok()?, header::HeaderValue::from_str(value).ok()?))
    });
    valid.collect()
}

/// One request to an operation that responds with a `Response`.
pub(crate) struct Call<'a, Response> {
    client: &'a Client,
    method: &'a str,
    path: String,
    request: RequestBuilder,
    repeatable: bool,
    /// Whether a successful response has a body.
    has_body: bool,
    response: PhantomData<fn() -> Response>,
}

impl<Response> Call<'_, Response> {
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

    /// Adds a header, if there is a value for it. A value that HTTP does not allow makes the request fail.
    pub(crate) fn header(mut self, name: &'static str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.request = self.request.header(name, value);
        }
        self
    }

    /// Waits for the response, and for all of it, no longer than this.
    pub(crate) fn timeout(mut self, limit: Duration) -> Self {
        self.request = self.request.timeout(limit);
        self
    }

    /// Marks the request as one that the service answers in the same way when it is repeated.
    pub(crate) fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Sends the request, and reads the response.
    pub(crate) async fn send(self) -> Result<Response, Error>
    where
        Response: DeserializeOwned,
    {
        self.send_as().await
    }

    /// Sends the request, and reads the response as another type than the operation declares.
    pub(crate) async fn send_as<T: DeserializeOwned>(self) -> Result<T, Error> {
        Ok(self.send_tagged().await?.0)
    }

    /// Sends the request, and reads the response and its `ETag`, if it has one.
    pub(crate) async fn send_tagged<T: DeserializeOwned>(self) -> Result<(T, Option<String>), Error> {
        let has_body = self.has_body;
        let response = self.exchange().await?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        let tag = response.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let bytes = if has_body { read(response).await? } else { b"null".to_vec() };
        let body = serde_json::from_slice(&bytes).map_err(|_| Error::Unexpected(status))?;
        Ok((body, tag))
    }

    /// Sends the request, and retries after a temporary failure if the request is repeatable.
    pub(crate) async fn exchange(self) -> Result<HttpResponse, Error> {
        for delay in RETRY_DELAYS.into_iter().filter(|_| self.repeatable) {
            let Some(copy) = self.request.try_clone() else { break };
            match self.send_once(copy).await {
                Ok(response) if !matches!(response.status().as_u16(), 502..=504) => return Ok(response),
                Err(error) if !error.is_passing() => return Err(error),
                _ => tokio::time::sleep(delay).await,
            }
        }
        let last = self.request.try_clone().ok_or(Error::Unexpected(0))?;
        self.send_once(last).await
    }

    async fn send_once(&self, request: RequestBuilder) -> Result<HttpResponse, Error> {
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

/// Whether tokens can be sent to this URL: `https`, or `http` on the loopback interface.
fn is_private(base_url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(base_url) else { return false };
    let here = url.host_str().is_some_and(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    });
    url.scheme() == "https" || (url.scheme() == "http" && here)
}

/// An id or a domain as one segment of a path. It is encoded, so that no text leads to another path.
fn path_segment(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    let segment: String = text.bytes().map(encoded).collect();
    // Empty segments and those of dots alone would change the path.
    if segment.bytes().all(|byte| byte == b'.') { "-".to_owned() } else { segment }
}

/// The maximum size of a response. Those of the service are much smaller.
pub(crate) const MAX_RESPONSE_BYTES: usize = 8 * 1024 * 1024;

pub(crate) async fn read(mut response: HttpResponse) -> Result<Vec<u8>, Error> {
    let status = response.status().as_u16();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(Error::Unexpected(status));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Reads an error response.
pub(crate) async fn refusal(response: HttpResponse) -> Error {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let Ok(bytes) = read(response).await else { return Error::Unexpected(status) };
    parse_refusal(status, &headers, &bytes)
}

/// Parses an error response whose body was read.
pub(crate) fn parse_refusal(status: u16, headers: &header::HeaderMap, bytes: &[u8]) -> Error {
    let text = |name| headers.get(name)?.to_str().ok();
    let retry_after = text(header::RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
    let scope = text(header::WWW_AUTHENTICATE).and_then(|challenge| {
        let (_, rest) = challenge.split_once("scope=\"")?;
        Some(rest.split('"').next()?.to_owned())
    });
    match serde_json::from_slice::<ErrorBody>(bytes) {
        Ok(body) => Error::Refused(Box::new(Refusal { status, body, retry_after, scope })),
        Err(_) => Error::Unexpected(status),
    }
}
