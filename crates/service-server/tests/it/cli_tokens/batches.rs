//! CLI tokens that are not cached and arrive together are read by one statement. Each caller gets its own result.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_server::crypto::random;
use service_testkit::server::{SignedIn, TestServer, with_server};

use crate::support::{
    batches::{metric, together},
    cli_tokens::{check, make, whoami},
};

const TOKENS: usize = 20;

/// Creates tokens of two users in turn, and has their addresses cached.
async fn tokens(server: &TestServer, ann: &SignedIn, bob: &SignedIn) -> Result<Vec<String>> {
    let mut made = Vec::new();
    for number in 0..TOKENS {
        let owner = if number % 2 == 0 { ann } else { bob };
        assert_eq!(whoami(server, &owner.access_token).await?.status, 200);
        made.push(make(server, owner, &json!({ "name": format!("Token {number}") })).await?.1);
    }
    Ok(made)
}

#[test]
fn tokens_that_arrive_together_are_read_by_one_statement_and_each_is_its_own() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let tokens = tokens(server, &ann, &bob).await?;
        let before = metric(server, "service_database_wait_seconds_count ")?;
        let responses = together(server, tokens.iter().map(|token| whoami(server, token)).collect()).await?;
        let connected = metric(server, "service_database_wait_seconds_count ")? - before;
        for (number, response) in responses.into_iter().enumerate() {
            let response = response?;
            let owner = if number % 2 == 0 { &ann } else { &bob };
            assert_eq!(response.status, 200, "{}", response.text);
            assert_eq!(response.body["user"]["id"], owner.user_id.to_string());
        }
        // Besides the connections that were held, each token would have taken one. Background tasks take some as well.
        let held = server.app.config.database.credential_connections;
        assert!(connected < held + TOKENS, "{connected} connections: nothing was shared");
        Ok(())
    })
}

#[test]
fn a_token_that_is_refused_is_refused_alone() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let mut tokens = tokens(server, &ann, &bob).await?;
        let id = server.sql("select id from cli_tokens where name = 'Token 4'").await?.context("no token")?;
        // The id of a token with another secret, the id of no token, a revoked token and one that expired.
        tokens[4] = random::cli_token(id.parse::<uuid::Uuid>()?.into())?.expose().to_owned();
        tokens[5] = random::cli_token(random::id(server.app.clock.now())?)?.expose().to_owned();
        let revoked = "revoked_at = now(), revoked_because = 'revoked_by_user'";
        let expired = "created_at = created_at - interval '2 days', expires_at = created_at - interval '1 day'";
        for (name, change) in [("Token 6", revoked), ("Token 7", expired)] {
            server.sql(&format!("update cli_tokens set {change} where name = '{name}'")).await?;
        }
        let responses = together(server, tokens.iter().map(|token| whoami(server, token)).collect()).await?;
        for (number, response) in responses.into_iter().enumerate() {
            let response = response?;
            match number {
                4..=7 => check(&response, 401, "invalid_token"),
                _ => assert_eq!(response.status, 200, "token {number}: {}", response.text),
            }
            let reason = response.body["details"]["reason"].as_str();
            let expected = match number {
                6 => Some("revoked_by_user"),
                7 => Some("expired"),
                _ => None,
            };
            assert_eq!(reason, expected, "token {number}");
        }
        Ok(())
    })
}
