//! MCP token pairs.

use crate::support::cli_tokens::post;
use anyhow::Result;
use serde_json::{Value, json};
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, signed_in},
};

pub(crate) const PATH: &str = "/v1/mcp/tokens";

pub(crate) const REFRESH: &str = "/v1/mcp/tokens/refresh";

/// Makes a pair that must succeed.
pub(crate) async fn pair(server: &TestServer, actor: &SignedIn, body: &Value) -> Result<SignedIn> {
    let response = post(server, PATH, &actor.access_token, body).await?;
    anyhow::ensure!(response.status == 201, "{}", response.text);
    taken(&response)
}

/// What an answer with a pair says.
pub(crate) fn taken(response: &TestResponse) -> Result<SignedIn> {
    let mut as_usual = response.clone();
    as_usual.status = reqwest::StatusCode::OK;
    anyhow::ensure!(response.status.is_success(), "{}", response.text);
    signed_in(&as_usual)
}

pub(crate) async fn refresh(server: &TestServer, bearer: &str, refresh_token: &str) -> Result<TestResponse> {
    post(server, REFRESH, bearer, &json!({ "refresh_token": refresh_token })).await
}
