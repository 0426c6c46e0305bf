//! Pages that a client names in its metadata (RFC 7591 section 2): its website, its privacy policy and its terms of service.
//!
//! Anyone can register a client, so a link proves nothing. It is shown with its host, and only if a browser opens an ordinary
//! page of someone else there.

use serde_json::Value;
use url::{Host, Url};

/// Characters of a link.
const MAX_LINK_CHARS: usize = 500;

/// The links of a client, each of which is shown to users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientLinks {
    pub website: Option<String>,
    pub policy: Option<String>,
    pub terms: Option<String>,
}

impl ClientLinks {
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.website.is_none() && self.policy.is_none() && self.terms.is_none()
    }
}

/// Returns a link in its normal form. `None`: it is not shown, and the client is registered without it.
#[must_use]
pub fn checked_link(link: Option<&Value>, base_url: &str) -> Option<String> {
    let text = link?.as_str().filter(|text| text.len() <= MAX_LINK_CHARS)?;
    let url = Url::parse(text).ok().filter(|url| url.scheme() == "https" && url.port().is_none())?;
    let is_public_name = matches!(url.host(), Some(Host::Domain(name)) if name.contains('.') && !name.ends_with('.'));
    let is_plain = url.username().is_empty() && url.password().is_none() && url.as_str().len() <= MAX_LINK_CHARS;
    (is_public_name && is_plain && !is_at_service(&url, base_url)).then(|| url.into())
}

/// Whether a URL is at the host of the service or below it. A link there would make a page of the service look like the
/// client's, or send the user to a page that does something.
fn is_at_service(url: &Url, base_url: &str) -> bool {
    let service = Url::parse(base_url).ok();
    match (url.host_str(), service.as_ref().and_then(Url::host_str)) {
        (Some(host), Some(own)) => host == own || host.strip_suffix(own).is_some_and(|rest| rest.ends_with('.')),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_link_is_an_https_page_of_someone_else_fh_11() {
        let checked = |link: &str| checked_link(Some(&json!(link)), "https://id.acme.test");
        for link in
            ["https://app.test/", "https://app.test/privacy?x=1#y", "https://acme.test/", "https://xid.acme.test/"]
        {
            assert_eq!(checked(link).as_deref(), Some(link));
        }
        assert_eq!(checked("https://APP.test/a b\"<").as_deref(), Some("https://app.test/a%20b%22%3C"));
        assert_eq!(checked("https://аррӏе.test/").as_deref(), Some("https://xn--80ak6aa92e.test/"));
        let long = format!("https://app.test/{}", "a".repeat(500));
        let expands = format!("https://app.test/{}", "ä".repeat(150));
        for wrong in [
            "",
            "app.test",
            "http://app.test/",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://id.acme.test/account",
            "https://ID.acme.test/",
            "https://x.id.acme.test/",
            "https://user@app.test/",
            "https://:secret@app.test/",
            "https://app.test:8443/",
            "https://app.test./",
            "https://localhost/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://2130706433/",
            &long,
            &expands,
        ] {
            assert_eq!(checked(wrong), None, "{wrong}");
        }
        assert_eq!(checked_link(Some(&json!(["https://app.test/"])), "https://id.acme.test"), None);
        assert_eq!(checked_link(None, "https://id.acme.test"), None);
    }
}
