//! `POST /v1/otp-tokens`

use axum::{Extension, Json, extract::State, http::StatusCode};
use service_api::sign_in::{OtpRequest, OtpRequested};

use crate::{
    app::App,
    flows::{self, Asker},
    http::{body::Body, error::ApiError},
};

pub async fn create(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Body(request): Body<OtpRequest>,
) -> Result<(StatusCode, Json<OtpRequested>), ApiError> {
    let requested = flows::request_otp::request_otp(&app, &asker, &request).await?;
    Ok((StatusCode::CREATED, Json(requested)))
}
