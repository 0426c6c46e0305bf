//! Requests to a provider in the name of a client: the exchange of a code, and userinfo.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::header::HeaderValue;
use serde_json::{Map, Value};
use service_api::token::{ClientSecret, CodeVerifier};
use service_rules::{Timestamp, json};
use url::{Url, form_urlencoded};
use zeroize::Zeroizing;

use crate::issuers::{
    client_key::ClientKey,
    error::{IssuerError, ProviderRequest},
};

/// The type of a client assertion (RFC 7523).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A token or a code that a provider issued. It is never printed.
#[derive(Clone)]
pub struct ProviderSecret(Zeroizing<String>);

impl ProviderSecret {
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The secret itself. Every call is a place where it could leak.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ProviderSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProviderSecret(…)")
    }
}

/// This service as a client of a provider.
#[derive(Clone, Copy, Debug)]
pub struct ProviderClient<'a> {
    pub client_id: &'a str,
    pub credential: ProviderCredential<'a>,
}

/// How a client authenticates at the token endpoint.
#[derive(Clone, Copy, Debug)]
pub enum ProviderCredential<'a> {
    /// `client_secret_basic`.
    SecretBasic(&'a ClientSecret),
    /// `client_secret_post`.
    SecretPost(&'a ClientSecret),
    /// `private_key_jwt`, with ES256.
    PrivateKey(&'a ClientKey),
}

/// An authorization code, and what is needed to exchange it.
#[derive(Clone, Copy, Debug)]
pub struct CodeExchange<'a> {
    pub code: &'a ProviderSecret,
    /// The redirect URI of the authorization request, byte for byte.
    pub redirect_uri: &'a str,
    pub verifier: &'a CodeVerifier,
}

/// What a provider issued for a code.
#[derive(Clone, Debug)]
pub struct ProviderTokens {
    /// The ID token. It has not been verified.
    pub id_token: ProviderSecret,
    /// The access token for the userinfo endpoint.
    pub access_token: Option<ProviderSecret>,
}

/// The body and the header of a token request.
pub(super) struct TokenRequest {
    pub(super) form: Zeroizing<String>,
    pub(super) authorization: Option<HeaderValue>,
}

impl TokenRequest {
    pub(super) fn compose(
        client: &ProviderClient<'_>,
        exchange: &CodeExchange<'_>,
        endpoint: &Url,
        now: Timestamp,
    ) -> Result<Self, IssuerError> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", exchange.code.expose())
            .append_pair("redirect_uri", exchange.redirect_uri)
            .append_pair("code_verifier", exchange.verifier.expose());
        let mut authorization = None;
        match client.credential {
            ProviderCredential::SecretBasic(secret) => authorization = Some(basic(client.client_id, secret)?),
            ProviderCredential::SecretPost(secret) => {
                form.append_pair("client_id", client.client_id).append_pair("client_secret", secret.expose());
            }
            ProviderCredential::PrivateKey(key) => {
                let assertion = key.assertion(client.client_id, endpoint.as_str(), now).map_err(|error| {
                    tracing::error!(error = format!("{error:#}"), "A client assertion could not be signed");
                    IssuerError::Signing
                })?;
                form.append_pair("client_id", client.client_id)
                    .append_pair("client_assertion_type", ASSERTION_TYPE)
                    .append_pair("client_assertion", &assertion);
            }
        }
        Ok(Self { form: Zeroizing::new(form.finish()), authorization })
    }
}

/// Client id and secret are encoded as in a form before they are joined (RFC 6749 section 2.3.1).
fn basic(client_id: &str, secret: &ClientSecret) -> Result<HeaderValue, IssuerError> {
    let encode = |text: &str| Zeroizing::new(form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>());
    let pair = Zeroizing::new(format!("{}:{}", *encode(client_id), *encode(secret.expose())));
    sensitive(&format!("Basic {}", BASE64_STANDARD.encode(pair.as_bytes())))
}

/// Returns the header with the access token of the userinfo endpoint.
pub(super) fn bearer(token: &ProviderSecret) -> Result<HeaderValue, IssuerError> {
    sensitive(&format!("Bearer {}", token.expose()))
}

fn sensitive(text: &str) -> Result<HeaderValue, IssuerError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| IssuerError::MalformedToken)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reads the response of the token endpoint.
pub(super) fn read_tokens(status: u16, body: &[u8]) -> Result<ProviderTokens, IssuerError> {
    let request = ProviderRequest::Token;
    let Ok(Value::Object(response)) = json::read(body) else {
        return Err(IssuerError::InvalidResponse { request, problem: "its response is not a JSON object" });
    };
    if status != 200 {
        return Err(match response.get("error").and_then(Value::as_str) {
            Some("invalid_client" | "unauthorized_client") => IssuerError::ClientRefused,
            Some("invalid_grant") => IssuerError::CodeRefused,
            _ => IssuerError::TokenRefused,
        });
    }
    let secret = |name| text(&response, name).map(|text| ProviderSecret::new(text.to_owned()));
    let problem = "its response has no ID token; the client needs the scope openid";
    let id_token = secret("id_token").ok_or(IssuerError::InvalidResponse { request, problem })?;
    Ok(ProviderTokens { id_token, access_token: secret("access_token") })
}

/// Reads the response of the userinfo endpoint, which must be about this subject.
pub(super) fn read_user_info(body: &[u8], subject: &str) -> Result<Map<String, Value>, IssuerError> {
    let Ok(Value::Object(claims)) = json::read(body) else {
        let problem = "its response is not a JSON object";
        return Err(IssuerError::InvalidResponse { request: ProviderRequest::UserInfo, problem });
    };
    if subject.is_empty() || text(&claims, "sub") != Some(subject) {
        Err(IssuerError::OtherSubject)
    } else {
        Ok(claims)
    }
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_encodes_both_halves_as_in_a_form() {
        let header = basic("service:1", &ClientSecret::new("p@ss wörd%".into())).unwrap();
        assert!(header.is_sensitive());
        let decoded = BASE64_STANDARD.decode(&header.as_bytes()["Basic ".len()..]).unwrap();
        assert_eq!(String::from_utf8(decoded).unwrap(), "service%3A1:p%40ss+w%C3%B6rd%25");
    }

    #[test]
    fn a_provider_says_in_its_error_who_is_at_fault() {
        let error = |code: &str| read_tokens(400, format!(r#"{{"error":"{code}"}}"#).as_bytes()).unwrap_err();
        assert_eq!(error("invalid_client"), IssuerError::ClientRefused);
        assert_eq!(error("invalid_grant"), IssuerError::CodeRefused);
        assert_eq!(error("anything"), IssuerError::TokenRefused);
        assert!(matches!(read_tokens(200, b"{}"), Err(IssuerError::InvalidResponse { .. })));
        assert!(matches!(read_tokens(200, b"<html>"), Err(IssuerError::InvalidResponse { .. })));
    }

    #[test]
    fn userinfo_is_about_the_user_of_the_id_token() {
        assert!(read_user_info(br#"{"sub":"ann","email":"ann@acme.test"}"#, "ann").is_ok());
        for other in [r#"{"sub":"bob"}"#, r#"{"email":"ann@acme.test"}"#, r#"{"sub":["ann"]}"#, r#"{"sub":""}"#] {
            assert_eq!(read_user_info(other.as_bytes(), "ann"), Err(IssuerError::OtherSubject), "{other}");
        }
        assert_eq!(read_user_info(br#"{"sub":""}"#, ""), Err(IssuerError::OtherSubject));
    }

    #[test]
    fn secrets_are_never_printed() {
        let secret = ProviderSecret::new("eyJ".into());
        let key = ClientKey::generate().unwrap();
        let client = ProviderClient { client_id: "service", credential: ProviderCredential::PrivateKey(&key) };
        assert_eq!(format!("{secret:?} {key:?}"), "ProviderSecret(…) ClientKey(…)");
        assert!(format!("{client:?}").contains("ClientKey(…)"));
    }
}
