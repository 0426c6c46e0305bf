//! Table `contents`. The database itself shows a transaction only the spaces it has entered.

use serde_json::{Map, Value};
use service_api::{
    contents::{Content, Kind},
    ids::{self, Id as _, UserId, WorkspaceId},
    workspaces::ContentScope,
};
use service_rules::{Timestamp, space::Place};
use tokio_postgres::{Row, types::Json};
use uuid::Uuid;

use crate::database::{Connection, Error};

/// A space as the table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceKey {
    pub id: Uuid,
    pub in_workspace: bool,
}

impl SpaceKey {
    #[must_use]
    pub fn of(place: Place, user_id: UserId) -> Self {
        match place {
            Place::Personal => Self { id: user_id.uuid(), in_workspace: false },
            Place::Workspace(id) => Self { id: id.uuid(), in_workspace: true },
        }
    }
}

/// Lets the transaction see and change what is in these spaces; whoever calls has found that it may.
pub async fn enter(db: &Connection, spaces: &[SpaceKey]) -> Result<(), Error> {
    let names: Vec<_> = spaces.iter().map(|space| space.id.to_string()).collect();
    db.execute(r"select set_config('service.spaces', $1, true)", &[&names.join(",")]).await.map(drop)
}

/// A content with the version that it is at.
pub struct Stored {
    pub content: Content,
    pub version: i64,
}

pub struct New<'a> {
    pub space: SpaceKey,
    pub kind: Kind,
    pub id: Uuid,
    pub fields: &'a Map<String, Value>,
    pub created_by: UserId,
    pub now: Timestamp,
}

pub async fn insert(db: &Connection, new: &New<'_>) -> Result<Stored, Error> {
    let row = db
        .query_opt(
            r"insert into contents (space_id, kind, id, in_workspace, fields, version, created_by, created_at, updated_at)
              values ($1, $2, $3, $4, $5, 1, $6, $7, $7)
              returning space_id, id, in_workspace, fields, version, created_at, updated_at",
            &[
                &new.space.id,
                &new.kind.prefix(),
                &new.id,
                &new.space.in_workspace,
                &Json(new.fields),
                &new.created_by.uuid(),
                &new.now,
            ],
        )
        .await?;
    from_row(&row.ok_or_else(|| super::impossible("contents", "id"))?, new.kind)
}

pub async fn find(db: &Connection, space: SpaceKey, kind: Kind, id: Uuid) -> Result<Option<Stored>, Error> {
    let row = db
        .query_opt(
            r"select space_id, id, in_workspace, fields, version, created_at, updated_at
                from contents where space_id = $1 and kind = $2 and id = $3",
            &[&space.id, &kind.prefix(), &id],
        )
        .await?;
    row.map(|row| from_row(&row, kind)).transpose()
}

/// The same, which nobody else changes before this transaction ends.
pub async fn find_locked(db: &Connection, space: SpaceKey, kind: Kind, id: Uuid) -> Result<Option<Stored>, Error> {
    let row = db
        .query_opt(
            r"select space_id, id, in_workspace, fields, version, created_at, updated_at
                from contents where space_id = $1 and kind = $2 and id = $3 for update",
            &[&space.id, &kind.prefix(), &id],
        )
        .await?;
    row.map(|row| from_row(&row, kind)).transpose()
}

/// Whether a space has so many of a kind.
pub async fn has_many(db: &Connection, space: SpaceKey, kind: Kind, many: i64) -> Result<bool, Error> {
    let row = db
        .query_opt(
            r"select from contents where space_id = $1 and kind = $2 offset $3 limit 1",
            &[&space.id, &kind.prefix(), &(many - 1)],
        )
        .await?;
    Ok(row.is_some())
}

/// Up to `limit` of a space, oldest first, behind `after`.
pub async fn list(
    db: &Connection,
    space: SpaceKey,
    kind: Kind,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Stored>, Error> {
    let rows = db
        .query(
            r"select space_id, id, in_workspace, fields, version, created_at, updated_at
                from contents where space_id = $1 and kind = $2 and id > $3 order by id limit $4",
            &[&space.id, &kind.prefix(), &after.unwrap_or_default(), &limit],
        )
        .await?;
    rows.iter().map(|row| from_row(row, kind)).collect()
}

/// What a content is to become.
pub struct Change<'a> {
    pub fields: &'a Map<String, Value>,
    pub to: SpaceKey,
    pub now: Timestamp,
}

/// Changes a content that is still at this version; `None`: somebody else was faster, or it is gone.
pub async fn update(
    db: &Connection,
    space: SpaceKey,
    kind: Kind,
    (id, version): (Uuid, i64),
    change: &Change<'_>,
) -> Result<Option<Stored>, Error> {
    let row = db
        .query_opt(
            r"update contents
                 set fields = $5, space_id = $6, in_workspace = $7, version = version + 1, updated_at = $8
               where space_id = $1 and kind = $2 and id = $3 and version = $4
              returning space_id, id, in_workspace, fields, version, created_at, updated_at",
            &[
                &space.id,
                &kind.prefix(),
                &id,
                &version,
                &Json(change.fields),
                &change.to.id,
                &change.to.in_workspace,
                &change.now,
            ],
        )
        .await?;
    row.map(|row| from_row(&row, kind)).transpose()
}

pub async fn delete(db: &Connection, space: SpaceKey, kind: Kind, id: Uuid) -> Result<bool, Error> {
    let sql = r"delete from contents where space_id = $1 and kind = $2 and id = $3";
    Ok(db.execute(sql, &[&space.id, &kind.prefix(), &id]).await? == 1)
}

/// Where and what to search for.
pub struct Wanted<'a> {
    pub spaces: &'a [SpaceKey],
    pub pack_type: &'a str,
    pub query: &'a str,
    pub offset: i64,
    pub limit: i64,
}

/// A pack that was found, with its score and the part of its text that the words are in, marked.
pub struct Hit {
    pub content: Content,
    pub score: f32,
    pub marked: String,
}

/// Packs that hold the words, or words that look like them. Only what is in these spaces is looked at, so what others
/// have costs nothing.
pub async fn search(db: &Connection, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Error> {
    let spaces: Vec<_> = wanted.spaces.iter().map(|space| space.id).collect();
    let rows = db
        .query(
            r"select space_id, id, in_workspace, fields, version, created_at, updated_at, score,
                     ts_headline('english', coalesce(fields->>'text', fields->>'name'), query,
                                 U&'StartSel=\E000, StopSel=\E001, MaxWords=30, MinWords=10') as marked
                from (select c.*, query,
                             (ts_rank_cd(words, query, 32) + word_similarity($3, fields->>'name'))::real as score
                        from contents c, websearch_to_tsquery('english', $3) as query
                       where space_id = any ($1) and kind = 'pack' and fields->>'type' = $2
                         and (words @@ query or word_similarity($3, fields->>'name') >= 0.5
                              or word_similarity($3, left(fields->>'text', 2000)) >= 0.6)
                       order by score desc, id offset $4 limit $5) as found
               order by score desc, id",
            &[&spaces, &wanted.pack_type, &wanted.query, &wanted.offset, &wanted.limit],
        )
        .await?;
    let hit = |row: &Row| {
        let Stored { content, .. } = from_row(row, Kind::Pack)?;
        Ok(Hit { content, score: row.try_get("score")?, marked: row.try_get("marked")? })
    };
    rows.iter().map(hit).collect()
}

fn from_row(row: &Row, kind: Kind) -> Result<Stored, Error> {
    let in_workspace: bool = row.try_get("in_workspace")?;
    let space: Uuid = row.try_get("space_id")?;
    let Json(fields) = row.try_get("fields")?;
    let content = Content {
        id: ids::write(kind.prefix(), row.try_get("id")?),
        scope: if in_workspace { ContentScope::Workspace } else { ContentScope::Personal },
        workspace_id: in_workspace.then(|| WorkspaceId::from(space)),
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        fields,
    };
    Ok(Stored { content, version: row.try_get("version")? })
}
