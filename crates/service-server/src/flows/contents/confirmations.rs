//! Confirming a deletion: an MCP client asks for it, and its user confirms it in a browser.
//!
//! A program that acts for a user may have been talked into a deletion by what it reads. So the user decides, on a page of
//! the service, which names what is deleted and who asks. A confirmation counts once, for one version of
//! one content and for one client.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{self, ConfirmationId, Id as _, UserId, WorkspaceId},
};
use service_rules::{
    Timestamp, consent, lifetimes,
    signing::later,
    space::{Right, Space},
};

use super::{Collection, ContentError, Precondition, Target, lock_role};
use crate::{
    app::App,
    crypto::random,
    database,
    flows::{Actor, RequestMeta, sign_in::step_up},
    store::{
        self,
        confirmations::Confirmation,
        contents::{SpaceOwner, StoredContent},
    },
};

/// The number of confirmations of one client that can wait for one user.
const MAX_WAITING: i64 = 50;

/// What became of a deletion that needs a confirmation.
pub enum DeletionOutcome {
    Deleted,
    /// The user has to confirm it first.
    NotConfirmed(ConfirmationId),
    /// The user decided against it.
    Denied,
    /// The content is not the one that the user was asked about any more.
    ChangedSince,
    /// The confirmation is of something else, was used, or has expired.
    UnknownConfirmation,
    /// Too many confirmations wait for the user.
    TooManyWaiting,
}

/// A deletion that waits for its user, as a page shows it.
pub struct WaitingDeletion {
    pub confirmation: Confirmation,
    pub client_name: String,
    /// Whether the client chose its name itself.
    pub is_name_unverified: bool,
    pub content_name: String,
    pub changed_at: Timestamp,
    /// `None` in personal space.
    pub workspace_name: Option<String>,
}

/// Deletes a content if its user has confirmed it. Without a confirmation, one is requested.
pub async fn delete_confirmed(
    app: &App,
    actor: &Actor<'_>,
    collection: Collection,
    id: &str,
    confirmation: Option<&str>,
) -> Result<DeletionOutcome, ContentError> {
    let now = app.clock.now();
    let Some(text) = confirmation else { return request(app, actor, collection, id, now).await };
    let Ok(confirmation_id) = text.parse::<ConfirmationId>() else { return Ok(DeletionOutcome::UnknownConfirmation) };
    let found = store::confirmations::find(&app.database.connect().await?, actor.user_id, confirmation_id, now).await?;
    let content_id = collection.read_id(id)?;
    let is_for_this = |found: &Confirmation| {
        let asked = (found.kind, found.content_id, found.workspace_id, found.client_id.as_str());
        asked == (collection.kind, content_id, workspace(collection.space), actor.client_id)
    };
    let Some(found) = found.filter(is_for_this) else { return Ok(DeletionOutcome::UnknownConfirmation) };
    match found.confirmed {
        None => Ok(DeletionOutcome::NotConfirmed(confirmation_id)),
        Some(false) => Ok(DeletionOutcome::Denied),
        Some(true) => {
            let precondition = Precondition::VersionIn(vec![found.version]);
            match super::delete(app, actor, collection, Target { id, precondition: &precondition }).await {
                Ok(()) => {}
                Err(ContentError::PreconditionFailed) => return Ok(DeletionOutcome::ChangedSince),
                Err(failure) => return Err(failure),
            }
            // Deleting is idempotent: if this fails, a repetition finds the confirmation again.
            let db = app.database.connect().await?;
            store::confirmations::delete_by_content(&db, actor.user_id, found.kind, found.content_id).await?;
            Ok(DeletionOutcome::Deleted)
        }
    }
}

/// Requests a confirmation for the deletion of a content that exists, by a user who may delete it.
async fn request(
    app: &App,
    actor: &Actor<'_>,
    collection: Collection,
    id: &str,
    now: Timestamp,
) -> Result<DeletionOutcome, ContentError> {
    let content_id = collection.read_id(id)?;
    let space = collection.owner(actor);
    let db = app.content_database.begin().await?;
    lock_role(app, &db, actor, collection.space, Right::Write).await?;
    store::contents::enter(&db, &[space]).await?;
    let found = store::contents::find(&db, space, collection.kind, content_id).await?.ok_or(ContentError::NotFound)?;
    drop(db);
    let confirmation = Confirmation {
        id: random::id_in(actor.user_id.shard(), now)?,
        user_id: actor.user_id,
        client_id: actor.client_id.to_owned(),
        kind: collection.kind,
        content_id,
        workspace_id: workspace(collection.space),
        version: found.version,
        created_at: now,
        expires_at: later(now, lifetimes::CONFIRMATION),
        confirmed: None,
    };
    let db = app.database.connect().await?;
    if let Some(waiting) = store::confirmations::find_waiting(&db, &confirmation).await? {
        return Ok(DeletionOutcome::NotConfirmed(waiting));
    }
    let stored = store::confirmations::insert(&db, &confirmation, MAX_WAITING).await?;
    Ok(if stored { DeletionOutcome::NotConfirmed(confirmation.id) } else { DeletionOutcome::TooManyWaiting })
}

/// Finds a deletion that waits for this user. A content that was changed, or is gone with its workspace, leaves nothing to
/// confirm.
pub async fn find(app: &App, user_id: UserId, id: ConfirmationId) -> anyhow::Result<Option<WaitingDeletion>> {
    let now = app.clock.now();
    let db = app.database.connect().await?;
    let Some(confirmation) = store::confirmations::find(&db, user_id, id, now).await? else { return Ok(None) };
    if confirmation.confirmed.is_some() {
        return Ok(None);
    }
    let workspace_name = match confirmation.workspace_id {
        None => None,
        Some(id) if step_up::passkey_rule(app, &db, user_id, id).await?.check().is_err() => return Ok(None),
        Some(id) => match store::members::list_workspaces(&db, user_id).await?.into_iter().find(|one| one.id == id) {
            Some(found) => Some(found.name),
            None => return Ok(None),
        },
    };
    let client = store::clients::find(&db, &confirmation.client_id).await?;
    drop(db);
    let found = find_content(app, &confirmation).await?;
    let Some(content) = found.filter(|found| found.version == confirmation.version) else { return Ok(None) };
    Ok(Some(WaitingDeletion {
        is_name_unverified: client.as_ref().is_none_or(|client| !consent::is_name_verified(client.kind)),
        client_name: client.map_or_else(|| confirmation.client_id.clone(), |client| client.name),
        content_name: content.content.name().to_owned(),
        changed_at: content.content.updated_at,
        workspace_name,
        confirmation,
    }))
}

async fn find_content(app: &App, confirmation: &Confirmation) -> Result<Option<StoredContent>, database::Error> {
    let space = confirmation.workspace_id.map_or(Space::Personal, Space::Workspace);
    let owner = SpaceOwner::of(space, confirmation.user_id);
    let db = app.content_database.begin().await?;
    store::contents::enter(&db, &[owner]).await?;
    store::contents::find(&db, owner, confirmation.kind, confirmation.content_id).await
}

/// Records the answer of the user; `false`: there is nothing to answer.
pub async fn answer(
    app: &App,
    meta: &RequestMeta,
    user_id: UserId,
    waiting: &WaitingDeletion,
    confirmed: bool,
) -> anyhow::Result<bool> {
    let (now, asked) = (app.clock.now(), &waiting.confirmation);
    let db = app.database.begin().await?;
    if !store::confirmations::answer(&db, user_id, asked.id, confirmed, now).await? {
        return Ok(false);
    }
    let name = if confirmed { EventName::DeletionConfirmed } else { EventName::DeletionDenied };
    let event = meta.event(name, now, json!({}))?.user(user_id).client(&asked.client_id);
    let event = event.in_workspace(asked.workspace_id).subject(ids::write(asked.kind.prefix(), asked.content_id));
    event.insert(&db).await?;
    db.commit().await?;
    Ok(true)
}

const fn workspace(space: Space) -> Option<WorkspaceId> {
    match space {
        Space::Personal => None,
        Space::Workspace(id) => Some(id),
    }
}
