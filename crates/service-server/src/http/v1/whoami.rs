//! `GET /v1/whoami`

use axum::{Json, extract::State};
use service_api::whoami::Whoami;

use crate::{
    app::App,
    flows,
    http::{caller::NoScope, errors::ApiError, space::Space},
};

pub async fn show(State(app): State<App>, space: Space<NoScope>) -> Result<Json<Whoami>, ApiError> {
    Ok(Json(flows::whoami::whoami(&app, space.caller.credential(), &space.entered).await?))
}
