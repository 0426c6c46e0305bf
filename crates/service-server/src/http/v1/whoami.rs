//! `GET /v1/whoami`

use axum::{Json, extract::State};
use service_api::whoami::Whoami;

use crate::{
    app::App,
    flows,
    http::{
        caller::{Anything, Read},
        error::ApiError,
        space::Space,
    },
};

pub async fn show(State(app): State<App>, space: Space<Read<Anything>>) -> Result<Json<Whoami>, ApiError> {
    Ok(Json(flows::whoami::whoami(&app, space.caller.credential(), &space.entered).await?))
}
