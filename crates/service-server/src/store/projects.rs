//! Table `projects`.

use service_api::{
    ids::{Id, ProjectId, UserId, WorkspaceId},
    projects::Project,
    workspaces::ContentScope,
};
use service_rules::{Timestamp, space::Place};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Where in the table a space's rows are: its key, and which kind of id that is.
fn key(place: Place, user_id: UserId) -> (Uuid, bool) {
    match place {
        Place::Personal => (user_id.uuid(), false),
        Place::Workspace(id) => (id.uuid(), true),
    }
}

pub struct NewProject<'a> {
    pub id: ProjectId,
    pub place: Place,
    pub name: &'a str,
    pub created_by: UserId,
}

pub async fn insert(db: &Connection, new: &NewProject<'_>, now: Timestamp) -> Result<(), Error> {
    let (space_id, in_workspace) = key(new.place, new.created_by);
    db.execute(
        r"insert into projects (space_id, id, in_workspace, name, created_by, created_at, updated_at)
          values ($1, $2, $3, $4, $5, $6, $6)",
        &[&space_id, &new.id.uuid(), &in_workspace, &new.name, &new.created_by.uuid(), &now],
    )
    .await
    .map(drop)
}

/// Up to `limit` projects of a space, oldest first, behind `after`.
pub async fn list_by_space(
    db: &Connection,
    place: Place,
    user_id: UserId,
    after: Option<ProjectId>,
    limit: i64,
) -> Result<Vec<Project>, Error> {
    let (space_id, _) = key(place, user_id);
    let after = after.map_or(Uuid::nil(), Id::uuid);
    let rows = db
        .query(
            r"select space_id, id, in_workspace, name, created_at, updated_at
                from projects where space_id = $1 and id > $2 order by id limit $3",
            &[&space_id, &after, &limit],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &Row) -> Result<Project, Error> {
    let in_workspace: bool = row.try_get("in_workspace")?;
    Ok(Project {
        id: row.try_get::<_, Uuid>("id")?.into(),
        name: row.try_get("name")?,
        scope: if in_workspace { ContentScope::Workspace } else { ContentScope::Personal },
        workspace_id: in_workspace
            .then(|| row.try_get("space_id").map(|id: Uuid| WorkspaceId::from(id)))
            .transpose()?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}
