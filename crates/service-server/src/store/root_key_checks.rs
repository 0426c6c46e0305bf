//! Table `root_key_checks`: the check value of each root key.

use crate::database::{Connection, Error};

/// Returns the check value of the root key with this id, as the first node that used it stored it.
pub async fn find_or_insert(db: &Connection, id: u8, check_value: &[u8]) -> Result<Vec<u8>, Error> {
    let id = i16::from(id);
    db.execute(
        r"insert into root_key_checks (id, check_value) values ($1, $2) on conflict do nothing",
        &[&id, &check_value],
    )
    .await?;
    let row = db.query_opt(r"select check_value from root_key_checks where id = $1", &[&id]).await?;
    Ok(row.ok_or_else(|| super::impossible("root_key_checks", "id"))?.try_get("check_value")?)
}
