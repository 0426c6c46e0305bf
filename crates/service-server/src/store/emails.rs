//! Table `emails`: verified email addresses and the users they belong to. A row is in the shard of its address.

use service_api::{
    ids::{ConnectionId, Id as _, UserId},
    shard::Shard,
};
use service_rules::{Timestamp, email::Address};
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::users,
};

/// An email address and its shard.
#[derive(Clone, Copy, Debug)]
pub struct EmailKey<'a> {
    pub address: &'a Address,
    pub shard: Shard,
}

/// Assigns the address to `user_id`, unless it belongs to a user already. Returns the user it belongs to.
pub async fn claim(db: &Connection, email: EmailKey<'_>, user_id: UserId, now: Timestamp) -> Result<UserId, Error> {
    let row = db
        .query_opt(
            r"insert into emails (address, shard, user_id, verified_at) values ($1, $2, $3, $4)
              on conflict (address, shard) do update set verified_at = excluded.verified_at
              returning user_id",
            &[&email.address.as_str(), &email.shard.number(), &user_id.uuid(), &now],
        )
        .await?
        .ok_or_else(|| super::impossible("emails", "user_id"))?;
    Ok(row.try_get::<_, Uuid>("user_id")?.into())
}

/// Assigns the address to a user; `false`: it belongs to another one.
pub async fn insert(db: &Connection, email: EmailKey<'_>, user_id: UserId, now: Timestamp) -> Result<bool, Error> {
    let sql = r"insert into emails (address, shard, user_id, verified_at) values ($1, $2, $3, $4)
                on conflict (address, shard) do nothing";
    let inserted = db.execute(sql, &[&email.address.as_str(), &email.shard.number(), &user_id.uuid(), &now]).await?;
    Ok(inserted == 1)
}

/// Takes the address from a user.
pub async fn delete(db: &Connection, email: EmailKey<'_>, user_id: UserId) -> Result<(), Error> {
    let sql = r"delete from emails where address = $1 and shard = $2 and user_id = $3";
    db.execute(sql, &[&email.address.as_str(), &email.shard.number(), &user_id.uuid()]).await.map(drop)
}

/// The account that an address belongs to.
pub struct EmailAccount {
    pub user_id: UserId,
    pub disabled: bool,
}

/// Returns the account that an address belongs to.
pub async fn find_user(db: &Connection, email: EmailKey<'_>) -> Result<Option<EmailAccount>, Error> {
    let user_id = find_id(db, email).await?;
    let user = users::find(db, user_id).await?;
    Ok(user.map(|user| EmailAccount { user_id, disabled: user.disabled }))
}

/// Returns up to `limit` users with an address in one of these domains, after a user, in the order of their ids.
pub async fn list_users_by_domains(
    db: &Connection,
    domains: &[String],
    after: UserId,
    limit: i64,
) -> Result<Vec<UserId>, Error> {
    let rows = db
        .query(
            r"/* every shard */ select user_id from emails
               where split_part(address, '@', 2) = any ($1) and user_id > $2 order by user_id limit $3",
            &[&domains, &after.uuid(), &limit],
        )
        .await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("user_id")?.into())).collect()
}

/// Returns the user that an address belongs to, or an id that no user has. So the caller runs the same statements for an
/// address without an account, and their time does not tell it apart.
pub(super) async fn find_id(db: &Connection, email: EmailKey<'_>) -> Result<UserId, Error> {
    let sql = r"select user_id from emails where address = $1 and shard = $2";
    let row = db.query_opt(sql, &[&email.address.as_str(), &email.shard.number()]).await?;
    Ok(row.map_or(Ok(Uuid::nil()), |row| row.try_get("user_id"))?.into())
}

/// What some users have, beside what began with a sign-in through one connection.
#[derive(Clone, Copy, Debug)]
pub struct CredentialCounts {
    pub browsers: i64,
    /// Grants of first-party clients.
    pub sessions: i64,
    pub cli_tokens: i64,
    pub mcp_tokens: i64,
    /// Grants of other clients.
    pub app_grants: i64,
}

/// The moment at which credentials are counted.
#[derive(Clone, Copy, Debug)]
pub struct CountedAt {
    pub now: Timestamp,
    /// Sessions that were last refreshed before are idle, and do not count.
    pub idle_since: Timestamp,
}

/// Counts the valid credentials of some users. What began with a sign-in through the connection is left out.
pub async fn count_credentials(
    db: &Connection,
    users: &[UserId],
    connection_id: ConnectionId,
    at: CountedAt,
) -> Result<CredentialCounts, Error> {
    let ids: Vec<_> = users.iter().map(|id| id.uuid()).collect();
    let shards: Vec<_> = users.iter().map(|id| id.shard().number()).collect();
    let row = db
        .query_opt(
            r"/* every shard */
              with people (user_id, shard) as materialized (select * from unnest($1::uuid[], $2::int2[])),
                   sessions as materialized (
                       select g.client_id from people p join grants g on g.user_id = p.user_id and g.shard = p.shard
                        where g.revoked_at is null and g.expires_at > $3 and g.rotated_at > $4
                          and g.connection_id is distinct from $5)
              select (select count(*) from people p join browser_sessions b on b.user_id = p.user_id
                       where b.expires_at > $3 and b.connection_id is distinct from $5) as browsers,
                     (select count(*) from sessions where client_id in ('service-web', 'service-cli')) as sessions,
                     (select count(*) from people p join cli_tokens c on c.user_id = p.user_id and c.shard = p.shard
                       where c.revoked_at is null and c.expires_at > $3 and c.connection_id is distinct from $5)
                         as cli_tokens,
                     (select count(*) from sessions where client_id = 'service-mcp') as mcp_tokens,
                     (select count(*) from sessions
                       where client_id not in ('service-web', 'service-cli', 'service-mcp')) as app_grants",
            &[&ids, &shards, &at.now, &at.idle_since, &connection_id.uuid()],
        )
        .await?
        .ok_or_else(|| super::impossible("emails", "user_id"))?;
    Ok(CredentialCounts {
        browsers: row.try_get("browsers")?,
        sessions: row.try_get("sessions")?,
        cli_tokens: row.try_get("cli_tokens")?,
        mcp_tokens: row.try_get("mcp_tokens")?,
        app_grants: row.try_get("app_grants")?,
    })
}
