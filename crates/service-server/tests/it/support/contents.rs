//! Contents of all five kinds.

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use service_api::contents::Kind;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer},
};

/// Each kind with its path and what makes one.
pub(crate) fn kinds() -> [(Kind, &'static str, Value); 5] {
    [
        (Kind::Project, "/v1/projects", json!({ "name": "Website", "description": "All of it" })),
        (Kind::Pack, "/v1/packs", json!({ "name": "Tides", "type": "context", "text": "High at noon." })),
        (Kind::Playbook, "/v1/playbooks", json!({ "name": "Launch", "definition": { "steps": [] } })),
        (Kind::Case, "/v1/cases", json!({ "name": "Pump 4", "inputs": { "pump": 4 }, "dueOn": "2027-02-01" })),
        (Kind::Record, "/v1/records", json!({ "name": "Reading", "data": { "m": 1.5 }, "recordedOn": "2027-01-14" })),
    ]
}

pub(crate) async fn send(
    server: &TestServer,
    method: &str,
    path: &str,
    who: &SignedIn,
    body: Option<&Value>,
) -> Result<TestResponse> {
    let request = server.http.request(Method::from_bytes(method.as_bytes())?, path).bearer_auth(&who.access_token);
    server.http.send(body.into_iter().fold(request, reqwest::RequestBuilder::json)).await
}

pub(crate) async fn make(
    server: &TestServer,
    path: &str,
    who: &SignedIn,
    body: &Value,
) -> Result<(String, TestResponse)> {
    let response = send(server, "POST", path, who, Some(body)).await?;
    ensure!(response.status == 201, "{path}: {}", response.text);
    Ok((response.field("id").to_owned(), response))
}
