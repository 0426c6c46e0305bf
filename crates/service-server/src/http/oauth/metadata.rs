//! What the service is and can do, for clients that know nothing but its address (RFC 8414 and RFC 9728).

use axum::{Json, extract::State, http::header, response::IntoResponse};
use serde_json::{Value, json};
use service_api::{
    endpoints,
    oauth::{CODE_GRANT, REFRESH_GRANT},
};
use service_rules::resources::Resource;

use crate::app::App;

const CACHING: [(header::HeaderName, &str); 1] = [(header::CACHE_CONTROL, "public, max-age=300")];

/// The authorization server. Whatever is named here answers.
pub async fn server(State(app): State<App>) -> impl IntoResponse {
    let base_url = &app.config.base_url;
    let at = |endpoint: &endpoints::Endpoint| format!("{base_url}{}", endpoint.path);
    let document = json!({
        "issuer": base_url,
        "authorization_endpoint": at(&endpoints::AUTHORIZE),
        "token_endpoint": at(&endpoints::TOKEN),
        "registration_endpoint": at(&endpoints::REGISTER),
        "revocation_endpoint": at(&endpoints::REVOKE),
        "introspection_endpoint": at(&endpoints::INTROSPECT),
        "jwks_uri": at(&endpoints::JWKS),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [CODE_GRANT, REFRESH_GRANT],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported":
            ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": ["ES256", "RS256", "EdDSA"],
        "scopes_supported": ["read", "write", "offline_access"],
        "authorization_response_iss_parameter_supported": true,
        "client_id_metadata_document_supported": true,
    });
    (CACHING, Json(document))
}

/// The whole service as a resource: which one is meant, the client's own kind decides.
pub async fn resource(State(app): State<App>) -> impl IntoResponse {
    (CACHING, Json(document(&app, "")))
}

pub async fn api(State(app): State<App>) -> impl IntoResponse {
    (CACHING, Json(document(&app, Resource::Api.path())))
}

pub async fn mcp(State(app): State<App>) -> impl IntoResponse {
    (CACHING, Json(document(&app, Resource::Mcp.path())))
}

fn document(app: &App, path: &str) -> Value {
    let base_url = &app.config.base_url;
    json!({
        "resource": format!("{base_url}{path}"),
        "authorization_servers": [base_url],
        "scopes_supported": ["read"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Service",
    })
}
