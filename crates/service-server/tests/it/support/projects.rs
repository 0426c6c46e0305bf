//! Lists of projects, page by page.

use anyhow::{Context as _, Result};
use service_api::ids::{ProjectId, UserId};
use service_rules::space::Space;
use service_testkit::{response::TestResponse, server::TestServer};
use std::collections::BTreeSet;

pub(crate) const LIST: &str = "/v1/projects";

pub(crate) async fn make_projects(
    server: &TestServer,
    place: Space,
    by: UserId,
    count: usize,
) -> Result<BTreeSet<ProjectId>> {
    let mut made = BTreeSet::new();
    for number in 0..count {
        made.insert(server.make_project(place, by, &format!("Project {number}")).await?);
    }
    Ok(made)
}

pub(crate) async fn page(server: &TestServer, query: &str, token: &str) -> Result<TestResponse> {
    let response = server.http.get(&format!("{LIST}?{query}"), Some(token)).await?;
    anyhow::ensure!(response.status == 200, "{query}: {}", response.text);
    Ok(response)
}

pub(crate) fn ids_of(response: &TestResponse) -> Result<Vec<ProjectId>> {
    let data = response.body["data"].as_array().context("no data")?;
    data.iter().map(|project| Ok(project["id"].as_str().context("no id")?.parse()?)).collect()
}

pub(crate) fn cursor_of(response: &TestResponse) -> Option<&str> {
    response.body.get("nextCursor")?.as_str()
}

/// The cursor behind the first `limit` projects.
pub(crate) async fn next(server: &TestServer, limit: usize, token: &str) -> Result<String> {
    let response = page(server, &format!("limit={limit}"), token).await?;
    Ok(cursor_of(&response).context("no cursor")?.to_owned())
}
