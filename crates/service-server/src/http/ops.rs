//! The internal listener: `/healthz`, `/readyz` and `/metrics`, and `/mail/bounces` for the operator's mail system. It exposes
//! nothing about users, and needs no token. A return path of a mail proves that a bounce is of that mail.

use axum::{
    Router,
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
    routing::{get, post},
};

use crate::{
    app::App,
    database::{Database, restore_fence::Fence},
    flows::{
        bounces::{self, Reported},
        operations::readiness::{self, Readiness},
    },
    http::{body, errors::MalformedRequest},
};

pub fn router(app: &App) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/mail/bounces/{recipient}", post(bounce))
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

/// The most bytes of a delivery report. It may contain the mail that bounced.
const MAX_REPORT_BYTES: usize = 256 * 1_024;

/// Takes a delivery report that the operator's mail system received for the return path of a mail.
async fn bounce(State(app): State<App>, Path(recipient): Path<String>, request: Request) -> (StatusCode, String) {
    if app.config.mail.bounce_to.is_none() {
        return (StatusCode::NOT_FOUND, "mail.bounce_to is not set\n".to_owned());
    }
    let report = match body::collect(request.into_body(), MAX_REPORT_BYTES).await {
        Ok(report) => report,
        Err(MalformedRequest::TooLarge(_)) => {
            return (StatusCode::PAYLOAD_TOO_LARGE, "the report is too large\n".to_owned());
        }
        Err(_) => return (StatusCode::REQUEST_TIMEOUT, "the report did not arrive. Try again later\n".to_owned()),
    };
    if app.fence() != Fence::Open {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            "not ready: the database may be a restored backup. Try again later\n".to_owned(),
        );
    }
    match bounces::report(&app, &recipient, &report).await {
        Ok(Reported::Suppressed(until)) => {
            (StatusCode::OK, format!("no mail is sent to the address until {until:.0}\n"))
        }
        Ok(Reported::Ignored(why)) => (StatusCode::OK, format!("ignored: {}\n", why.as_str())),
        Ok(Reported::NotOurs) => (
            StatusCode::BAD_REQUEST,
            "not a return path of this installation: check mail.bounce_to, and pass the recipient of the bounce\n"
                .to_owned(),
        ),
        Err(error) => {
            tracing::warn!(error = format!("{error:#}"), "Could not record a bounce");
            (StatusCode::SERVICE_UNAVAILABLE, "the bounce is not recorded. Try again later\n".to_owned())
        }
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
