//! `POST /v1/token-leaks`

use axum::{Extension, Json, extract::State};
use service_api::leaks::{ReportReceived, TokenLeaks};

use crate::{
    app::App,
    flows::{self, RequestMeta},
    http::{body::Body, errors::ApiError},
};

pub async fn report(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    Body(report): Body<TokenLeaks>,
) -> Result<Json<ReportReceived>, ApiError> {
    flows::tokens::leaks::report_leaks(&app, &meta, &report.tokens).await?;
    Ok(Json(ReportReceived { received: true }))
}
