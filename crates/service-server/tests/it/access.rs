//! Who may call what: every endpoint of the contract's table, without exception.
//!
//! The cells are made from the table, so a new row is tested without a line here.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use service_api::{
    endpoints::{self, Access, Body, Endpoint},
    ids::UserId,
    scope::{Resource, Scope, Scopes},
};
use service_rules::{bearer::Claims, lifetimes};
use service_server::mint;
use service_testkit::{
    answer::Answer,
    server::{TestServer, with_server},
    settings::BASE_URL,
};

const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"];

/// The claims of a token as the service would issue it to this user now.
pub(crate) fn claims(server: &TestServer, user_id: UserId, scope: &str) -> Result<Claims> {
    let now = server.now();
    Ok(Claims {
        iss: BASE_URL.into(),
        sub: user_id,
        aud: format!("{BASE_URL}/v1"),
        exp: now.as_second() + lifetimes::ACCESS_TOKEN,
        iat: now.as_second(),
        jti: mint::id(now)?,
        client_id: "service-cli".into(),
        scope: scope.into(),
        grant: mint::id(now)?,
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
    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{}\", {}", needed.as_str(), metadata());
    Refusal { status: 403, error: "insufficient_scope", challenge }
}

fn metadata() -> String {
    format!("resource_metadata=\"{BASE_URL}/.well-known/oauth-protected-resource\"")
}

impl Refusal {
    /// Fails unless the answer is this refusal and nothing more than it.
    #[track_caller]
    pub(crate) fn check(&self, answer: &Answer, cell: &str) {
        assert_eq!((answer.status.as_u16(), answer.error()), (self.status, self.error), "{cell}");
        assert_eq!(answer.header("www-authenticate"), Some(self.challenge.as_str()), "{cell}");
        assert_eq!(answer.headers.get_all("www-authenticate").iter().count(), 1, "{cell}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{cell}");
        assert!(answer.header("x-request-id").is_some_and(|id| id == answer.field("request_id")), "{cell}");
        assert!(!answer.field("error_description").is_empty(), "{cell}");
        let members = answer.body.as_object().map_or(0, serde_json::Map::len);
        let reason = answer.body["details"]["reason"].as_str();
        assert!(members == 3 || (members == 4 && reason == Some("expired")), "{cell}: {reason:?}");
    }
}

fn protected() -> impl Iterator<Item = (&'static Endpoint, Scope)> {
    endpoints::ALL.iter().filter_map(|endpoint| match endpoint.access {
        Access::Bearer(needed) | Access::Owner(needed) | Access::SignedIn(needed) => Some((*endpoint, needed)),
        Access::Public | Access::Client | Access::Browser | Access::McpPair => None,
    })
}

/// All scope words. The match is exhaustive, so that a new resource has to be added to the list above it.
fn words() -> Vec<String> {
    use Resource::{Audit, Cases, Packs, Playbooks, Projects, Records, Sessions, Tokens, Workspaces};
    let resources = [Workspaces, Projects, Packs, Playbooks, Cases, Records, Tokens, Sessions, Audit];
    let names = resources.map(|resource| match resource {
        Workspaces => "workspaces",
        Projects => "projects",
        Packs => "packs",
        Playbooks => "playbooks",
        Cases => "cases",
        Records => "records",
        Tokens => "tokens",
        Sessions => "sessions",
        Audit => "audit",
    });
    let narrow = names.iter().flat_map(|name| [format!("{name}:read"), format!("{name}:write")]);
    ["read", "write"].map(String::from).into_iter().chain(narrow).collect()
}

/// A request to an endpoint with something in every place that a well-formed request fills.
fn request(server: &TestServer, method: &str, endpoint: &Endpoint, query: &str) -> Result<RequestBuilder> {
    let fill = |segment: &'static str| if segment.starts_with('{') { "some-id" } else { segment };
    let path = endpoint.path.split('/').map(fill).collect::<Vec<_>>().join("/");
    let request = server.door.request(Method::from_bytes(method.as_bytes())?, &format!("{path}{query}"));
    // No more than whoever may call it has.
    let body = match endpoint.path {
        "/v1/cli/tokens" => json!({ "scopes": ["tokens:write"] }),
        "/v1/mcp/tokens" => json!({ "scope": "tokens:write" }),
        _ => json!({}),
    };
    Ok(if endpoint.body == Body::None { request } else { request.json(&body) })
}

async fn call(server: &TestServer, endpoint: &Endpoint, token: Option<&str>) -> Result<Answer> {
    call_at(server, endpoint, "", token).await
}

pub(crate) async fn call_at(
    server: &TestServer,
    endpoint: &Endpoint,
    query: &str,
    token: Option<&str>,
) -> Result<Answer> {
    let request = request(server, endpoint.method.as_str(), endpoint, query)?;
    server.door.send(token.into_iter().fold(request, RequestBuilder::bearer_auth)).await
}

/// Another token's signature under this one: of the right form in every respect, and wrong.
fn with_signature_of(token: &str, other: &str) -> Result<String> {
    let (message, _) = token.rsplit_once('.').context("no JWT")?;
    let (_, signature) = other.rsplit_once('.').context("no JWT")?;
    Ok(format!("{message}.{signature}"))
}

/// Tokens that open nothing, whatever their scope says.
fn worthless(server: &TestServer, good: &Claims) -> Result<Vec<(&'static str, String)>> {
    let genuine = signed(server, good)?;
    let other = signed(server, &Claims { jti: mint::id(server.now())?, ..good.clone() })?;
    let expired = Claims { exp: good.iat - lifetimes::CLOCK_SKEW - 1, ..good.clone() };
    let mcp = Claims { aud: format!("{BASE_URL}/mcp"), ..good.clone() };
    let stranger = Claims { iss: "https://other.example".into(), ..good.clone() };
    Ok(vec![
        ("garbage", "garbage".into()),
        ("three segments of garbage", "a.b.c".into()),
        ("forged signature", with_signature_of(&genuine, &other)?),
        ("forged and expired", with_signature_of(&signed(server, &expired)?, &genuine)?),
        ("wrong audience", signed(server, &mcp)?),
        ("wrong issuer", signed(server, &stranger)?),
        ("wrong issuer and expired", signed(server, &Claims { iss: stranger.iss.clone(), ..expired })?),
    ])
}

#[test]
fn no_protected_endpoint_opens_without_a_token_that_is_valid_here_ws_01() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let good = Claims { grant: ann.grant_id, ..claims(server, ann.user_id, "read write")? };
        let (tokens, genuine) = (worthless(server, &good)?, signed(server, &good)?);
        let mut cells = 0;
        for (endpoint, _) in protected() {
            let cell = |name: &str| format!("{} with {name}", endpoint.path);
            missing_token().check(&call(server, endpoint, None).await?, &cell("no token"));
            // Who has no token does not learn either whether the rest of the request was in order.
            let curious = call_at(server, endpoint, "?curious=yes", None).await?;
            missing_token().check(&curious, &cell("no token and a wrong query"));
            let mut bodies = BTreeSet::new();
            for (name, token) in &tokens {
                let answer = call(server, endpoint, Some(token)).await?;
                invalid_token().check(&answer, &cell(name));
                bodies.insert(answer.text.replace(answer.field("request_id"), ""));
            }
            assert_eq!(bodies.len(), 1, "{}: the answer tells worthless tokens apart", endpoint.path);
            let status = call(server, endpoint, Some(&genuine)).await?.status.as_u16();
            assert!(!matches!(status, 401 | 403 | 405 | 500..), "{} with a genuine token: {status}", endpoint.path);
            cells += 3 + tokens.len();
        }
        server.advance(lifetimes::ACCESS_TOKEN + lifetimes::CLOCK_SKEW + 1);
        for (endpoint, _) in protected() {
            let answer = call(server, endpoint, Some(&genuine)).await?;
            invalid_token().check(&answer, &format!("{} with an expired token", endpoint.path));
            assert_eq!(answer.body["details"]["reason"], "expired", "{}", endpoint.path);
            cells += 1;
        }
        println!("{cells} cells of endpoints and tokens checked");
        Ok(())
    })
}

#[test]
fn every_scope_word_opens_exactly_what_the_table_says_ws_01_ws_07() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let (words, mut cells) = (words(), 0);
        assert!(words.len() == 20 && words.iter().all(|word| !Scopes::parse(word).is_empty()));
        let mut sets = words.clone();
        sets.extend(["", "admin", "READ WRITE", "read:projects", "read\twrite", "read,write"].map(String::from));
        for (_, needed) in protected() {
            // Everything at once that does not do.
            let useless = words.iter().filter(|word| !Scopes::parse(word).allow(needed));
            sets.push(useless.map(String::as_str).collect::<Vec<_>>().join(" "));
        }
        for set in &sets {
            let claims = Claims { grant: ann.grant_id, ..claims(server, ann.user_id, set)? };
            let token = signed(server, &claims)?;
            for (endpoint, needed) in protected() {
                let (answer, cell) =
                    (call(server, endpoint, Some(&token)).await?, format!("{} {set:?}", endpoint.path));
                if Scopes::parse(set).allow(needed) {
                    let status = answer.status.as_u16();
                    assert!(!matches!(status, 401 | 403 | 405 | 500..), "{cell}: {status}");
                } else {
                    insufficient_scope(needed).check(&answer, &cell);
                }
                cells += 1;
            }
        }
        println!("{cells} cells of endpoints and scopes checked");
        Ok(())
    })
}

#[test]
fn every_public_endpoint_answers_without_a_token() -> Result<()> {
    with_server(async |server| {
        for endpoint in endpoints::ALL.iter().filter(|endpoint| endpoint.access == Access::Public) {
            let status = call(server, endpoint, None).await?.status.as_u16();
            assert!(!matches!(status, 401 | 403 | 404 | 405 | 500..), "{}: {status}", endpoint.path);
            // A token that is sent along by habit, even a worthless one, changes nothing.
            let along = call(server, endpoint, Some("garbage")).await?.status.as_u16();
            assert_eq!(along, status, "{}", endpoint.path);
        }
        Ok(())
    })
}

#[test]
fn an_endpoint_takes_the_methods_of_its_rows_and_no_other() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        for endpoint in endpoints::ALL {
            let rows = endpoints::ALL.iter().filter(|row| row.path == endpoint.path);
            let mut taken: BTreeSet<&str> = rows.map(|row| row.method.as_str()).collect();
            // HEAD is GET without the body (RFC 9110 section 9.3.2).
            if taken.contains("GET") {
                taken.insert("HEAD");
            }
            for method in METHODS.iter().chain(&["HEAD"]).filter(|method| !taken.contains(*method)) {
                for token in [None, Some(&ann.access_token)] {
                    let request =
                        token.into_iter().fold(request(server, method, endpoint, "")?, RequestBuilder::bearer_auth);
                    let (answer, cell) = (server.door.send(request).await?, format!("{method} {}", endpoint.path));
                    assert_eq!(answer.status, 405, "{cell}");
                    let by_page = endpoint.access == Access::Browser;
                    assert!(by_page || *method == "HEAD" || answer.error() == "method_not_allowed", "{cell}");
                    let allow = answer.header("allow").map(|allow| allow.split(',').map(str::trim).collect());
                    assert_eq!(allow, Some(taken.clone()), "{cell}");
                }
            }
        }
        Ok(())
    })
}

#[test]
fn head_needs_the_same_token_as_get() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        for (endpoint, _) in protected().filter(|(endpoint, _)| endpoint.method.as_str() == "GET") {
            let without = server.door.send(request(server, "HEAD", endpoint, "")?).await?;
            assert_eq!(without.status, 401, "{}", endpoint.path);
            assert_eq!(without.header("www-authenticate"), Some(missing_token().challenge.as_str()));
            let with = request(server, "HEAD", endpoint, "")?.bearer_auth(&ann.access_token);
            let with = server.door.send(with).await?;
            assert!(with.text.is_empty() && !matches!(with.status.as_u16(), 401 | 403 | 405 | 500..));
        }
        Ok(())
    })
}
