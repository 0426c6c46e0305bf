//! Entering the space a request runs in.
//!
//! 1. The request chooses the space, else the token.
//! 2. Personal space is the caller's own. A workspace needs a membership, and must not keep the member out by its passkey requirement. The
//!    node caches the role of a member who may enter; a flow that changes something checks both again in its transaction.

use service_api::{
    ids::{UserId, WorkspaceId},
    workspaces::{ContentScope, Role, SpaceSource, SpaceView},
};
use service_rules::space::{self, Requested, Right, Space, SpaceError};

use crate::{
    app::App,
    database,
    flows::{Actor, sign_in::step_up},
    store,
    tokens::membership_cache::CACHE_SECONDS,
};

/// Why a request does not run in a space.
#[derive(Debug, thiserror::Error)]
pub enum EnterSpaceError {
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// The space that a request runs in, what chose it, and the caller's role there.
#[derive(Clone, Copy, Debug)]
pub struct Entered {
    pub space: Space,
    pub source: SpaceSource,
    /// `None` in personal space.
    pub role: Option<Role>,
}

pub async fn enter_space(
    app: &App,
    actor: &Actor<'_>,
    requested: Requested,
    right: Right,
) -> Result<Entered, EnterSpaceError> {
    let (space, source) = space::choose(requested, actor.space_access)?;
    let role = match space {
        Space::Personal => None,
        // What only owners may read is read at once, not a moment after the role was lost.
        Space::Workspace(id) if right == Right::Own => {
            Some(space::judge(Box::pin(look_up(app, actor.user_id, id)).await?, right)?)
        }
        Space::Workspace(id) => Some(space::judge(find_role(app, actor.user_id, id).await?, right)?),
    };
    Ok(Entered { space, source, role })
}

/// Returns the user's role in a workspace from the cache, unless it may have changed; `None`: the user is not a member.
async fn find_role(app: &App, user_id: UserId, id: WorkspaceId) -> Result<Option<Role>, EnterSpaceError> {
    if let Some(known) = app.memberships.get(user_id, id) {
        let unchanged = app.revocations.is_role_unchanged(user_id, id, known.looked_up_at)?;
        // The cache counts monotonic time, which stops while a machine is suspended.
        let age = app.clock.now().as_second() - known.looked_up_at;
        if unchanged && (0..=CACHE_SECONDS).contains(&age) {
            return Ok(Some(known.role));
        }
    }
    Box::pin(look_up(app, user_id, id)).await
}

/// Reads the user's role in a workspace from the database, and caches it unless the passkey requirement of the workspace keeps the user
/// out.
async fn look_up(app: &App, user_id: UserId, id: WorkspaceId) -> Result<Option<Role>, EnterSpaceError> {
    let looked_up_at = app.clock.now().as_second();
    let db = app.database.connect().await?;
    let role = store::memberships::find_role(&db, user_id, id).await?;
    if let Some(role) = role {
        step_up::passkey_rule(app, &db, user_id, id).await?.check()?;
        app.memberships.insert(user_id, id, role, looked_up_at);
    }
    Ok(role)
}

impl Entered {
    #[must_use]
    pub fn view(&self) -> SpaceView {
        let (scope, workspace_id) = match self.space {
            Space::Personal => (ContentScope::Personal, None),
            Space::Workspace(id) => (ContentScope::Workspace, Some(id)),
        };
        SpaceView { scope, workspace_id, role: self.role, because: self.source }
    }
}
