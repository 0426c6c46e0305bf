//! Where content is to live: `scope` in a request that creates or changes it.

use service_api::workspaces::ContentScope;

use crate::space::{Place, Reach, Refusal};

/// The space that content is to live in. Without a `scope` that is the space the request runs in; `workspace` needs a
/// request that runs in one, and a bound token keeps content in its own space.
pub fn choose(here: Place, reach: Reach, scope: Option<ContentScope>) -> Result<Place, Refusal> {
    let place = match (scope, here) {
        (None, here) => here,
        (Some(ContentScope::Personal), _) => Place::Personal,
        (Some(ContentScope::Workspace), Place::Workspace(id)) => Place::Workspace(id),
        (Some(ContentScope::Workspace), Place::Personal) => return Err(Refusal::NotFound),
    };
    match reach {
        Reach::Only(bound) if bound != place => Err(Refusal::Mismatch),
        Reach::Only(_) | Reach::Anywhere(_) => Ok(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_lives_where_it_is_said_to_if_it_can() {
        let workspace = Place::Workspace("wsp_01h2xcejqtf2nbrexx3vqjhp41".parse().unwrap());
        let anywhere = Reach::Anywhere(None);
        let check =
            |here, reach, scope, expected| assert_eq!(choose(here, reach, scope), expected, "{here:?} {scope:?}");
        check(Place::Personal, anywhere, None, Ok(Place::Personal));
        check(workspace, anywhere, None, Ok(workspace));
        check(workspace, anywhere, Some(ContentScope::Workspace), Ok(workspace));
        check(workspace, anywhere, Some(ContentScope::Personal), Ok(Place::Personal));
        check(Place::Personal, anywhere, Some(ContentScope::Workspace), Err(Refusal::NotFound));
        check(workspace, Reach::Only(workspace), Some(ContentScope::Personal), Err(Refusal::Mismatch));
        check(workspace, Reach::Only(workspace), None, Ok(workspace));
    }
}
