//! Requests with a bearer token, and the statements that they cause.

use crate::support::access::invalid_token;
use anyhow::Result;
use service_testkit::{response::TestResponse, server::TestServer};

pub(crate) async fn list_projects(server: &TestServer, token: &str) -> Result<TestResponse> {
    server.http.get("/v1/projects", Some(token)).await
}

/// Fails unless the token opens the list of projects.
pub(crate) async fn accepted(server: &TestServer, token: &str, what: &str) -> Result<()> {
    let response = list_projects(server, token).await?;
    anyhow::ensure!(response.status == 200, "{what} was refused: {}", response.error());
    Ok(())
}

/// Fails unless the token is refused as one that was never ours, without a reason.
pub(crate) async fn refused(server: &TestServer, token: &str, what: &str) -> Result<()> {
    let response = list_projects(server, token).await?;
    invalid_token().check(&response, what);
    anyhow::ensure!(response.body.get("details").is_none(), "{what} was told why");
    Ok(())
}

/// How many statements with `part` requests ran in this test's database. Housekeeping runs whenever it likes, and is left out.
pub(crate) fn statements_with(server: &TestServer, since: u64, part: &str) -> Result<usize> {
    let (log, ours) = (server.cluster.log_since(since)?, format!("] {} LOG:", server.database));
    // A statement of several lines is logged with a tab before each but the first.
    let statements = log.replace("\n\t", " ");
    let of_requests = statements.lines().filter(|line| line.contains(&ours) && !line.contains("/* housekeeping */"));
    Ok(of_requests.filter(|line| line.contains(part)).count())
}
