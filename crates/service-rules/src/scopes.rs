//! Which scopes a request for tokens gets.

use service_api::scope::Scopes;

/// Words that OpenID clients send by habit; they ask for nothing of ours and do no harm.
const HARMLESS: [&str; 4] = ["offline_access", "openid", "email", "profile"];

/// Nothing that was asked for exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NothingLeft;

/// Absent, empty or only harmless words mean `read`; unknown words are dropped.
pub fn grant(requested: Option<&str>) -> Result<Scopes, NothingLeft> {
    let words = || requested.unwrap_or_default().split(' ').filter(|word| !word.is_empty());
    if words().all(|word| HARMLESS.contains(&word)) {
        return Ok(Scopes::READ);
    }
    let granted = Scopes::from_words(words());
    if granted.is_empty() { Err(NothingLeft) } else { Ok(granted) }
}

/// What is asked for goes beyond what was granted, or does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

/// Of a grant's scopes, those that a refresh asks for; absent means all. Never more than was granted.
pub fn narrow(requested: Option<&str>, granted: Scopes) -> Result<Scopes, TooMuch> {
    let words = || requested.unwrap_or_default().split(' ').filter(|word| !word.is_empty());
    if words().all(|word| HARMLESS.contains(&word)) {
        return Ok(granted);
    }
    let asked = Scopes::from_words(words());
    if !asked.is_empty() && granted.cover(asked) { Ok(asked) } else { Err(TooMuch) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(requested: Option<&str>, expected: Result<&str, NothingLeft>) {
        assert_eq!(grant(requested).map(|scopes| scopes.to_string()), expected.map(str::to_owned), "{requested:?}");
    }

    #[test]
    fn a_refresh_narrows_and_never_widens_rf_08() {
        let check = |requested, granted: &str, expected: Result<&str, TooMuch>| {
            let narrowed = narrow(requested, Scopes::parse(granted)).map(|scopes| scopes.to_string());
            assert_eq!(narrowed, expected.map(str::to_owned), "{requested:?} of {granted}");
        };
        check(None, "read write", Ok("read write"));
        check(Some("openid"), "write", Ok("write"));
        check(Some("read"), "read write", Ok("read"));
        check(Some("projects:read"), "read", Ok("projects:read"));
        check(Some("projects:read unheard:of"), "read", Ok("projects:read"));
        check(Some("read write"), "read", Err(TooMuch));
        check(Some("read"), "projects:read", Err(TooMuch));
        check(Some("write"), "read", Err(TooMuch));
        check(Some("unheard:of"), "read", Err(TooMuch));
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
        check(Some("admin"), Err(NothingLeft));
        check(Some("read\nwrite"), Err(NothingLeft));
    }
}
