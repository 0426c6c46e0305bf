//! Table `address_changes`: changes of email addresses that users requested. A row is in the shard of the user.

use service_api::{
    ids::{AddressChangeId, Id as _, UserId},
    shard::Shard,
    token::{AddressLink, Token},
};
use service_rules::{Timestamp, email::Address};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    crypto::digest::{Digest, token_digest},
    database::{Connection, Error},
    store::Batch,
};

/// What a row is found by, from the secret in a link.
pub struct LinkKey {
    digest: Digest,
    shard: Shard,
}

impl LinkKey {
    #[must_use]
    pub fn of(secret: &Token<AddressLink>) -> Self {
        Self { digest: token_digest(secret), shard: secret.shard() }
    }
}

/// The mailbox that a link was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mailbox {
    /// That of the address that the account has.
    Current,
    /// That of the address that it will have.
    New,
}

impl Mailbox {
    /// The name, as audit events record it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Current => "current_address",
            Self::New => "new_address",
        }
    }
}

/// A change to store.
pub struct NewAddressChange<'a> {
    pub user_id: UserId,
    pub id: AddressChangeId,
    pub address: &'a Address,
    pub current: LinkKey,
    pub new: LinkKey,
    /// The root key that the secrets of the links are derived under.
    pub mac_key: u8,
    /// The session or the browser that requested it.
    pub made_by: String,
    pub requested_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A change that a user requested.
#[derive(Clone, Debug)]
pub struct StoredAddressChange {
    pub user_id: UserId,
    pub id: AddressChangeId,
    pub address: String,
    pub mac_key: u8,
    pub requested_at: Timestamp,
    pub expires_at: Timestamp,
    pub current_confirmed: bool,
    pub new_confirmed: bool,
    /// When the address is changed. `None`: a confirmation is missing.
    pub due_at: Option<Timestamp>,
}

/// Stores a change, in place of the one that the user has requested before.
pub async fn replace(db: &Connection, new: &NewAddressChange<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into address_changes (user_id, shard, id, address, current_digest, new_digest, mac_key, made_by,
                                       requested_at, expires_at)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
          on conflict (user_id, shard) do update
             set id = excluded.id, address = excluded.address, current_digest = excluded.current_digest,
                 new_digest = excluded.new_digest, mac_key = excluded.mac_key, made_by = excluded.made_by,
                 requested_at = excluded.requested_at, expires_at = excluded.expires_at, current_confirmed_at = null,
                 new_confirmed_at = null, due_at = null",
        &[
            &new.user_id.uuid(),
            &new.user_id.shard().number(),
            &new.id.uuid(),
            &new.address.as_str(),
            &new.current.digest.as_slice(),
            &new.new.digest.as_slice(),
            &i16::from(new.mac_key),
            &new.made_by,
            &new.requested_at,
            &new.expires_at,
        ],
    )
    .await
    .map(drop)
}

/// Returns the change of a user. `None`: there is none, or it was not confirmed in time.
pub async fn find(db: &Connection, user_id: UserId, now: Timestamp) -> Result<Option<StoredAddressChange>, Error> {
    let sql = r"select user_id, id, address, mac_key, requested_at, expires_at, due_at,
                       current_confirmed_at is not null as current_confirmed, new_confirmed_at is not null as new_confirmed
                  from address_changes where user_id = $1 and shard = $2 and (due_at is not null or expires_at > $3)";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number(), &now]).await?;
    row.as_ref().map(from_row).transpose()
}

/// Returns the change of a link, and the mailbox that the link was sent to.
pub async fn find_by_link(
    db: &Connection,
    key: &LinkKey,
    now: Timestamp,
) -> Result<Option<(StoredAddressChange, Mailbox)>, Error> {
    let sql = r"select user_id, id, address, mac_key, requested_at, expires_at, due_at, new_digest = $1 as is_new,
                       current_confirmed_at is not null as current_confirmed, new_confirmed_at is not null as new_confirmed
                  from address_changes where (current_digest = $1 or new_digest = $1) and shard = $2
                   and (due_at is not null or expires_at > $3)";
    let row = db.query_opt(sql, &[&key.digest.as_slice(), &key.shard.number(), &now]).await?;
    let read = |row: Row| {
        let mailbox = if row.try_get("is_new")? { Mailbox::New } else { Mailbox::Current };
        Ok((from_row(&row)?, mailbox))
    };
    row.map(read).transpose()
}

/// Records that a mailbox confirmed the change of a link, and sets when the address is changed if both have. The user must be
/// locked. `None`: it was stopped, replaced or not confirmed in time.
pub async fn confirm(
    db: &Connection,
    key: &LinkKey,
    now: Timestamp,
    due_at: Timestamp,
) -> Result<Option<StoredAddressChange>, Error> {
    let sql = r"update address_changes
                   set current_confirmed_at = case when current_digest = $1 then coalesce(current_confirmed_at, $3)
                                                   else current_confirmed_at end,
                       new_confirmed_at = case when new_digest = $1 then coalesce(new_confirmed_at, $3)
                                               else new_confirmed_at end,
                       due_at = case when due_at is null
                                      and (current_digest = $1 or current_confirmed_at is not null)
                                      and (new_digest = $1 or new_confirmed_at is not null)
                                     then $4 else due_at end
                 where (current_digest = $1 or new_digest = $1) and shard = $2 and (due_at is not null or expires_at > $3)
                returning user_id, id, address, mac_key, requested_at, expires_at, due_at,
                          current_confirmed_at is not null as current_confirmed, new_confirmed_at is not null as new_confirmed";
    let row = db.query_opt(sql, &[&key.digest.as_slice(), &key.shard.number(), &now, &due_at]).await?;
    row.as_ref().map(from_row).transpose()
}

/// Deletes the change of a user; returns its address. `None`: there is none.
pub async fn delete(db: &Connection, user_id: UserId) -> Result<Option<String>, Error> {
    let sql = r"delete from address_changes where user_id = $1 and shard = $2 returning address";
    read_address(db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?)
}

/// Deletes the change of a link; returns its address. `None`: there is none.
pub async fn delete_by_link(db: &Connection, key: &LinkKey) -> Result<Option<String>, Error> {
    let sql = r"delete from address_changes where (current_digest = $1 or new_digest = $1) and shard = $2
                returning address";
    read_address(db.query_opt(sql, &[&key.digest.as_slice(), &key.shard.number()]).await?)
}

/// Replaces the digest of the link to the new address, which has not confirmed the change; `false`: it has, or the change is over.
pub async fn replace_new_link(db: &Connection, key: &LinkKey, digest: &Digest) -> Result<bool, Error> {
    let sql = r"update address_changes set new_digest = $3
                 where new_digest = $1 and shard = $2 and new_confirmed_at is null";
    Ok(db.execute(sql, &[&key.digest.as_slice(), &key.shard.number(), &digest.as_slice()]).await? == 1)
}

/// Returns users whose address is to be changed, those who waited longest first.
pub async fn list_due(db: &Connection, batch: Batch) -> Result<Vec<UserId>, Error> {
    let sql = r"/* housekeeping */ select user_id from address_changes where due_at <= $1 order by due_at limit $2";
    let rows = db.query(sql, &[&batch.now, &batch.size]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("user_id")?.into())).collect()
}

/// Takes the change of a user that is due; returns its address. `None`: it was stopped or replaced, or another node made it.
pub async fn delete_due(db: &Connection, user_id: UserId, now: Timestamp) -> Result<Option<String>, Error> {
    let sql = r"delete from address_changes where user_id = $1 and shard = $2 and due_at <= $3 returning address";
    read_address(db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number(), &now]).await?)
}

/// Deletes a batch of changes that were not confirmed in time.
pub async fn delete_expired(db: &Connection, batch: Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from address_changes where due_at is null and user_id in
              (select user_id from address_changes where due_at is null and expires_at <= $1 limit $2
                 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}

/// Deletes all changes, in batches.
pub async fn delete_all(db: &Connection) -> Result<(), Error> {
    const BATCH: i64 = 1_000;
    let sql = r"/* housekeeping */ delete from address_changes where user_id in
                    (select user_id from address_changes limit $1)";
    while db.execute(sql, &[&BATCH]).await? > 0 {}
    Ok(())
}

fn read_address(row: Option<Row>) -> Result<Option<String>, Error> {
    row.map(|row| Ok(row.try_get("address")?)).transpose()
}

fn from_row(row: &Row) -> Result<StoredAddressChange, Error> {
    let mac_key = u8::try_from(row.try_get::<_, i16>("mac_key")?);
    Ok(StoredAddressChange {
        user_id: row.try_get::<_, Uuid>("user_id")?.into(),
        id: row.try_get::<_, Uuid>("id")?.into(),
        address: row.try_get("address")?,
        mac_key: mac_key.map_err(|_| super::impossible("address_changes", "mac_key"))?,
        requested_at: row.try_get("requested_at")?,
        expires_at: row.try_get("expires_at")?,
        current_confirmed: row.try_get("current_confirmed")?,
        new_confirmed: row.try_get("new_confirmed")?,
        due_at: row.try_get("due_at")?,
    })
}
