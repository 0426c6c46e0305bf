//! Table `user_connections`: the connection that a user signs in with. A row is in the shard of the user.

use service_api::ids::{ConnectionId, Id as _};

use crate::database::{Connection, Error};

/// Computes again until when the credentials of a connection's users work.
pub async fn update_token_days(db: &Connection, connection_id: ConnectionId, token_days: i16) -> Result<u64, Error> {
    let sql = r"/* every shard */ update user_connections set tokens_until = signed_in_at + make_interval(days => $2::int4)
                 where connection_id = $1";
    db.execute(sql, &[&connection_id.uuid(), &i32::from(token_days)]).await
}

/// Deletes what is known of a connection's users. Their credentials no longer depend on it.
pub async fn delete_by_connection(db: &Connection, connection_id: ConnectionId) -> Result<u64, Error> {
    let sql = r"/* every shard */ delete from user_connections where connection_id = $1";
    db.execute(sql, &[&connection_id.uuid()]).await
}
