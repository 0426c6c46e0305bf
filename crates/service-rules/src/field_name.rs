//! Names of unknown fields, as an error may repeat them.

/// The maximum length of a name that is repeated. Tokens, verifiers and signatures are longer.
const MAX_LENGTH: usize = 40;

/// Returns the name of an unknown field if it looks like a name. A credential that was sent in the place of a name is not
/// repeated, so that it ends up in no error and no log.
#[must_use]
pub fn repeatable(name: &str) -> Option<&str> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    let is_secret = name.contains("svc_") || name.starts_with("eyJ");
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
    (begins && is_plain && !is_secret && name.len() <= MAX_LENGTH).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_repeated_and_secrets_are_not_fh_22() {
        for name in ["colour", "workspace_id", "due-on", "a.b", "x1"] {
            assert_eq!(repeatable(name), Some(name));
        }
        let long = "a".repeat(41);
        for secret in
            ["", "12345678", "1234 5678", "svc_cli_abc", "xsvc_rt_1", "eyJhbGciOi", "a b", "<b>", "m\u{e9}l", &long]
        {
            assert_eq!(repeatable(secret), None, "{secret}");
        }
    }
}
