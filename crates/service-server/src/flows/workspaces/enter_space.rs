//! Entering the space a request runs in.
//!
//! 1. The request chooses the space, else the token.
//! 2. Personal space is the caller's own. A workspace needs a membership, which is read for every request.

use service_api::workspaces::{ContentScope, Role, SpaceSource, SpaceView};
use service_rules::space::{self, Requested, Right, Space, SpaceError};

use crate::{app::App, database, flows::Actor, store};

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
        Space::Workspace(id) => {
            let db = app.database.connect().await?;
            let role = store::memberships::find_role(&db, actor.user_id, id).await?;
            Some(space::judge(role, right)?)
        }
    };
    Ok(Entered { space, source, role })
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
