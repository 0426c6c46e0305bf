//! `SERVICE_TOKEN`: what can be seen of it without asking anybody. The value is never shown.

use service_api::token::{AccessToken, Cli, CliToken, TokenKind as _};

use crate::failure::{Code, Failure};

pub(crate) const TOKEN_VARIABLE: &str = "SERVICE_TOKEN";

/// A token, if it can be one.
pub(crate) fn check_token(text: &str) -> Result<AccessToken, Failure> {
    if text.is_empty() {
        let failure = Failure::new(
            Code::TokenEmpty,
            "SERVICE_TOKEN is set but empty. In CI this usually means that the secret is missing.",
        );
        return Err(failure.next("to use your own sign-in: unset SERVICE_TOKEN").with("source", TOKEN_VARIABLE));
    }
    let wrong = if text.contains(['\n', '\r']) {
        Some("it has a line break")
    } else if text.to_ascii_lowercase().starts_with("bearer ") {
        Some("it begins with \"Bearer \"")
    } else if text.contains(|c: char| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        Some("it has characters that no token has")
    } else if text.starts_with(Cli::PREFIX) {
        CliToken::parse(text).is_none().then_some("it was cut or mistyped")
    } else if text.starts_with("svc_") {
        Some("it is another kind of secret")
    } else {
        (text.split('.').count() != 3).then_some("no token begins like this")
    };
    match wrong {
        None => Ok(AccessToken::new(text.to_owned())),
        Some(why) => {
            let failure = Failure::new(Code::TokenInvalid, format!("SERVICE_TOKEN does not look like a token: {why}."));
            Err(failure
                .next("a token begins with svc_cli_; make one with: service token create")
                .next("to use your own sign-in: unset SERVICE_TOKEN")
                .with("source", TOKEN_VARIABLE))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_cannot_be_one_is_noticed_and_not_shown() {
        let good = CliToken::from_body(&[7; Cli::BODY]).expose().to_owned();
        assert!(check_token(&good).is_ok());
        assert!(check_token("eyJh.eyJp.c2ln").is_ok());
        let cut = &good[..good.len() - 1];
        for (wrong, code) in [
            (String::new(), Code::TokenEmpty),
            (format!("{good}\n"), Code::TokenInvalid),
            (format!("Bearer {good}"), Code::TokenInvalid),
            (cut.to_owned(), Code::TokenInvalid),
            (good.replace("svc_cli_", "svc_rt_"), Code::TokenInvalid),
            ("hunter2".to_owned(), Code::TokenInvalid),
        ] {
            let failure = check_token(&wrong).unwrap_err();
            assert_eq!(failure.code, code);
            assert!(wrong.is_empty() || !failure.to_json().to_string().contains(&wrong));
        }
    }
}
