//! Query strings, parsed strictly: known names only, each at most once, with one way of decoding.

use axum::{extract::FromRequestParts, http::request::Parts};
use percent_encoding::percent_decode_str;

use crate::http::{
    errors::{ApiError, MalformedRequest},
    exchange::Exchange,
};

const MAX_PARAMETERS: usize = 100;

/// The parameters of a request, all of them known to its endpoint.
pub struct Query(Vec<(String, String)>);

impl Query {
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Parses the query of a request. The endpoint's row in the table decides which parameters are known.
    pub fn read(parts: &Parts) -> Result<Self, ApiError> {
        let known = Exchange::endpoint(parts).map_or(&[][..], |endpoint| endpoint.query);
        let pairs = pairs(parts.uri.query().unwrap_or_default())
            .ok_or_else(|| MalformedRequest::Query("The query can't be decoded. Check its percent-encoding.".into()))?;
        for (place, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(MalformedRequest::Query(unknown(known)).into());
            }
            if pairs[..place].iter().any(|(other, _)| other == name) {
                return Err(MalformedRequest::Query(format!("The parameter {name} is repeated. Send it once.")).into());
            }
        }
        Ok(Self(pairs))
    }
}

/// Returns the workspace that the body or the query names; 400 if both name different ones.
pub fn one_workspace(body: Option<String>, query: &Query) -> Result<Option<String>, ApiError> {
    match (body, query.get("workspaceId")) {
        (Some(body), Some(query)) if body != query => {
            let text = "workspaceId differs between body and query. Send it once.";
            Err(MalformedRequest::Query(text.into()).into())
        }
        (_, Some("")) => {
            Err(MalformedRequest::Query("workspaceId is empty. Leave it out for the default.".into()).into())
        }
        (body, query) => Ok(body.or_else(|| query.map(str::to_owned))),
    }
}

/// Describes an unknown parameter. It lists the known ones, because the one that was sent may be a misplaced secret.
fn unknown(known: &[&str]) -> String {
    match known {
        [] => "This endpoint has no query parameters. Remove them, or send them in the body.".into(),
        _ => format!("The query has an unknown parameter. Known parameters: {}.", known.join(", ")),
    }
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::read(parts)
    }
}

/// Parses `application/x-www-form-urlencoded`; `None`: malformed escapes, invalid UTF-8, NUL, or too many pairs.
#[must_use]
pub fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pieces: Vec<_> = text.split('&').filter(|piece| !piece.is_empty()).collect();
    if pieces.len() > MAX_PARAMETERS {
        return None;
    }
    pieces
        .into_iter()
        .map(|piece| {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            Some((decode(name)?, decode(value)?))
        })
        .collect()
}

/// Decodes one part of a form; `None`: malformed escapes, invalid UTF-8, or NUL.
#[must_use]
pub fn decode(text: &str) -> Option<String> {
    let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    let broken = text.split('%').skip(1).any(|rest| !is_escape(rest));
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().ok()?;
    (!broken && !decoded.contains('\0')).then(|| decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_decoded_in_one_way_ht_04() {
        let check = |text: &str, expected: Option<&[(&str, &str)]>| {
            let expected =
                expected.map(|pairs| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect());
            assert_eq!(pairs(text), expected, "{text}");
        };
        check("", Some(&[]));
        check("a=1&b=x+y%20z%2B", Some(&[("a", "1"), ("b", "x y z+")]));
        check("a=1;b=2", Some(&[("a", "1;b=2")]));
        check("a&b=", Some(&[("a", ""), ("b", "")]));
        check("a=b=c", Some(&[("a", "b=c")]));
        check("a=%C3%A9", Some(&[("a", "é")]));
        for broken in ["a=%", "a=%2", "a=%zz", "a=%C0%80", "a=%ff", "a=%00", "%00=1", "a=%ED%A0%80", "a=%2é"] {
            check(broken, None);
        }
        assert!(pairs(&"a=1&".repeat(100)).is_some());
        assert!(pairs(&"a=1&".repeat(101)).is_none());
    }
}
