//! Creating, using and deleting CLI tokens.

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::Value;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer},
};

pub(crate) const PATH: &str = "/v1/cli/tokens";

pub(crate) async fn post(server: &TestServer, path: &str, token: &str, body: &Value) -> Result<TestResponse> {
    server.http.send(server.http.request(Method::POST, path).bearer_auth(token).json(body)).await
}

/// Makes a token that must succeed; its id and its secret.
pub(crate) async fn make(server: &TestServer, actor: &SignedIn, body: &Value) -> Result<(String, String)> {
    let response = post(server, PATH, &actor.access_token, body).await?;
    ensure!(response.status == 201, "{}", response.text);
    Ok((response.field("id").to_owned(), response.field("access_token").to_owned()))
}

pub(crate) async fn whoami(server: &TestServer, token: &str) -> Result<TestResponse> {
    server.http.get("/v1/whoami", Some(token)).await
}

#[track_caller]
pub(crate) fn check(response: &TestResponse, status: u16, error: &str) {
    assert_eq!((response.status.as_u16(), response.error()), (status, error), "{}", response.text);
}

pub(crate) async fn delete(server: &TestServer, id: &str, token: &str) -> Result<TestResponse> {
    server.http.send(server.http.request(Method::DELETE, &format!("{PATH}/{id}")).bearer_auth(token)).await
}
