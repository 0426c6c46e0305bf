//! The space that a request runs in, and what its caller may do there.

use service_api::{
    ids::WorkspaceId,
    scope::Action,
    workspaces::{PERSONAL, Role, SpaceSource},
};

/// The space that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requested {
    Nothing,
    Personal,
    Workspace(WorkspaceId),
}

impl Requested {
    /// Parses `workspaceId`. An empty value is an error, not personal space.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None => Some(Self::Nothing),
            Some(PERSONAL) => Some(Self::Personal),
            Some(text) => text.parse().ok().map(Self::Workspace),
        }
    }
}

/// A user's personal space, or a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Personal,
    Workspace(WorkspaceId),
}

/// Why a caller may not do something in a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// The workspace does not exist, or the caller is not a member. The caller does not learn which.
    #[error("the workspace does not exist, or the caller is not a member")]
    NotFound,
    /// The caller's role does not allow it.
    #[error("the caller's role does not allow this")]
    Forbidden,
    /// The token is bound to another space.
    #[error("the token is bound to another space")]
    Mismatch,
    /// The workspace requires a passkey from its members, and the caller's account requires none.
    #[error("the workspace requires a passkey from its members")]
    PasskeyRequired,
}

/// The spaces that a credential gives access to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceAccess {
    /// Every space of its user. The given workspace is used when a request names none.
    Anywhere(Option<WorkspaceId>),
    /// One space.
    Only(Space),
}

impl SpaceAccess {
    /// The workspace that the credential is for, if any.
    #[must_use]
    pub const fn workspace(self) -> Option<WorkspaceId> {
        match self {
            Self::Anywhere(workspace) => workspace,
            Self::Only(Space::Workspace(workspace)) => Some(workspace),
            Self::Only(Space::Personal) => None,
        }
    }
}

/// Chooses the space of a request: the one that the request names, else that of the token, else personal space. A bound
/// token gives access to its own space only.
///
/// # Errors
/// [`SpaceError::Mismatch`] if a bound token is used for another space.
pub fn choose(requested: Requested, space_access: SpaceAccess) -> Result<(Space, SpaceSource), SpaceError> {
    let place = match requested {
        Requested::Nothing => None,
        Requested::Personal => Some(Space::Personal),
        Requested::Workspace(id) => Some(Space::Workspace(id)),
    };
    match (place, space_access) {
        (Some(place), SpaceAccess::Only(bound)) if place != bound => Err(SpaceError::Mismatch),
        (Some(place), _) => Ok((place, SpaceSource::Query)),
        (None, SpaceAccess::Only(bound)) => Ok((bound, SpaceSource::Token)),
        (None, SpaceAccess::Anywhere(Some(id))) => Ok((Space::Workspace(id), SpaceSource::Token)),
        (None, SpaceAccess::Anywhere(None)) => Ok((Space::Personal, SpaceSource::Personal)),
    }
}

/// The right that a request needs in a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    Read,
    Write,
    /// A right that only owners have.
    Own,
}

/// Whether a workspace requires a passkey from its members, and whether a member meets that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasskeyRule {
    /// Whether the workspace requires a passkey from its members.
    pub required: bool,
    /// Whether the member's account requires a passkey, or the member's company requires single sign-on.
    pub closed_to_codes: bool,
}

impl PasskeyRule {
    /// Checks that the workspace does not keep the member out.
    ///
    /// # Errors
    /// [`SpaceError::PasskeyRequired`] if it does.
    pub const fn check(self) -> Result<(), SpaceError> {
        if self.required && !self.closed_to_codes { Err(SpaceError::PasskeyRequired) } else { Ok(()) }
    }
}

/// Checks that a caller with this role, if any, has a right in a workspace.
///
/// # Errors
/// [`SpaceError::NotFound`] without a role, [`SpaceError::Forbidden`] if the role does not include the right.
pub fn judge(role: Option<Role>, right: Right) -> Result<Role, SpaceError> {
    match (role, right) {
        (None, _) => Err(SpaceError::NotFound),
        (Some(Role::Viewer), Right::Write) | (Some(Role::Viewer | Role::Member), Right::Own) => {
            Err(SpaceError::Forbidden)
        }
        (Some(role), _) => Ok(role),
    }
}

impl From<Action> for Right {
    fn from(action: Action) -> Self {
        match action {
            Action::Read => Self::Read,
            Action::Write => Self::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "wsp_01h2xcejqtf2nbrexx3vqjhp41";
    const OTHER: &str = "wsp_01h2xcejqtf2nbrexx3vqjhp42";

    #[test]
    fn the_request_decides_then_the_token() {
        let (id, other): (WorkspaceId, WorkspaceId) = (ID.parse().unwrap(), OTHER.parse().unwrap());
        let anywhere = SpaceAccess::Anywhere;
        let check = |requested, space_access, expected| {
            assert_eq!(choose(requested, space_access), expected, "{requested:?} {space_access:?}");
        };
        check(Requested::Nothing, anywhere(None), Ok((Space::Personal, SpaceSource::Personal)));
        check(Requested::Nothing, anywhere(Some(id)), Ok((Space::Workspace(id), SpaceSource::Token)));
        check(Requested::Personal, anywhere(Some(id)), Ok((Space::Personal, SpaceSource::Query)));
        check(Requested::Workspace(other), anywhere(Some(id)), Ok((Space::Workspace(other), SpaceSource::Query)));
    }

    #[test]
    fn a_bound_token_opens_its_space_and_no_other_ws_08() {
        let (id, other): (WorkspaceId, WorkspaceId) = (ID.parse().unwrap(), OTHER.parse().unwrap());
        let check = |requested, place, expected: Result<Space, SpaceError>| {
            assert_eq!(
                choose(requested, SpaceAccess::Only(place)).map(|(place, _)| place),
                expected,
                "{requested:?} {place:?}"
            );
        };
        for place in [Space::Personal, Space::Workspace(id)] {
            check(Requested::Nothing, place, Ok(place));
            check(Requested::Workspace(other), place, Err(SpaceError::Mismatch));
        }
        check(Requested::Personal, Space::Personal, Ok(Space::Personal));
        check(Requested::Workspace(id), Space::Workspace(id), Ok(Space::Workspace(id)));
        check(Requested::Personal, Space::Workspace(id), Err(SpaceError::Mismatch));
        check(Requested::Workspace(id), Space::Personal, Err(SpaceError::Mismatch));
    }

    #[test]
    fn an_empty_or_misspelt_space_is_a_mistake_ws_05() {
        assert_eq!(Requested::parse(None), Some(Requested::Nothing));
        assert_eq!(Requested::parse(Some("personal")), Some(Requested::Personal));
        assert_eq!(Requested::parse(Some(ID)), Some(Requested::Workspace(ID.parse().unwrap())));
        for wrong in ["", "Personal", "wsp_", "user_01h2xcejqtf2nbrexx3vqjhp41", "wsp_01H2XCEJQTF2NBREXX3VQJHP41"] {
            assert_eq!(Requested::parse(Some(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn non_members_find_nothing_viewers_only_read_and_owners_own() {
        for right in [Right::Read, Right::Write, Right::Own] {
            assert_eq!(judge(None, right), Err(SpaceError::NotFound));
            assert_eq!(judge(Some(Role::Owner), right), Ok(Role::Owner));
        }
        for right in [Right::Read, Right::Write] {
            assert_eq!(judge(Some(Role::Member), right), Ok(Role::Member));
        }
        assert_eq!(judge(Some(Role::Viewer), Right::Read), Ok(Role::Viewer));
        for (role, right) in [(Role::Viewer, Right::Write), (Role::Viewer, Right::Own), (Role::Member, Right::Own)] {
            assert_eq!(judge(Some(role), right), Err(SpaceError::Forbidden), "{role:?} {right:?}");
        }
    }
}
