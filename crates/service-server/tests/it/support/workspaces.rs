//! Workspaces with members and invitations.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer},
};

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

pub(crate) async fn make(server: &TestServer, who: &SignedIn, name: &str) -> Result<String> {
    let made = send(server, "POST", "/v1/workspaces", who, Some(&json!({ "name": name }))).await?;
    ensure!(made.status == 201, "{}", made.text);
    Ok(made.field("id").to_owned())
}

/// Invites a user; returns the id of the invitation.
pub(crate) async fn invite(
    server: &TestServer,
    who: &SignedIn,
    workspace: &str,
    email: &str,
    role: &str,
) -> Result<String> {
    let path = format!("/v1/workspaces/{workspace}/invitations");
    let invited = send(server, "POST", &path, who, Some(&json!({ "email": email, "role": role }))).await?;
    ensure!(invited.status == 201, "{}", invited.text);
    Ok(invited.field("id").to_owned())
}

pub(crate) async fn members(server: &TestServer, who: &SignedIn, workspace: &str) -> Result<Vec<(String, String)>> {
    let response = send(server, "GET", &format!("/v1/workspaces/{workspace}/members"), who, None).await?;
    let data = response.body["data"].as_array().with_context(|| response.text.clone())?;
    let of = |member: &Value, name: &str| member[name].as_str().unwrap_or_default().to_owned();
    Ok(data.iter().map(|member| (of(member, "email"), of(member, "role"))).collect())
}

/// Accepts every invitation that waits for this user.
pub(crate) async fn accept_all(server: &TestServer, who: &SignedIn) -> Result<usize> {
    let waiting = send(server, "GET", "/v1/invitations", who, None).await?;
    let waiting = waiting.body["data"].as_array().with_context(|| waiting.text.clone())?.clone();
    for invitation in &waiting {
        let id = invitation["id"].as_str().context("no id")?;
        let joined = send(server, "POST", &format!("/v1/invitations/{id}/accept"), who, None).await?;
        ensure!(joined.status == 200, "{}", joined.text);
    }
    Ok(waiting.len())
}

/// Signs in a user who was just sent an invitation, and accepts it.
pub(crate) async fn join(server: &TestServer, email: &str) -> Result<SignedIn> {
    server.mailbox.next_mail_to(email).await?;
    let joining = server.sign_in(email, "read write").await?;
    ensure!(accept_all(server, &joining).await? == 1, "{email} was not invited once");
    Ok(joining)
}
