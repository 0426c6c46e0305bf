//! `GET /.well-known/jwks.json`

use axum::{Json, extract::State, http::header, response::IntoResponse};

use crate::app::App;

const CACHED_SECONDS: u64 = 300;

/// Never cached for longer than the lead with which a new key is published, so that nobody who caches misses one.
pub async fn show(State(app): State<App>) -> impl IntoResponse {
    let seconds = CACHED_SECONDS.min(app.config.keys.publish_lead.as_secs());
    let caching = [(header::CACHE_CONTROL, format!("public, max-age={seconds}"))];
    (caching, Json(app.signing_keys.published(app.clock.now())))
}
