//! Connections to identity providers: which issuers and keys an owner can enter.

use serde_json::{Map, Value};
use service_api::connections::MAX_ISSUER;
use url::{Host, Url};

/// The hosts at which Microsoft Entra ID issues tokens.
const ENTRA_HOSTS: [&str; 5] = [
    "login.microsoftonline.com",
    "login.microsoftonline.us",
    "login.partner.microsoftonline.cn",
    "login.windows.net",
    "sts.windows.net",
];
/// The maximum number of keys that an owner can paste.
const MAX_KEYS: usize = 20;

/// Why an issuer cannot be used. The text completes the sentence "The field issuer …".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerTextError {
    #[error(
        "must be the provider's issuer, an https URL without a query or fragment, exactly as the provider spells it"
    )]
    Invalid,
    #[error("must begin with https://")]
    NotHttps,
    #[error("must be that of one Entra tenant, such as https://login.microsoftonline.com/<tenant id>/v2.0")]
    NotOneTenant,
}

/// Checks an issuer that an owner enters. `may_use_http`: an operator has listed it for this machine.
///
/// # Errors
/// [`IssuerTextError`].
pub fn check_issuer(text: &str, may_use_http: bool) -> Result<(), IssuerTextError> {
    let is_plain = text.len() <= MAX_ISSUER && text.bytes().all(|byte| byte.is_ascii_graphic());
    let url = Url::parse(text).ok().filter(|_| is_plain).ok_or(IssuerTextError::Invalid)?;
    match url.scheme() {
        "https" => {}
        "http" if may_use_http => {}
        "http" => return Err(IssuerTextError::NotHttps),
        _ => return Err(IssuerTextError::Invalid),
    }
    let has_user = !url.username().is_empty() || url.password().is_some();
    // The issuer is compared byte for byte, so it has to be spelled as its URL is.
    let is_normal = url.as_str() == text || url.as_str().strip_suffix('/') == Some(text);
    if has_user || text.contains(['?', '#']) || !is_normal {
        return Err(IssuerTextError::Invalid);
    }
    if is_of_entra(&url) && entra_tenant(&url).is_none() {
        return Err(IssuerTextError::NotOneTenant);
    }
    Ok(())
}

/// Whether an issuer is one of Microsoft Entra ID.
#[must_use]
pub fn is_entra(issuer: &str) -> bool {
    Url::parse(issuer).is_ok_and(|url| is_of_entra(&url))
}

fn is_of_entra(url: &Url) -> bool {
    matches!(url.host(), Some(Host::Domain(host)) if ENTRA_HOSTS.contains(&host))
}

/// The tenant of an Entra issuer: its id, never `common`, `organizations` or `consumers`.
fn entra_tenant(url: &Url) -> Option<&str> {
    let mut segments = url.path_segments()?;
    let tenant = segments.next()?;
    let groups: Vec<_> = tenant.split('-').map(str::len).collect();
    let is_id = groups == [8, 4, 4, 4, 12] && tenant.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (is_id && segments.next() == Some("v2.0") && segments.next().is_none()).then_some(tenant)
}

/// Why pasted keys cannot be used. The text completes the sentence "The field jwks …".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwksError {
    #[error("must be a JWK Set: an object whose member \"keys\" is an array of 1 to 20 public keys")]
    NotAKeySet,
    #[error("contains a private or symmetric key. Paste the provider's public keys only, and replace that key")]
    Secret,
}

/// Checks public keys that an owner pastes.
///
/// # Errors
/// [`JwksError`].
pub fn check_jwks(jwks: &Map<String, Value>) -> Result<(), JwksError> {
    let keys = jwks.get("keys").and_then(Value::as_array).ok_or(JwksError::NotAKeySet)?;
    if keys.is_empty() || keys.len() > MAX_KEYS {
        return Err(JwksError::NotAKeySet);
    }
    for key in keys {
        let key = key.as_object().ok_or(JwksError::NotAKeySet)?;
        let kind = key.get("kty").and_then(Value::as_str).ok_or(JwksError::NotAKeySet)?;
        if kind == "oct" || ["d", "p", "q", "dp", "dq", "qi", "k"].iter().any(|name| key.contains_key(*name)) {
            return Err(JwksError::Secret);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TENANT: &str = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";

    #[test]
    fn an_issuer_is_an_https_url_as_the_provider_spells_it() {
        for text in [
            "https://idp.acme.test",
            "https://idp.acme.test/",
            "https://idp.acme.test/realms/acme",
            "https://acme.test:8443/a/",
        ] {
            assert_eq!(check_issuer(text, false), Ok(()), "{text}");
        }
        for text in [
            "",
            "idp.acme.test",
            "ftp://idp.acme.test",
            "https://idp.acme.test?x=1",
            "https://idp.acme.test/#x",
            "https://ann@idp.acme.test",
            "https://idp.acme.test/a b",
            "https://IDP.acme.test",
            "https://idp.acme.test/../x",
            "https://bücher.test",
            " https://idp.acme.test",
        ] {
            assert_eq!(check_issuer(text, true), Err(IssuerTextError::Invalid), "{text}");
        }
        let long = format!("https://idp.acme.test/{}", "x".repeat(MAX_ISSUER));
        assert_eq!(check_issuer(&long, false), Err(IssuerTextError::Invalid));
        assert_eq!(check_issuer("http://127.0.0.1:9000", false), Err(IssuerTextError::NotHttps));
        assert_eq!(check_issuer("http://127.0.0.1:9000", true), Ok(()));
    }

    #[test]
    fn an_entra_issuer_names_one_tenant() {
        assert_eq!(check_issuer(&format!("https://login.microsoftonline.com/{TENANT}/v2.0"), false), Ok(()));
        for path in
            ["common/v2.0", "organizations/v2.0", "consumers/v2.0", "acme.test/v2.0", TENANT, "", "{tenantid}/v2.0"]
        {
            let issuer = format!("https://login.microsoftonline.com/{path}");
            assert!(check_issuer(&issuer, false).is_err(), "{issuer}");
        }
        let older = format!("https://sts.windows.net/{TENANT}/");
        assert_eq!(check_issuer(&older, false), Err(IssuerTextError::NotOneTenant));
    }

    #[test]
    fn pasted_keys_are_public() {
        let check = |jwks: Value| check_jwks(jwks.as_object().unwrap());
        assert_eq!(check(json!({ "keys": [{ "kty": "RSA", "n": "x", "e": "AQAB" }] })), Ok(()));
        for wrong in
            [json!({}), json!({ "keys": [] }), json!({ "keys": {} }), json!({ "keys": ["x"] }), json!({ "keys": [{}] })]
        {
            assert_eq!(check(wrong), Err(JwksError::NotAKeySet));
        }
        assert_eq!(check(json!({ "keys": vec![json!({ "kty": "RSA" }); 21] })), Err(JwksError::NotAKeySet));
        assert_eq!(check(json!({ "keys": [{ "kty": "oct", "k": "x" }] })), Err(JwksError::Secret));
        assert_eq!(check(json!({ "keys": [{ "kty": "EC", "d": "x" }] })), Err(JwksError::Secret));
    }
}
