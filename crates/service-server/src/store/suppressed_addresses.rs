//! Table `suppressed_addresses`: email addresses that no mail is sent to for a while, because mail to them bounced, and addresses
//! that mail arrived at lately. For the latter, `suppressed_until` is when it arrived.

use service_rules::{Timestamp, bounces::SUPPRESSED_SECONDS, lifetimes::SUPPRESSION, signing::later};

use crate::database::{Connection, Error};

/// A mail that bounced.
pub struct BouncedMail<'a> {
    /// The keyed digest of its address.
    pub name: &'a [u8],
    pub sent_at: Timestamp,
}

/// Suppresses the address, for longer with every bounce. `None`: the bounce tells nothing new, because the mail was sent before the
/// address was suppressed, or before it was known to work again.
pub async fn suppress(db: &Connection, mail: &BouncedMail<'_>, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    let row = db
        .query_opt(
            r"insert into suppressed_addresses as kept (name, shard, bounces, suppressed_until)
              values ($1, $2, 1, least($3::timestamptz + ($5::bigint[])[1] * interval '1 s', $6))
              on conflict (name, shard) do update
                 set bounces = least(kept.bounces + 1, cardinality($5)),
                     suppressed_until =
                         least($3 + ($5)[least(kept.bounces + 1, cardinality($5))] * interval '1 s', $6)
               where kept.suppressed_until < $4 or (kept.suppressed_until = $4 and kept.bounces > 0)
              returning suppressed_until",
            &[
                &mail.name,
                &super::shard_of_key(mail.name),
                &now,
                &mail.sent_at,
                &SUPPRESSED_SECONDS.as_slice(),
                &later(mail.sent_at, SUPPRESSION),
            ],
        )
        .await?;
    row.map(|row| Ok(row.try_get("suppressed_until")?)).transpose()
}

/// Returns until when no mail is sent to the address; `None`: mail is sent to it.
pub async fn find(db: &Connection, name: &[u8], now: Timestamp) -> Result<Option<Timestamp>, Error> {
    let sql = r"select suppressed_until from suppressed_addresses
           where name = $1 and shard = $2 and suppressed_until > $3 and bounces > 0";
    let row = db.query_opt(sql, &[&name, &super::shard_of_key(name), &now]).await?;
    row.map(|row| Ok(row.try_get("suppressed_until")?)).transpose()
}

/// Records that mail to the address arrived, whether it was suppressed or not. Bounces of mails that were sent before do not
/// suppress it any more.
pub async fn lift(db: &Connection, name: &[u8], now: Timestamp) -> Result<(), Error> {
    let sql = r"insert into suppressed_addresses (name, shard, bounces, suppressed_until) values ($1, $2, 0, $3)
                on conflict (name, shard) do update set bounces = 0, suppressed_until = $3";
    db.execute(sql, &[&name, &super::shard_of_key(name), &now]).await.map(drop)
}

/// Deletes a batch of addresses that mail is sent to again since `before`.
pub async fn delete_expired(db: &Connection, before: Timestamp, limit: i64) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from suppressed_addresses where name in
              (select name from suppressed_addresses where suppressed_until <= $1 limit $2 for update skip locked)",
        &[&before, &limit],
    )
    .await
}
