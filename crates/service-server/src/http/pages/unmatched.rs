//! Addresses without a page, and pages that only take forms: a browser that opens one is led to a page.

use axum::{
    http::{HeaderMap, Method, Uri, header},
    response::Response,
};
use service_api::endpoints::{self, Access, Endpoint};

use crate::http::{
    errors::{self, ApiError},
    pages::see_other,
};

/// Addresses that users try, and where they lead.
const ALIASES: &[(&str, &str)] = &[
    ("/login", "/sign-in"),
    ("/log-in", "/sign-in"),
    ("/signin", "/sign-in"),
    ("/signup", "/sign-in"),
    ("/sign-up", "/sign-in"),
    ("/register", "/sign-in"),
    ("/logout", "/account"),
    ("/log-out", "/account"),
    ("/signout", "/account"),
    ("/home", "/account"),
    ("/index.html", "/account"),
    ("/profile", "/account"),
    ("/settings", "/account"),
    ("/sessions", "/account/sessions"),
    ("/apps", "/account/apps"),
    ("/tokens", "/account/tokens"),
    ("/activity", "/account/activity"),
    ("/api", "/docs"),
    ("/help", "/docs"),
];

/// The response to an address that is not in the endpoint table. Programs are led nowhere.
pub async fn not_found(method: Method, headers: HeaderMap, uri: Uri) -> Result<Response, ApiError> {
    match other_address(uri.path()).filter(|_| is_read(&method) && accepts_html(&headers)) {
        Some(address) => see_other(address),
        None => Err(errors::not_found()),
    }
}

/// The response to a method that an endpoint does not take. A browser that opens the address of a form, for example after a
/// reload, gets the page of the form.
pub async fn method_not_allowed(method: Method, headers: HeaderMap, uri: Uri) -> Result<Response, ApiError> {
    let is_form = is_page(uri.path(), endpoints::Method::Post);
    if is_form && is_read(&method) && accepts_html(&headers) {
        return see_other(page_above(uri.path()));
    }
    Err(errors::method_not_allowed())
}

/// Whether the caller is a browser that shows a page: it names HTML among what it accepts.
pub(in crate::http) fn accepts_html(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|text| text.split(',')).any(|range| {
        let media_type = range.split(';').next().unwrap_or_default().trim();
        media_type.eq_ignore_ascii_case("text/html")
    })
}

fn is_read(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

/// The page that an address means: an alias, or a page with a slash too many.
fn other_address(path: &str) -> Option<&str> {
    let trimmed = path.trim_end_matches('/');
    let alias = ALIASES.iter().find(|(known, _)| known.eq_ignore_ascii_case(trimmed)).map(|(_, address)| *address);
    alias.or_else(|| (trimmed.len() < path.len() && is_page(trimmed, endpoints::Method::Get)).then_some(trimmed))
}

/// The nearest page above an address; the account, if there is none.
fn page_above(path: &str) -> &str {
    let mut above = path;
    while let Some((parent, _)) = above.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
        if is_page(parent, endpoints::Method::Get) {
            return parent;
        }
        above = parent;
    }
    endpoints::ACCOUNT.path
}

/// Whether the endpoint table has a page at this path.
fn is_page(path: &str, method: endpoints::Method) -> bool {
    let is_here = |endpoint: &&&Endpoint| {
        endpoint.access == Access::Browser && endpoint.method == method && matches(endpoint.path, path)
    };
    endpoints::ALL.iter().any(|endpoint| is_here(&endpoint))
}

/// Whether a path has the form of a template such as `/workspaces/{workspaceId}`.
fn matches(template: &str, path: &str) -> bool {
    let (mut parts, mut wanted) = (path.split('/'), template.split('/'));
    loop {
        match (parts.next(), wanted.next()) {
            (None, None) => return true,
            (Some(part), Some(name)) if name.starts_with('{') && !part.is_empty() => {}
            (Some(part), Some(name)) if part == name => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_pages_of_ours_only_fh_09() {
        for (path, expected) in [
            ("/login", Some("/sign-in")),
            ("/Login/", Some("/sign-in")),
            ("/account/", Some("/account")),
            ("/account/tokens//", Some("/account/tokens")),
            ("/workspaces/wsp_1/", Some("/workspaces/wsp_1")),
            ("/sign-out/", None),
            ("//evil.test/", None),
            ("//account/", None),
            ("/v1/projects/", None),
            ("/nowhere", None),
            ("/", None),
        ] {
            assert_eq!(other_address(path), expected, "{path}");
        }
        for (path, expected) in [
            ("/sign-out", "/account"),
            ("/sign-in/flow_1/resend", "/sign-in/flow_1"),
            ("/workspaces/wsp_1/members/usr_1/role", "/workspaces/wsp_1"),
            ("/invitations/inv_1/accept", "/account"),
            ("//evil.test/x", "/"),
        ] {
            assert_eq!(page_above(path), expected, "{path}");
        }
    }
}
