//! The internal listener: `/healthz`, `/readyz` and `/metrics`. It exposes nothing about users, and needs no token.

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
    routing::get,
};

use crate::{
    app::App,
    database::Database,
    flows::operations::readiness::{self, Readiness},
};

pub fn router(app: &App) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(app.clone())
}

/// Whether this node should get requests: it can sign, and it knows the current revocations.
async fn readyz(State(app): State<App>) -> (StatusCode, String) {
    match readiness::check(&app).await {
        Ok(Readiness::Complete) => (StatusCode::OK, "ready\n".to_owned()),
        Ok(Readiness::OnlyTokens) => (StatusCode::OK, "ready, but the database does not answer\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}

const OPEN_METRICS: &str = "application/openmetrics-text";

/// Returns the metrics, as `OpenMetrics` if the caller accepts that, or else in the text format of Prometheus.
async fn metrics(State(app): State<App>, headers: HeaderMap) -> impl IntoResponse {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let pools = [&app.database, &app.content_database, &app.background_database].map(Database::usage);
    app.metrics.database_connections.set(count(pools.iter().map(|pool| pool.connections).sum()));
    app.metrics.database_connections_free.set(count(pools.iter().map(|pool| pool.idle).sum()));
    app.metrics.revocations.set(count(app.revocations.count()));
    app.metrics.revocations_age.set(app.revocations.read_age());
    app.metrics.heartbeat_age.set(app.revocations.heartbeat_age());
    app.metrics.signing_keys_age.set(app.signing_keys.read_age());
    app.metrics.ready.set(i64::from(readiness::check(&app).await.is_ok()));
    app.metrics.room.set(count(app.in_flight.available_permits()));
    app.metrics.bodies_room.set(count(app.arriving.free()));
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepted.any(|accepted| accepted.contains(OPEN_METRICS)) {
        let media_type = format!("{OPEN_METRICS}; version=1.0.0; charset=utf-8");
        ([(header::CONTENT_TYPE, media_type)], app.metrics.render_open_metrics())
    } else {
        let media_type = "text/plain; version=0.0.4; charset=utf-8".to_owned();
        ([(header::CONTENT_TYPE, media_type)], app.metrics.render_prometheus())
    }
}
