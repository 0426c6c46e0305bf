//! Texts that the `OpenAPI` document and the manual share.

use crate::{
    endpoints::{Access, OperationRow},
    errors::ErrorCode,
    scope::Scope,
};

/// The base URL in examples. It is replaced by the one of the installation.
pub(super) const EXAMPLE: &str = "https://service.example";

/// The chapter about what holds for every endpoint.
pub(super) fn everywhere(base_url: &str) -> String {
    include_str!("../../manual/everywhere.md").replace(EXAMPLE, base_url)
}

/// What a caller needs for an endpoint, in a sentence.
pub(super) fn needs(access: Access) -> String {
    let scopes = |scope: Scope| match scope.resource {
        None => format!("any `{}` scope", scope.as_str()),
        Some(resource) => format!("`{0}` or `{1}:{0}`", scope.as_str(), resource.as_str()),
    };
    match access {
        Access::Public | Access::Browser | Access::Provider => "No token.".to_owned(),
        Access::Client => "Client authentication.".to_owned(),
        Access::AnyToken => "Any valid token, whatever its scopes.".to_owned(),
        Access::Bearer(scope) => format!("Scope: {}.", scopes(scope)),
        Access::Owner(scope) => format!("Scope: {}. In a workspace, owners only.", scopes(scope)),
        Access::SignedIn(scope) => format!("Scope: {}. Requires a user session.", scopes(scope)),
        Access::RecentSignIn(scope) => {
            format!("Scope: {}. Requires a user session with a sign-in within the last 15 minutes.", scopes(scope))
        }
        Access::RecentSignInForOwners(scope) => format!(
            "Scope: {}. Requires a user session, and for the role `owner` a sign-in within the last 15 minutes.",
            scopes(scope)
        ),
        Access::Mcp => "An access token for `/mcp`. Each tool requires its own scope.".to_owned(),
        Access::McpPair => "The access token of the same pair, even if expired, or another one of its user.".to_owned(),
    }
}

/// What a caller needs for an operation, and the operation's note.
pub(super) fn describe_access(operation: &OperationRow) -> String {
    let needs = needs(operation.endpoint.access);
    if operation.note.is_empty() { needs } else { format!("{needs} {}", operation.note) }
}

/// The description of a successful response.
pub(super) const fn reason(status: u16) -> &'static str {
    match status {
        201 => "Created",
        202 => "Accepted",
        204 => "No content",
        _ => "OK",
    }
}

/// An error code as it is sent.
pub(super) fn name_of(code: ErrorCode) -> String {
    let name = serde_json::to_value(code).ok();
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The description of a scope.
pub(super) fn spoken(word: &str) -> String {
    match word.split_once(':') {
        None => format!("{word} everything"),
        Some((resource, action)) => format!("{action} {resource}"),
    }
}
