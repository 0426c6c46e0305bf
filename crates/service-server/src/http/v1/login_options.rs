//! `POST /v1/login-options`

use axum::{Extension, Json, extract::State};
use service_api::sign_in::{LoginOptions, LoginOptionsRequest};

use crate::{
    app::App,
    flows::{self, Asker},
    http::{body::Body, error::ApiError},
};

pub async fn ask(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Body(request): Body<LoginOptionsRequest>,
) -> Result<Json<LoginOptions>, ApiError> {
    Ok(Json(flows::login_options::login_options(&app, &asker, &request.email).await?))
}
