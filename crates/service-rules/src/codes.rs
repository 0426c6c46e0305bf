//! What redeeming an authorization code means.

use crate::Timestamp;

/// After so many wrong verifiers a code is worth nothing: whoever has it is not who asked for it.
pub const MOST_WRONG_VERIFIERS: i16 = 5;

/// A code as it was found.
#[derive(Clone, Debug)]
pub struct Code {
    pub client_id: String,
    pub redirect_uri: String,
    pub challenge: String,
    pub expires_at: Timestamp,
    pub wrong_verifiers: i16,
    pub used: bool,
}

/// What was presented with it.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    pub client_id: &'a str,
    /// May be left out (OAuth 2.1); if it is sent, it must be the one of the request.
    pub redirect_uri: Option<&'a str>,
    /// The challenge that the verifier gives; `None`: it is not a verifier at all.
    pub challenge: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Redeem,
    Refuse,
    /// Refuse, and count it: a thief must not guess for ever, nor burn the code at once.
    CountWrongVerifier,
    /// It was used before, by somebody who also knows its verifier: what it gave is ended.
    Replay,
}

#[must_use]
pub fn judge(code: &Code, presented: &Presented<'_>, now: Timestamp) -> Verdict {
    let same_client = code.client_id == presented.client_id;
    let same_uri = presented.redirect_uri.is_none_or(|uri| uri == code.redirect_uri);
    // A code without a challenge was not made here.
    let has_challenge = !code.challenge.is_empty();
    if !same_client || !same_uri || !has_challenge || code.wrong_verifiers >= MOST_WRONG_VERIFIERS {
        return Verdict::Refuse;
    }
    let proved = presented.challenge.is_some_and(|challenge| challenge == code.challenge);
    match (proved, code.used, code.expires_at <= now) {
        (true, true, _) => Verdict::Replay,
        (false, true, _) | (_, false, true) => Verdict::Refuse,
        (false, false, false) => Verdict::CountWrongVerifier,
        (true, false, false) => Verdict::Redeem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code() -> Code {
        Code {
            client_id: "web".into(),
            redirect_uri: "https://app.test/cb".into(),
            challenge: "right".into(),
            expires_at: Timestamp::from_second(60).unwrap(),
            wrong_verifiers: 0,
            used: false,
        }
    }

    const PRESENTED: Presented<'_> =
        Presented { client_id: "web", redirect_uri: Some("https://app.test/cb"), challenge: Some("right") };

    #[track_caller]
    fn check(code: &Code, presented: &Presented<'_>, second: i64, expected: Verdict) {
        assert_eq!(judge(code, presented, Timestamp::from_second(second).unwrap()), expected);
    }

    #[test]
    fn each_condition_alone_refuses() {
        check(&code(), &PRESENTED, 59, Verdict::Redeem);
        check(&code(), &Presented { redirect_uri: None, ..PRESENTED }, 59, Verdict::Redeem);
        check(&code(), &PRESENTED, 60, Verdict::Refuse);
        check(&code(), &Presented { client_id: "web2", ..PRESENTED }, 0, Verdict::Refuse);
        check(&code(), &Presented { client_id: "web2", ..PRESENTED }, 61, Verdict::Refuse);
        check(&code(), &Presented { redirect_uri: Some("https://app.test/cb2"), ..PRESENTED }, 0, Verdict::Refuse);
        check(&code(), &Presented { challenge: Some("wrong"), ..PRESENTED }, 0, Verdict::CountWrongVerifier);
        check(&code(), &Presented { challenge: None, ..PRESENTED }, 0, Verdict::CountWrongVerifier);
        check(&Code { wrong_verifiers: 5, ..code() }, &PRESENTED, 0, Verdict::Refuse);
        let without = Code { challenge: String::new(), ..code() };
        check(&without, &Presented { challenge: Some(""), ..PRESENTED }, 0, Verdict::Refuse);
        check(&without, &Presented { challenge: None, ..PRESENTED }, 0, Verdict::Refuse);
    }

    #[test]
    fn only_whoever_knows_the_verifier_ends_what_a_used_code_gave() {
        let used = Code { used: true, ..code() };
        check(&used, &PRESENTED, 0, Verdict::Replay);
        check(&used, &PRESENTED, 1_000, Verdict::Replay);
        check(&used, &Presented { challenge: Some("wrong"), ..PRESENTED }, 0, Verdict::Refuse);
        check(&used, &Presented { client_id: "web2", ..PRESENTED }, 0, Verdict::Refuse);
    }
}
