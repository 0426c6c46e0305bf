//! What redeeming an authorization code means (RFC 6749 section 4.1.2, RFC 7636).

use crate::Timestamp;

/// After this many wrong verifiers a code is refused: its holder is not the client that requested it.
pub const MAX_WRONG_VERIFIERS: i16 = 5;

/// A stored code.
#[derive(Clone, Debug)]
pub struct Code {
    pub client_id: String,
    pub redirect_uri: String,
    pub challenge: String,
    pub expires_at: Timestamp,
    pub wrong_verifiers: i16,
    pub used: bool,
}

/// What a client presents with a code.
#[derive(Clone, Copy, Debug)]
pub struct PresentedCode<'a> {
    pub client_id: &'a str,
    /// May be left out (OAuth 2.1). If it is sent, it must be the one of the authorization request.
    pub redirect_uri: Option<&'a str>,
    /// The challenge that belongs to the verifier. `None`: the text is not a verifier.
    pub challenge: Option<&'a str>,
}

/// What presenting a code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeVerdict {
    Redeem,
    Refuse,
    /// Refuse, and count the attempt: an attacker must neither guess without limit nor invalidate the code at once.
    CountWrongVerifier,
    /// The code was used before, and the caller knows its verifier: two parties have it. Revoke its grant.
    Replay,
}

/// Decides what presenting this code means.
#[must_use]
pub fn judge(code: &Code, presented: &PresentedCode<'_>, now: Timestamp) -> CodeVerdict {
    let same_client = code.client_id == presented.client_id;
    let same_uri = presented.redirect_uri.is_none_or(|uri| uri == code.redirect_uri);
    // This service stores no code without a challenge.
    let has_challenge = !code.challenge.is_empty();
    if !same_client || !same_uri || !has_challenge || code.wrong_verifiers >= MAX_WRONG_VERIFIERS {
        return CodeVerdict::Refuse;
    }
    let proved = presented.challenge.is_some_and(|challenge| challenge == code.challenge);
    match (proved, code.used, code.expires_at <= now) {
        (true, true, _) => CodeVerdict::Replay,
        (false, true, _) | (_, false, true) => CodeVerdict::Refuse,
        (false, false, false) => CodeVerdict::CountWrongVerifier,
        (true, false, false) => CodeVerdict::Redeem,
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

    const PRESENTED: PresentedCode<'_> =
        PresentedCode { client_id: "web", redirect_uri: Some("https://app.test/cb"), challenge: Some("right") };

    #[track_caller]
    fn check(code: &Code, presented: &PresentedCode<'_>, second: i64, expected: CodeVerdict) {
        assert_eq!(judge(code, presented, Timestamp::from_second(second).unwrap()), expected);
    }

    #[test]
    fn each_condition_alone_refuses() {
        check(&code(), &PRESENTED, 59, CodeVerdict::Redeem);
        check(&code(), &PresentedCode { redirect_uri: None, ..PRESENTED }, 59, CodeVerdict::Redeem);
        check(&code(), &PRESENTED, 60, CodeVerdict::Refuse);
        check(&code(), &PresentedCode { client_id: "web2", ..PRESENTED }, 0, CodeVerdict::Refuse);
        check(&code(), &PresentedCode { client_id: "web2", ..PRESENTED }, 61, CodeVerdict::Refuse);
        check(
            &code(),
            &PresentedCode { redirect_uri: Some("https://app.test/cb2"), ..PRESENTED },
            0,
            CodeVerdict::Refuse,
        );
        check(&code(), &PresentedCode { challenge: Some("wrong"), ..PRESENTED }, 0, CodeVerdict::CountWrongVerifier);
        check(&code(), &PresentedCode { challenge: None, ..PRESENTED }, 0, CodeVerdict::CountWrongVerifier);
        check(&Code { wrong_verifiers: 5, ..code() }, &PRESENTED, 0, CodeVerdict::Refuse);
        let without = Code { challenge: String::new(), ..code() };
        check(&without, &PresentedCode { challenge: Some(""), ..PRESENTED }, 0, CodeVerdict::Refuse);
        check(&without, &PresentedCode { challenge: None, ..PRESENTED }, 0, CodeVerdict::Refuse);
    }

    #[test]
    fn only_a_caller_with_the_verifier_revokes_the_grant_of_a_used_code() {
        let used = Code { used: true, ..code() };
        check(&used, &PRESENTED, 0, CodeVerdict::Replay);
        check(&used, &PRESENTED, 1_000, CodeVerdict::Replay);
        check(&used, &PresentedCode { challenge: Some("wrong"), ..PRESENTED }, 0, CodeVerdict::Refuse);
        check(&used, &PresentedCode { client_id: "web2", ..PRESENTED }, 0, CodeVerdict::Refuse);
    }
}
