//! Sessions that are too old for step-up, and fresh ones.

use crate::support::refresh::column;
use anyhow::{Context as _, Result};
use serde_json::json;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer},
};

pub(crate) const CHALLENGE: &str = "Bearer error=\"insufficient_user_authentication\", max_age=900";

#[track_caller]
pub(crate) fn check_stale(response: &TestResponse, cell: &str) {
    assert_eq!((response.status.as_u16(), response.error()), (403, "insufficient_user_authentication"), "{cell}");
    assert_eq!(response.header("www-authenticate"), Some(CHALLENGE), "{cell}");
    assert_eq!(response.body["details"], json!({ "maxAge": 900 }), "{cell}");
}

/// As if the person behind a session had signed in just now, for tests of something else that need an older session.
pub(crate) async fn freshen(server: &TestServer, session: &SignedIn) -> Result<()> {
    let id = service_api::ids::Id::uuid(session.grant_id);
    server.sql(&format!("update grants set auth_time = '{}' where id = '{id}'", server.now())).await.map(drop)
}

pub(crate) async fn auth_time(server: &TestServer, session: &SignedIn) -> Result<String> {
    column(server, session.grant_id, "extract(epoch from auth_time)::bigint::text").await?.context("no moment")
}
