//! `GET /v1/whoami`

use axum::extract::State;
use service_api::whoami::Whoami;

use crate::{
    app::App,
    flows,
    http::{caller::NoScope, errors::ApiError, operation::WrittenJson, space::Space},
};

pub async fn show(State(app): State<App>, space: Space<NoScope>) -> Result<WrittenJson<Whoami>, ApiError> {
    Ok(WrittenJson::new(flows::whoami::whoami_json(&app, space.caller.credential(), &space.entered).await?))
}
