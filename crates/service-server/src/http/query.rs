//! Query strings, read strictly: known names only, each at most once, and only one way to decode them.

use axum::{extract::FromRequestParts, http::request::Parts};
use percent_encoding::percent_decode_str;
use service_api::endpoints::Endpoint;

use crate::http::error::{ApiError, Unreadable};

const MAX_PAIRS: usize = 100;

/// The parameters of a request, all of them known to its endpoint.
pub struct Query(Vec<(String, String)>);

impl Query {
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Reads the query of a request by what its endpoint's row in the table says.
    pub fn read(parts: &Parts) -> Result<Self, ApiError> {
        let known = parts.extensions.get::<&'static Endpoint>().map_or(&[][..], |endpoint| endpoint.query);
        let pairs = pairs(parts.uri.query().unwrap_or_default())
            .ok_or_else(|| Unreadable::Query("The query cannot be read; check how it is encoded.".into()))?;
        for (place, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(Unreadable::Query(unknown(known)).into());
            }
            if pairs[..place].iter().any(|(other, _)| other == name) {
                return Err(Unreadable::Query(format!("The parameter {name} occurs twice; send it once.")).into());
            }
        }
        Ok(Self(pairs))
    }
}

/// Names what is known rather than what was sent, which may be a secret in the wrong place.
fn unknown(known: &[&str]) -> String {
    match known {
        [] => "This address takes no query; send parameters in the body.".into(),
        _ => format!("The query has a parameter that is not known here; known are: {}.", known.join(", ")),
    }
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::read(parts)
    }
}

/// Takes `application/x-www-form-urlencoded` apart; `None` for escapes that are broken or not UTF-8, NUL, and too many.
#[must_use]
pub fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pieces: Vec<_> = text.split('&').filter(|piece| !piece.is_empty()).collect();
    if pieces.len() > MAX_PAIRS {
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

/// Undoes the encoding of one part of a form; `None` for escapes that are broken or not UTF-8, and for NUL.
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
