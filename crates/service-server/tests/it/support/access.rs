//! Tokens with chosen claims, and what endpoints answer to them.

use anyhow::Result;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use service_api::{
    endpoints::{self, Access, Body, Endpoint},
    ids::UserId,
    scope::Scope,
};
use service_rules::{bearer::Claims, lifetimes};
use service_server::crypto::random;
use service_testkit::{response::TestResponse, server::TestServer, settings::BASE_URL};

/// The claims of a token as the service would issue it to this user now.
pub(crate) fn claims(server: &TestServer, user_id: UserId, scope: &str) -> Result<Claims> {
    let now = server.now();
    Ok(Claims {
        iss: BASE_URL.into(),
        sub: user_id,
        aud: format!("{BASE_URL}/v1"),
        exp: now.as_second() + lifetimes::ACCESS_TOKEN,
        iat: now.as_second(),
        jti: random::id(now)?,
        client_id: "service-cli".into(),
        scope: scope.into(),
        grant: random::id(now)?,
        workspace: None,
        nbf: None,
    })
}

/// A token that says this, signed by the service's own key.
pub(crate) fn signed(server: &TestServer, claims: &Claims) -> Result<String> {
    let token = server.app.signing_keys.sign(claims, server.now())?.expose().to_owned();
    server.leaks.register("access_token", &token);
    Ok(token)
}

/// What the answer to a refused token must say.
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) error: &'static str,
    pub(crate) challenge: String,
}

pub(crate) fn missing_token() -> Refusal {
    let challenge = format!("Bearer {}, scope=\"read\"", metadata());
    Refusal { status: 401, error: "missing_token", challenge }
}

pub(crate) fn invalid_token() -> Refusal {
    let challenge = format!("Bearer error=\"invalid_token\", {}, scope=\"read\"", metadata());
    Refusal { status: 401, error: "invalid_token", challenge }
}

pub(crate) fn insufficient_scope(needed: Scope) -> Refusal {
    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{}\", {}", needed.narrowest(), metadata());
    Refusal { status: 403, error: "insufficient_scope", challenge }
}

pub(crate) fn metadata() -> String {
    format!("resource_metadata=\"{BASE_URL}/.well-known/oauth-protected-resource/v1\"")
}

impl Refusal {
    /// Fails unless the answer is this refusal and nothing more than it.
    #[track_caller]
    pub(crate) fn check(&self, response: &TestResponse, cell: &str) {
        assert_eq!((response.status.as_u16(), response.error()), (self.status, self.error), "{cell}");
        assert_eq!(response.header("www-authenticate"), Some(self.challenge.as_str()), "{cell}");
        assert_eq!(response.headers.get_all("www-authenticate").iter().count(), 1, "{cell}");
        assert_eq!(response.header("cache-control"), Some("no-store"), "{cell}");
        assert!(response.header("x-request-id").is_some_and(|id| id == response.field("request_id")), "{cell}");
        assert!(!response.field("error_description").is_empty(), "{cell}");
        let members = response.body.as_object().map_or(0, serde_json::Map::len);
        let reason = response.body["details"]["reason"].as_str();
        assert!(members == 3 || (members == 4 && reason == Some("expired")), "{cell}: {reason:?}");
    }
}

pub(crate) fn protected() -> impl Iterator<Item = (&'static Endpoint, Scope)> {
    endpoints::ALL.iter().filter_map(|endpoint| match endpoint.access {
        Access::Bearer(needed)
        | Access::Owner(needed)
        | Access::SignedIn(needed)
        | Access::RecentSignIn(needed)
        | Access::RecentSignInForOwners(needed) => Some((*endpoint, needed)),
        Access::Public
        | Access::Client
        | Access::Browser
        | Access::Provider
        | Access::McpPair
        | Access::Mcp
        | Access::AnyToken => None,
    })
}

/// A request to an endpoint with something in every place that a well-formed request fills.
pub(crate) fn request(server: &TestServer, method: &str, endpoint: &Endpoint, query: &str) -> Result<RequestBuilder> {
    let fill = |segment: &'static str| if segment.starts_with('{') { "some-id" } else { segment };
    let path = endpoint.path.split('/').map(fill).collect::<Vec<_>>().join("/");
    let request = server.http.request(Method::from_bytes(method.as_bytes())?, &format!("{path}{query}"));
    // No more scopes than an allowed caller has.
    let body = match endpoint.path {
        "/v1/cli/tokens" => json!({ "scopes": ["tokens:write"] }),
        "/v1/mcp/tokens" => json!({ "scope": "tokens:write" }),
        // What makes an owner needs more than what makes a member.
        "/v1/workspaces/{workspaceId}/members/{userId}" => json!({ "role": "owner" }),
        "/v1/workspaces/{workspaceId}/invitations" => json!({ "email": "zoe@acme.test", "role": "owner" }),
        // Carried out, it would revoke what the calls after it are made with.
        "/v1/account/secure" => json!({ "keepPasskeys": "none" }),
        _ => json!({}),
    };
    Ok(if endpoint.body == Body::None { request } else { request.json(&body) })
}

pub(crate) async fn call_at(
    server: &TestServer,
    endpoint: &Endpoint,
    query: &str,
    token: Option<&str>,
) -> Result<TestResponse> {
    let request = request(server, endpoint.method.as_str(), endpoint, query)?;
    server.http.send(token.into_iter().fold(request, RequestBuilder::bearer_auth)).await
}
