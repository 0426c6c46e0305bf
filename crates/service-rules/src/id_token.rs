//! Whether an ID token signs a user in (OpenID Connect Core 1.0, section 3.1.3.7).
//!
//! The server has verified the signature with a key of the expected issuer before. What the token says about its own
//! issuer never selects a key.

use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;

use crate::{Timestamp, lifetimes};

/// Characters of the longest subject (OpenID Connect Core 1.0, section 2).
const MAX_SUBJECT_CHARACTERS: usize = 255;
/// Characters of the longest value of another claim that is read.
const MAX_CLAIM_CHARACTERS: usize = 512;
/// Audiences of a token at most.
const MAX_AUDIENCES: usize = 16;
/// Seconds since the oldest ID token that is accepted was issued. It comes straight from the token endpoint.
const MAX_AGE: i64 = 600;

/// What an ID token must say.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedIdToken<'a> {
    /// The issuer of the connection, byte for byte.
    pub issuer: &'a str,
    /// The client id of this service at the provider.
    pub client_id: &'a str,
    /// The nonce that was sent with the authorization request.
    pub nonce: &'a str,
    pub now: Timestamp,
}

/// What a valid ID token says about its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdToken {
    /// The claim `sub`: who the user is at the issuer. Never empty.
    pub subject: String,
    /// The claim `email` as the provider wrote it. It may not be an email address.
    pub email: Option<String>,
    pub email_verified: EmailVerified,
    /// When the provider says that the user authenticated.
    pub auth_time: Option<Timestamp>,
    /// The provider's session, which a logout token may name: the claim `sid`.
    pub session_id: Option<String>,
    /// The Entra tenant: the claim `tid`.
    pub tenant_id: Option<String>,
    /// The Entra object: the claim `oid`.
    pub object_id: Option<String>,
}

/// The claim `email_verified`. Only the JSON value `true` counts as true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmailVerified {
    True,
    Absent,
    /// Present, and anything but `true`.
    Other,
}

impl EmailVerified {
    /// Reads the claim `email_verified` of an ID token or of a userinfo response.
    #[must_use]
    pub fn read(claims: &Map<String, Value>) -> Self {
        match claims.get("email_verified") {
            None => Self::Absent,
            Some(Value::Bool(true)) => Self::True,
            Some(_) => Self::Other,
        }
    }
}

/// Why an ID token does not sign a user in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdTokenError {
    #[error("the token is not an ID token")]
    Type,
    #[error("the ID token is from another issuer")]
    Issuer,
    #[error("the ID token is for another client")]
    Audience,
    #[error("the ID token was issued to another party")]
    AuthorizedParty,
    #[error("the ID token has expired")]
    Expired,
    #[error("the ID token is not valid yet")]
    NotYetValid,
    #[error("the ID token is too old")]
    TooOld,
    #[error("the ID token has another nonce")]
    Nonce,
    #[error("the ID token has no valid subject")]
    Subject,
    /// A claim is missing or has the wrong type; this is its name.
    #[error("the ID token has no valid claim {0}")]
    Claim(&'static str),
}

/// Decides whether the claims of a token, whose signature has been verified, sign a user in. `typ` is the type in its
/// header.
///
/// # Errors
/// Why the token does not sign a user in.
pub fn judge(
    typ: Option<&str>,
    claims: &Map<String, Value>,
    expected: &ExpectedIdToken<'_>,
) -> Result<IdToken, IdTokenError> {
    if !typ.is_none_or(|typ| typ.eq_ignore_ascii_case("JWT")) {
        return Err(IdTokenError::Type);
    }
    // A logout token must never be taken for an ID token.
    if claims.contains_key("events") {
        return Err(IdTokenError::Type);
    }
    if claims.get("iss").and_then(Value::as_str) != Some(expected.issuer) {
        return Err(IdTokenError::Issuer);
    }
    judge_audience(claims, expected.client_id)?;
    judge_time(claims, expected.now)?;
    let nonce = claims.get("nonce").and_then(Value::as_str).ok_or(IdTokenError::Nonce)?;
    if !bool::from(nonce.as_bytes().ct_eq(expected.nonce.as_bytes())) || expected.nonce.is_empty() {
        return Err(IdTokenError::Nonce);
    }
    Ok(IdToken {
        subject: subject(claims).ok_or(IdTokenError::Subject)?,
        email: text(claims, "email")?,
        email_verified: EmailVerified::read(claims),
        auth_time: auth_time(claims, expected.now)?,
        session_id: text(claims, "sid")?,
        tenant_id: text(claims, "tid")?,
        object_id: text(claims, "oid")?,
    })
}

/// The token must be for this client. If it is for others too, it must say that it was issued to this client.
fn judge_audience(claims: &Map<String, Value>, client_id: &str) -> Result<(), IdTokenError> {
    let audiences = audiences(claims).ok_or(IdTokenError::Audience)?;
    if client_id.is_empty() || !audiences.contains(&client_id) {
        return Err(IdTokenError::Audience);
    }
    match claims.get("azp") {
        None if audiences.iter().all(|audience| *audience == client_id) => Ok(()),
        Some(Value::String(party)) if party == client_id => Ok(()),
        _ => Err(IdTokenError::AuthorizedParty),
    }
}

fn judge_time(claims: &Map<String, Value>, now: Timestamp) -> Result<(), IdTokenError> {
    let (skew, now) = (lifetimes::PROVIDER_CLOCK_SKEW, now.as_second());
    let expires_at = seconds(claims, "exp")?.ok_or(IdTokenError::Claim("exp"))?;
    let issued_at = seconds(claims, "iat")?.ok_or(IdTokenError::Claim("iat"))?;
    if expires_at.saturating_add(skew) <= now {
        return Err(IdTokenError::Expired);
    }
    let begins_at = seconds(claims, "nbf")?.unwrap_or(issued_at).max(issued_at);
    if begins_at > now + skew {
        return Err(IdTokenError::NotYetValid);
    }
    if issued_at.saturating_add(MAX_AGE + skew) < now { Err(IdTokenError::TooOld) } else { Ok(()) }
}

/// When the user authenticated. A provider whose clock is a little ahead means now.
fn auth_time(claims: &Map<String, Value>, now: Timestamp) -> Result<Option<Timestamp>, IdTokenError> {
    let Some(second) = seconds(claims, "auth_time")? else { return Ok(None) };
    let at = Timestamp::from_second(second).map_err(|_| IdTokenError::Claim("auth_time"))?;
    let is_ahead = second > now.as_second() + lifetimes::PROVIDER_CLOCK_SKEW;
    if is_ahead { Err(IdTokenError::Claim("auth_time")) } else { Ok(Some(at.min(now))) }
}

/// The audiences of a token: one, or a list.
pub(crate) fn audiences(claims: &Map<String, Value>) -> Option<Vec<&str>> {
    match claims.get("aud")? {
        Value::String(one) => Some(vec![one]),
        Value::Array(many) if many.len() <= MAX_AUDIENCES => many.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// The claim `sub`, if it is a name without control characters.
#[must_use]
pub fn subject(claims: &Map<String, Value>) -> Option<String> {
    let subject = claims.get("sub")?.as_str()?;
    let length = subject.chars().count();
    let is_name = (1..=MAX_SUBJECT_CHARACTERS).contains(&length) && !subject.chars().any(char::is_control);
    is_name.then(|| subject.to_owned())
}

/// A claim that is a time in seconds since 1970. A fraction is cut off.
pub(crate) fn seconds(claims: &Map<String, Value>, name: &'static str) -> Result<Option<i64>, IdTokenError> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and the seconds are compared")]
    let whole = value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64));
    whole.map(Some).ok_or(IdTokenError::Claim(name))
}

/// A claim that is a short text. `None`: it is absent, empty or null.
pub(crate) fn text(claims: &Map<String, Value>, name: &'static str) -> Result<Option<String>, IdTokenError> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if is_short(text) => Ok(Some(text.clone())),
        Some(_) => Err(IdTokenError::Claim(name)),
    }
}

fn is_short(text: &str) -> bool {
    text.chars().count() <= MAX_CLAIM_CHARACTERS && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;
    const EXPECTED: ExpectedIdToken<'_> = ExpectedIdToken {
        issuer: "https://id.acme.test",
        client_id: "service",
        nonce: "a nonce",
        now: Timestamp::constant(NOW, 0),
    };

    fn valid() -> Value {
        json!({
            "iss": "https://id.acme.test", "aud": "service", "sub": "ann", "nonce": "a nonce",
            "exp": NOW + 300, "iat": NOW, "email": "ann@acme.test", "email_verified": true,
        })
    }

    /// Judges the valid claims with this change; null removes a claim.
    fn judged(change: &Value) -> Result<IdToken, IdTokenError> {
        let mut claims = valid();
        let claims = claims.as_object_mut().unwrap();
        for (name, value) in change.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.remove(name)),
                value => drop(claims.insert(name.clone(), value.clone())),
            }
        }
        judge(None, claims, &EXPECTED)
    }

    #[track_caller]
    fn check_refused(change: &Value, expected: IdTokenError) {
        assert_eq!(judged(change), Err(expected), "{change}");
    }

    #[test]
    fn a_valid_token_says_who_its_user_is() {
        let change = json!({ "auth_time": NOW - 5, "sid": "s1", "tid": "t", "oid": "o", "aud": ["service"] });
        assert_eq!(
            judged(&change).unwrap(),
            IdToken {
                subject: "ann".into(),
                email: Some("ann@acme.test".into()),
                email_verified: EmailVerified::True,
                auth_time: Some(Timestamp::constant(NOW - 5, 0)),
                session_id: Some("s1".into()),
                tenant_id: Some("t".into()),
                object_id: Some("o".into()),
            }
        );
    }

    #[test]
    fn a_token_of_another_issuer_is_refused_so_03() {
        for issuer in [json!("https://id.acme.test/"), json!("https://ID.acme.test"), json!(null), json!(["x"])] {
            check_refused(&json!({ "iss": issuer }), IdTokenError::Issuer);
        }
    }

    #[test]
    fn a_token_for_another_client_is_refused_so_03() {
        for audience in [json!("other"), json!(["other"]), json!([]), json!(null), json!(7), json!(["service", 7])] {
            check_refused(&json!({ "aud": audience }), IdTokenError::Audience);
        }
        let both = json!(["service", "other"]);
        check_refused(&json!({ "aud": both }), IdTokenError::AuthorizedParty);
        check_refused(&json!({ "aud": both, "azp": "other" }), IdTokenError::AuthorizedParty);
        check_refused(&json!({ "azp": "other" }), IdTokenError::AuthorizedParty);
        check_refused(&json!({ "azp": 7 }), IdTokenError::AuthorizedParty);
        assert!(judged(&json!({ "aud": both, "azp": "service" })).is_ok());
        assert!(judged(&json!({ "azp": "service" })).is_ok());
        let unnamed = ExpectedIdToken { client_id: "", ..EXPECTED };
        let claims = json!({ "iss": "https://id.acme.test", "aud": "" });
        assert_eq!(judge(None, claims.as_object().unwrap(), &unnamed), Err(IdTokenError::Audience));
    }

    #[test]
    fn a_token_counts_only_in_its_time_so_03() {
        check_refused(&json!({ "exp": NOW - 60 }), IdTokenError::Expired);
        assert!(judged(&json!({ "exp": NOW - 59 })).is_ok());
        check_refused(&json!({ "iat": NOW + 61 }), IdTokenError::NotYetValid);
        assert!(judged(&json!({ "iat": NOW + 60 })).is_ok());
        check_refused(&json!({ "nbf": NOW + 61 }), IdTokenError::NotYetValid);
        check_refused(&json!({ "iat": NOW - 661 }), IdTokenError::TooOld);
        assert!(judged(&json!({ "iat": NOW - 660 })).is_ok());
        for (name, claim) in [("exp", "exp"), ("iat", "iat")] {
            check_refused(&json!({ name: null }), IdTokenError::Claim(claim));
            check_refused(&json!({ name: "soon" }), IdTokenError::Claim(claim));
        }
        check_refused(&json!({ "nbf": "now" }), IdTokenError::Claim("nbf"));
        assert!(judged(&json!({ "exp": i64::MAX, "iat": 1_800_000_000.5 })).is_ok());
        check_refused(&json!({ "exp": i64::MIN }), IdTokenError::Expired);
        check_refused(&json!({ "exp": 1e300, "iat": 1e300 }), IdTokenError::NotYetValid);
    }

    #[test]
    fn the_nonce_of_the_flow_must_come_back_so_03() {
        for nonce in [json!(null), json!(""), json!("another nonce"), json!("a nonce "), json!(7)] {
            check_refused(&json!({ "nonce": nonce }), IdTokenError::Nonce);
        }
        let none = ExpectedIdToken { nonce: "", ..EXPECTED };
        let mut claims = valid();
        claims["nonce"] = json!("");
        assert_eq!(judge(None, claims.as_object().unwrap(), &none), Err(IdTokenError::Nonce));
    }

    #[test]
    fn a_subject_is_a_short_name_without_control_characters() {
        for subject in [json!(null), json!(""), json!("a\nb"), json!("a\u{7f}"), json!("x".repeat(256)), json!(7)] {
            check_refused(&json!({ "sub": subject }), IdTokenError::Subject);
        }
        assert!(judged(&json!({ "sub": "x".repeat(255) })).is_ok());
        assert!(judged(&json!({ "sub": "Änn|1" })).is_ok());
    }

    #[test]
    fn only_true_is_a_verified_address_so_04() {
        let verified = |value: Value| judged(&json!({ "email_verified": value })).unwrap().email_verified;
        assert_eq!(verified(json!(true)), EmailVerified::True);
        assert_eq!(verified(json!(null)), EmailVerified::Absent);
        for other in [json!(false), json!("true"), json!(1), json!({}), json!([true])] {
            assert_eq!(verified(other.clone()), EmailVerified::Other, "{other}");
        }
        let mut claims = valid();
        claims["email_verified"] = Value::Null;
        assert_eq!(EmailVerified::read(claims.as_object().unwrap()), EmailVerified::Other, "null is a value");
    }

    #[test]
    fn other_claims_are_short_texts() {
        assert_eq!(judged(&json!({ "email": null })).unwrap().email, None);
        assert_eq!(judged(&json!({ "email": "" })).unwrap().email, None);
        for (name, claim) in [("email", "email"), ("tid", "tid"), ("oid", "oid"), ("sid", "sid")] {
            for wrong in [json!(7), json!(["x"]), json!("a\r\nb"), json!("x".repeat(513))] {
                check_refused(&json!({ name: wrong }), IdTokenError::Claim(claim));
            }
        }
        check_refused(&json!({ "auth_time": "today" }), IdTokenError::Claim("auth_time"));
        check_refused(&json!({ "auth_time": i64::MAX }), IdTokenError::Claim("auth_time"));
        check_refused(&json!({ "auth_time": NOW + 61 }), IdTokenError::Claim("auth_time"));
        assert_eq!(judged(&json!({ "auth_time": NOW + 60 })).unwrap().auth_time, Some(EXPECTED.now));
    }

    #[test]
    fn other_kinds_of_tokens_are_no_id_tokens() {
        let claims = valid();
        let claims = claims.as_object().unwrap();
        assert!(judge(Some("jwt"), claims, &EXPECTED).is_ok());
        for typ in ["at+jwt", "logout+jwt", ""] {
            assert_eq!(judge(Some(typ), claims, &EXPECTED), Err(IdTokenError::Type), "{typ}");
        }
        check_refused(&json!({ "events": {} }), IdTokenError::Type);
    }
}
