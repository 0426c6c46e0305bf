//! The internal listener: `/healthz`, `/readyz` and `/metrics`. It says nothing about users, and needs no token.

use axum::{Router, extract::State, http::StatusCode, routing::get};

use crate::{app::App, flows::readiness, telemetry};

pub fn router(app: &App) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(app.clone())
}

/// Whether this node should get requests: it has keys to sign with, and a database that answers.
async fn readyz(State(app): State<App>) -> (StatusCode, &'static str) {
    match readiness::check(&app).await {
        Ok(()) => (StatusCode::OK, "ready\n"),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why.as_str()),
    }
}

async fn metrics(State(app): State<App>) -> String {
    let (connections, free) = app.database.usage();
    #[expect(clippy::cast_precision_loss, reason = "there are not that many connections")]
    {
        metrics::gauge!("service_database_connections").set(connections as f64);
        metrics::gauge!("service_database_connections_free").set(free as f64);
        metrics::gauge!("service_requests_room").set(app.in_flight.available_permits() as f64);
    }
    telemetry::metrics().map(|handle| handle.render()).unwrap_or_default()
}
