//! Who may call what: every endpoint of the contract's table, without exception.
//!
//! The cells are made from the table, so a new row is tested without a line here.

use std::collections::BTreeSet;

use crate::support::access::{
    call_at, claims, insufficient_scope, invalid_token, missing_token, protected, request, signed,
};
use anyhow::{Context as _, Result};
use reqwest::RequestBuilder;
use service_api::{
    endpoints::{self, Access, Endpoint},
    scope::{Resource, Scopes},
};
use service_rules::{bearer::Claims, lifetimes};
use service_server::crypto::random;
use service_testkit::{
    response::TestResponse,
    server::{TestServer, with_server},
    settings::BASE_URL,
};

const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"];

/// Every endpoint that opens to a bearer token, whether it needs a scope or not.
fn guarded() -> impl Iterator<Item = &'static Endpoint> {
    let any = endpoints::ALL.iter().copied().filter(|endpoint| endpoint.access == Access::AnyToken);
    protected().map(|(endpoint, _)| endpoint).chain(any)
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

async fn call(server: &TestServer, endpoint: &Endpoint, token: Option<&str>) -> Result<TestResponse> {
    call_at(server, endpoint, "", token).await
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
    let other = signed(server, &Claims { jti: random::id(server.now())?, ..good.clone() })?;
    let expired = Claims { exp: good.iat - lifetimes::CLOCK_SKEW - 1, ..good.clone() };
    let elsewhere = Claims { aud: format!("{BASE_URL}/mcp/"), ..good.clone() };
    let stranger = Claims { iss: "https://other.example".into(), ..good.clone() };
    Ok(vec![
        ("garbage", "garbage".into()),
        ("three segments of garbage", "a.b.c".into()),
        ("forged signature", with_signature_of(&genuine, &other)?),
        ("forged and expired", with_signature_of(&signed(server, &expired)?, &genuine)?),
        ("wrong audience", signed(server, &elsewhere)?),
        ("wrong issuer", signed(server, &stranger)?),
        ("wrong issuer and expired", signed(server, &Claims { iss: stranger.iss.clone(), ..expired })?),
    ])
}

#[test]
fn no_protected_endpoint_opens_without_a_token_that_is_valid_here_ws_01() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        server.keep_account(ann.user_id).await?;
        let good = Claims { grant: ann.grant_id, ..claims(server, ann.user_id, "read write")? };
        let (tokens, genuine) = (worthless(server, &good)?, signed(server, &good)?);
        let other_resource = signed(server, &Claims { aud: format!("{BASE_URL}/mcp"), ..good.clone() })?;
        let mut cells = 0;
        for endpoint in guarded() {
            let cell = |name: &str| format!("{} with {name}", endpoint.path);
            let told = call(server, endpoint, Some(&other_resource)).await?;
            assert_eq!((told.status.as_u16(), told.error()), (401, "invalid_token"), "{}", cell("wrong audience"));
            assert_eq!(told.body["details"]["reason"], "wrong_audience", "{}", cell("wrong audience"));
            missing_token().check(&call(server, endpoint, None).await?, &cell("no token"));
            // Who has no token does not learn either whether the rest of the request was in order.
            let curious = call_at(server, endpoint, "?curious=yes", None).await?;
            missing_token().check(&curious, &cell("no token and a wrong query"));
            let mut bodies = BTreeSet::new();
            for (name, token) in &tokens {
                let response = call(server, endpoint, Some(token)).await?;
                invalid_token().check(&response, &cell(name));
                bodies.insert(response.text.replace(response.field("request_id"), ""));
            }
            assert_eq!(bodies.len(), 1, "{}: the answer tells worthless tokens apart", endpoint.path);
            let status = call(server, endpoint, Some(&genuine)).await?.status.as_u16();
            assert!(!matches!(status, 401 | 403 | 405 | 500..), "{} with a genuine token: {status}", endpoint.path);
            cells += 3 + tokens.len();
        }
        server.advance(lifetimes::ACCESS_TOKEN + lifetimes::CLOCK_SKEW + 1);
        for endpoint in guarded() {
            let response = call(server, endpoint, Some(&genuine)).await?;
            invalid_token().check(&response, &format!("{} with an expired token", endpoint.path));
            assert_eq!(response.body["details"]["reason"], "expired", "{}", endpoint.path);
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
        server.keep_account(ann.user_id).await?;
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
                let (response, cell) =
                    (call(server, endpoint, Some(&token)).await?, format!("{} {set:?}", endpoint.path));
                if Scopes::parse(set).allow(needed) {
                    let status = response.status.as_u16();
                    assert!(!matches!(status, 401 | 403 | 405 | 500..), "{cell}: {status}");
                } else {
                    insufficient_scope(needed).check(&response, &cell);
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
                    let (response, cell) = (server.http.send(request).await?, format!("{method} {}", endpoint.path));
                    assert_eq!(response.status, 405, "{cell}");
                    let by_page = endpoint.access == Access::Browser;
                    assert!(by_page || *method == "HEAD" || response.error() == "method_not_allowed", "{cell}");
                    let allow = response.header("allow").map(|allow| allow.split(',').map(str::trim).collect());
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
        for endpoint in guarded().filter(|endpoint| endpoint.method.as_str() == "GET") {
            let without = server.http.send(request(server, "HEAD", endpoint, "")?).await?;
            assert_eq!(without.status, 401, "{}", endpoint.path);
            assert_eq!(without.header("www-authenticate"), Some(missing_token().challenge.as_str()));
            let with = request(server, "HEAD", endpoint, "")?.bearer_auth(&ann.access_token);
            let with = server.http.send(with).await?;
            assert!(with.text.is_empty() && !matches!(with.status.as_u16(), 401 | 403 | 405 | 500..));
        }
        Ok(())
    })
}
