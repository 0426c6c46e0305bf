//! `/v1/projects`

use axum::{Json, extract::State};
use service_api::{page::Page, projects::Project};

use crate::{
    app::App,
    flows,
    http::{
        caller::{Projects, Read},
        error::ApiError,
        paging,
        space::Space,
    },
};

pub async fn list(State(app): State<App>, space: Space<Read<Projects>>) -> Result<Json<Page<Project>>, ApiError> {
    let limit = paging::limit(&space.query)?;
    let (user_id, place) = (space.caller.credential().user_id, space.entered.place);
    Ok(Json(flows::projects::list(&app, user_id, place, limit, space.query.get("cursor")).await?))
}
