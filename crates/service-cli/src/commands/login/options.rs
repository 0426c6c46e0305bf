//! How an address signs in, as `/v1/login-options` says it. Ways that are not known here are passed over, and so are
//! members.

use serde_json::Value;

use crate::{origin::Origin, table::clean};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// A code can be sent.
    pub(super) code: bool,
    pub(super) sso: Option<Sso>,
}

/// The sign-in of an organisation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sso {
    pub(super) name: String,
    /// Where it begins, if that is with the service: the answer has to come back from there.
    pub(super) authorize_url: Option<String>,
    /// No other way will do.
    pub(super) required: bool,
}

pub(super) fn read(options: &[Value], origin: &Origin) -> Options {
    let of_type = |wanted: &str| options.iter().find(|option| option["type"] == wanted);
    let code = of_type("otp").is_some();
    let sso = of_type("sso").map(|sso| Sso {
        name: clean(sso["displayName"].as_str().unwrap_or("its organisation")),
        authorize_url: sso["authorizeUrl"]
            .as_str()
            .filter(|url| url.strip_prefix(origin.as_str()).is_some_and(|path| path.starts_with('/')))
            .map(str::to_owned),
        required: sso["required"].as_bool().unwrap_or(!code),
    });
    Options { code, sso }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(options: &Value) -> Options {
        read(options.as_array().unwrap(), &Origin::parse("https://service.example").unwrap())
    }

    #[test]
    fn ways_that_are_not_known_are_passed_over() {
        let browser = json!({ "type": "browser", "authorizeUrl": "https://service.example/oauth/authorize" });
        let passkey = json!({ "type": "passkey", "anything": [1] });
        assert_eq!(of(&json!([{ "type": "otp" }, browser, passkey])), Options { code: true, sso: None });
        assert_eq!(of(&json!([7, null, {}])), Options { code: false, sso: None });
    }

    #[test]
    fn an_organisation_is_read_leniently_and_its_address_strictly() {
        let url = "https://service.example/oauth/authorize?connection=c1";
        let full =
            json!({ "type": "sso", "displayName": "Acme Okta", "authorizeUrl": url, "required": true, "more": 1 });
        let sso = Sso { name: "Acme Okta".into(), authorize_url: Some(url.into()), required: true };
        assert_eq!(of(&json!([full, { "type": "otp" }])).sso, Some(sso));
        let bare = of(&json!([{ "type": "sso" }])).sso.unwrap();
        assert_eq!((bare.authorize_url, bare.required), (None, true));
        for elsewhere in ["https://service.example.thief.example/a", "https://thief.example/a", "javascript:alert(1)"] {
            let sso = of(&json!([{ "type": "sso", "authorizeUrl": elsewhere }])).sso.unwrap();
            assert_eq!(sso.authorize_url, None);
        }
    }
}
