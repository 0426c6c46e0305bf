//! How a user answers the invitations to the address of the account: list, accept or decline them, or block the workspace.
//!
//! A user becomes a member only by accepting. Until then, or until it expires, the workspace sees the invitation as pending:
//! it learns neither of other answers nor whether the address has an account.
//!
//! Accepting:
//! 1. Lock the user, find the invitation by the address of the account, and lock the workspace.
//! 2. Mark it accepted in one guarded statement: unexpired, unanswered, sent by an owner. Then the sender must be enabled and
//!    the workspace not blocked, or all is rolled back.
//! 3. Join. The workspace's event carries no network address; the user's own event does.
//!
//! The other events here name no workspace, so that only the user can read them.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{Id as _, InvitationId, UserId, WorkspaceId},
    page::Page,
    workspaces::{BlockedWorkspace, ReceivedInvitation, Workspace},
};
use uuid::Uuid;

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        Actor,
        sign_in::email_key::email_key,
        workspaces::{MAX_WORKSPACES_PER_USER, WorkspaceError, access},
    },
    pagination::{List, PageRequest},
    store::{self, deletions::ContentKey, received_invitations::InvitedUser},
};

const MAX_BLOCKED_WORKSPACES_PER_USER: i64 = 1_000;

pub async fn list(
    app: &App,
    actor: &Actor<'_>,
    page: PageRequest<'_>,
) -> Result<Page<ReceivedInvitation>, WorkspaceError> {
    let user_id = actor.user_id;
    let owner = user_id.to_string();
    let list = List { root_keys: &app.root_keys, of: &[b"received invitations", owner.as_bytes()], limit: page.limit };
    let after = list.behind(page.cursor)?;
    let db = app.database.connect().await?;
    let data = pending(app, &db, user_id, after, list.rows()).await?;
    Ok(list.page(data, |invitation| invitation.id.uuid()))
}

/// Returns up to `limit` pending invitations of a user after `after`.
pub(crate) async fn pending(
    app: &App,
    db: &Connection,
    user_id: UserId,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<ReceivedInvitation>, database::Error> {
    let Some(address) = store::users::find_address(db, user_id).await? else { return Ok(Vec::new()) };
    let invited = InvitedUser { user_id, email: email_key(app, db, &address).await? };
    store::received_invitations::list(db, invited, app.clock.now(), after, limit).await
}

/// Accepts an invitation: the user joins its workspace. Accepting it again succeeds while the user is a member.
pub async fn accept(app: &App, actor: &Actor<'_>, id: &str) -> Result<Workspace, WorkspaceError> {
    let now = app.clock.now();
    let id: InvitationId = id.parse().map_err(|_| WorkspaceError::NotInvited)?;
    let user_id = actor.user_id;
    let db = app.database.begin().await?;
    if !store::users::lock(&db, user_id).await? {
        return Err(WorkspaceError::NotInvited);
    }
    let address = store::users::find_address(&db, user_id).await?.ok_or(WorkspaceError::NotInvited)?;
    let invited = InvitedUser { user_id, email: email_key(app, &db, &address).await? };
    let found = store::received_invitations::find(&db, invited.email, id, now).await?;
    let found = found.ok_or(WorkspaceError::NotInvited)?;
    let workspace_id = found.workspace_id;
    store::workspaces::lock(&db, workspace_id).await?;
    let role = store::memberships::find_role(&db, user_id, workspace_id).await?;
    if found.accepted {
        // The response to the first request may have been lost.
        return if role.is_some() {
            access::read(&db, actor, workspace_id).await
        } else {
            Err(WorkspaceError::NotInvited)
        };
    }
    if role.is_none() && store::workspaces::count_by_user(&db, user_id).await? >= MAX_WORKSPACES_PER_USER {
        return Err(WorkspaceError::TooManyWorkspaces);
    }
    let role =
        store::received_invitations::mark_accepted(&db, invited, id, now).await?.ok_or(WorkspaceError::NotInvited)?;
    if store::memberships::join(&db, user_id, workspace_id, role, now).await? {
        let event = actor.user_event(EventName::MemberJoined, now, json!({ "role": role }))?;
        event.in_workspace(workspace_id).without_address().insert(&db).await?;
    }
    let details = json!({ "invitation": id, "workspace": workspace_id });
    actor.event(EventName::InvitationAccepted, now, details)?.insert(&db).await?;
    let joined = access::read(&db, actor, workspace_id).await?;
    db.commit().await?;
    Ok(joined)
}

/// Declines an invitation. Declining it again changes nothing. The workspace does not learn of it.
pub async fn decline(app: &App, actor: &Actor<'_>, id: &str) -> Result<(), WorkspaceError> {
    let now = app.clock.now();
    let id: InvitationId = id.parse().map_err(|_| WorkspaceError::NotInvited)?;
    let db = app.database.begin().await?;
    let address = store::users::find_address(&db, actor.user_id).await?.ok_or(WorkspaceError::NotInvited)?;
    let email = email_key(app, &db, &address).await?;
    let declined = store::received_invitations::mark_declined(&db, email, id, now).await?;
    if declined.ok_or(WorkspaceError::NotInvited)? {
        actor.event(EventName::InvitationDeclined, now, json!({ "invitation": id }))?.insert(&db).await?;
    }
    Ok(db.commit().await?)
}

/// Blocks the workspace of an invitation: the user sees no invitations of it, and gets no mails about them.
pub async fn block(app: &App, actor: &Actor<'_>, id: &str) -> Result<BlockedWorkspace, WorkspaceError> {
    let now = app.clock.now();
    let id: InvitationId = id.parse().map_err(|_| WorkspaceError::NotInvited)?;
    let user_id = actor.user_id;
    let db = app.database.begin().await?;
    store::users::lock(&db, user_id).await?;
    let address = store::users::find_address(&db, user_id).await?.ok_or(WorkspaceError::NotInvited)?;
    let found = store::received_invitations::find(&db, email_key(app, &db, &address).await?, id, now).await?;
    let found = found.filter(|found| !found.accepted).ok_or(WorkspaceError::NotInvited)?;
    if store::blocked_workspaces::count(&db, user_id).await? >= MAX_BLOCKED_WORKSPACES_PER_USER {
        return Err(WorkspaceError::TooManyBlocked);
    }
    let blocked = BlockedWorkspace { workspace_id: found.workspace_id, name: found.workspace_name, blocked_at: now };
    if store::blocked_workspaces::insert(&db, user_id, &blocked).await? {
        let details = json!({ "workspace": blocked.workspace_id });
        actor.event(EventName::WorkspaceBlocked, now, details)?.insert(&db).await?;
    }
    db.commit().await?;
    Ok(blocked)
}

pub async fn list_blocked(
    app: &App,
    actor: &Actor<'_>,
    page: PageRequest<'_>,
) -> Result<Page<BlockedWorkspace>, WorkspaceError> {
    let user_id = actor.user_id;
    let owner = user_id.to_string();
    let list = List { root_keys: &app.root_keys, of: &[b"blocked workspaces", owner.as_bytes()], limit: page.limit };
    let after = list.behind(page.cursor)?;
    let db = app.database.connect().await?;
    let data = store::blocked_workspaces::list(&db, user_id, after, list.rows()).await?;
    Ok(list.page(data, |blocked| blocked.workspace_id.uuid()))
}

/// Unblocks a workspace. Its invitations that have not expired are shown again.
pub async fn unblock(app: &App, actor: &Actor<'_>, id: &str) -> Result<(), WorkspaceError> {
    let now = app.clock.now();
    let id: WorkspaceId = id.parse().map_err(|_| WorkspaceError::NotBlocked)?;
    let user_id = actor.user_id;
    let lifted = ContentKey { space_id: user_id.uuid(), kind: WorkspaceId::KIND, id: id.uuid() };
    let db = app.database.begin().await?;
    if store::blocked_workspaces::delete(&db, user_id, id).await? {
        store::deletions::insert(&db, lifted, now).await?;
        actor.event(EventName::WorkspaceUnblocked, now, json!({ "workspace": id }))?.insert(&db).await?;
    } else if !store::deletions::touch(&db, lifted).await? {
        return Err(WorkspaceError::NotBlocked);
    }
    Ok(db.commit().await?)
}
