//! Metadata of the authorization server and the protected resources (RFC 8414 and RFC 9728).

use axum::{
    Json,
    extract::State,
    http::{HeaderName, header},
};
use serde_json::{Value, json};
use service_api::{
    endpoints,
    oauth::{CODE_GRANT, REFRESH_GRANT},
};
use service_rules::resources::Resource;

use crate::app::App;

/// A document that may be cached.
type Cached = ([(HeaderName, &'static str); 1], Json<Value>);

const CACHING: [(HeaderName, &str); 1] = [(header::CACHE_CONTROL, "public, max-age=300")];

/// Client authentication methods, at every endpoint that authenticates clients.
const AUTH_METHODS: [&str; 4] = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"];
/// Signature algorithms of client assertions.
const ASSERTION_ALGORITHMS: [&str; 3] = ["ES256", "RS256", "EdDSA"];

/// Returns the authorization server metadata. Every endpoint in it exists.
pub async fn server(State(app): State<App>) -> Cached {
    let base_url = &app.config.base_url;
    let at = |path: &str| format!("{base_url}{path}");
    let document = json!({
        "issuer": base_url,
        "authorization_endpoint": at(endpoints::AUTHORIZE.path),
        "token_endpoint": at(endpoints::TOKEN.path()),
        "registration_endpoint": at(endpoints::REGISTER.path()),
        "revocation_endpoint": at(endpoints::REVOKE.path()),
        "introspection_endpoint": at(endpoints::INTROSPECT.path()),
        "jwks_uri": at(endpoints::JWKS.path()),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [CODE_GRANT, REFRESH_GRANT],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": AUTH_METHODS,
        "token_endpoint_auth_signing_alg_values_supported": ASSERTION_ALGORITHMS,
        "revocation_endpoint_auth_methods_supported": AUTH_METHODS,
        "revocation_endpoint_auth_signing_alg_values_supported": ASSERTION_ALGORITHMS,
        // Only clients that can authenticate may introspect tokens.
        "introspection_endpoint_auth_methods_supported": AUTH_METHODS[1..],
        "introspection_endpoint_auth_signing_alg_values_supported": ASSERTION_ALGORITHMS,
        "scopes_supported": ["read", "write", "offline_access"],
        "authorization_response_iss_parameter_supported": true,
        "client_id_metadata_document_supported": true,
    });
    (CACHING, Json(document))
}

/// Returns the metadata of the whole service as a protected resource. The kind of the client decides which audience it
/// gets.
pub async fn resource(State(app): State<App>) -> Cached {
    (CACHING, Json(document(&app, "", &["read"])))
}

/// Metadata of the API.
pub async fn api(State(app): State<App>) -> Cached {
    (CACHING, Json(document(&app, Resource::Api.path(), &["read"])))
}

/// Metadata of MCP. Its scopes are those of the challenge: some clients ask for what this document names, and never for more.
pub async fn mcp(State(app): State<App>) -> Cached {
    (CACHING, Json(document(&app, Resource::Mcp.path(), &["read", "write"])))
}

fn document(app: &App, path: &str, scopes: &[&str]) -> Value {
    let base_url = &app.config.base_url;
    json!({
        "resource": format!("{base_url}{path}"),
        "authorization_servers": [base_url],
        "scopes_supported": scopes,
        "bearer_methods_supported": ["header"],
        "resource_name": "Service",
    })
}
