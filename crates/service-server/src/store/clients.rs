//! Table `clients`.

use service_rules::{
    Timestamp,
    clients::{Client, SecretDigest},
};
use tokio_postgres::Row;

use crate::database::{Connection, Error};

pub async fn find(db: &Connection, id: &str) -> Result<Option<Client>, Error> {
    let row = db
        .query_opt(
            r"select id, name, first_party, may_use_otp, may_introspect, secret_digest,
                     disabled_at is not null as disabled
                from clients where id = $1",
            &[&id],
        )
        .await?;
    row.map(|row| read(&row, "id")).transpose()
}

/// A client that keeps a secret and may ask what tokens are worth.
pub async fn insert_introspecting(
    db: &Connection,
    id: &str,
    name: &str,
    secret: &SecretDigest,
    now: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"insert into clients (id, name, first_party, may_use_otp, may_introspect, secret_digest, created_at)
          values ($1, $2, false, false, true, $3, $4)",
        &[&id, &name, &secret.as_slice(), &now],
    )
    .await
    .map(drop)
}

/// Reads a client's columns, its id from the one of this name.
pub(super) fn read(row: &Row, id: &str) -> Result<Client, Error> {
    let secret: Option<&[u8]> = row.try_get("secret_digest")?;
    let secret = secret.map(SecretDigest::try_from).transpose();
    Ok(Client {
        id: row.try_get(id)?,
        name: row.try_get("name")?,
        first_party: row.try_get("first_party")?,
        may_use_otp: row.try_get("may_use_otp")?,
        may_introspect: row.try_get("may_introspect")?,
        secret: secret.map_err(|_| super::impossible("clients", "secret_digest"))?,
        disabled: row.try_get("disabled")?,
    })
}
