//! Discovery documents (OpenID Connect Discovery 1.0), and which URLs of a provider are acceptable.

use serde_json::{Map, Value};
use service_api::connections::AuthMethod;
use service_rules::json;
use url::Url;

use crate::{
    issuers::error::{IssuerError, ProviderRequest},
    net::outbound::AllowedNetworks,
};

/// Bytes of the longest issuer and of the longest endpoint.
const MAX_ISSUER_BYTES: usize = 512;
const MAX_ENDPOINT_BYTES: usize = 2_048;
/// Values of a list that are read, and bytes of each.
const MAX_LISTED: usize = 64;
const MAX_LISTED_BYTES: usize = 64;

/// What a provider says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderMetadata {
    pub authorization_endpoint: Url,
    pub token_endpoint: Url,
    pub userinfo_endpoint: Option<Url>,
    /// Where its keys are. `None`: they have to be pasted.
    pub jwks_uri: Option<Url>,
    /// Whether every authorization response has the parameter `iss` (RFC 9207).
    pub iss_parameter: bool,
    /// How clients can authenticate at the token endpoint, such as `client_secret_basic`.
    pub auth_methods: Vec<String>,
    /// The algorithms of client assertions, such as `ES256`.
    pub auth_signing_algorithms: Vec<String>,
    /// The algorithms of ID tokens, such as `RS256`.
    pub signing_algorithms: Vec<String>,
    /// Whether the provider sends logout tokens (OpenID Connect Back-Channel Logout 1.0).
    pub sends_logout_tokens: bool,
}

impl ProviderMetadata {
    /// Whether clients can authenticate with this method.
    #[must_use]
    pub fn supports_auth_method(&self, method: &str) -> bool {
        self.auth_methods.iter().any(|known| known == method)
    }

    /// Whether clients can authenticate with a key of this service: `private_key_jwt` with ES256. Both have to be listed.
    #[must_use]
    pub fn accepts_client_keys(&self) -> bool {
        let signs = self.auth_signing_algorithms.iter().any(|known| known == "ES256");
        signs && self.supports_auth_method(AuthMethod::PrivateKeyJwt.as_str())
    }

    /// Reads the discovery document of an issuer.
    pub(super) fn read(body: &[u8], issuer: &str, allowed: &AllowedNetworks<'_>) -> Result<Self, IssuerError> {
        let Ok(Value::Object(document)) = json::read(body) else {
            return Err(IssuerError::InvalidResponse {
                request: ProviderRequest::Discovery,
                problem: "it is not a JSON object",
            });
        };
        // Byte for byte: another spelling of the same URL is another issuer.
        if document.get("issuer").and_then(Value::as_str) != Some(issuer) {
            return Err(IssuerError::IssuerMismatch);
        }
        let endpoint = |name| endpoint(&document, name, allowed);
        let is_true = |name| document.get(name) == Some(&Value::Bool(true));
        let mut auth_methods = list(&document, "token_endpoint_auth_methods_supported");
        if auth_methods.is_empty() {
            auth_methods.push("client_secret_basic".to_owned());
        }
        Ok(Self {
            authorization_endpoint: endpoint("authorization_endpoint")?
                .ok_or(IssuerError::InvalidEndpoint("authorization_endpoint"))?,
            token_endpoint: endpoint("token_endpoint")?.ok_or(IssuerError::InvalidEndpoint("token_endpoint"))?,
            userinfo_endpoint: endpoint("userinfo_endpoint")?,
            jwks_uri: endpoint("jwks_uri")?,
            iss_parameter: is_true("authorization_response_iss_parameter_supported"),
            auth_methods,
            auth_signing_algorithms: list(&document, "token_endpoint_auth_signing_alg_values_supported"),
            signing_algorithms: list(&document, "id_token_signing_alg_values_supported"),
            sends_logout_tokens: is_true("backchannel_logout_supported"),
        })
    }
}

/// Returns where the discovery document of an issuer is.
pub(super) fn document_url(issuer: &str, allowed: &AllowedNetworks<'_>) -> Result<Url, IssuerError> {
    let url = Url::parse(issuer).map_err(|_| IssuerError::InvalidIssuer)?;
    // A URL that is spelled in another way than browsers would spell it is no name for an issuer.
    let is_normal = url.as_str() == issuer || url.as_str().strip_suffix('/') == Some(issuer);
    let is_issuer = is_normal && issuer.len() <= MAX_ISSUER_BYTES && !issuer.contains(['?', '#']);
    if !is_issuer || !url.username().is_empty() || url.password().is_some() {
        return Err(IssuerError::InvalidIssuer);
    }
    let request = ProviderRequest::Discovery;
    allowed.check(&url).map_err(|why| IssuerError::Request { request, why })?;
    let base = issuer.strip_suffix('/').unwrap_or(issuer);
    Url::parse(&format!("{base}/.well-known/openid-configuration")).map_err(|_| IssuerError::InvalidIssuer)
}

/// Reads an endpoint. `None`: the document does not have it.
fn endpoint(
    document: &Map<String, Value>,
    name: &'static str,
    allowed: &AllowedNetworks<'_>,
) -> Result<Option<Url>, IssuerError> {
    let invalid = IssuerError::InvalidEndpoint(name);
    let text = match document.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.len() <= MAX_ENDPOINT_BYTES => text,
        Some(_) => return Err(invalid),
    };
    let url = Url::parse(text).map_err(|_| invalid)?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    if is_plain && allowed.check(&url).is_ok() { Ok(Some(url)) } else { Err(invalid) }
}

fn list(document: &Map<String, Value>, name: &str) -> Vec<String> {
    let values = document.get(name).and_then(Value::as_array).into_iter().flatten().take(MAX_LISTED);
    values.filter_map(Value::as_str).filter(|text| text.len() <= MAX_LISTED_BYTES).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::net::outbound::{FetchError, PlainHttp};

    const ISSUER: &str = "https://id.acme.test";

    fn document() -> Value {
        json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://id.acme.test/authorize?p=policy",
            "token_endpoint": "https://id.acme.test/token",
            "jwks_uri": "https://keys.acme.test/jwks",
        })
    }

    fn read(change: &Value) -> Result<ProviderMetadata, IssuerError> {
        let mut document = document();
        for (name, value) in change.as_object().unwrap() {
            document[name] = value.clone();
        }
        ProviderMetadata::read(document.to_string().as_bytes(), ISSUER, &AllowedNetworks::default())
    }

    #[test]
    fn a_document_is_read_with_the_defaults_of_the_standard() {
        let read = read(&json!({})).unwrap();
        assert_eq!(read.auth_methods, ["client_secret_basic"]);
        assert_eq!((read.iss_parameter, read.userinfo_endpoint), (false, None));
        assert_eq!(read.authorization_endpoint.query(), Some("p=policy"));
    }

    #[test]
    fn the_issuer_is_compared_byte_for_byte_so_02() {
        for issuer in [json!("https://id.acme.test/"), json!("https://ID.acme.test"), json!(null), json!(1)] {
            assert_eq!(read(&json!({ "issuer": issuer })), Err(IssuerError::IssuerMismatch), "{issuer}");
        }
        let twice = format!(r#"{{"issuer":"https://evil.test",{}"#, &document().to_string()[1..]);
        let read = ProviderMetadata::read(twice.as_bytes(), ISSUER, &AllowedNetworks::default());
        assert!(matches!(read, Err(IssuerError::InvalidResponse { .. })), "{read:?}");
    }

    #[test]
    fn endpoints_are_public_https_urls_so_09() {
        for name in ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"] {
            for wrong in [
                json!("http://id.acme.test/x"),
                json!("https://127.0.0.1/x"),
                json!("https://[::1]/x"),
                json!("https://10.1.2.3/x"),
                json!("https://169.254.169.254/x"),
                json!("https://0x7f.1/x"),
                json!("https://u:p@id.acme.test/x"),
                json!("https://id.acme.test/x#f"),
                json!("javascript:alert(1)"),
                json!("/x"),
                json!(format!("https://id.acme.test/{}", "x".repeat(2_048))),
                json!(7),
            ] {
                let read = read(&json!({ name: wrong }));
                assert!(matches!(read, Err(IssuerError::InvalidEndpoint(found)) if found == name), "{name} {wrong}");
            }
        }
        assert!(read(&json!({ "token_endpoint": null })).is_err());
        assert!(read(&json!({ "jwks_uri": null })).is_ok());
    }

    #[test]
    fn an_issuer_is_a_normal_https_url() {
        let url = |issuer| document_url(issuer, &AllowedNetworks::default()).map(String::from);
        let found = "https://id.acme.test/.well-known/openid-configuration";
        assert_eq!(url("https://id.acme.test").as_deref(), Ok(found));
        assert_eq!(url("https://id.acme.test/").as_deref(), Ok(found));
        let tenant = "https://id.acme.test/t/v2.0";
        assert_eq!(url(tenant), Ok(format!("{tenant}/.well-known/openid-configuration")));
        for wrong in [
            "id.acme.test",
            "https://ID.acme.test",
            "https://id.acme.test:443",
            "https://id.acme.test/a/../b",
            "https://id.acme.test?x=1",
            "https://id.acme.test/#f",
            "https://u@id.acme.test",
            "",
        ] {
            assert_eq!(url(wrong), Err(IssuerError::InvalidIssuer), "{wrong}");
        }
        for (wrong, why) in [
            ("http://id.acme.test", FetchError::Insecure),
            ("http://127.0.0.1", FetchError::Insecure),
            ("https://127.0.0.1", FetchError::NotPublic),
            ("ftp://id.acme.test", FetchError::Insecure),
        ] {
            assert_eq!(url(wrong), Err(IssuerError::Request { request: ProviderRequest::Discovery, why }), "{wrong}");
        }
    }

    #[test]
    fn plain_http_is_for_an_allowed_issuer_on_this_machine() {
        let networks = ["127.0.0.0/8".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
        let allowed = AllowedNetworks { networks: &networks, plain_http: PlainHttp::Loopback };
        assert!(document_url("http://127.0.0.1:8080", &allowed).is_ok());
        assert!(document_url("http://localhost:8080/realms/acme", &allowed).is_ok());
        assert!(document_url("http://10.0.0.1", &allowed).is_err());
        assert!(document_url("http://localhost.acme.test", &allowed).is_err());
    }
}
