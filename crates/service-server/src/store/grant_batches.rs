//! Table `grants`: statements about several rows, for refreshes that arrive together. Each touches the shards of its rows, which
//! are all in one database.

use std::{collections::HashSet, sync::LazyLock};

use service_api::ids::{GrantId, Id as _};
use service_rules::rotation::Generations;
use uuid::Uuid;

use super::{
    grants::{FIND, GrantRotation, StoredGrant, stored},
    several::{self, FoundRows},
};
use crate::database::{Connection, Error};

/// The statement that finds one grant, for each of several.
pub static FIND_SEVERAL: LazyLock<String> = LazyLock::new(|| several::for_several(FIND));

/// Returns the grants with these ids that exist.
pub async fn find(db: &Connection, ids: &[GrantId]) -> Result<FoundRows<GrantId, StoredGrant>, Error> {
    several::find(db, &FIND_SEVERAL, ids, stored).await
}

/// A grant to be rotated, from the generations that were read.
#[derive(Clone)]
pub struct WantedRotation {
    pub id: GrantId,
    pub seen: Generations,
    pub rotation: GrantRotation,
}

/// Rotates grants; returns for each whether it was. It was not if it was rotated or revoked meanwhile, if another transaction has
/// locked it, or if it is in the list a second time.
///
/// A row is locked before it is changed, and its generations are those of the locked row. Locked rows of others are skipped: the
/// statement waits for no other transaction, so that no deadlock and no slow transaction holds up the rest. The arrays are in
/// subqueries for the same reason as in [`several`].
pub async fn rotate(db: &Connection, wanted: &[WantedRotation]) -> Result<Vec<bool>, Error> {
    let mut named = HashSet::new();
    let first: Vec<&WantedRotation> = wanted.iter().filter(|wanted| named.insert(wanted.id)).collect();
    let uuids: Vec<_> = first.iter().map(|wanted| wanted.id.uuid()).collect();
    let shards: Vec<_> = first.iter().map(|wanted| wanted.id.shard().number()).collect();
    let seen_bases: Vec<_> = first.iter().map(|wanted| wanted.seen.base).collect();
    let seen_issued: Vec<_> = first.iter().map(|wanted| wanted.seen.issued).collect();
    let bases: Vec<_> = first.iter().map(|wanted| wanted.rotation.to.base).collect();
    let issued: Vec<_> = first.iter().map(|wanted| wanted.rotation.to.issued).collect();
    let keys: Vec<_> = first.iter().map(|wanted| i16::from(wanted.rotation.issued_key)).collect();
    let times: Vec<_> = first.iter().map(|wanted| wanted.rotation.at).collect();
    let networks: Vec<_> = first.iter().map(|wanted| wanted.rotation.from.as_str()).collect();
    let rows = db
        .query(
            r"/* shards of one database */ with wanted as materialized (
                  select g.id, g.shard, w.base, w.issued, w.issued_key, w.at, w.network
                    from unnest((select $1::uuid[]), (select $2::smallint[]), (select $3::int[]), (select $4::int[]),
                                (select $5::int[]), (select $6::int[]), (select $7::smallint[]),
                                (select $8::timestamptz[]), (select $9::text[]))
                         as w (id, shard, seen_base, seen_issued, base, issued, issued_key, at, network)
                    join grants g on g.id = w.id and g.shard = w.shard
                   where g.base = w.seen_base and g.issued = w.seen_issued and g.revoked_at is null
                     for no key update of g skip locked
              )
              update grants g
                 set base = w.base, issued = w.issued, issued_key = w.issued_key, rotated_at = w.at, rotated_from = w.network
                from wanted w
               where g.id = w.id and g.shard = w.shard
              returning g.id",
            &[&uuids, &shards, &seen_bases, &seen_issued, &bases, &issued, &keys, &times, &networks],
        )
        .await?;
    let rotated = rows.iter().map(|row| Ok(row.try_get("id")?)).collect::<Result<HashSet<Uuid>, Error>>()?;
    // Only the first of several with the same id was asked for.
    let mut told = HashSet::new();
    Ok(wanted.iter().map(|wanted| told.insert(wanted.id) && rotated.contains(&wanted.id.uuid())).collect())
}
