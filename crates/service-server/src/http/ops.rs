//! The internal listener: `/healthz`, `/readyz` and `/metrics`. It says nothing about users, and needs no token.

use axum::{Router, extract::State, http::StatusCode, routing::get};

use crate::{app::App, flows::readiness};

pub fn router(app: &App) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(app.clone())
}

/// Whether this node should get requests: it has keys to sign with, knows what was ended, and its database answers.
async fn readyz(State(app): State<App>) -> (StatusCode, &'static str) {
    match readiness::check(&app).await {
        Ok(()) => (StatusCode::OK, "ready\n"),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why.as_str()),
    }
}

async fn metrics(State(app): State<App>) -> String {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let (connections, free) = app.database.usage();
    app.metrics.database_connections.set(count(connections));
    app.metrics.database_connections_free.set(count(free));
    let (endings, age) = app.revocations.state();
    app.metrics.revocations.set(count(endings));
    app.metrics.revocations_age.set(age);
    app.metrics.room.set(count(app.in_flight.available_permits()));
    app.metrics.bodies_room.set(count(app.arriving.available_permits()));
    app.metrics.render()
}
