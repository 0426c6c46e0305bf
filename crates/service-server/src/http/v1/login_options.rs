//! `POST /v1/login-options`

use axum::{Extension, Json, extract::State};
use service_api::sign_in::{LoginOptions, LoginOptionsRequest};

use crate::{
    app::App,
    flows::{self, RequestMeta},
    http::{body::Body, errors::ApiError},
};

pub async fn ask(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    Body(request): Body<LoginOptionsRequest>,
) -> Result<Json<LoginOptions>, ApiError> {
    Ok(Json(flows::sign_in::login_options::login_options(&app, &meta, &request).await?))
}
