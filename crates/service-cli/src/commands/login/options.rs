//! How an email address can sign in, from `/v1/login-options`. Unknown methods and members are ignored.

use serde_json::Value;

use crate::{origin::Origin, table::strip_control};

/// The sign-in methods of an email address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LoginOptions {
    /// A code by email.
    pub(super) code: bool,
    pub(super) sso: Option<Sso>,
}

/// The single sign-on of an organization.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sso {
    pub(super) name: String,
    /// Its authorization endpoint, if that is at the service. The redirect must come from there.
    pub(super) authorize_url: Option<String>,
    /// Whether it is the only method.
    pub(super) required: bool,
}

pub(super) fn parse_options(options: &[Value], origin: &Origin) -> LoginOptions {
    let find = |method: &str| options.iter().find(|option| option["type"] == method);
    let code = find("otp").is_some();
    let sso = find("sso").map(|sso| Sso {
        name: strip_control(sso["displayName"].as_str().unwrap_or("its organization")),
        authorize_url: sso["authorizeUrl"]
            .as_str()
            .filter(|url| url.strip_prefix(origin.as_str()).is_some_and(|path| path.starts_with('/')))
            .map(str::to_owned),
        required: sso["required"].as_bool().unwrap_or(!code),
    });
    LoginOptions { code, sso }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(options: &Value) -> LoginOptions {
        parse_options(options.as_array().unwrap(), &Origin::parse("https://service.example").unwrap())
    }

    #[test]
    fn unknown_sign_in_methods_are_ignored() {
        let browser = json!({ "type": "browser", "authorizeUrl": "https://service.example/oauth/authorize" });
        let passkey = json!({ "type": "passkey", "anything": [1] });
        assert_eq!(parse(&json!([{ "type": "otp" }, browser, passkey])), LoginOptions { code: true, sso: None });
        assert_eq!(parse(&json!([7, null, {}])), LoginOptions { code: false, sso: None });
    }

    #[test]
    fn single_sign_on_is_parsed_leniently_and_its_url_strictly() {
        let url = "https://service.example/oauth/authorize?connection=c1";
        let full =
            json!({ "type": "sso", "displayName": "Acme Okta", "authorizeUrl": url, "required": true, "more": 1 });
        let sso = Sso { name: "Acme Okta".into(), authorize_url: Some(url.into()), required: true };
        assert_eq!(parse(&json!([full, { "type": "otp" }])).sso, Some(sso));
        let bare = parse(&json!([{ "type": "sso" }])).sso.unwrap();
        assert_eq!((bare.authorize_url, bare.required), (None, true));
        for elsewhere in ["https://service.example.thief.example/a", "https://thief.example/a", "javascript:alert(1)"] {
            let sso = parse(&json!([{ "type": "sso", "authorizeUrl": elsewhere }])).sso.unwrap();
            assert_eq!(sso.authorize_url, None);
        }
    }
}
