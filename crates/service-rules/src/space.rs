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
}

/// The request decides, then the token; a token that names no space means personal space.
#[must_use]
pub fn choose(requested: Requested, default: Option<WorkspaceId>) -> (Place, Because) {
    match (requested, default) {
        (Requested::Personal, _) => (Place::Personal, Because::Query),
        (Requested::Workspace(id), _) => (Place::Workspace(id), Because::Query),
        (Requested::Nothing, Some(id)) => (Place::Workspace(id), Because::Token),
        (Requested::Nothing, None) => (Place::Personal, Because::Personal),
    }
}

/// What a caller with this role, if any, may do in a workspace.
pub fn judge(role: Option<Role>, action: Action) -> Result<Role, Refusal> {
    match (role, action) {
        (None, _) => Err(Refusal::NotFound),
        (Some(Role::Viewer), Action::Write) => Err(Refusal::Forbidden),
        (Some(role), _) => Ok(role),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "wsp_01h2xcejqtf2nbrexx3vqjhp41";

    #[test]
    fn the_request_decides_then_the_token() {
        let id: WorkspaceId = ID.parse().unwrap();
        let other: WorkspaceId = "wsp_01h2xcejqtf2nbrexx3vqjhp42".parse().unwrap();
        assert_eq!(choose(Requested::Nothing, None), (Place::Personal, Because::Personal));
        assert_eq!(choose(Requested::Nothing, Some(id)), (Place::Workspace(id), Because::Token));
        assert_eq!(choose(Requested::Personal, Some(id)), (Place::Personal, Because::Query));
        assert_eq!(choose(Requested::Workspace(other), Some(id)), (Place::Workspace(other), Because::Query));
        assert_eq!(choose(Requested::Workspace(other), None), (Place::Workspace(other), Because::Query));
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
    fn strangers_find_nothing_and_viewers_only_read() {
        for action in [Action::Read, Action::Write] {
            assert_eq!(judge(None, action), Err(Refusal::NotFound));
            assert_eq!(judge(Some(Role::Owner), action), Ok(Role::Owner));
            assert_eq!(judge(Some(Role::Member), action), Ok(Role::Member));
        }
        assert_eq!(judge(Some(Role::Viewer), Action::Read), Ok(Role::Viewer));
        assert_eq!(judge(Some(Role::Viewer), Action::Write), Err(Refusal::Forbidden));
    }
}
