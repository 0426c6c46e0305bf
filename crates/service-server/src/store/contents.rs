//! Table `contents`. Row-level security shows a transaction only the spaces that it has entered.

use serde_json::{Map, Value};
use service_api::{
    contents::{Content, Kind},
    ids::{self, Id as _, UserId, WorkspaceId},
    shard::Shard,
    workspaces::ContentScope,
};
use service_rules::{Timestamp, space::Space};
use tokio_postgres::{Row, types::Json};
use uuid::Uuid;

use crate::database::{Connection, Error};

/// A space as the database identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceOwner {
    pub id: Uuid,
    pub in_workspace: bool,
}

impl SpaceOwner {
    /// Returns the database's id of a space of this user.
    #[must_use]
    pub fn of(space: Space, user_id: UserId) -> Self {
        match space {
            Space::Personal => Self { id: user_id.uuid(), in_workspace: false },
            Space::Workspace(id) => Self { id: id.uuid(), in_workspace: true },
        }
    }

    /// The number of the shard of its rows.
    pub(super) fn shard(self) -> i16 {
        Shard::of_id(self.id).number()
    }

    /// The workspace, unless it is a personal space.
    #[must_use]
    pub fn workspace(self) -> Option<WorkspaceId> {
        self.in_workspace.then(|| self.id.into())
    }
}

/// Enters spaces: the transaction can read and change their contents. The caller has checked that the user has access.
pub async fn enter(db: &Connection, spaces: &[SpaceOwner]) -> Result<(), Error> {
    let names: Vec<_> = spaces.iter().map(|space| space.id.to_string()).collect();
    db.execute(r"select set_config('service.spaces', $1, true)", &[&names.join(",")]).await.map(drop)
}

/// A content with its version.
pub struct StoredContent {
    pub content: Content,
    pub version: i64,
    /// The size of its fields as text. It counts for the quota of the space and for the length of a page.
    pub bytes: i64,
}

/// The first rows of a list up to a number of bytes. If there are rows, the list has at least one.
pub struct BoundedList<T> {
    pub rows: Vec<T>,
    /// Whether rows were left out because of their size.
    pub cut: bool,
}

/// Where a list begins, and its limits in rows and in bytes.
#[derive(Clone, Copy, Debug)]
pub struct ListBounds {
    pub after: Option<Uuid>,
    pub limit: i64,
    pub bytes: i64,
}

/// A content to be stored.
pub struct NewContent<'a> {
    pub space: SpaceOwner,
    pub kind: Kind,
    pub id: Uuid,
    pub fields: &'a Map<String, Value>,
    pub created_by: UserId,
    pub now: Timestamp,
}

/// Stores a content at version 1.
pub async fn insert(db: &Connection, new: &NewContent<'_>) -> Result<StoredContent, Error> {
    let row = db
        .query_opt(
            r"insert into contents
                  (space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at, updated_at)
              values ($1, $2, $3, $8, $4, $5, 1, $6, $7, $7)
              returning space_id, id, in_workspace, fields, version, created_at, updated_at, bytes",
            &[
                &new.space.id,
                &new.kind.prefix(),
                &new.id,
                &new.space.in_workspace,
                &Json(new.fields),
                &new.created_by.uuid(),
                &new.now,
                &new.space.shard(),
            ],
        )
        .await?;
    from_row(&row.ok_or_else(|| super::impossible("contents", "id"))?, new.kind)
}

/// Deletes up to `size` contents of any kind from an entered space.
pub async fn delete_some(db: &Connection, space: SpaceOwner, size: i64) -> Result<u64, Error> {
    db.execute(
        r"delete from contents where space_id = $1 and shard = $3 and (kind, id) in
              (select kind, id from contents where space_id = $1 and shard = $3 limit $2)",
        &[&space.id, &size, &space.shard()],
    )
    .await
}

/// Returns a content by its id.
pub async fn find(db: &Connection, space: SpaceOwner, kind: Kind, id: Uuid) -> Result<Option<StoredContent>, Error> {
    let row = db
        .query_opt(
            r"select space_id, id, in_workspace, fields, version, created_at, updated_at, bytes
                from contents where space_id = $1 and kind = $2 and id = $3 and shard = $4",
            &[&space.id, &kind.prefix(), &id, &space.shard()],
        )
        .await?;
    row.map(|row| from_row(&row, kind)).transpose()
}

/// Returns a content and locks it: other transactions that change it wait until this one ends.
pub async fn lock(db: &Connection, space: SpaceOwner, kind: Kind, id: Uuid) -> Result<Option<StoredContent>, Error> {
    let row = db
        .query_opt(
            r"select space_id, id, in_workspace, fields, version, created_at, updated_at, bytes
                from contents where space_id = $1 and kind = $2 and id = $3 and shard = $4 for update",
            &[&space.id, &kind.prefix(), &id, &space.shard()],
        )
        .await?;
    row.map(|row| from_row(&row, kind)).transpose()
}

/// Writes a content without changing it, so that the commit confirms what was written before.
pub async fn touch(db: &Connection, space: SpaceOwner, kind: Kind, id: Uuid) -> Result<(), Error> {
    let sql = r"update contents set version = version where space_id = $1 and kind = $2 and id = $3 and shard = $4";
    db.execute(sql, &[&space.id, &kind.prefix(), &id, &space.shard()]).await.map(drop)
}

/// Returns the user who created a content.
pub async fn find_creator(db: &Connection, space: SpaceOwner, kind: Kind, id: Uuid) -> Result<Option<UserId>, Error> {
    let sql = r"select created_by from contents where space_id = $1 and kind = $2 and id = $3 and shard = $4";
    let row = db.query_opt(sql, &[&space.id, &kind.prefix(), &id, &space.shard()]).await?;
    row.map(|row| Ok(row.try_get::<_, Uuid>("created_by")?.into())).transpose()
}

/// Whether a space has at least `many` contents of a kind.
pub async fn has_many(db: &Connection, space: SpaceOwner, kind: Kind, many: i64) -> Result<bool, Error> {
    let row = db
        .query_opt(
            r"select from contents where space_id = $1 and kind = $2 and shard = $4 offset $3 limit 1",
            &[&space.id, &kind.prefix(), &(many - 1), &space.shard()],
        )
        .await?;
    Ok(row.is_some())
}

/// Returns contents of a space, oldest first.
pub async fn list(
    db: &Connection,
    space: SpaceOwner,
    kind: Kind,
    bounds: ListBounds,
) -> Result<BoundedList<StoredContent>, Error> {
    let rows = db
        .query(
            r"select * from
                (select page.*, (sum(bytes) over (order by id))::bigint - bytes as bytes_before, count(*) over () as found
                   from (select space_id, id, in_workspace, fields, version, created_at, updated_at, bytes
                           from contents where space_id = $1 and kind = $2 and id > $3 and shard = $6
                          order by id limit $4) as page) as page
               where bytes_before < $5 order by id",
            &[
                &space.id,
                &kind.prefix(),
                &bounds.after.unwrap_or_default(),
                &bounds.limit,
                &bounds.bytes,
                &space.shard(),
            ],
        )
        .await?;
    bounded(&rows, |row| from_row(row, kind))
}

/// The new state of a content.
pub struct ContentChange<'a> {
    pub id: Uuid,
    /// The version that is changed.
    pub version: i64,
    pub fields: &'a Map<String, Value>,
    pub to: SpaceOwner,
    pub now: Timestamp,
}

/// Changes a content that is still at this version; `None`: it was changed or deleted meanwhile.
///
/// A content that goes to another space gets a new row there, because the shard is in the key of a row.
pub async fn update(
    db: &Connection,
    space: SpaceOwner,
    kind: Kind,
    change: &ContentChange<'_>,
) -> Result<Option<StoredContent>, Error> {
    if change.to != space {
        return move_to(db, space, kind, change).await;
    }
    let row = db
        .query_opt(
            r"update contents set fields = $5, version = version + 1, updated_at = $6
               where space_id = $1 and kind = $2 and id = $3 and shard = $7 and version = $4
              returning space_id, id, in_workspace, fields, version, created_at, updated_at, bytes",
            &[
                &space.id,
                &kind.prefix(),
                &change.id,
                &change.version,
                &Json(change.fields),
                &change.now,
                &space.shard(),
            ],
        )
        .await?;
    row.map(|row| from_row(&row, kind)).transpose()
}

async fn move_to(
    db: &Connection,
    space: SpaceOwner,
    kind: Kind,
    change: &ContentChange<'_>,
) -> Result<Option<StoredContent>, Error> {
    let row = db
        .query_opt(
            r"delete from contents where space_id = $1 and kind = $2 and id = $3 and shard = $5 and version = $4
              returning created_by, created_at",
            &[&space.id, &kind.prefix(), &change.id, &change.version, &space.shard()],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let (created_by, created_at): (Uuid, Timestamp) = (row.try_get("created_by")?, row.try_get("created_at")?);
    let row = db
        .query_opt(
            r"insert into contents
                  (space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at, updated_at)
              values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
              returning space_id, id, in_workspace, fields, version, created_at, updated_at, bytes",
            &[
                &change.to.id,
                &kind.prefix(),
                &change.id,
                &change.to.shard(),
                &change.to.in_workspace,
                &Json(change.fields),
                &(change.version + 1),
                &created_by,
                &created_at,
                &change.now,
            ],
        )
        .await?;
    row.map(|row| from_row(&row, kind)).transpose()
}

/// Reads rows that hold the number of rows before they were cut.
pub(super) fn bounded<T>(rows: &[Row], read: impl Fn(&Row) -> Result<T, Error>) -> Result<BoundedList<T>, Error> {
    let found = rows.first().map(|row| row.try_get::<_, i64>("found")).transpose()?.unwrap_or_default();
    let cut = usize::try_from(found).is_ok_and(|found| found > rows.len());
    Ok(BoundedList { rows: rows.iter().map(read).collect::<Result<_, _>>()?, cut })
}

pub(super) fn from_row(row: &Row, kind: Kind) -> Result<StoredContent, Error> {
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
    Ok(StoredContent { content, version: row.try_get("version")?, bytes: row.try_get("bytes")? })
}
