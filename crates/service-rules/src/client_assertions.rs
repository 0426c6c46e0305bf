//! Whether the claims of a client assertion authenticate its client (RFC 7523 section 3).
//!
//! The server has verified the signature with a key of the client before. That an assertion counts once is the server's to
//! check, by its `jti`.

use serde::Deserialize;

use crate::{Timestamp, lifetimes};

/// Bytes of the longest `jti`.
const MAX_ID_BYTES: usize = 256;

/// The claims of an assertion whose signature is right.
#[derive(Clone, Debug, Deserialize)]
pub struct AssertionClaims {
    pub iss: String,
    pub sub: String,
    pub aud: AssertionAudience,
    pub exp: i64,
    pub jti: String,
}

/// The claim `aud`: a text, or a list of texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum AssertionAudience {
    One(String),
    Many(Vec<String>),
}

/// What an assertion must say.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedAssertion<'a> {
    pub client_id: &'a str,
    /// The names of the recipient, byte for byte. An assertion has one of them as its only audience.
    pub audiences: &'a [&'a str],
    /// The longest lifetime. An attacker who finds an assertion that was not used can use it for this long at most.
    pub max_seconds: i64,
    pub now: Timestamp,
}

/// Why the claims of an assertion do not authenticate its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssertionClaimsError {
    #[error("the assertion is by or about another client")]
    Client,
    #[error("the assertion is for another audience")]
    Audience,
    #[error("the assertion has expired")]
    Expired,
    #[error("the assertion is valid for too long")]
    TooLong,
    #[error("the assertion has no usable jti")]
    Id,
}

/// Judges the claims. Returns the time from which on the assertion is refused as expired, so that its `jti` need not be known
/// any longer.
///
/// # Errors
/// The first claim that is wrong.
pub fn judge(claims: &AssertionClaims, expected: &ExpectedAssertion<'_>) -> Result<Timestamp, AssertionClaimsError> {
    if claims.iss != expected.client_id || claims.sub != expected.client_id {
        return Err(AssertionClaimsError::Client);
    }
    let is_expected = |audience: &String| expected.audiences.contains(&audience.as_str());
    let for_us = match &claims.aud {
        AssertionAudience::One(audience) => is_expected(audience),
        AssertionAudience::Many(audiences) => audiences.len() == 1 && audiences.iter().all(is_expected),
    };
    if !for_us {
        return Err(AssertionClaimsError::Audience);
    }
    if !(1..=MAX_ID_BYTES).contains(&claims.jti.len()) {
        return Err(AssertionClaimsError::Id);
    }
    let (now, skew) = (expected.now.as_second(), lifetimes::CLOCK_SKEW);
    if claims.exp > now + expected.max_seconds + skew {
        return Err(AssertionClaimsError::TooLong);
    }
    let forget_at = claims.exp.saturating_add(skew);
    if forget_at <= now {
        return Err(AssertionClaimsError::Expired);
    }
    Timestamp::from_second(forget_at).map_err(|_| AssertionClaimsError::TooLong)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn judged(changes: &[(&str, Value)]) -> Result<i64, AssertionClaimsError> {
        let mut claims = json!({ "iss": "c", "sub": "c", "aud": "https://a.test", "exp": NOW + 60, "jti": "1" });
        for (name, value) in changes {
            claims[name] = value.clone();
        }
        let expected = ExpectedAssertion {
            client_id: "c",
            audiences: &["https://a.test", "https://a.test/token"],
            max_seconds: 60,
            now: Timestamp::from_second(NOW).unwrap(),
        };
        judge(&serde_json::from_value(claims).unwrap(), &expected).map(Timestamp::as_second)
    }

    #[test]
    fn an_assertion_is_by_its_client_for_this_recipient_and_short_lived() {
        use AssertionClaimsError::*;
        let skew = lifetimes::CLOCK_SKEW;
        assert_eq!(judged(&[]), Ok(NOW + 60 + skew));
        assert!(judged(&[("aud", json!(["https://a.test/token"]))]).is_ok());
        for (name, value, error) in [
            ("iss", json!("d"), Client),
            ("sub", json!("d"), Client),
            ("aud", json!("https://a.test/"), Audience),
            ("aud", json!("https://A.test"), Audience),
            ("aud", json!([]), Audience),
            ("aud", json!(["https://a.test", "https://a.test"]), Audience),
            ("aud", json!(["https://a.test", "https://b.test"]), Audience),
            ("jti", json!(""), Id),
            ("jti", json!("x".repeat(257)), Id),
            ("exp", json!(NOW + 61 + skew), TooLong),
            ("exp", json!(i64::MAX), TooLong),
            ("exp", json!(NOW - skew), Expired),
            ("exp", json!(i64::MIN), Expired),
        ] {
            assert_eq!(judged(&[(name, value.clone())]), Err(error), "{name} {value}");
        }
        assert_eq!(judged(&[("exp", json!(NOW - skew + 1))]), Ok(NOW + 1));
    }
}
