//! CORS: public documents are readable from every origin, the API and the token endpoint from origins of clients.
//! Cookies are never accepted there.

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::{body::Body, extract::Request, response::Response};
use service_api::endpoints::{self, Access};

use crate::{app::App, flows::clients};

const PUBLIC_PATHS: [&str; 8] = [
    endpoints::SERVER_METADATA.path(),
    endpoints::RESOURCE_METADATA.path(),
    endpoints::API_METADATA.path(),
    endpoints::MCP_METADATA.path(),
    endpoints::JWKS.path(),
    endpoints::PASSKEY_ENDPOINTS.path(),
    endpoints::REGISTER.path(),
    endpoints::OPENAPI.path(),
];
const API_METHODS: [&str; 4] = ["GET", "POST", "PATCH", "DELETE"];
const CLIENT_PATHS: [&str; 2] = [endpoints::TOKEN.path(), endpoints::REVOKE.path()];

/// Returns the origin that may read the response, for `Access-Control-Allow-Origin`. Public documents always allow
/// every origin, because a cache may serve the response to a web page.
pub async fn allowed_origin(app: &App, headers: &HeaderMap, path: &str) -> Option<HeaderValue> {
    if PUBLIC_PATHS.contains(&path) {
        return Some(HeaderValue::from_static("*"));
    }
    let origin = headers.get(header::ORIGIN)?;
    // A web page learns from the challenge where to register. With a token, the guard checks the origin.
    if path == endpoints::MCP.path() {
        return Some(origin.clone());
    }
    let for_clients = CLIENT_PATHS.contains(&path) || is_api(path);
    let of_a_client = for_clients && Box::pin(clients::is_origin(app, origin.to_str().ok()?)).await.ok()?;
    of_a_client.then(|| origin.clone())
}

/// Whether this is a path of the API that takes a token. Paths without a token are not open to other origins, because
/// they send mail.
fn is_api(path: &str) -> bool {
    let public = |endpoint: &&&endpoints::Endpoint| endpoint.access == Access::Public && endpoint.path == path;
    path.starts_with("/v1/") && endpoints::ALL.iter().find(public).is_none()
}

/// Responds to a preflight request.
pub fn preflight(request: &Request) -> Option<Response> {
    let asked = request.headers().get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
    (request.method() == Method::OPTIONS && API_METHODS.iter().any(|method| asked == method)).then(|| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PATCH, DELETE"));
        let known = "authorization, content-type, accept, if-match, idempotency-key, mcp-protocol-version, \
                     mcp-session-id, mcp-method, mcp-name, last-event-id, traceparent, tracestate";
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(known));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        response
    })
}

/// Adds the CORS response headers.
#[must_use]
pub fn add_headers(mut response: Response, reader: Option<HeaderValue>) -> Response {
    let Some(reader) = reader else { return response };
    let headers = response.headers_mut();
    if reader != "*" {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, reader);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(
            "www-authenticate, retry-after, ratelimit, ratelimit-policy, x-request-id, etag, location",
        ),
    );
    response
}
