//! Table `address_key`: the key that decides about the shard of an email address. It is created with the schema and never
//! changes.

use crate::database::{Connection, Error};

/// Returns the key.
pub async fn find(db: &Connection) -> Result<Vec<u8>, Error> {
    let row = db.query_opt(r"select key from address_key", &[]).await?;
    Ok(row.ok_or_else(|| super::impossible("address_key", "key"))?.try_get("key")?)
}
