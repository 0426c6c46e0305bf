//! Revocations as another node writes them.

use service_server::crypto::random;
use service_testkit::server::TestServer;

use anyhow::Result;
use service_api::ids::{Id as _, RevocationId};

/// Returns the statement that writes a revocation in a lane.
pub(crate) fn insert_in_lane(lane: u8, id: RevocationId, kind: &str, subject: &str) -> String {
    let id = id.uuid();
    format!(
        "with taken as (update revocation_lanes set last = last + 1, last_id = '{id}' where lane = {lane} returning last)
         insert into revocations (lane, number, id, kind, subject, because, not_before, forget_at)
         select {lane}, last, '{id}', '{kind}', '{subject}', 'revoked_by_admin', '2040-01-01Z', '2040-01-01Z' from taken"
    )
}

/// Writes a revocation that the node has to read.
pub(crate) async fn write_as_another_node(server: &TestServer, kind: &str, subject: &str) -> Result<()> {
    server.sql(&insert_in_lane(1, random::id(server.now())?, kind, subject)).await.map(drop)
}
