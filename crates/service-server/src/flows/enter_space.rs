//! Entering the space a request runs in.
//!
//! 1. The request decides which space, then the token.
//! 2. Personal space is the caller's own. A workspace is entered by membership, read anew for every request.

use service_api::{
    ids::UserId,
    workspaces::{Because, ContentScope, Role, SpaceView},
};
use service_rules::space::{self, Place, Reach, Refusal, Requested, Right};

use crate::{app::App, failure::Failure, store};

/// Where a request runs, why there, and as what.
#[derive(Clone, Copy, Debug)]
pub struct Entered {
    pub place: Place,
    pub because: Because,
    /// `None` in personal space.
    pub role: Option<Role>,
}

pub async fn enter_space(
    app: &App,
    user_id: UserId,
    reach: Reach,
    requested: Requested,
    right: Right,
) -> Result<Entered, Failure<Refusal>> {
    let (place, because) = space::choose(requested, reach).map_err(Failure::Refused)?;
    let role = match place {
        Place::Personal => None,
        Place::Workspace(id) => {
            let db = app.database.connect().await?;
            let role = store::memberships::find_role(&db, user_id, id).await?;
            Some(space::judge(role, right).map_err(Failure::Refused)?)
        }
    };
    Ok(Entered { place, because, role })
}

impl Entered {
    #[must_use]
    pub fn view(&self) -> SpaceView {
        let (scope, workspace_id) = match self.place {
            Place::Personal => (ContentScope::Personal, None),
            Place::Workspace(id) => (ContentScope::Workspace, Some(id)),
        };
        SpaceView { scope, workspace_id, role: self.role, because: self.because }
    }
}
