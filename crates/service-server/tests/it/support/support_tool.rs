//! A support tool of the operator: a client certificate, a key, and calls of the support listener.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::{Certificate, Client, Identity};
use serde_json::{Value, json};
use service_api::ids::SupportClientId;
use service_server::{
    crypto::random,
    flows::{
        operator::Operator,
        support::{SupportOperator, clients},
    },
};
use service_testkit::server::{Setup, TestServer};

use crate::support::{authority::Authority, forge::public_jwk};

/// The audience of assertions. Nothing resolves it: tools connect by address.
pub(crate) const SUPPORT_URL: &str = "https://support.acme.test:8443";
pub(crate) const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A response of the support listener.
pub(crate) struct SupportResponse {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

/// A tool that was registered as a support client.
pub(crate) struct SupportTool {
    pub(crate) id: SupportClientId,
    pub(crate) key: EncodingKey,
    pub(crate) http: Client,
    number: AtomicU64,
}

/// Turns the listener on, with certificates of this authority for the server and for the tools "tool" and "other".
pub(crate) fn with_listener(setup: Setup, authority: &Authority) -> Result<Setup> {
    authority.issue("server", Some("127.0.0.1"), "support")?;
    for tool in ["tool", "other"] {
        authority.issue(tool, None, tool)?;
    }
    let setup = setup.set("support.listen", "127.0.0.1:0").set("support.url", SUPPORT_URL);
    let setup = setup.set("support.certificate_file", &authority.path("server.pem"));
    let setup = setup.set("support.key_file", &authority.path("server.key"));
    Ok(setup.set("support.client_ca_file", &authority.path("ca.pem")))
}

/// An HTTP client that trusts `server`, and presents a certificate, if it has one.
pub(crate) fn http(server: &Authority, own: Option<(&Authority, &str)>) -> Result<Client> {
    let trusted = Certificate::from_pem(&fs::read(server.path("ca.pem"))?)?;
    let builder = Client::builder().tls_certs_only([trusted]);
    let Some((issuer, name)) = own else { return Ok(builder.build()?) };
    let certificate = fs::read(issuer.path(&format!("{name}.pem")))?;
    let identity = [certificate, fs::read(issuer.path(&format!("{name}.key")))?].concat();
    Ok(builder.identity(Identity::from_pem(&identity)?).build()?)
}

/// The operator who creates and revokes clients in tests.
pub(crate) fn operator() -> Result<SupportOperator> {
    let named = Operator::new("olga").and_then(|operator| operator.because("ticket 1"));
    SupportOperator::new(named.context("not a name")?).context("no reason")
}

/// The address of a server's support listener.
pub(crate) fn url(server: &TestServer) -> Result<String> {
    Ok(format!("https://{}", server.support_address.context("the support listener is off")?))
}

impl SupportTool {
    /// Registers a tool with a new key. It presents the certificate "tool".
    pub(crate) async fn register(server: &TestServer, authority: &Authority) -> Result<Self> {
        let pkcs8 = random::signing_key()?;
        let jwks = json!({ "keys": [public_jwk(&pkcs8, "one")?] });
        let id = clients::create(&server.app, &operator()?, "Helpdesk", &jwks).await?;
        let http = http(authority, Some((authority, "tool")))?;
        Ok(Self { id, key: EncodingKey::from_ec_der(&pkcs8), http, number: AtomicU64::new(0) })
    }

    /// A new assertion, with these claims instead of the right ones.
    pub(crate) fn assertion(&self, server: &TestServer, changes: &[(&str, Value)]) -> Result<String> {
        self.signed_by(&self.key, server, changes)
    }

    /// A new assertion of this client that another key signs.
    pub(crate) fn signed_by(
        &self,
        key: &EncodingKey,
        server: &TestServer,
        changes: &[(&str, Value)],
    ) -> Result<String> {
        let (id, number) = (self.id.to_string(), self.number.fetch_add(1, Ordering::Relaxed));
        let expires = server.now().as_second() + 60;
        let mut claims = json!({ "iss": id, "sub": id, "aud": SUPPORT_URL, "exp": expires, "jti": number.to_string() });
        for (name, value) in changes {
            claims[name] = value.clone();
        }
        let header = Header { kid: Some("one".into()), ..Header::new(Algorithm::ES256) };
        let assertion = jsonwebtoken::encode(&header, &claims, key)?;
        server.leaks.register("client assertion", &assertion);
        Ok(assertion)
    }

    /// A complete body, with these fields of the call.
    pub(crate) fn body(&self, server: &TestServer, fields: &Value) -> Result<Value> {
        let mut body = json!({
            "client_id": self.id, "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": self.assertion(server, &[])?,
            "operator": "ann.smith", "reason": "ticket 4711",
        });
        for (name, value) in fields.as_object().context("not an object")? {
            body[name] = value.clone();
        }
        Ok(body)
    }

    /// Makes a call with these fields.
    pub(crate) async fn call(&self, server: &TestServer, path: &str, fields: &Value) -> Result<SupportResponse> {
        self.send(server, path, &self.body(server, fields)?).await
    }

    /// Sends a body as it is.
    pub(crate) async fn send(&self, server: &TestServer, path: &str, body: &Value) -> Result<SupportResponse> {
        send(&self.http, &url(server)?, path, body).await
    }
}

/// Sends a body with this client to a listener.
pub(crate) async fn send(http: &Client, url: &str, path: &str, body: &Value) -> Result<SupportResponse> {
    let response = http.post(format!("{url}{path}")).json(body).send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await?;
    Ok(SupportResponse { status, headers, body: serde_json::from_str(&text).unwrap_or_default() })
}

impl SupportResponse {
    pub(crate) fn error(&self) -> (u16, &str) {
        (self.status, self.body["error"].as_str().unwrap_or_default())
    }
}
