//! `POST /v1/otp-tokens`

use axum::{Extension, Json, extract::State};
use service_api::sign_in::{OtpRequest, OtpRequested};

use crate::{
    app::App,
    flows::{self, RequestMeta},
    http::{body::Body, errors::ApiError},
};

pub async fn create(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    Body(request): Body<OtpRequest>,
) -> Result<Json<OtpRequested>, ApiError> {
    let requested = flows::sign_in::request_otp::request_otp(&app, &meta, &request).await?;
    Ok(Json(requested))
}
