//! `POST /v1/token-leaks`

use axum::{Extension, Json, extract::State, http::StatusCode};
use service_api::leaks::{ReportReceived, TokenLeaks};

use crate::{
    app::App,
    flows::{self, Asker},
    http::{body::Body, error::ApiError},
};

pub async fn report(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Body(report): Body<TokenLeaks>,
) -> Result<(StatusCode, Json<ReportReceived>), ApiError> {
    flows::token_leaks::report(&app, &asker, &report.tokens).await?;
    Ok((StatusCode::ACCEPTED, Json(ReportReceived { received: true })))
}
