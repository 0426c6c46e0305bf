//! `/.well-known/passkey-endpoints`: the pages where users create and manage passkeys. Password managers read it.

use axum::{
    Json,
    extract::State,
    http::{HeaderName, header},
};
use serde_json::{Value, json};
use service_api::{endpoints, errors::ErrorCode::NotFound};

use crate::{
    app::App,
    flows::passkeys,
    http::errors::{ApiError, error},
};

const CACHING: [(HeaderName, &str); 1] = [(header::CACHE_CONTROL, "public, max-age=300")];

/// Returns the document. Installations without passkeys have none.
pub async fn show(State(app): State<App>) -> Result<([(HeaderName, &'static str); 1], Json<Value>), ApiError> {
    if !passkeys::are_available(&app) {
        return Err(error(
            NotFound,
            "Passkeys aren't available: the base URL has an IP address instead of a host name.",
        ));
    }
    let page = format!("{}{}", app.config.base_url, endpoints::ACCOUNT_SECURITY.path);
    Ok((CACHING, Json(json!({ "enroll": page, "manage": page }))))
}
