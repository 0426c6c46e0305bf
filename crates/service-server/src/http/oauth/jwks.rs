//! `GET /.well-known/jwks.json`

use axum::{
    Json,
    extract::State,
    http::{HeaderName, header},
    response::IntoResponse,
};

use crate::app::App;

/// Shorter than the lead with which a new key is published, so that nobody who caches this misses one.
const CACHE: [(HeaderName, &str); 1] = [(header::CACHE_CONTROL, "public, max-age=300")];

pub async fn show(State(app): State<App>) -> impl IntoResponse {
    (CACHE, Json(app.signing_keys.published(app.clock.now())))
}
