//! What an actor may do in a workspace, read from the database.

use service_api::{ids::WorkspaceId, oauth::is_first_party, workspaces::Workspace};
use service_rules::space::{self, Requested, Right, SpaceError};

use crate::{
    app::App,
    database::Connection,
    flows::{Actor, actor::Basis, sign_in::step_up, workspaces::WorkspaceError},
    store,
};

/// Checks that the actor's token and role allow this in a workspace, and that its passkey requirement does not keep the actor out.
pub(in crate::flows) async fn enter(
    app: &App,
    db: &Connection,
    actor: &Actor<'_>,
    id: &str,
    right: Right,
) -> Result<WorkspaceId, WorkspaceError> {
    let id = find(db, actor, id, right).await?;
    step_up::passkey_rule(app, db, actor.user_id, id).await?.check()?;
    Ok(id)
}

/// Checks that the actor's token and role allow this in a workspace. Its passkey requirement is not checked: members read its name and
/// leave it all the same.
pub(in crate::flows) async fn find(
    db: &Connection,
    actor: &Actor<'_>,
    id: &str,
    right: Right,
) -> Result<WorkspaceId, WorkspaceError> {
    let id: WorkspaceId = id.parse().map_err(|_| SpaceError::NotFound)?;
    space::choose(Requested::Workspace(id), actor.space_access)?;
    let role = store::memberships::find_role(db, actor.user_id, id).await?;
    space::judge(role, right)?;
    Ok(id)
}

/// Locks a workspace and checks what [`enter`] checks. No other transaction changes its members before this one ends.
pub(in crate::flows) async fn lock(
    app: &App,
    db: &Connection,
    actor: &Actor<'_>,
    id: &str,
    right: Right,
) -> Result<WorkspaceId, WorkspaceError> {
    let workspace_id = find(db, actor, id, right).await?;
    store::workspaces::lock(db, workspace_id).await?;
    enter(app, db, actor, id, right).await
}

/// Locks a workspace for a member who leaves it.
pub(super) async fn lock_to_leave(db: &Connection, actor: &Actor<'_>, id: &str) -> Result<WorkspaceId, WorkspaceError> {
    let workspace_id = find(db, actor, id, Right::Read).await?;
    store::workspaces::lock(db, workspace_id).await?;
    find(db, actor, id, Right::Read).await
}

/// Locks the session or browser that the actor uses, so that it cannot be revoked before this transaction ends. Only the service's
/// own clients have one that may invite.
pub(super) async fn lock_own_session(db: &Connection, actor: &Actor<'_>) -> Result<(), WorkspaceError> {
    let is_own = !matches!(actor.basis, Basis::Session(_)) || is_first_party(actor.client_id);
    if is_own { lock_session(db, actor).await } else { Err(WorkspaceError::SessionRevoked) }
}

/// Locks the session or browser that the actor uses, so that it cannot be revoked before this transaction ends.
pub(super) async fn lock_session(db: &Connection, actor: &Actor<'_>) -> Result<(), WorkspaceError> {
    let is_live = match actor.basis {
        Basis::Session(id) => store::grants::lock_live(db, id).await?.is_some(),
        Basis::Browser { id, .. } => store::browser_sessions::lock_signed_in(db, id, actor.user_id).await?.is_some(),
        Basis::CliToken(_) | Basis::Operator => false,
    };
    if is_live { Ok(()) } else { Err(WorkspaceError::SessionRevoked) }
}

/// A workspace that the actor is in, as the API shows it.
pub(super) async fn read(db: &Connection, actor: &Actor<'_>, id: WorkspaceId) -> Result<Workspace, WorkspaceError> {
    let found = store::workspaces::list_by_user(db, actor.user_id, Some(id), None, 1).await?;
    Ok(found.into_iter().next().ok_or(SpaceError::NotFound)?)
}
