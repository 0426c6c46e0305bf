//! `GET /.well-known/jwks.json`

use axum::{
    Json,
    extract::State,
    http::{HeaderName, header},
};
use serde_json::Value;

use crate::app::App;

const MAX_CACHE_SECONDS: u64 = 300;

/// Publishes the signing keys. Caches expire before a new key signs its first token, so that no verifier misses it.
pub async fn show(State(app): State<App>) -> ([(HeaderName, String); 1], Json<Value>) {
    let seconds = MAX_CACHE_SECONDS.min(app.config.keys.publish_lead.as_secs());
    let caching = [(header::CACHE_CONTROL, format!("public, max-age={seconds}"))];
    (caching, Json(app.signing_keys.published(app.clock.now())))
}
