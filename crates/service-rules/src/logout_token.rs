//! Whether a logout token ends sessions (OpenID Connect Back-Channel Logout 1.0, sections 2.4 and 2.6).
//!
//! The server has verified the signature with a key of the expected issuer before. That a token counts once is the
//! server's to check, by [`LogoutToken::token_id`].

use serde_json::{Map, Value};

use crate::{
    Timestamp,
    id_token::{self, IdTokenError},
    lifetimes,
    signing::later,
};

/// The event that a logout token must contain.
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
/// Seconds since the oldest logout token that is accepted was issued.
const MAX_AGE: i64 = 600;
/// Characters of the longest `jti`.
const MAX_TOKEN_ID_CHARACTERS: usize = 255;

/// What a logout token must say.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedLogoutToken<'a> {
    /// The issuer of the connection, byte for byte.
    pub issuer: &'a str,
    /// The client id of this service at the provider.
    pub client_id: &'a str,
    pub now: Timestamp,
}

/// What a valid logout token says. It names a subject, a session, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogoutToken {
    /// The claim `jti`. A second token with the same id is refused.
    pub token_id: String,
    /// The user whose sessions end: the claim `sub`.
    pub subject: Option<String>,
    /// The provider's session that ends: the claim `sid`.
    pub session_id: Option<String>,
    /// The token is refused as expired or too old from this time on, so its id need not be known any longer.
    pub forget_at: Timestamp,
}

/// Why a logout token ends no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogoutTokenError {
    #[error("the token is not a logout token")]
    Type,
    #[error("the logout token is from another issuer")]
    Issuer,
    #[error("the logout token is for another client")]
    Audience,
    #[error("the logout token has expired")]
    Expired,
    #[error("the logout token is not valid yet")]
    NotYetValid,
    #[error("the logout token is too old")]
    TooOld,
    #[error("the logout token has a nonce, as only ID tokens do")]
    Nonce,
    #[error("the logout token names neither a subject nor a session")]
    Target,
    /// A claim is missing or has the wrong type; this is its name.
    #[error("the logout token has no valid claim {0}")]
    Claim(&'static str),
}

/// Decides whether the claims of a token, whose signature has been verified, end sessions. `typ` is the type in its
/// header.
///
/// # Errors
/// Why the token ends no session.
pub fn judge(
    typ: Option<&str>,
    claims: &Map<String, Value>,
    expected: &ExpectedLogoutToken<'_>,
) -> Result<LogoutToken, LogoutTokenError> {
    // The type `logout+jwt` is recommended, and many providers send `JWT` or none.
    let is_logout = |typ: &str| ["logout+jwt", "JWT"].iter().any(|known| typ.eq_ignore_ascii_case(known));
    let event = claims.get("events").and_then(|events| events.get(LOGOUT_EVENT));
    if !typ.is_none_or(is_logout) || !event.is_some_and(Value::is_object) {
        return Err(LogoutTokenError::Type);
    }
    if claims.contains_key("nonce") {
        return Err(LogoutTokenError::Nonce);
    }
    if claims.get("iss").and_then(Value::as_str) != Some(expected.issuer) {
        return Err(LogoutTokenError::Issuer);
    }
    let audiences = id_token::audiences(claims).ok_or(LogoutTokenError::Audience)?;
    if expected.client_id.is_empty() || !audiences.contains(&expected.client_id) {
        return Err(LogoutTokenError::Audience);
    }
    let issued_at = judge_time(claims, expected.now)?;
    let token_id = text(claims, "jti")?.ok_or(LogoutTokenError::Claim("jti"))?;
    if token_id.chars().count() > MAX_TOKEN_ID_CHARACTERS {
        return Err(LogoutTokenError::Claim("jti"));
    }
    let subject = if claims.contains_key("sub") {
        Some(id_token::subject(claims).ok_or(LogoutTokenError::Claim("sub"))?)
    } else {
        None
    };
    let session_id = text(claims, "sid")?;
    if subject.is_none() && session_id.is_none() {
        return Err(LogoutTokenError::Target);
    }
    let forget_at = later(issued_at, MAX_AGE + lifetimes::PROVIDER_CLOCK_SKEW + 1);
    Ok(LogoutToken { token_id, subject, session_id, forget_at })
}

/// Returns when the token was issued.
fn judge_time(claims: &Map<String, Value>, now: Timestamp) -> Result<Timestamp, LogoutTokenError> {
    let (skew, now) = (lifetimes::PROVIDER_CLOCK_SKEW, now.as_second());
    let expires_at = seconds(claims, "exp")?;
    let issued_at = seconds(claims, "iat")?;
    if expires_at.saturating_add(skew) <= now {
        return Err(LogoutTokenError::Expired);
    }
    if issued_at > now + skew {
        return Err(LogoutTokenError::NotYetValid);
    }
    if issued_at.saturating_add(MAX_AGE + skew) < now {
        return Err(LogoutTokenError::TooOld);
    }
    Timestamp::from_second(issued_at).map_err(|_| LogoutTokenError::Claim("iat"))
}

fn seconds(claims: &Map<String, Value>, name: &'static str) -> Result<i64, LogoutTokenError> {
    id_token::seconds(claims, name).ok().flatten().ok_or(LogoutTokenError::Claim(name))
}

fn text(claims: &Map<String, Value>, name: &'static str) -> Result<Option<String>, LogoutTokenError> {
    id_token::text(claims, name).map_err(|_: IdTokenError| LogoutTokenError::Claim(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;
    const EXPECTED: ExpectedLogoutToken<'_> =
        ExpectedLogoutToken { issuer: "https://id.acme.test", client_id: "service", now: Timestamp::constant(NOW, 0) };

    /// Judges valid claims with this change; null removes a claim.
    fn judged(typ: Option<&str>, change: &Value) -> Result<LogoutToken, LogoutTokenError> {
        let mut claims = json!({
            "iss": "https://id.acme.test", "aud": ["service"], "sub": "ann", "sid": "s1", "jti": "1",
            "exp": NOW + 120, "iat": NOW, "events": { LOGOUT_EVENT: {} },
        });
        let claims = claims.as_object_mut().unwrap();
        for (name, value) in change.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.remove(name)),
                value => drop(claims.insert(name.clone(), value.clone())),
            }
        }
        judge(typ, claims, &EXPECTED)
    }

    #[track_caller]
    fn check_refused(change: &Value, expected: LogoutTokenError) {
        assert_eq!(judged(None, change), Err(expected), "{change}");
    }

    #[test]
    fn a_valid_token_names_a_user_or_a_session() {
        let both = judged(Some("logout+jwt"), &json!({})).unwrap();
        assert_eq!((both.subject.as_deref(), both.session_id.as_deref()), (Some("ann"), Some("s1")));
        assert_eq!(both.forget_at, Timestamp::constant(NOW + 661, 0));
        assert_eq!(judged(Some("JWT"), &json!({ "sub": null })).unwrap().subject, None);
        assert_eq!(judged(None, &json!({ "sid": null, "aud": "service" })).unwrap().session_id, None);
        check_refused(&json!({ "sub": null, "sid": null }), LogoutTokenError::Target);
        check_refused(&json!({ "sub": "" }), LogoutTokenError::Claim("sub"));
        check_refused(&json!({ "sid": 7 }), LogoutTokenError::Claim("sid"));
    }

    #[test]
    fn an_id_token_ends_no_session() {
        check_refused(&json!({ "nonce": "a nonce" }), LogoutTokenError::Nonce);
        for events in [json!(null), json!({}), json!([LOGOUT_EVENT]), json!({ LOGOUT_EVENT: true })] {
            check_refused(&json!({ "events": events }), LogoutTokenError::Type);
        }
        for typ in ["at+jwt", "", "secevent+jwt"] {
            assert_eq!(judged(Some(typ), &json!({})), Err(LogoutTokenError::Type), "{typ}");
        }
    }

    #[test]
    fn a_token_of_another_issuer_or_for_another_client_ends_no_session() {
        check_refused(&json!({ "iss": "https://id.acme.test/" }), LogoutTokenError::Issuer);
        check_refused(&json!({ "iss": null }), LogoutTokenError::Issuer);
        for audience in [json!("other"), json!([]), json!(null), json!(7)] {
            check_refused(&json!({ "aud": audience }), LogoutTokenError::Audience);
        }
    }

    #[test]
    fn a_token_counts_only_in_its_time_and_is_known_that_long() {
        check_refused(&json!({ "exp": NOW - 60 }), LogoutTokenError::Expired);
        assert!(judged(None, &json!({ "exp": NOW - 59 })).is_ok());
        check_refused(&json!({ "iat": NOW + 61 }), LogoutTokenError::NotYetValid);
        check_refused(&json!({ "iat": NOW - 661 }), LogoutTokenError::TooOld);
        let oldest = judged(None, &json!({ "iat": NOW - 660 })).unwrap();
        assert!(oldest.forget_at > EXPECTED.now, "an id is forgotten before its token is refused");
        for (name, claim) in [("exp", "exp"), ("iat", "iat"), ("jti", "jti")] {
            check_refused(&json!({ name: null }), LogoutTokenError::Claim(claim));
            check_refused(&json!({ name: [] }), LogoutTokenError::Claim(claim));
        }
        check_refused(&json!({ "jti": "" }), LogoutTokenError::Claim("jti"));
        check_refused(&json!({ "jti": "x".repeat(256) }), LogoutTokenError::Claim("jti"));
    }
}
