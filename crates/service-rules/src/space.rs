//! Which space a request runs in, and what its caller may do there.

use service_api::{
    ids::WorkspaceId,
    scope::Action,
    workspaces::{Because, PERSONAL, Role},
};

/// What a request says about its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requested {
    Nothing,
    Personal,
    Workspace(WorkspaceId),
}

impl Requested {
    /// Reads `workspaceId`; an empty value is a mistake, never personal space.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None => Some(Self::Nothing),
            Some(PERSONAL) => Some(Self::Personal),
            Some(text) => text.parse().ok().map(Self::Workspace),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Personal,
    Workspace(WorkspaceId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The caller is not in that workspace, or there is none: nobody learns which.
    NotFound,
    /// The caller's role does not allow it.
    Forbidden,
    /// The token is bound to another space.
    Mismatch,
}

/// How far a credential reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Wherever its user may go; this space when a request names none.
    Anywhere(Option<WorkspaceId>),
    /// This space and no other.
    Only(Place),
}

impl Reach {
    /// The workspace it is for, if any.
    #[must_use]
    pub const fn workspace(self) -> Option<WorkspaceId> {
        match self {
            Self::Anywhere(workspace) => workspace,
            Self::Only(Place::Workspace(workspace)) => Some(workspace),
            Self::Only(Place::Personal) => None,
        }
    }
}

/// The request decides, then the token; a token that names no space means personal space. A bound token decides alone.
pub fn choose(requested: Requested, reach: Reach) -> Result<(Place, Because), Refusal> {
    let place = match requested {
        Requested::Nothing => None,
        Requested::Personal => Some(Place::Personal),
        Requested::Workspace(id) => Some(Place::Workspace(id)),
    };
    match (place, reach) {
        (Some(place), Reach::Only(bound)) if place != bound => Err(Refusal::Mismatch),
        (Some(place), _) => Ok((place, Because::Query)),
        (None, Reach::Only(bound)) => Ok((bound, Because::Token)),
        (None, Reach::Anywhere(Some(id))) => Ok((Place::Workspace(id), Because::Token)),
        (None, Reach::Anywhere(None)) => Ok((Place::Personal, Because::Personal)),
    }
}

/// What a request wants to do in a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    Read,
    Write,
    /// What is up to the owners, be it reading or writing.
    Own,
}

/// What a caller with this role, if any, may do in a workspace.
pub fn judge(role: Option<Role>, right: Right) -> Result<Role, Refusal> {
    match (role, right) {
        (None, _) => Err(Refusal::NotFound),
        (Some(Role::Viewer), Right::Write) | (Some(Role::Viewer | Role::Member), Right::Own) => Err(Refusal::Forbidden),
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
        let anywhere = Reach::Anywhere;
        let check =
            |requested, reach, expected| assert_eq!(choose(requested, reach), expected, "{requested:?} {reach:?}");
        check(Requested::Nothing, anywhere(None), Ok((Place::Personal, Because::Personal)));
        check(Requested::Nothing, anywhere(Some(id)), Ok((Place::Workspace(id), Because::Token)));
        check(Requested::Personal, anywhere(Some(id)), Ok((Place::Personal, Because::Query)));
        check(Requested::Workspace(other), anywhere(Some(id)), Ok((Place::Workspace(other), Because::Query)));
    }

    #[test]
    fn a_bound_token_opens_its_space_and_no_other_ws_08() {
        let (id, other): (WorkspaceId, WorkspaceId) = (ID.parse().unwrap(), OTHER.parse().unwrap());
        let check = |requested, place, expected: Result<Place, Refusal>| {
            assert_eq!(
                choose(requested, Reach::Only(place)).map(|(place, _)| place),
                expected,
                "{requested:?} {place:?}"
            );
        };
        for place in [Place::Personal, Place::Workspace(id)] {
            check(Requested::Nothing, place, Ok(place));
            check(Requested::Workspace(other), place, Err(Refusal::Mismatch));
        }
        check(Requested::Personal, Place::Personal, Ok(Place::Personal));
        check(Requested::Workspace(id), Place::Workspace(id), Ok(Place::Workspace(id)));
        check(Requested::Personal, Place::Workspace(id), Err(Refusal::Mismatch));
        check(Requested::Workspace(id), Place::Personal, Err(Refusal::Mismatch));
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
    fn strangers_find_nothing_viewers_only_read_and_owners_own() {
        for right in [Right::Read, Right::Write, Right::Own] {
            assert_eq!(judge(None, right), Err(Refusal::NotFound));
            assert_eq!(judge(Some(Role::Owner), right), Ok(Role::Owner));
        }
        for right in [Right::Read, Right::Write] {
            assert_eq!(judge(Some(Role::Member), right), Ok(Role::Member));
        }
        assert_eq!(judge(Some(Role::Viewer), Right::Read), Ok(Role::Viewer));
        for (role, right) in [(Role::Viewer, Right::Write), (Role::Viewer, Right::Own), (Role::Member, Right::Own)] {
            assert_eq!(judge(Some(role), right), Err(Refusal::Forbidden), "{role:?} {right:?}");
        }
    }
}
