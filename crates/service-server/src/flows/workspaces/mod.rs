//! Workspaces: creating, renaming and deleting them, and their members.
//!
//! A transaction that changes the members of a workspace locks its row, so that two concurrent changes cannot remove the
//! last owner.

pub(super) mod access;
pub mod activity;
pub mod credentials;
pub mod enter_space;
pub mod invitations;
pub mod pages;
pub mod passkey_requirement;
pub mod received_invitations;

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{Id as _, UserId, WorkspaceId},
    page::Page,
    workspaces::{ChangeRole, MAX_NAME, Member, Role, Workspace},
};
use service_rules::{
    bearer::BearerError,
    display_name::{DisplayName, DisplayNameError},
    limits::Limited,
    space::{Right, Space, SpaceAccess, SpaceError},
    step_up::StepUp,
};

use crate::{
    app::App,
    crypto::random,
    database::{self, Connection},
    flows::{
        Actor,
        authenticate::AuthenticateError,
        revocation::RevocationTransaction,
        sign_in::step_up::{self, RecentSignIn},
        sso,
    },
    pagination::{InvalidCursor, List, PageRequest},
    store,
};

const MAX_WORKSPACES_PER_USER: i64 = 100;

/// Why a request about workspaces, their members or their invitations was refused.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("the workspace cannot be used: {0}")]
    Space(#[from] SpaceError),
    #[error("making a user an owner needs a more recent sign-in")]
    SignInTooOld(StepUp),
    #[error("the session was revoked since its token was checked")]
    SessionRevoked,
    #[error("the workspace has no such member")]
    MemberNotFound,
    #[error("the workspace has no such invitation")]
    InvitationNotFound,
    #[error("the workspace has no such CLI token or session")]
    CredentialNotFound,
    #[error("the user has no such invitation that can be answered")]
    NotInvited,
    #[error("the user has not blocked the workspace")]
    NotBlocked,
    #[error("the user has blocked as many workspaces as a user may")]
    TooManyBlocked,
    #[error("the name is invalid: {0}")]
    InvalidName(#[from] DisplayNameError),
    #[error("the email address is invalid")]
    InvalidAddress,
    #[error("the workspace would have no owner left")]
    LastOwner,
    #[error("no break-glass owner would be left for a required connection")]
    LastBreakGlass,
    #[error("the owner would be kept out by the passkey that the workspace requires")]
    NoOwnPasskey,
    #[error("the user is in as many workspaces as a user may be")]
    TooManyWorkspaces,
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    InvalidCursor(#[from] InvalidCursor),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

impl From<AuthenticateError> for WorkspaceError {
    fn from(error: AuthenticateError) -> Self {
        match error {
            AuthenticateError::Bearer(BearerError::SignInTooOld(step_up)) => Self::SignInTooOld(step_up),
            AuthenticateError::Bearer(_) => Self::SessionRevoked,
            AuthenticateError::Database(error) => error.into(),
            AuthenticateError::Defect(error) => error.into(),
        }
    }
}

/// A member of a workspace, as a request names both.
#[derive(Clone, Copy, Debug)]
pub struct MemberPath<'a> {
    pub workspace_id: &'a str,
    pub user_id: &'a str,
}

impl MemberPath<'_> {
    fn read_user_id(self) -> Result<UserId, WorkspaceError> {
        self.user_id.parse().map_err(|_| WorkspaceError::MemberNotFound)
    }
}

/// Creates a workspace, of which the actor is the owner.
pub async fn create(app: &App, actor: &Actor<'_>, name: &str) -> Result<Workspace, WorkspaceError> {
    let now = app.clock.now();
    let name = DisplayName::parse(name, MAX_NAME, &app.config.brand.own_names)?;
    // A token that is bound to one space creates no other.
    if let SpaceAccess::Only(_) = actor.space_access {
        return Err(SpaceError::Mismatch.into());
    }
    let user_id = actor.user_id;
    let db = app.database.begin().await?;
    store::users::lock(&db, user_id).await?;
    if store::workspaces::count_by_user(&db, user_id).await? >= MAX_WORKSPACES_PER_USER {
        return Err(WorkspaceError::TooManyWorkspaces);
    }
    let id: WorkspaceId = random::id_in(user_id.shard(), now)?;
    store::workspaces::insert(&db, id, &name, now).await?;
    store::memberships::join(&db, user_id, id, Role::Owner, now).await?;
    actor.event(EventName::WorkspaceCreated, now, json!({}))?.in_workspace(id).insert(&db).await?;
    db.commit().await?;
    Ok(Workspace { id, name: name.into_string(), role: Role::Owner, requires_passkey: false, created_at: now })
}

/// Lists the workspaces that the actor is in and that the token can be used for.
pub async fn list(app: &App, actor: &Actor<'_>, page: PageRequest<'_>) -> Result<Page<Workspace>, WorkspaceError> {
    let owner = actor.user_id.to_string();
    let list = List { root_keys: &app.root_keys, of: &[b"workspaces", owner.as_bytes()], limit: page.limit };
    let after = list.behind(page.cursor)?;
    let only = match actor.space_access {
        SpaceAccess::Anywhere(_) => None,
        SpaceAccess::Only(Space::Workspace(id)) => Some(id),
        SpaceAccess::Only(Space::Personal) => return Ok(Page { data: Vec::new(), next_cursor: None }),
    };
    let db = app.database.connect().await?;
    let data = store::workspaces::list_by_user(&db, actor.user_id, only, after, list.rows()).await?;
    Ok(list.page(data, |workspace| workspace.id.uuid()))
}

pub async fn find(app: &App, actor: &Actor<'_>, id: &str) -> Result<Workspace, WorkspaceError> {
    let db = app.database.connect().await?;
    let id = access::find(&db, actor, id, Right::Read).await?;
    access::read(&db, actor, id).await
}

/// Renames a workspace. Without a name nothing changes.
pub async fn rename(app: &App, actor: &Actor<'_>, id: &str, name: Option<&str>) -> Result<Workspace, WorkspaceError> {
    let now = app.clock.now();
    let own_names = &app.config.brand.own_names;
    let name = name.map(|name| DisplayName::parse(name, MAX_NAME, own_names)).transpose()?;
    let db = app.database.begin().await?;
    let id = access::enter(app, &db, actor, id, Right::Own).await?;
    if let Some(name) = name {
        if store::workspaces::update_name(&db, id, &name).await? {
            actor.event(EventName::WorkspaceRenamed, now, json!({}))?.in_workspace(id).insert(&db).await?;
        } else {
            // The row is written also without a change, so that a repeated request is confirmed only if the first one was.
            store::workspaces::touch(&db, id).await?;
        }
    }
    let renamed = access::read(&db, actor, id).await?;
    db.commit().await?;
    Ok(renamed)
}

/// Deletes a workspace for all its members, and revokes their tokens for it.
pub async fn delete(app: &App, actor: &Actor<'_>, _: RecentSignIn, id: &str) -> Result<(), WorkspaceError> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    if let Ok(id) = id.parse()
        && store::workspaces::was_deleted_under(transaction.db(), id, actor.user_id).await?
    {
        // The response to the first request may have been lost. This commit is confirmed only if that one is.
        store::workspaces::touch(transaction.db(), id).await?;
        return Ok(transaction.commit().await?);
    }
    let id = access::lock(app, transaction.db(), actor, id, Right::Own).await?;
    let event = actor.event(EventName::WorkspaceDeleted, now, json!({}))?.in_workspace(id);
    transaction.delete_workspace(id, event).await?;
    Ok(transaction.commit().await?)
}

pub async fn list_members(
    app: &App,
    actor: &Actor<'_>,
    id: &str,
    page: PageRequest<'_>,
) -> Result<Page<Member>, WorkspaceError> {
    let list = List { root_keys: &app.root_keys, of: &[b"members", id.as_bytes()], limit: page.limit };
    let after = list.behind(page.cursor)?;
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, id, Right::Read).await?;
    let data = store::members::list(&db, id, after, list.rows()).await?;
    Ok(list.page(data, |member| member.user_id.uuid()))
}

/// Changes the role of a member. Without a role nothing changes.
pub async fn change_role(
    app: &App,
    actor: &Actor<'_>,
    member: MemberPath<'_>,
    change: &ChangeRole,
) -> Result<Member, WorkspaceError> {
    let now = app.clock.now();
    if change.role == Some(Role::Owner) {
        step_up::require_recent_sign_in(app, actor).await?;
    }
    let user_id = member.read_user_id()?;
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let id = access::lock(app, transaction.db(), actor, member.workspace_id, Right::Own).await?;
    if change.role == Some(Role::Owner) {
        access::lock_session(transaction.db(), actor).await?;
    }
    let role = store::memberships::find_role(transaction.db(), user_id, id).await?;
    let role = role.ok_or(WorkspaceError::MemberNotFound)?;
    if let Some(new) = change.role {
        if new != Role::Owner {
            check_owner_left(transaction.db(), id, user_id, role).await?;
        }
        // The row is written also without a change, so that a repeated request is confirmed only if the first one was.
        store::memberships::update_role(transaction.db(), user_id, id, new).await?;
        if new != role {
            transaction.announce_role(user_id, id)?;
        }
        if new != Role::Owner {
            store::invitations::delete_by_member(transaction.db(), id, user_id).await?;
            store::connections::remove_break_glass(transaction.db(), id, user_id).await?;
        }
        if new != role {
            let details = json!({ "member": user_id, "role": new });
            actor.event(EventName::RoleChanged, now, details)?.in_workspace(id).insert(transaction.db()).await?;
        }
    }
    let changed = store::members::find(transaction.db(), id, user_id).await?;
    let changed = changed.ok_or(WorkspaceError::MemberNotFound)?;
    transaction.commit().await?;
    Ok(changed)
}

/// Checks that an enabled owner is left when a member with this role leaves, and one who can sign in without a required
/// connection.
async fn check_owner_left(db: &Connection, id: WorkspaceId, leaving: UserId, role: Role) -> Result<(), WorkspaceError> {
    if role != Role::Owner {
        return Ok(());
    }
    if !store::members::find_others_of(db, id, leaving).await?.has_owner {
        return Err(WorkspaceError::LastOwner);
    }
    if !sso::break_glass::remains(db, id, leaving).await? {
        return Err(WorkspaceError::LastBreakGlass);
    }
    Ok(())
}

/// Removes a member: an owner removes any, and every member can leave. Their tokens for the workspace are revoked.
pub async fn remove_member(app: &App, actor: &Actor<'_>, member: MemberPath<'_>) -> Result<(), WorkspaceError> {
    let now = app.clock.now();
    let user_id = member.read_user_id()?;
    let leaves = user_id == actor.user_id;
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    store::users::lock(transaction.db(), user_id).await?;
    if leaves
        && let Ok(id) = member.workspace_id.parse()
        && store::memberships::touch_ended(transaction.db(), user_id, id).await?
    {
        // The response to the first request may have been lost. This commit is confirmed only if that one is.
        return Ok(transaction.commit().await?);
    }
    let id = if leaves {
        access::lock_to_leave(transaction.db(), actor, member.workspace_id).await?
    } else {
        access::lock(app, transaction.db(), actor, member.workspace_id, Right::Own).await?
    };
    let Some(role) = store::memberships::find_role(transaction.db(), user_id, id).await? else {
        return if store::memberships::touch_ended(transaction.db(), user_id, id).await? {
            Ok(transaction.commit().await?)
        } else {
            Err(WorkspaceError::MemberNotFound)
        };
    };
    check_owner_left(transaction.db(), id, user_id, role).await?;
    let event = actor.event(EventName::MemberRemoved, now, json!({ "member": user_id }))?.in_workspace(id);
    transaction.remove_member(user_id, id, event).await?;
    Ok(transaction.commit().await?)
}
