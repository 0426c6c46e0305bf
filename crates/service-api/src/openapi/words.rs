//! What the description and the manual both say.

use crate::{endpoints::Access, errors::ErrorCode, scope::Scope};

/// The address in examples, which another takes the place of.
pub(super) const EXAMPLE: &str = "https://service.example";

/// What holds for every endpoint.
pub(super) fn everywhere(base_url: &str) -> String {
    include_str!("../../manual/everywhere.md").replace(EXAMPLE, base_url)
}

/// What it takes to call an endpoint, in a sentence.
pub(super) fn needs(access: Access) -> String {
    let scopes = |scope: Scope| match scope.resource {
        None => format!("any scope to {}", scope.as_str()),
        Some(resource) => format!("`{0}` or `{1}:{0}`", scope.as_str(), resource.as_str()),
    };
    match access {
        Access::Public | Access::Browser => "No token.".to_owned(),
        Access::Client => "A client's secret.".to_owned(),
        Access::Bearer(scope) => format!("Scope: {}.", scopes(scope)),
        Access::Owner(scope) => format!("Scope: {}; in a workspace, for its owners.", scopes(scope)),
        Access::SignedIn(scope) => format!("Scope: {}; of somebody who signed in.", scopes(scope)),
        Access::McpPair => "The pair's own access token, or one of its user.".to_owned(),
    }
}

/// What a status that is a success means.
pub(super) const fn reason(status: u16) -> &'static str {
    match status {
        201 => "Made",
        202 => "Received",
        204 => "Gone",
        _ => "Done",
    }
}

/// The word of an error code.
pub(super) fn name_of(code: ErrorCode) -> String {
    let name = serde_json::to_value(code).ok();
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

/// What a scope allows, in words.
pub(super) fn spoken(word: &str) -> String {
    match word.split_once(':') {
        None => format!("{word} everything"),
        Some((resource, action)) => format!("{action} {resource}"),
    }
}
