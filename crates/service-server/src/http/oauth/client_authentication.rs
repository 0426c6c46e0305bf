//! Reads the client authentication of a request to `/oauth` (RFC 6749 section 2.3.1).

use axum::http::{HeaderMap, HeaderValue, header};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use service_api::{
    oauth::{AboutToken, TokenRequest},
    token::{ClientAssertion, ClientSecret},
};
use service_rules::clients::ClientAuthError;
use zeroize::Zeroizing;

use crate::{
    flows::clients::client_auth::PresentedClient,
    http::{
        errors::{ApiError, MalformedRequest},
        query,
    },
};

const BASIC: &[u8] = b"basic";
/// Bytes of the longest value of `Authorization: Basic`.
const MAX_BASIC_BYTES: usize = 1_024;

/// The value of `client_assertion_type` (RFC 7523 section 2.2).
pub const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The client authentication in the body of a request.
#[derive(Default)]
pub struct InBody {
    pub id: Option<String>,
    pub secret: Option<ClientSecret>,
    pub assertion: Option<ClientAssertion>,
    pub assertion_type: Option<String>,
}

macro_rules! in_body {
    ($($request:ty),*) => {
        $(impl From<&mut $request> for InBody {
            /// Takes the fields out of the request: the flows do not need them.
            fn from(request: &mut $request) -> Self {
                Self {
                    id: request.client_id.take(),
                    secret: request.client_secret.take(),
                    assertion: request.client_assertion.take(),
                    assertion_type: request.client_assertion_type.take(),
                }
            }
        })*
    };
}

in_body!(TokenRequest, AboutToken);

/// Reads the client authentication: `Authorization: Basic`, or a secret or a signed assertion in the body. A request with
/// two of them is rejected.
pub fn presented(headers: &HeaderMap, body: impl Into<InBody>) -> Result<PresentedClient, ApiError> {
    let InBody { id, secret, assertion, assertion_type } = body.into();
    let mut values = headers.get_all(header::AUTHORIZATION).iter().filter(|value| is_basic(value));
    let (basic, second) = (values.next(), values.next());
    let ways = [basic.is_some(), second.is_some(), secret.is_some(), assertion.is_some()];
    if ways.iter().filter(|way| **way).count() > 1 {
        return Err(MalformedRequest::Body("The client authenticates in two ways. Use one.".into()).into());
    }
    if assertion.is_some() && assertion_type.as_deref() != Some(ASSERTION_TYPE) {
        return Err(MalformedRequest::Body(format!("client_assertion_type must be {ASSERTION_TYPE}.")).into());
    }
    let Some(value) = basic else {
        // An assertion names its client, so client_id may be left out. It counts only if the signature is right.
        let id = id.or_else(|| subject(assertion.as_ref()?.expose()));
        return Ok(PresentedClient { id, secret, assertion });
    };
    let basic = read(value).ok_or(ClientAuthError::InvalidClient)?;
    if id.is_some() && id != basic.id {
        return Err(MalformedRequest::Body(
            "client_id differs from the client in the Authorization header. Send one of them.".into(),
        )
        .into());
    }
    Ok(basic)
}

/// The client that an assertion names.
fn subject(assertion: &str) -> Option<String> {
    let payload = BASE64_URL_SAFE_NO_PAD.decode(assertion.split('.').nth(1)?).ok()?;
    serde_json::from_slice::<serde_json::Value>(&payload).ok()?["sub"].as_str().map(str::to_owned)
}

fn is_basic(value: &HeaderValue) -> bool {
    let (scheme, rest) = value.as_bytes().split_at(value.len().min(BASIC.len()));
    scheme.eq_ignore_ascii_case(BASIC) && rest.first().is_none_or(|byte| *byte == b' ')
}

/// Reads the credentials of `Authorization: Basic`. Both halves are encoded as in a form; an ambiguous value is rejected.
fn read(value: &HeaderValue) -> Option<PresentedClient> {
    let encoded = value.as_bytes().get(BASIC.len() + 1..).filter(|encoded| encoded.len() <= MAX_BASIC_BYTES)?;
    let decoded = Zeroizing::new(BASE64_STANDARD.decode(encoded).ok()?);
    let (id, secret) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    let (id, secret) = (query::decode(id)?, query::decode(secret)?);
    let printable = |text: &str| !text.is_empty() && text.chars().all(|c| !c.is_control());
    (printable(&id) && printable(&secret)).then(|| PresentedClient {
        id: Some(id),
        secret: Some(ClientSecret::new(secret)),
        assertion: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(text: &[u8]) -> HeaderValue {
        HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(text))).unwrap()
    }

    #[test]
    fn basic_credentials_are_read_in_one_way_tk_08() {
        let read = |value: &HeaderValue| {
            read(value).map(|client| (client.id.unwrap(), client.secret.unwrap().expose().to_owned()))
        };
        let pair = |id: &str, secret: &str| Some((id.to_owned(), secret.to_owned()));
        assert_eq!(read(&basic(b"reports:svc_cs_1")), pair("reports", "svc_cs_1"));
        assert_eq!(read(&basic(b"re%3Aports:a+b%25")), pair("re:ports", "a b%"));
        assert_eq!(read(&basic(b"reports:a:b")), pair("reports", "a:b"));
        for broken in [&b"reports"[..], b":x", b"x:", b":", b"", b"a:b\0", b"a:%00", b"a:%zz", b"a:\xff", b"a\n:b"] {
            assert_eq!(read(&basic(broken)), None, "{broken:?}");
        }
        assert_eq!(read(&basic(&[b'a'; 8_000])), None);
        for text in ["Basic !", "Basic YTpi=", "Basic YTp", "Basic", "Basic "] {
            assert_eq!(read(&HeaderValue::from_static(text)), None, "{text}");
        }
    }

    #[test]
    fn one_way_at_a_time_tk_07() {
        let mut headers = HeaderMap::new();
        headers.append(header::AUTHORIZATION, basic(b"reports:x"));
        let check = |headers: &HeaderMap, id: Option<&str>, secret: bool, signs: bool, expected: bool| {
            let body = InBody {
                id: id.map(str::to_owned),
                secret: secret.then(|| ClientSecret::new("x".into())),
                assertion: signs.then(|| ClientAssertion::new("a.b.c".into())),
                assertion_type: signs.then(|| ASSERTION_TYPE.to_owned()),
            };
            assert_eq!(presented(headers, body).is_ok(), expected, "{id:?} {secret} {signs}");
        };
        let none = HeaderMap::new();
        check(&none, Some("reports"), false, true, true);
        check(&none, Some("reports"), true, true, false);
        check(&headers, None, false, false, true);
        check(&headers, Some("reports"), false, false, true);
        check(&headers, Some("other"), false, false, false);
        check(&headers, Some("reports"), true, false, false);
        check(&headers, None, false, true, false);
        headers.append(header::AUTHORIZATION, basic(b"reports:x"));
        check(&headers, None, false, false, false);
    }
}
