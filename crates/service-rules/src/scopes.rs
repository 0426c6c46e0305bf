//! Which scopes a token request is granted.

use service_api::scope::Scopes;

/// OpenID scopes that clients send by default. This service ignores them.
const IGNORED: [&str; 4] = ["offline_access", "openid", "email", "profile"];

/// None of the requested scopes exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("none of the requested scopes exist")]
pub struct UnknownScopes;

/// Grants the requested scopes. No scope, or only ignored ones, means `read`; unknown scopes are dropped.
///
/// # Errors
/// [`UnknownScopes`] if no known scope is left.
pub fn grant(requested: Option<&str>) -> Result<Scopes, UnknownScopes> {
    let words = || requested.unwrap_or_default().split(' ').filter(|word| !word.is_empty());
    if words().all(|word| IGNORED.contains(&word)) {
        return Ok(Scopes::READ);
    }
    let granted = Scopes::from_words(words());
    if granted.is_empty() { Err(UnknownScopes) } else { Ok(granted) }
}

/// A requested scope was not granted, or does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the requested scopes go beyond the grant")]
pub struct ScopeExceeded;

/// The scopes of a refresh: those requested, or all that were granted if it requests none.
///
/// # Errors
/// [`ScopeExceeded`] if the refresh requests more than was granted.
pub fn narrow(requested: Option<&str>, granted: Scopes) -> Result<Scopes, ScopeExceeded> {
    let words = || requested.unwrap_or_default().split(' ').filter(|word| !word.is_empty());
    if words().all(|word| IGNORED.contains(&word)) {
        return Ok(granted);
    }
    let asked = Scopes::from_words(words());
    if !asked.is_empty() && granted.cover(asked) { Ok(asked) } else { Err(ScopeExceeded) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(requested: Option<&str>, expected: Result<&str, UnknownScopes>) {
        assert_eq!(grant(requested).map(|scopes| scopes.to_string()), expected.map(str::to_owned), "{requested:?}");
    }

    #[test]
    fn a_refresh_narrows_and_never_widens_rf_08() {
        let check = |requested, granted: &str, expected: Result<&str, ScopeExceeded>| {
            let narrowed = narrow(requested, Scopes::parse(granted)).map(|scopes| scopes.to_string());
            assert_eq!(narrowed, expected.map(str::to_owned), "{requested:?} of {granted}");
        };
        check(None, "read write", Ok("read write"));
        check(Some("openid"), "write", Ok("write"));
        check(Some("read"), "read write", Ok("read"));
        check(Some("projects:read"), "read", Ok("projects:read"));
        check(Some("projects:read unheard:of"), "read", Ok("projects:read"));
        check(Some("read write"), "read", Err(ScopeExceeded));
        check(Some("read"), "projects:read", Err(ScopeExceeded));
        check(Some("write"), "read", Err(ScopeExceeded));
        check(Some("unheard:of"), "read", Err(ScopeExceeded));
    }

    #[test]
    fn absent_means_read() {
        check(None, Ok("read"));
        check(Some(""), Ok("read"));
        check(Some("openid offline_access"), Ok("read"));
    }

    #[test]
    fn what_exists_is_granted_and_the_rest_dropped() {
        check(Some("write read"), Ok("read write"));
        check(Some("projects:read admin"), Ok("projects:read"));
        check(Some("openid write"), Ok("write"));
        check(Some("admin"), Err(UnknownScopes));
        check(Some("read\nwrite"), Err(UnknownScopes));
    }
}
