//! Client metadata (RFC 7591), from a registration or from a metadata document at the client's URL.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    client_links::{ClientLinks, checked_link},
    display_name::{DisplayName, OwnNames},
    redirect,
};

/// Redirect URIs of one client.
const MAX_REDIRECT_URIS: usize = 20;
/// Characters of a client's name.
const MAX_NAME_CHARS: usize = 100;
/// Characters of a host, which is shown in full.
const MAX_HOST_CHARS: usize = 255;

/// The metadata that this service reads. Other metadata is ignored.
#[derive(Debug, Default, Deserialize)]
pub struct Metadata {
    pub client_id: Option<String>,
    pub client_name: Option<String>,
    pub redirect_uris: Option<Vec<String>>,
    pub grant_types: Option<Vec<String>>,
    pub response_types: Option<Vec<String>>,
    pub token_endpoint_auth_method: Option<String>,
    pub jwks: Option<Value>,
    pub client_secret: Option<Value>,
    pub client_secret_expires_at: Option<Value>,
    pub client_uri: Option<Value>,
    pub policy_uri: Option<Value>,
    pub tos_uri: Option<Value>,
}

/// What no client may pass itself off as: the service.
#[derive(Clone, Copy, Debug)]
pub struct ServiceIdentity<'a> {
    pub names: &'a OwnNames,
    /// The public URL of the service.
    pub base_url: &'a str,
}

/// Metadata that passed every check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub name: DisplayName,
    /// In the order in which they were sent, each once.
    pub redirect_uris: Vec<String>,
    pub origins: Vec<String>,
    pub links: ClientLinks,
}

/// Where authorization responses to a client may go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redirects {
    /// In the order in which they were sent, each once.
    pub redirect_uris: Vec<String>,
    pub origins: Vec<String>,
}

/// Why client metadata is rejected (RFC 7591 section 3.2.2). The text is a sentence for the client's developer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    #[error("invalid_redirect_uri: {0}")]
    RedirectUri(String),
    #[error("invalid_client_metadata: {0}")]
    Metadata(String),
}

/// Checks the metadata of a client that no operator registers.
///
/// No name is rejected: pages mark it as unverified and show the client's redirect host. Characters that are invisible or
/// change how the rest of a page is read are removed. A name that reads like that of the service is replaced by the host of the
/// first redirect URI.
///
/// # Errors
/// What is wrong with the metadata.
pub fn check_unverified(metadata: &Metadata, service: ServiceIdentity<'_>) -> Result<Registered, RegistrationError> {
    let wrong = |text: &str| Err(RegistrationError::Metadata(text.to_owned()));
    let has =
        |list: &Option<Vec<String>>, word: &str| list.as_ref().is_none_or(|list| list.iter().any(|own| own == word));
    if !has(&metadata.grant_types, "authorization_code") {
        return wrong("grant_types must include authorization_code.");
    }
    if !has(&metadata.response_types, "code") {
        return wrong("response_types must include code.");
    }
    let Redirects { redirect_uris, origins } = check_redirects(metadata.redirect_uris.as_deref().unwrap_or_default())?;
    let said = metadata.client_name.as_deref().and_then(|name| DisplayName::clean(name, MAX_NAME_CHARS));
    let host = || DisplayName::clean(&redirect::host(redirect_uris.first()?), MAX_HOST_CHARS);
    let name = said.filter(|name| !service.names.is_brand(name.as_str())).or_else(host);
    let name =
        name.ok_or_else(|| RegistrationError::Metadata("client_name must have visible characters.".to_owned()))?;
    let link = |link: &Option<Value>| checked_link(link.as_ref(), service.base_url);
    let (website, policy, terms) = (link(&metadata.client_uri), link(&metadata.policy_uri), link(&metadata.tos_uri));
    Ok(Registered { name, redirect_uris, origins, links: ClientLinks { website, policy, terms } })
}

/// Checks redirect URIs, and removes duplicates.
///
/// # Errors
/// There are none or too many, or one of them cannot be registered.
pub fn check_redirects(asked: &[String]) -> Result<Redirects, RegistrationError> {
    let redirect_uris = redirect_uris(asked)?;
    let mut origins: Vec<_> = redirect_uris.iter().filter_map(|uri| redirect::origin(uri)).collect();
    origins.sort();
    origins.dedup();
    Ok(Redirects { redirect_uris, origins })
}

fn redirect_uris(asked: &[String]) -> Result<Vec<String>, RegistrationError> {
    if asked.is_empty() || asked.len() > MAX_REDIRECT_URIS {
        return Err(RegistrationError::RedirectUri(format!(
            "redirect_uris must have 1 to {MAX_REDIRECT_URIS} entries."
        )));
    }
    let mut known = Vec::with_capacity(asked.len());
    for (place, uri) in asked.iter().enumerate() {
        redirect::check(uri).map_err(|redirect::RedirectUriError(why)| {
            RegistrationError::RedirectUri(format!("redirect_uris[{place}] {why}."))
        })?;
        if !known.contains(uri) {
            known.push(uri.clone());
        }
    }
    Ok(known)
}

/// Whether a client id is the normalized URL of a metadata document.
#[must_use]
pub fn is_document_address(id: &str) -> bool {
    let Ok(url) = url::Url::parse(id) else { return false };
    let plain = id.len() <= 1_000 && id.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\<>\"{}|^`".contains(&byte));
    let lowered = id.to_ascii_lowercase();
    let dots = ["/./", "/../", "/%2e", "%2e/"].iter().any(|dots| lowered.contains(dots))
        || lowered.ends_with("/.")
        || lowered.ends_with("/..");
    plain
        && !dots
        && url.scheme() == "https"
        && url.path().len() > 1
        && !id.contains(['#', '@', '?'])
        // A URL that is not normalized could be taken for another document.
        && url.as_str() == id
}

/// Checks the metadata document at a client's own URL.
///
/// # Errors
/// What is wrong with the document.
pub fn check_document(
    id: &str,
    metadata: &Metadata,
    service: ServiceIdentity<'_>,
) -> Result<Registered, RegistrationError> {
    let wrong = |text: &str| Err(RegistrationError::Metadata(text.to_owned()));
    if metadata.client_id.as_deref() != Some(id) {
        return wrong("client_id must be the document's own URL.");
    }
    if metadata.client_name.is_none() || metadata.redirect_uris.is_none() {
        return wrong("client_name and redirect_uris are required.");
    }
    if metadata.client_secret.is_some() || metadata.client_secret_expires_at.is_some() {
        return wrong("The document contains a client secret. Remove it: the document is public.");
    }
    if !matches!(metadata.token_endpoint_auth_method.as_deref(), None | Some("none")) {
        return wrong("token_endpoint_auth_method must be none.");
    }
    if metadata.jwks.as_ref().is_some_and(has_private_key) {
        return wrong("The document contains a private key. Remove it: the document is public.");
    }
    check_unverified(metadata, service)
}

/// Whether a JSON Web Key Set that has to be public contains a private or symmetric key.
#[must_use]
pub fn has_private_key(jwks: &Value) -> bool {
    let keys = jwks["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    keys.iter().any(|key| ["d", "p", "q", "dp", "dq", "qi", "k"].iter().any(|name| key.get(name).is_some()))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use serde_json::json;

    use super::*;

    fn metadata(value: Value) -> Metadata {
        serde_json::from_value(value).unwrap()
    }

    fn service() -> ServiceIdentity<'static> {
        static OWN_NAMES: LazyLock<OwnNames> = LazyLock::new(|| OwnNames::of_brand("Acme Cloud"));
        ServiceIdentity { names: &OWN_NAMES, base_url: "https://id.acme.test" }
    }

    fn checked(metadata: &Metadata) -> Result<Registered, RegistrationError> {
        check_unverified(metadata, service())
    }

    #[test]
    fn a_client_is_registered_with_what_it_may_have_ss_10() {
        let cursor = json!({
            "client_name": "Cursor", "application_type": "web", "token_endpoint_auth_method": "client_secret_basic",
            "redirect_uris":
                ["cursor://anysphere.cursor-mcp/oauth/callback", "http://localhost:8787/cb", "http://localhost:8787/cb"],
            "grant_types": ["authorization_code", "refresh_token"], "software_statement": "x", "scope": "admin",
        });
        let registered = checked(&metadata(cursor)).unwrap();
        assert_eq!(registered.redirect_uris.len(), 2);
        assert_eq!(registered.origins, ["http://localhost:8787"]);
        let nameless = checked(&metadata(json!({ "redirect_uris": ["https://app.test/cb"] }))).unwrap();
        assert_eq!(nameless.name.as_str(), "app.test");
        for wrong in [
            json!({}),
            json!({ "redirect_uris": [] }),
            json!({ "redirect_uris": ["javascript:alert(1)"] }),
            json!({ "redirect_uris": ["https://app.test/cb", "http://app.test/cb"] }),
            json!({ "redirect_uris": ["https://app.test/cb"], "grant_types": ["client_credentials"] }),
            json!({ "redirect_uris": ["https://app.test/cb"], "response_types": ["token"] }),
        ] {
            assert!(checked(&metadata(wrong.clone())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_unverified_client_is_rejected_for_its_name_rv_52() {
        for (said, name) in [
            ("Service command line", "Service command line"),
            ("Goo\u{202e}gle", "Google"),
            (" <b>App</b>\u{0}\n", "bApp/b"),
            ("\u{200b}\u{feff}", "app.test"),
            ("see https://evil.test", "see https evil.test"),
            ("Goo\u{3164}gle", "Google"),
            ("", "app.test"),
            (&"x".repeat(300), &"x".repeat(100)),
            // The name of the service itself is the one that it cannot have.
            ("Acme-CIoud", "app.test"),
            ("Acme Cloud helper", "Acme Cloud helper"),
        ] {
            let metadata = metadata(json!({ "redirect_uris": ["https://app.test/cb"], "client_name": said }));
            assert_eq!(checked(&metadata).unwrap().name.as_str(), name, "{said:?}");
        }
    }

    #[test]
    fn a_document_has_one_address_ss_07() {
        assert!(is_document_address("https://client.test/oauth/metadata.json"));
        assert!(is_document_address("https://client.test:8443/x"));
        for wrong in [
            "https://client.test",
            "https://client.test/",
            "http://client.test/x",
            "https://client.test/x#f",
            "https://u@client.test/x",
            "https://client.test/a/../x",
            "https://client.test/%2e%2e/x",
            "https://client.test/x/.",
            "https://client.test:443/x",
            "https://CLIENT.test/x",
            "https://client.test/x?y=1",
            "https://client.test/\tx",
            "https://client.test\\x",
            "client",
            "https://2130706433/x",
            "https://127.1/x",
            "https://0x7f.1/x",
        ] {
            assert!(!is_document_address(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_document_speaks_for_its_own_address_and_holds_no_secret_ss_05_ss_06() {
        let id = "https://client.test/x";
        let good = json!({ "client_id": id, "client_name": "App", "redirect_uris": ["http://localhost/callback"] });
        assert!(check_document(id, &metadata(good.clone()), service()).is_ok());
        for (name, value) in [
            ("client_id", json!("https://client.test/x/")),
            ("client_id", json!("https://client.test:443/x")),
            ("client_name", Value::Null),
            ("redirect_uris", Value::Null),
            ("client_secret", json!("s")),
            ("token_endpoint_auth_method", json!("client_secret_basic")),
            ("jwks", json!({ "keys": [{ "kty": "EC", "d": "x" }] })),
        ] {
            let mut wrong = good.clone();
            wrong[name] = value;
            assert!(check_document(id, &metadata(wrong), service()).is_err(), "{name}");
        }
    }
}
