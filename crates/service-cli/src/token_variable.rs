//! The token in `SERVICE_TOKEN`, and what can be checked without the service. Its value is never shown.

use service_api::token::{AccessToken, Cli, CliToken, TokenKind as _};

use crate::failure::{Failure, FailureCode};

pub(crate) const TOKEN_VARIABLE: &str = "SERVICE_TOKEN";
/// What the user can do if the token in `SERVICE_TOKEN` is in the way.
pub(crate) const UNSET_TOKEN_HINT: &str = "To use your own session: unset SERVICE_TOKEN";

/// Checks the form of a token. The service decides whether it is valid.
pub(crate) fn check_token(text: &str) -> Result<AccessToken, Failure> {
    if text.is_empty() {
        let failure = Failure::new(
            FailureCode::TokenEmpty,
            "SERVICE_TOKEN is set but empty. In CI, this usually means that the secret is missing.",
        );
        return Err(failure.hint(UNSET_TOKEN_HINT).with("source", TOKEN_VARIABLE));
    }
    let problem = if text.contains(['\n', '\r']) {
        Some("it contains a line break")
    } else if text.to_ascii_lowercase().starts_with("bearer ") {
        Some("it starts with \"Bearer \"")
    } else if text.contains(|c: char| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        Some("it contains invalid characters")
    } else if text.starts_with(Cli::PREFIX) {
        CliToken::parse(text).is_none().then_some("it is incomplete or mistyped")
    } else if text.starts_with("svc_") {
        Some("it is a different kind of secret")
    } else {
        (text.split('.').count() != 3).then_some("it doesn't start with svc_cli_")
    };
    match problem {
        None => Ok(AccessToken::new(text.to_owned())),
        Some(why) => {
            let text = format!("SERVICE_TOKEN isn't a valid token: {why}.");
            Err(Failure::new(FailureCode::TokenInvalid, text)
                .hint("Create one with: env -u SERVICE_TOKEN service token create")
                .hint(UNSET_TOKEN_HINT)
                .with("source", TOKEN_VARIABLE))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_token_is_rejected_and_not_shown() {
        let good = CliToken::from_body(&[7; Cli::BODY]).expose().to_owned();
        assert!(check_token(&good).is_ok());
        assert!(check_token("eyJh.eyJp.c2ln").is_ok());
        let cut = &good[..good.len() - 1];
        for (wrong, code) in [
            (String::new(), FailureCode::TokenEmpty),
            (format!("{good}\n"), FailureCode::TokenInvalid),
            (format!("Bearer {good}"), FailureCode::TokenInvalid),
            (cut.to_owned(), FailureCode::TokenInvalid),
            (good.replace("svc_cli_", "svc_rt_"), FailureCode::TokenInvalid),
            ("hunter2".to_owned(), FailureCode::TokenInvalid),
        ] {
            let failure = check_token(&wrong).unwrap_err();
            assert_eq!(failure.code, code);
            assert!(wrong.is_empty() || !failure.to_json().to_string().contains(&wrong));
        }
    }
}
