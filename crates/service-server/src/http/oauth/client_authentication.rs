//! Who the client of a request to `/oauth` says it is, and by what it proves it (RFC 6749 section 2.3.1).

use axum::http::{HeaderMap, HeaderValue, header};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use service_api::token::ClientSecret;
use service_rules::clients;
use zeroize::Zeroizing;

use crate::{
    flows::clients::PresentedClient,
    http::{
        error::{ApiError, Unreadable},
        query,
    },
};

const BASIC: &[u8] = b"basic";
const MAX_LENGTH: usize = 1_024;

/// By `Authorization: Basic` or in the body; in both at once it is not to be understood.
pub fn presented(
    headers: &HeaderMap,
    id: Option<String>,
    secret: Option<ClientSecret>,
) -> Result<PresentedClient, ApiError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter().filter(|value| is_basic(value));
    let Some(value) = values.next() else { return Ok(PresentedClient { id, secret }) };
    if secret.is_some() || values.next().is_some() {
        return Err(Unreadable::Body("The client authenticates in two ways; use one.".into()).into());
    }
    let basic = read(value).ok_or(clients::Refusal::NotThisClient)?;
    if id.is_some() && id != basic.id {
        return Err(Unreadable::Body("The client names itself in two ways that differ; use one.".into()).into());
    }
    Ok(basic)
}

fn is_basic(value: &HeaderValue) -> bool {
    let (scheme, rest) = value.as_bytes().split_at(value.len().min(BASIC.len()));
    scheme.eq_ignore_ascii_case(BASIC) && rest.first().is_none_or(|byte| *byte == b' ')
}

/// Both halves are encoded as in a form; anything that can be read in two ways is not read.
fn read(value: &HeaderValue) -> Option<PresentedClient> {
    let encoded = value.as_bytes().get(BASIC.len() + 1..).filter(|encoded| encoded.len() <= MAX_LENGTH)?;
    let decoded = Zeroizing::new(BASE64_STANDARD.decode(encoded).ok()?);
    let (id, secret) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    let (id, secret) = (query::decode(id)?, query::decode(secret)?);
    let printable = |text: &str| !text.is_empty() && text.chars().all(|c| !c.is_control());
    (printable(&id) && printable(&secret))
        .then(|| PresentedClient { id: Some(id), secret: Some(ClientSecret::new(secret)) })
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
        let secret = || Some(ClientSecret::new("x".into()));
        let id = |id: &str| Some(id.to_owned());
        assert!(presented(&headers, None, None).is_ok());
        assert!(presented(&headers, id("reports"), None).is_ok());
        assert!(presented(&headers, id("other"), None).is_err());
        assert!(presented(&headers, id("reports"), secret()).is_err());
        headers.append(header::AUTHORIZATION, basic(b"reports:x"));
        assert!(presented(&headers, None, None).is_err());
    }
}
