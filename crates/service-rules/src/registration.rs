//! What a client says about itself (RFC 7591), by registering or in a document at its own address.

use serde::Deserialize;
use serde_json::Value;

use crate::redirect;

const MOST_REDIRECT_URIS: usize = 20;
const LONGEST_NAME: usize = 100;
/// Words by which a client could pass for us.
const OURS: &str = "service";

/// The metadata that matter here; whatever else there is, is passed over.
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
}

/// A client as it may be registered: public, by code and refresh, with redirect URIs that lead somewhere safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub name: String,
    /// In their order, each once.
    pub redirect_uris: Vec<String>,
    pub origins: Vec<String>,
}

/// What is wrong, by the codes of RFC 7591 section 3.2.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    RedirectUri(String),
    Metadata(String),
}

/// What a client says of itself that nobody vouches for.
pub fn check_stranger(metadata: &Metadata) -> Result<Registered, Refusal> {
    let said = check(metadata)?;
    if said.name.to_lowercase().starts_with(OURS) {
        return Err(Refusal::Metadata("client_name begins like ours; use your own.".into()));
    }
    Ok(said)
}

pub fn check(metadata: &Metadata) -> Result<Registered, Refusal> {
    let wrong = |text: &str| Err(Refusal::Metadata(text.to_owned()));
    let has =
        |list: &Option<Vec<String>>, word: &str| list.as_ref().is_none_or(|list| list.iter().any(|own| own == word));
    if !has(&metadata.grant_types, "authorization_code") {
        return wrong("grant_types lacks authorization_code, which is how clients get tokens here.");
    }
    if !has(&metadata.response_types, "code") {
        return wrong("response_types lacks code.");
    }
    let redirect_uris = redirect_uris(metadata.redirect_uris.as_deref().unwrap_or_default())?;
    let name = match &metadata.client_name {
        Some(name) => check_name(name)?,
        None => redirect_uris.first().map(|uri| redirect::host(uri)).unwrap_or_default(),
    };
    let mut origins: Vec<_> = redirect_uris.iter().filter_map(|uri| redirect::origin(uri)).collect();
    origins.sort();
    origins.dedup();
    Ok(Registered { name, redirect_uris, origins })
}

pub fn redirect_uris(asked: &[String]) -> Result<Vec<String>, Refusal> {
    if asked.is_empty() || asked.len() > MOST_REDIRECT_URIS {
        return Err(Refusal::RedirectUri(format!("redirect_uris has none, or more than {MOST_REDIRECT_URIS}.")));
    }
    let mut known = Vec::with_capacity(asked.len());
    for (place, uri) in asked.iter().enumerate() {
        redirect::check(uri)
            .map_err(|redirect::NotRegistrable(why)| Refusal::RedirectUri(format!("redirect_uris[{place}] {why}.")))?;
        if !known.contains(uri) {
            known.push(uri.clone());
        }
    }
    Ok(known)
}

/// A name that people can read, and that does not pretend to be something else.
pub fn check_name(name: &str) -> Result<String, Refusal> {
    let name = name.trim();
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '<' | '>')
    };
    if name.is_empty() || name.chars().count() > LONGEST_NAME || name.chars().any(hidden) {
        return Err(Refusal::Metadata(format!(
            "client_name has characters that cannot be shown, or more than {LONGEST_NAME}."
        )));
    }
    Ok(name.to_owned())
}

/// Whether a client id could be the address of a document, and is written in the one way it may be.
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
        // Written in another way than it is read, it could be taken for another document.
        && url.as_str() == id
}

/// What a document at a client's own address says of it.
pub fn check_document(id: &str, metadata: &Metadata) -> Result<Registered, Refusal> {
    let wrong = |text: &str| Err(Refusal::Metadata(text.to_owned()));
    if metadata.client_id.as_deref() != Some(id) {
        return wrong("the document's client_id is not its own address.");
    }
    if metadata.client_name.is_none() || metadata.redirect_uris.is_none() {
        return wrong("the document lacks client_name or redirect_uris.");
    }
    if metadata.client_secret.is_some() || metadata.client_secret_expires_at.is_some() {
        return wrong("the document holds a secret, which everybody can read.");
    }
    if !matches!(metadata.token_endpoint_auth_method.as_deref(), None | Some("none")) {
        return wrong("the document asks for client authentication, which is not served for documents.");
    }
    if metadata.jwks.as_ref().is_some_and(has_private_key) {
        return wrong("the document holds a private key, which everybody can read.");
    }
    check_stranger(metadata)
}

/// Whether keys that are meant to be public are not, or are none that prove anything.
#[must_use]
pub fn has_private_key(jwks: &Value) -> bool {
    let keys = jwks["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    keys.iter().any(|key| ["d", "p", "q", "dp", "dq", "qi", "k"].iter().any(|name| key.get(name).is_some()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(value: Value) -> Metadata {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_client_is_registered_with_what_it_may_have_ss_10() {
        let cursor = json!({
            "client_name": "Cursor", "application_type": "web", "token_endpoint_auth_method": "client_secret_basic",
            "redirect_uris":
                ["cursor://anysphere.cursor-mcp/oauth/callback", "http://localhost:8787/cb", "http://localhost:8787/cb"],
            "grant_types": ["authorization_code", "refresh_token"], "software_statement": "x", "scope": "admin",
        });
        let registered = check(&metadata(cursor)).unwrap();
        assert_eq!(registered.redirect_uris.len(), 2);
        assert_eq!(registered.origins, ["http://localhost:8787"]);
        let nameless = check(&metadata(json!({ "redirect_uris": ["https://app.test/cb"] }))).unwrap();
        assert_eq!(nameless.name, "app.test");
        for wrong in [
            json!({}),
            json!({ "redirect_uris": [] }),
            json!({ "redirect_uris": ["javascript:alert(1)"] }),
            json!({ "redirect_uris": ["https://app.test/cb", "http://app.test/cb"] }),
            json!({ "redirect_uris": ["https://app.test/cb"], "client_name": "x".repeat(101) }),
            json!({ "redirect_uris": ["https://app.test/cb"], "client_name": "Goo\u{202e}gle" }),
            json!({ "redirect_uris": ["https://app.test/cb"], "client_name": "<b>App</b>" }),
            json!({ "redirect_uris": ["https://app.test/cb"], "client_name": "Service command line" }),
            json!({ "redirect_uris": ["https://app.test/cb"], "grant_types": ["client_credentials"] }),
            json!({ "redirect_uris": ["https://app.test/cb"], "response_types": ["token"] }),
        ] {
            assert!(check_stranger(&metadata(wrong.clone())).is_err(), "{wrong}");
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
        assert!(check_document(id, &metadata(good.clone())).is_ok());
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
            assert!(check_document(id, &metadata(wrong)).is_err(), "{name}");
        }
    }
}
