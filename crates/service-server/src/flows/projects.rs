//! Projects of a space (`GET /v1/projects`).

use service_api::{
    ids::{Id as _, ProjectId, UserId},
    page::Page,
    projects::Project,
};
use service_rules::space::Place;

use crate::{
    app::App,
    cursor::{Foreign, List},
    failure::Failure,
    store,
};

pub async fn list(
    app: &App,
    user_id: UserId,
    place: Place,
    limit: u16,
    cursor: Option<&str>,
) -> Result<Page<Project>, Failure<Foreign>> {
    let space = match place {
        Place::Personal => user_id.to_string(),
        Place::Workspace(id) => id.to_string(),
    };
    let list = List { vault: &app.vault, of: &[b"projects", space.as_bytes()], limit };
    let behind = list.behind(cursor).map_err(Failure::Refused)?.map(ProjectId::from);
    let db = app.database.connect().await?;
    let data = store::projects::list_by_space(&db, place, user_id, behind, list.rows()).await?;
    Ok(list.page(data, |project| project.id.uuid()))
}
