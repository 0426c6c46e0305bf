//! Table `clients`.

use service_rules::clients::Client;

use crate::database::{Connection, Error};

pub async fn find(db: &Connection, id: &str) -> Result<Option<Client>, Error> {
    let row = db
        .query_opt(
            r"select id, name, first_party, may_use_otp, disabled_at is not null as disabled
                from clients where id = $1",
            &[&id],
        )
        .await?;
    row.map(|row| {
        Ok(Client {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            first_party: row.try_get("first_party")?,
            may_use_otp: row.try_get("may_use_otp")?,
            disabled: row.try_get("disabled")?,
        })
    })
    .transpose()
}
