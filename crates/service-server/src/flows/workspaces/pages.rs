//! What the pages of workspaces show.

use service_api::{
    page::{MAX_LIMIT, Page},
    workspaces::{BlockedWorkspace, Invitation, Member, ReceivedInvitation, Role, Workspace},
};
use service_rules::space::{Right, SpaceError};

use crate::{
    app::App,
    flows::{
        Actor,
        workspaces::{self, MemberPath, WorkspaceError, access, invitations, received_invitations},
    },
    pagination::PageRequest,
    store::{self, members::ListedWorkspace},
};

/// The workspaces of a user, the invitations to others, and those that they have blocked.
pub struct WorkspaceOverview {
    pub invitations: Vec<ReceivedInvitation>,
    pub workspaces: Vec<ListedWorkspace>,
    pub blocked: Vec<BlockedWorkspace>,
}

/// What every page of a workspace says about it.
pub struct WorkspaceHeader {
    pub workspace: Workspace,
    /// The email address of the owner who joined first.
    pub owner: String,
}

/// One workspace, as a member sees it.
pub struct WorkspaceDetail {
    pub header: WorkspaceHeader,
    /// Whether the passkey requirement of the workspace keeps the member out: the lists are then empty.
    pub kept_out: bool,
    pub members: Page<Member>,
    /// Only owners see them; empty for other members.
    pub invitations: Vec<Invitation>,
}

pub async fn overview(app: &App, actor: &Actor<'_>) -> Result<WorkspaceOverview, WorkspaceError> {
    let all = PageRequest::first(MAX_LIMIT);
    let invitations = received_invitations::list(app, actor, all).await?.data;
    let blocked = received_invitations::list_blocked(app, actor, all).await?.data;
    let db = app.database.connect().await?;
    let workspaces = store::members::list_workspaces(&db, actor.user_id).await?;
    Ok(WorkspaceOverview { invitations, workspaces, blocked })
}

pub async fn detail(
    app: &App,
    actor: &Actor<'_>,
    id: &str,
    cursor: Option<&str>,
) -> Result<WorkspaceDetail, WorkspaceError> {
    let header = header(app, actor, id).await?;
    let members = match workspaces::list_members(app, actor, id, PageRequest { limit: MAX_LIMIT, cursor }).await {
        Err(WorkspaceError::Space(SpaceError::PasskeyRequired)) => {
            let members = Page { data: Vec::new(), next_cursor: None };
            return Ok(WorkspaceDetail { header, kept_out: true, members, invitations: Vec::new() });
        }
        members => members?,
    };
    let invitations = match header.workspace.role {
        Role::Owner => invitations::list(app, actor, id, PageRequest::first(MAX_LIMIT)).await?.data,
        Role::Member | Role::Viewer => Vec::new(),
    };
    Ok(WorkspaceDetail { header, kept_out: false, members, invitations })
}

/// A member whom an owner can remove.
pub async fn find_member(app: &App, actor: &Actor<'_>, path: MemberPath<'_>) -> Result<Member, WorkspaceError> {
    let user_id = path.read_user_id()?;
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, path.workspace_id, Right::Own).await?;
    store::members::find(&db, id, user_id).await?.ok_or(WorkspaceError::MemberNotFound)
}

/// A workspace that the actor is in, and its owner.
pub async fn header(app: &App, actor: &Actor<'_>, id: &str) -> Result<WorkspaceHeader, WorkspaceError> {
    let workspace = workspaces::find(app, actor, id).await?;
    let db = app.database.connect().await?;
    let owner = store::members::find_owner(&db, workspace.id).await?.unwrap_or_default();
    Ok(WorkspaceHeader { workspace, owner })
}
