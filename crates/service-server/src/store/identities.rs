//! Table `identities`: users as the provider of a connection names them. A row is in the shard of the connection.

use service_api::ids::{ConnectionId, Id as _};

use crate::database::{Connection, Error};

/// Deletes the identities of a connection.
pub async fn delete_by_connection(db: &Connection, connection_id: ConnectionId) -> Result<u64, Error> {
    let sql = r"delete from identities where connection_id = $1 and shard = $2";
    db.execute(sql, &[&connection_id.uuid(), &connection_id.shard().number()]).await
}
