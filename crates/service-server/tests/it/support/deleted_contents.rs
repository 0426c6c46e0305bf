//! Deleted contents.

use crate::support::contents::{make, send};
use anyhow::Result;
use serde_json::Value;
use service_testkit::server::{SignedIn, TestServer};

/// Creates a content and deletes it; returns its id.
pub(crate) async fn make_deleted(
    server: &TestServer,
    path: &str,
    query: &str,
    who: &SignedIn,
    body: &Value,
) -> Result<String> {
    let (id, _) = make(server, &format!("{path}{query}"), who, body).await?;
    assert_eq!(send(server, "DELETE", &format!("{path}/{id}{query}"), who, None).await?.status, 204);
    Ok(id)
}
