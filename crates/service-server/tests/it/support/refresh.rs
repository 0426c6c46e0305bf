//! Refreshing a session, and what its row holds.

use anyhow::Result;
use service_api::ids::{GrantId, Id as _};
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, signed_in},
};

/// What came of a successful refresh.
pub(crate) async fn refreshed(server: &TestServer, token: &str) -> Result<SignedIn> {
    signed_in(&server.refresh(token).await?)
}

#[track_caller]
pub(crate) fn check_refused(response: &TestResponse, reason: Option<&str>) {
    assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_grant"), "{}", response.text);
    assert_eq!(response.body["details"]["reason"].as_str(), reason, "{}", response.text);
    assert_eq!(response.body["details"].is_null(), reason.is_none(), "{}", response.text);
}

/// A column of the grant's row, as text.
pub(crate) async fn column(server: &TestServer, grant: GrantId, expression: &str) -> Result<Option<String>> {
    server.sql(&format!("select ({expression})::text from grants where id = '{}'", grant.uuid())).await
}
