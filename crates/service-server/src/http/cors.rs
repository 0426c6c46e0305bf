//! Which pages elsewhere may read our answers: everybody what is public anyway, and those of a client's own origin what the
//! token endpoint answers. Cookies never count there.

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::{body::Body, extract::Request, response::Response};
use service_api::endpoints;

use crate::{app::App, flows::clients};

const PUBLIC: [&str; 7] = [
    endpoints::SERVER_METADATA.path,
    endpoints::RESOURCE_METADATA.path,
    endpoints::API_METADATA.path,
    endpoints::MCP_METADATA.path,
    endpoints::JWKS.path,
    endpoints::REGISTER.path,
    endpoints::OPENAPI.path,
];
const OF_CLIENTS: [&str; 2] = [endpoints::TOKEN.path, endpoints::REVOKE.path];

/// Who may read the answer to a request, as the answer has to name them.
pub async fn reader(app: &App, headers: &HeaderMap, path: &str) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    if PUBLIC.contains(&path) {
        return Some(HeaderValue::from_static("*"));
    }
    let of_a_client = OF_CLIENTS.contains(&path) && clients::is_origin(app, origin.to_str().ok()?).await.ok()?;
    of_a_client.then(|| origin.clone())
}

/// The answer to a browser that asks beforehand whether a page may send such a request.
pub fn preflight(request: &Request) -> Option<Response> {
    let asked = request.headers().get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
    (request.method() == Method::OPTIONS && (asked == "GET" || asked == "POST")).then(|| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
        let known = "authorization, content-type, accept, mcp-protocol-version, mcp-method, mcp-name";
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(known));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        response
    })
}

/// Lets the reader read.
#[must_use]
pub fn allow(mut response: Response, reader: Option<HeaderValue>) -> Response {
    let Some(reader) = reader else { return response };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, reader);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("www-authenticate, retry-after, x-request-id"),
    );
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    response
}
