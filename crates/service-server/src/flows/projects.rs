//! Projects of a space (`GET /v1/projects`).

use service_api::{
    ids::{Id as _, ProjectId, UserId},
    page::Page,
    projects::Project,
};
use service_rules::space::Place;

use crate::{app::App, cursor, failure::Failure, store};

/// The cursor is not one that this list gave out.
#[derive(Debug)]
pub struct ForeignCursor;

pub async fn list(
    app: &App,
    user_id: UserId,
    place: Place,
    limit: u16,
    cursor: Option<&str>,
) -> Result<Page<Project>, Failure<ForeignCursor>> {
    let space = match place {
        Place::Personal => user_id.to_string(),
        Place::Workspace(id) => id.to_string(),
    };
    let list: &[&[u8]] = &[b"projects", space.as_bytes()];
    let after = match cursor {
        Some(text) => Some(cursor::read(&app.vault, list, text).ok_or(Failure::Refused(ForeignCursor))?),
        None => None,
    };

    let db = app.database.connect().await?;
    // One more than is shown tells whether there is a next page.
    let behind = after.map(ProjectId::from);
    let mut data = store::projects::list_by_space(&db, place, user_id, behind, i64::from(limit) + 1).await?;
    let more = data.len() > usize::from(limit);
    data.truncate(limit.into());
    let last = data.last().filter(|_| more);
    let next_cursor = last.map(|project| cursor::write(&app.vault, list, project.id.uuid()));
    Ok(Page { data, next_cursor })
}
