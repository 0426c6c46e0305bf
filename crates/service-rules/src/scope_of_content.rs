//! The space that content is stored in: `scope` in a request that creates or updates it.

use service_api::workspaces::{ContentScope, Role};

use crate::space::{Space, SpaceAccess, SpaceError};

/// Whether a request names a workspace that it does not run in: `workspace`, in personal space.
#[must_use]
pub const fn lacks_workspace(here: Space, scope: Option<ContentScope>) -> bool {
    matches!((here, scope), (Space::Personal, Some(ContentScope::Workspace)))
}

/// Chooses the space of content. Without a `scope` it is the space that the request runs in. `workspace` needs a request
/// that runs in a workspace, and a bound token keeps content in its own space.
///
/// # Errors
/// [`SpaceError::NotFound`] or [`SpaceError::Mismatch`].
pub fn choose(here: Space, space_access: SpaceAccess, scope: Option<ContentScope>) -> Result<Space, SpaceError> {
    let place = match (scope, here) {
        (None, here) => here,
        (Some(ContentScope::Personal), _) => Space::Personal,
        (Some(ContentScope::Workspace), Space::Workspace(id)) => Space::Workspace(id),
        (Some(ContentScope::Workspace), Space::Personal) => return Err(SpaceError::NotFound),
    };
    match space_access {
        SpaceAccess::Only(bound) if bound != place => Err(SpaceError::Mismatch),
        SpaceAccess::Only(_) | SpaceAccess::Anywhere(_) => Ok(place),
    }
}

/// Checks that a member may move content out of a workspace: an owner may, and the user who created it. Other members can
/// read and update it, but moving it would take it away from the whole workspace.
///
/// # Errors
/// [`SpaceError::Forbidden`].
pub fn check_move_out(role: Role, is_creator: bool) -> Result<(), SpaceError> {
    if is_creator || role == Role::Owner { Ok(()) } else { Err(SpaceError::Forbidden) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_lives_where_it_is_said_to_if_it_can() {
        let workspace = Space::Workspace("wsp_01h2xcejqtf2nbrexx3vqjhp41".parse().unwrap());
        let anywhere = SpaceAccess::Anywhere(None);
        let check = |here, space_access, scope, expected| {
            assert_eq!(choose(here, space_access, scope), expected, "{here:?} {scope:?}");
        };
        check(Space::Personal, anywhere, None, Ok(Space::Personal));
        check(workspace, anywhere, None, Ok(workspace));
        check(workspace, anywhere, Some(ContentScope::Workspace), Ok(workspace));
        check(workspace, anywhere, Some(ContentScope::Personal), Ok(Space::Personal));
        check(Space::Personal, anywhere, Some(ContentScope::Workspace), Err(SpaceError::NotFound));
        check(workspace, SpaceAccess::Only(workspace), Some(ContentScope::Personal), Err(SpaceError::Mismatch));
        check(workspace, SpaceAccess::Only(workspace), None, Ok(workspace));
    }

    #[test]
    fn content_leaves_a_workspace_by_its_creator_or_an_owner_rv_21() {
        for role in [Role::Owner, Role::Member] {
            assert_eq!(check_move_out(role, true), Ok(()));
        }
        assert_eq!(check_move_out(Role::Owner, false), Ok(()));
        assert_eq!(check_move_out(Role::Member, false), Err(SpaceError::Forbidden));
    }
}
