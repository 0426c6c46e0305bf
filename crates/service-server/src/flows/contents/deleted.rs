//! Deleted contents: listing and restoring them, for 30 days after the deletion.
//!
//! The row in `deletions` is the lock: restoring holds it, so that of two at once one restores, and a deletion that is
//! repeated meanwhile waits to see whether there is something to delete again. Housekeeping passes over it.

use serde_json::json;
use service_api::{audit_events::EventName, contents::DeletedContent, ids, page::Page};
use service_rules::{Timestamp, lifetimes, signing::later, space::Right};

use crate::{
    app::App,
    flows::{
        Actor,
        contents::{Collection, ContentError, MAX_PAGE_BYTES, index, lock_role, quota, quota::Footprint},
    },
    pagination::{List, PageRequest},
    store::{
        self,
        contents::{ListBounds, StoredContent},
        deleted_contents::StoredDeletedContent,
        deletions::ContentKey,
    },
};

/// The moment after which a content must have been deleted to be restorable.
fn restorable_since(now: Timestamp) -> Timestamp {
    later(now, -lifetimes::DELETION_KNOWN)
}

/// A deleted content as lists show it, without its text, which may have been deleted so that it is no longer read.
/// Restoring it shows the text again.
fn shown(deleted: StoredDeletedContent) -> DeletedContent {
    let mut shown = in_full(deleted);
    shown.content.fields.retain(|name, _| matches!(name.as_str(), "name" | "type"));
    shown
}

/// A deleted content with everything that restoring it brings back.
fn in_full(deleted: StoredDeletedContent) -> DeletedContent {
    let StoredDeletedContent { content, deletion } = deleted;
    let expires_at = later(deletion.at, lifetimes::DELETION_KNOWN);
    DeletedContent { content, deleted_at: deletion.at, deleted_by: deletion.by, expires_at }
}

/// Lists the contents that can be restored. The actor owns the space.
pub async fn list(
    app: &App,
    actor: &Actor<'_>,
    collection: Collection,
    page: PageRequest<'_>,
) -> Result<Page<DeletedContent>, ContentError> {
    let read = ReadPage { page, bytes: MAX_PAGE_BYTES, show: shown };
    list_with(app, actor, collection, read).await
}

/// Lists the contents that can be restored as they will be then, with their text, for an export.
pub(crate) async fn list_in_full(
    app: &App,
    actor: &Actor<'_>,
    collection: Collection,
    page: PageRequest<'_>,
    max_bytes: i64,
) -> Result<Page<DeletedContent>, ContentError> {
    list_with(app, actor, collection, ReadPage { page, bytes: max_bytes, show: in_full }).await
}

/// A page of a list, and how it shows a content.
struct ReadPage<'a> {
    page: PageRequest<'a>,
    bytes: i64,
    show: fn(StoredDeletedContent) -> DeletedContent,
}

async fn list_with(
    app: &App,
    actor: &Actor<'_>,
    collection: Collection,
    read: ReadPage<'_>,
) -> Result<Page<DeletedContent>, ContentError> {
    let ReadPage { page, bytes, show } = read;
    let (space, kind) = (collection.owner(actor), collection.kind);
    let of = [b"deleted", kind.prefix().as_bytes(), space.id.as_bytes()];
    let list = List { root_keys: &app.root_keys, of: &of, limit: page.limit };
    let after = list.behind(page.cursor)?;
    let since = restorable_since(app.clock.now());
    let db = app.content_database.begin().await?;
    store::contents::enter(&db, &[space]).await?;
    let bounds = ListBounds { after, limit: list.rows(), bytes };
    let found = store::deleted_contents::list(&db, space, kind, bounds, since).await?;
    let data = found.rows.into_iter().map(show).collect();
    let id = |deleted: &DeletedContent| ids::read(kind.prefix(), &deleted.content.id).unwrap_or_default();
    Ok(list.page_of(data, found.cut, id))
}

/// Restores a deleted content, if the quotas of the space allow it. A content that is not deleted is returned as it is, so
/// that a request can be repeated.
pub async fn restore(
    app: &App,
    actor: &Actor<'_>,
    collection: Collection,
    id: &str,
) -> Result<StoredContent, ContentError> {
    let id = collection.read_id(id)?;
    let (space, kind) = (collection.owner(actor), collection.kind);
    let thing = ContentKey { space_id: space.id, kind: kind.prefix(), id };
    let now = app.clock.now();
    let db = app.content_database.begin().await?;
    lock_role(app, &db, actor, collection.space, Right::Own).await?;
    store::contents::enter(&db, &[space]).await?;
    let deleted_at = loop {
        if let Some(deleted_at) = store::deletions::lock(&db, thing).await? {
            break deleted_at;
        }
        if let Some(found) = store::contents::find(&db, space, kind, id).await? {
            return Ok(found);
        }
        // A content that is known now was deleted between the two statements.
        if !store::deletions::exists_or_existed(&db, thing).await? {
            return Err(ContentError::NotFound);
        }
    };
    if deleted_at <= restorable_since(now) {
        return Err(ContentError::NotFound);
    }
    let restored = store::deleted_contents::restore(&db, space, kind, id, now).await?;
    let restored = restored.ok_or(ContentError::NotFound)?;
    store::deletions::delete(&db, thing).await?;
    quota::take(&db, kind, Footprint { space, bytes: restored.bytes }).await?;
    index(&db, space, kind, id).await?;
    let event = actor.event(EventName::ContentRestored, now, json!({}))?.in_workspace(space.workspace());
    event.subject(ids::write(kind.prefix(), id)).insert(&db).await?;
    db.commit().await?;
    Ok(restored)
}
