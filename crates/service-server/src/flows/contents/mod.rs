//! Contents of spaces: creating, reading, listing, changing and deleting them.
//!
//! The caller has entered the space with a token and a role that allow it. Each flow enters the space again in its own
//! transaction, so that row-level security hides the contents of all other spaces.

pub mod confirmations;
pub mod deleted;
mod quota;
pub mod search;

use serde_json::{Map, Value, json};
use service_api::{
    audit_events::EventName,
    contents::{Content, Kind},
    ids,
    page::Page,
    shard::Shard,
    workspaces::{ContentScope, PERSONAL, Role},
};
use service_rules::{
    Timestamp,
    contents::{Checked, InvalidContent, check_shared_name},
    scope_of_content,
    space::{self, Right, Space, SpaceAccess, SpaceError},
};
use uuid::Uuid;

use self::quota::{Footprint, MAX_CONTENTS_PER_KIND, MAX_SPACE_BYTES};
use crate::{
    app::App,
    crypto::{digest::sha256, random},
    database::{self, Connection},
    flows::{Actor, sign_in::step_up, tokens::exposed},
    pagination::{InvalidCursor, List, PageRequest},
    store::{
        self,
        contents::{ContentChange, ListBounds, NewContent, SpaceOwner, StoredContent},
        deleted_contents::Deletion,
        deletions::ContentKey,
        idempotency_keys::KeyedCreation,
        space_usage::DeletedCheck,
    },
};

/// Counting the deleted contents of a space reads all of them, so it is done after every 25 MB, where a content counts for
/// at least 50 kB: after 500 small ones.
const DELETED_BYTES_BETWEEN_COUNTS: DeletedCheck = DeletedCheck { least: 50_000, between: 25_000_000 };
/// Bytes of the contents on one page of a list: beyond them the page ends, whatever its limit is.
pub const MAX_PAGE_BYTES: i64 = 1_000_000;

/// Why a content was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    #[error("there is no such content in the space")]
    NotFound,
    #[error("the content is invalid: {0}")]
    Invalid(#[from] InvalidContent),
    #[error("the content cannot be in that space: {0}")]
    Space(#[from] SpaceError),
    #[error("the content has another version than the precondition names")]
    PreconditionFailed,
    #[error("the space has as many contents of this kind as it may")]
    CountQuotaExceeded,
    #[error("the space holds as many bytes as it may")]
    ByteQuotaExceeded,
    #[error("the idempotency key was used for another request")]
    IdempotencyKeyReused,
    #[error(transparent)]
    InvalidCursor(#[from] InvalidCursor),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// The contents of one kind in one space.
#[derive(Clone, Copy, Debug)]
pub struct Collection {
    pub kind: Kind,
    pub space: Space,
}

impl Collection {
    fn owner(self, actor: &Actor<'_>) -> SpaceOwner {
        SpaceOwner::of(self.space, actor.user_id)
    }

    fn read_id(self, id: &str) -> Result<Uuid, ContentError> {
        ids::read(self.kind.prefix(), id).ok_or(ContentError::NotFound)
    }
}

/// The versions that a change or a deletion is meant for.
#[derive(Debug, PartialEq, Eq)]
pub enum Precondition {
    Any,
    VersionIn(Vec<i64>),
}

impl Precondition {
    fn check(&self, version: i64) -> Result<(), ContentError> {
        match self {
            Self::VersionIn(versions) if !versions.contains(&version) => Err(ContentError::PreconditionFailed),
            Self::Any | Self::VersionIn(_) => Ok(()),
        }
    }
}

/// The content that a request is about, at the versions that it names.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub id: &'a str,
    pub precondition: &'a Precondition,
}

/// A request body, divided into the fields of the content and the space that it is to be in.
struct Sent {
    fields: Map<String, Value>,
    scope: Option<ContentScope>,
}

impl Sent {
    fn read(body: &Map<String, Value>) -> Result<Self, InvalidContent> {
        let mut fields = body.clone();
        let scope = fields.remove("scope").map(serde_json::from_value).transpose().map_err(|_| {
            InvalidContent::Field { field: "scope".into(), message: "is neither personal nor workspace".into() }
        })?;
        Ok(Self { fields, scope })
    }
}

/// Notifies the owner of a credential that was found in a content. Must not be called with an open transaction.
async fn reject(app: &App, actor: &Actor<'_>, invalid: InvalidContent) -> ContentError {
    if let InvalidContent::Credential { token, .. } = &invalid
        && let Err(error) = exposed::tell_owner(app, actor.meta, token).await
    {
        return error.into();
    }
    invalid.into()
}

/// The actor's role in the workspace, locked until the transaction ends. `None` in personal space. Fails if the passkey requirement of
/// the workspace keeps the actor out.
async fn lock_role(
    app: &App,
    db: &Connection,
    actor: &Actor<'_>,
    space: Space,
    right: Right,
) -> Result<Option<Role>, ContentError> {
    let Space::Workspace(id) = space else { return Ok(None) };
    let role = space::judge(store::memberships::lock_role(db, actor.user_id, id).await?, right)?;
    step_up::passkey_rule(app, db, actor.user_id, id).await?.check()?;
    Ok(Some(role))
}

/// A content that is to be moved to another space.
struct Move {
    kind: Kind,
    id: Uuid,
    from: SpaceOwner,
    to: SpaceOwner,
    /// The actor's role in the workspace of the request.
    role: Option<Role>,
}

impl Move {
    /// Checks that the actor may move the content, and records the move.
    async fn check(&self, db: &Connection, actor: &Actor<'_>, now: Timestamp) -> Result<(), ContentError> {
        if let (true, Some(role)) = (self.from.in_workspace, self.role) {
            let creator = store::contents::find_creator(db, self.from, self.kind, self.id).await?;
            scope_of_content::check_move_out(role, creator == Some(actor.user_id))?;
        }
        let name = |space: SpaceOwner| if space.in_workspace { "workspace" } else { PERSONAL };
        let details = json!({ "from": name(self.from), "to": name(self.to) });
        let workspace_id = self.from.workspace().or(self.to.workspace());
        let event = actor.event(EventName::ContentMoved, now, details)?.in_workspace(workspace_id);
        Ok(event.subject(ids::write(self.kind.prefix(), self.id)).insert(db).await?)
    }
}

/// Keeps the search index in step with what was written.
async fn index(db: &Connection, space: SpaceOwner, kind: Kind, id: Uuid) -> Result<(), database::Error> {
    if kind == Kind::Pack {
        store::pack_search::index(db, space, id).await?;
    }
    Ok(())
}

/// The request names `workspace`, and runs in personal space.
fn lacks_workspace(field: &str) -> InvalidContent {
    let message = "can be workspace only in a workspace. Send its ID as workspaceId in the query".into();
    InvalidContent::Field { field: field.into(), message }
}

/// The space that a content is to be in: the one that the body names, else that of the request.
fn choose_space(
    actor: &Actor<'_>,
    collection: Collection,
    scope: Option<ContentScope>,
) -> Result<SpaceOwner, ContentError> {
    if scope_of_content::lacks_workspace(collection.space, scope) {
        return Err(lacks_workspace("scope").into());
    }
    let space = scope_of_content::choose(collection.space, actor.space_access, scope)?;
    Ok(SpaceOwner::of(space, actor.user_id))
}

/// Creates a content. A request that is repeated with its idempotency key finds the content that it created.
pub async fn create(
    app: &App,
    actor: &Actor<'_>,
    collection: Collection,
    body: &Map<String, Value>,
    idempotency_key: Option<&str>,
) -> Result<StoredContent, ContentError> {
    let now = app.clock.now();
    let kind = collection.kind;
    let sent = Sent::read(body)?;
    let space = choose_space(actor, collection, sent.scope)?;
    let fields = match Checked::read(kind, &sent.fields).and_then(|checked| checked.create(kind)) {
        Ok(fields) => fields,
        Err(invalid) => return Err(reject(app, actor, invalid).await),
    };
    if space.in_workspace {
        check_shared_name(&fields)?;
    }
    let id = random::uuid_in(Shard::of_id(space.id), now)?;
    let db = app.content_database.begin().await?;
    lock_role(app, &db, actor, collection.space, Right::Write).await?;
    store::contents::enter(&db, &[space]).await?;
    if let Some(key) = idempotency_key {
        let digest = sha256(json!([kind.prefix(), space.id.to_string(), fields]).to_string()).to_vec();
        let made = KeyedCreation { digest: digest.clone(), space_id: space.id, content_id: id };
        if let Some(before) = store::idempotency_keys::take(&db, actor.user_id, key, &made, now).await? {
            if before.digest != digest {
                return Err(ContentError::IdempotencyKeyReused);
            }
            let found = store::contents::find(&db, space, kind, before.content_id).await?;
            return found.ok_or(ContentError::NotFound);
        }
    }
    let new = NewContent { space, kind, id, fields: &fields, created_by: actor.user_id, now };
    let stored = store::contents::insert(&db, &new).await?;
    quota::take(&db, kind, Footprint { space, bytes: stored.bytes }).await?;
    index(&db, space, kind, id).await?;
    db.commit().await?;
    Ok(stored)
}

pub async fn find(
    app: &App,
    actor: &Actor<'_>,
    collection: Collection,
    id: &str,
) -> Result<StoredContent, ContentError> {
    let id = collection.read_id(id)?;
    let space = collection.owner(actor);
    let db = app.content_database.begin().await?;
    store::contents::enter(&db, &[space]).await?;
    store::contents::find(&db, space, collection.kind, id).await?.ok_or(ContentError::NotFound)
}

/// Lists contents, oldest first. The page ends after `max_bytes` of contents, whatever its limit is.
pub async fn list(
    app: &App,
    actor: &Actor<'_>,
    collection: Collection,
    page: PageRequest<'_>,
    max_bytes: i64,
) -> Result<Page<Content>, ContentError> {
    let (space, kind) = (collection.owner(actor), collection.kind);
    let of = [kind.prefix().as_bytes(), space.id.as_bytes()];
    let list = List { root_keys: &app.root_keys, of: &of, limit: page.limit };
    let after = list.behind(page.cursor)?;
    let db = app.content_database.begin().await?;
    store::contents::enter(&db, &[space]).await?;
    let bounds = ListBounds { after, limit: list.rows(), bytes: max_bytes };
    let found = store::contents::list(&db, space, kind, bounds).await?;
    let data = found.rows.into_iter().map(|stored| stored.content).collect();
    let id = |content: &Content| ids::read(kind.prefix(), &content.id).unwrap_or_default();
    Ok(list.page_of(data, found.cut, id))
}

/// Updates the fields that were sent, if the precondition holds. An update that changes nothing makes no new version.
///
/// A body that names a scope also finds a content in personal space, to move it from there; a move that is repeated finds the
/// content where it is now.
pub async fn update(
    app: &App,
    actor: &Actor<'_>,
    collection: Collection,
    target: Target<'_>,
    body: &Map<String, Value>,
) -> Result<StoredContent, ContentError> {
    let now = app.clock.now();
    let kind = collection.kind;
    let id = collection.read_id(target.id)?;
    let sent = Sent::read(body)?;
    let checked = match Checked::read(kind, &sent.fields) {
        Ok(checked) => checked,
        Err(invalid) => return Err(reject(app, actor, invalid).await),
    };
    let to = choose_space(actor, collection, sent.scope)?;
    let mut spaces = vec![collection.owner(actor)];
    if sent.scope.is_some() && matches!(actor.space_access, SpaceAccess::Anywhere(_)) {
        spaces.push(SpaceOwner::of(Space::Personal, actor.user_id));
    }
    let db = app.content_database.begin().await?;
    let role = lock_role(app, &db, actor, collection.space, Right::Write).await?;
    store::contents::enter(&db, &spaces).await?;
    let (space, found) = find_locked_in(&db, &spaces, kind, id).await?.ok_or(ContentError::NotFound)?;
    target.precondition.check(found.version)?;
    if to != space {
        Move { kind, id, from: space, to, role }.check(&db, actor, now).await?;
    }
    let fields = checked.update(&found.content.fields);
    if to == space && fields == found.content.fields {
        // The row is written without a change, so that a repeated request is confirmed only if the first one was.
        store::contents::touch(&db, space, kind, id).await?;
        db.commit().await?;
        return Ok(found);
    }
    // A name from before this rule stays until it is changed.
    if to.in_workspace && (to != space || fields.get("name") != found.content.fields.get("name")) {
        check_shared_name(&fields)?;
    }
    let change = ContentChange { id, version: found.version, fields: &fields, to, now };
    let updated = store::contents::update(&db, space, kind, &change).await?;
    // Another request changed it between reading and writing.
    let updated = updated.ok_or(ContentError::PreconditionFailed)?;
    let (from, to) = (Footprint { space, bytes: found.bytes }, Footprint { space: to, bytes: updated.bytes });
    quota::settle(&db, kind, from, to).await?;
    index(&db, to.space, kind, id).await?;
    db.commit().await?;
    Ok(updated)
}

/// Finds a content in the first space that has it, and locks it.
async fn find_locked_in(
    db: &Connection,
    spaces: &[SpaceOwner],
    kind: Kind,
    id: Uuid,
) -> Result<Option<(SpaceOwner, StoredContent)>, database::Error> {
    // The first once more: while the others were waited for, a move may have brought the content there.
    for space in spaces.iter().chain(spaces.first()) {
        if let Some(found) = store::contents::lock(db, *space, kind, id).await? {
            return Ok(Some((*space, found)));
        }
    }
    Ok(None)
}

/// Deletes a content, if the precondition holds. Deleting it again succeeds; an unknown id is not found. An owner can restore
/// it for 30 days (`flows/contents/deleted.rs`).
pub async fn delete(
    app: &App,
    actor: &Actor<'_>,
    collection: Collection,
    target: Target<'_>,
) -> Result<(), ContentError> {
    let kind = collection.kind;
    let id = collection.read_id(target.id)?;
    let space = collection.owner(actor);
    let thing = ContentKey { space_id: space.id, kind: kind.prefix(), id };
    let now = app.clock.now();
    let db = app.content_database.begin().await?;
    lock_role(app, &db, actor, collection.space, Right::Write).await?;
    store::contents::enter(&db, &[space]).await?;
    let found = loop {
        if let Some(found) = store::contents::lock(&db, space, kind, id).await? {
            break found;
        }
        if store::deletions::touch(&db, thing).await? {
            return Ok(db.commit().await?);
        }
        // A content that is known now was restored between the two statements.
        if !store::deletions::exists_or_existed(&db, thing).await? {
            return Err(ContentError::NotFound);
        }
    };
    target.precondition.check(found.version)?;
    store::deletions::insert(&db, thing, now).await?;
    store::deleted_contents::insert_from_contents(&db, space, kind, id, Deletion { by: actor.user_id, at: now })
        .await?;
    if store::space_usage::delete_content(&db, space, found.bytes, DELETED_BYTES_BETWEEN_COUNTS).await? {
        store::deleted_contents::delete_excess(&db, space, MAX_CONTENTS_PER_KIND, MAX_SPACE_BYTES).await?;
    }
    let event = actor.event(EventName::ContentDeleted, now, json!({}))?.in_workspace(space.workspace());
    event.subject(ids::write(kind.prefix(), id)).insert(&db).await?;
    Ok(db.commit().await?)
}
