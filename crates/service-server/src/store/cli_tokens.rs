//! Table `cli_tokens`. The table holds the SHA-256 of a token, never the token itself.

use std::{net::IpAddr, sync::LazyLock};

use service_api::{
    cli_tokens::{ListedCliToken, Status, StatusFilter},
    errors::Reason,
    ids::{CliTokenId, ConnectionId, Id as _, UserId, WorkspaceId},
    scope::Scopes,
};
use service_rules::{Timestamp, cli_tokens::CliTokenFacts, display_name::DisplayName};
use tokio_postgres::Row;
use uuid::Uuid;

use super::several::{self, FoundRows};
use crate::database::{Connection, Error};

/// A CLI token to be stored.
pub struct NewCliToken<'a> {
    pub id: CliTokenId,
    pub user_id: UserId,
    /// The client through which the user created the token.
    pub client_id: &'a str,
    pub name: &'a DisplayName,
    pub digest: [u8; 32],
    pub hint: &'a str,
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub idempotency_key: Option<&'a str>,
    /// The session that creates the token.
    pub made_by: &'a str,
    /// When the user of that session authenticated.
    pub auth_time: Timestamp,
    /// The connection through which that user signed in.
    pub connection_id: Option<ConnectionId>,
}

/// Stores a token; `false`: this user has used the idempotency key before.
pub async fn insert(db: &Connection, token: &NewCliToken<'_>) -> Result<bool, Error> {
    let inserted = db
        .execute(
            r"insert into cli_tokens (id, user_id, client_id, name, digest, hint, scopes, workspace_id, created_at,
                                      expires_at, idempotency_key, made_by, shard, auth_time, connection_id)
              values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
              on conflict (user_id, idempotency_key, shard) where idempotency_key is not null do nothing",
            &[
                &token.id.uuid(),
                &token.user_id.uuid(),
                &token.client_id,
                &token.name.as_str(),
                &token.digest.as_slice(),
                &token.hint,
                &token.scopes.to_string(),
                &token.workspace_id.map(WorkspaceId::uuid),
                &token.created_at,
                &token.expires_at,
                &token.idempotency_key,
                &token.made_by,
                &token.id.shard().number(),
                &token.auth_time,
                &token.connection_id.map(ConnectionId::uuid),
            ],
        )
        .await?;
    Ok(inserted == 1)
}

/// Counts the live tokens of a user. Tokens from before the epoch are not live.
pub async fn count_live(
    db: &Connection,
    user_id: UserId,
    epoch: Option<Timestamp>,
    now: Timestamp,
) -> Result<i64, Error> {
    let row = db
        .query_opt(
            r"select count(*) as live from cli_tokens
               where user_id = $1 and shard = $4 and revoked_at is null and expires_at > $2
                 and ($3::timestamptz is null or created_at >= $3)",
            &[&user_id.uuid(), &now, &epoch, &user_id.shard().number()],
        )
        .await?;
    Ok(row.ok_or_else(|| super::impossible("cli_tokens", "id"))?.try_get("live")?)
}

/// A token with all facts that decide whether it is accepted.
#[derive(Clone)]
pub struct StoredCliToken {
    pub id: CliTokenId,
    pub user_id: UserId,
    pub client_id: String,
    pub name: DisplayName,
    pub digest: Vec<u8>,
    /// The connection that `found.sso_until` depends on.
    pub connection_id: Option<ConnectionId>,
    pub found: CliTokenFacts,
}

/// Finds a token by its id.
const FIND: &str = r"select t.user_id, t.client_id, t.name, t.digest, t.scopes, t.workspace_id, t.created_at, t.expires_at,
             t.revoked_because, u.disabled_at is not null as user_disabled,
             t.workspace_id is not null and m.user_id is null as workspace_left, s.tokens_until, s.connection_id
        from cli_tokens t
        join users u on u.id = t.user_id and u.shard = t.shard
        left join memberships m on m.user_id = t.user_id and m.workspace_id = t.workspace_id and m.shard = t.shard
                               and m.ended_at is null
        left join user_connections s on s.user_id = t.user_id and s.shard = t.shard
       where t.id = $1 and t.shard = $2";

/// Finds several tokens by their ids.
pub static FIND_SEVERAL: LazyLock<String> = LazyLock::new(|| several::for_several(FIND));

/// Returns a token by its id.
pub async fn find(db: &Connection, id: CliTokenId) -> Result<Option<StoredCliToken>, Error> {
    let row = db.query_opt(FIND, &[&id.uuid(), &id.shard().number()]).await?;
    row.map(|row| stored(id, &row)).transpose()
}

/// Returns the tokens with these ids that exist.
pub async fn find_several(db: &Connection, ids: &[CliTokenId]) -> Result<FoundRows<CliTokenId, StoredCliToken>, Error> {
    several::find(db, &FIND_SEVERAL, ids, stored).await
}

fn stored(id: CliTokenId, row: &Row) -> Result<StoredCliToken, Error> {
    let reason: Option<&str> = row.try_get("revoked_because")?;
    let found = CliTokenFacts {
        scopes: Scopes::parse(row.try_get("scopes")?),
        workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        ended: reason.map(|text| Reason::parse(text).unwrap_or(Reason::RevokedByAdmin)),
        user_disabled: row.try_get("user_disabled")?,
        workspace_left: row.try_get("workspace_left")?,
        sso_until: row.try_get("tokens_until")?,
    };
    Ok(StoredCliToken {
        id,
        user_id: row.try_get::<_, Uuid>("user_id")?.into(),
        client_id: row.try_get("client_id")?,
        name: DisplayName::from_stored(row.try_get("name")?),
        digest: row.try_get("digest")?,
        connection_id: row.try_get::<_, Option<Uuid>>("connection_id")?.map(Into::into),
        found,
    })
}

/// Selects tokens of a user.
pub struct CliTokenQuery {
    pub now: Timestamp,
    /// Tokens that expired or were revoked before this moment are left out.
    pub dead_since: Timestamp,
    pub status: StatusFilter,
    pub before: Option<CliTokenId>,
    pub limit: i64,
}

/// Returns tokens of a user, newest first.
pub async fn list_by_user(
    db: &Connection,
    user_id: UserId,
    query: &CliTokenQuery,
) -> Result<Vec<ListedCliToken>, Error> {
    let rows = db
        .query(
            r"select id, name, workspace_id, scopes, hint, created_at, expires_at, last_used_at, last_used_from,
                     revoked_at, expires_at <= $2 as expired, made_by, suspected_at
                from cli_tokens
               where user_id = $1 and shard = $7 and ($5::uuid is null or id < $5)
                 and expires_at > $3 and (revoked_at is null or revoked_at > $3)
                 and case $4 when 'active' then revoked_at is null and expires_at > $2
                             when 'expired' then revoked_at is null and expires_at <= $2
                             when 'revoked' then revoked_at is not null
                             else true end
               order by id desc limit $6",
            &[
                &user_id.uuid(),
                &query.now,
                &query.dead_since,
                &query.status.as_str(),
                &query.before.map(CliTokenId::uuid),
                &query.limit,
                &user_id.shard().number(),
            ],
        )
        .await?;
    rows.iter().map(listed_token).collect()
}

fn listed_token(row: &Row) -> Result<ListedCliToken, Error> {
    let revoked_at: Option<Timestamp> = row.try_get("revoked_at")?;
    let status = match (revoked_at, row.try_get("expired")?) {
        (Some(_), _) => Status::Revoked,
        (None, true) => Status::Expired,
        (None, false) => Status::Active,
    };
    Ok(ListedCliToken {
        id: row.try_get::<_, Uuid>("id")?.into(),
        name: row.try_get("name")?,
        workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
        scopes: Scopes::parse(row.try_get("scopes")?),
        hint: row.try_get("hint")?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        last_used_at: row.try_get("last_used_at")?,
        last_used_from: row.try_get("last_used_from")?,
        revoked_at,
        made_by: row.try_get("made_by")?,
        suspected_at: row.try_get("suspected_at")?,
        status,
    })
}

/// Revokes a token; `false`: it was revoked before.
pub async fn mark_revoked(db: &Connection, id: CliTokenId, reason: Reason, now: Timestamp) -> Result<bool, Error> {
    let sql = r"update cli_tokens set revoked_at = $2, revoked_because = $3
                 where id = $1 and shard = $4 and revoked_at is null";
    Ok(db.execute(sql, &[&id.uuid(), &now, &reason.as_str(), &id.shard().number()]).await? == 1)
}

/// Revokes several tokens of a user; returns those that were not revoked before. Rows are locked in the order of their ids, so
/// that two transactions that revoke the same tokens do not deadlock.
pub async fn mark_several_revoked(
    db: &Connection,
    user_id: UserId,
    ids: &[Uuid],
    reason: Reason,
    now: Timestamp,
) -> Result<Vec<CliTokenId>, Error> {
    let rows = db
        .query(
            r"update cli_tokens set revoked_at = $2, revoked_because = $3
               where shard = $4 and id in
                     (select id from cli_tokens where id = any ($1) and shard = $4 and revoked_at is null
                       order by id for update)
              returning id",
            &[&ids, &now, &reason.as_str(), &user_id.shard().number()],
        )
        .await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).collect()
}

/// Marks tokens whose creating session was found compromised long after it created them.
pub async fn mark_suspected(db: &Connection, user_id: UserId, ids: &[Uuid], now: Timestamp) -> Result<u64, Error> {
    let sql = r"update cli_tokens set suspected_at = $3
                 where user_id = $1 and shard = $4 and id = any ($2) and suspected_at is null";
    db.execute(sql, &[&user_id.uuid(), &ids, &now, &user_id.shard().number()]).await
}

/// Returns the live suspected tokens of a user, newest first.
pub async fn list_suspected(db: &Connection, user_id: UserId, now: Timestamp) -> Result<Vec<ListedCliToken>, Error> {
    let rows = db
        .query(
            r"select id, name, workspace_id, scopes, hint, created_at, expires_at, last_used_at, last_used_from,
                     revoked_at, false as expired, made_by, suspected_at
                from cli_tokens
               where user_id = $1 and shard = $3 and suspected_at is not null and revoked_at is null and expires_at > $2
               order by id desc",
            &[&user_id.uuid(), &now, &user_id.shard().number()],
        )
        .await?;
    rows.iter().map(listed_token).collect()
}

/// Writes the row of a revoked token unchanged, so that the commit confirms the revocation.
pub async fn touch(db: &Connection, id: CliTokenId) -> Result<(), Error> {
    let sql = r"update cli_tokens set revoked_at = revoked_at where id = $1 and shard = $2";
    db.execute(sql, &[&id.uuid(), &id.shard().number()]).await.map(drop)
}

/// Revokes every token of a user, or those for one workspace.
pub async fn mark_all_revoked(
    db: &Connection,
    user_id: UserId,
    workspace_id: Option<WorkspaceId>,
    reason: Reason,
    now: Timestamp,
) -> Result<u64, Error> {
    db.execute(
        r"update cli_tokens set revoked_at = $2, revoked_because = $3
           where user_id = $1 and shard = $5 and revoked_at is null and ($4::uuid is null or workspace_id = $4)",
        &[&user_id.uuid(), &now, &reason.as_str(), &workspace_id.map(WorkspaceId::uuid), &user_id.shard().number()],
    )
    .await
}

/// Returns the ids of a user's tokens that are not revoked.
pub async fn list_ids(db: &Connection, user_id: UserId) -> Result<Vec<Uuid>, Error> {
    let sql = r"select id from cli_tokens where user_id = $1 and shard = $2 and revoked_at is null";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// Revokes every token for a workspace.
pub async fn mark_revoked_by_workspace(
    db: &Connection,
    workspace_id: WorkspaceId,
    reason: Reason,
    now: Timestamp,
) -> Result<u64, Error> {
    let sql = r"/* every shard */ update cli_tokens set revoked_at = $2, revoked_because = $3
                 where workspace_id = $1 and revoked_at is null";
    db.execute(sql, &[&workspace_id.uuid(), &now, &reason.as_str()]).await
}

/// Shortens the life of a token; `false`: it was revoked.
pub async fn mark_expires_at(db: &Connection, id: CliTokenId, ends_at: Timestamp) -> Result<bool, Error> {
    let sql = r"update cli_tokens set expires_at = least(expires_at, $2)
                 where id = $1 and shard = $3 and revoked_at is null";
    Ok(db.execute(sql, &[&id.uuid(), &ends_at, &id.shard().number()]).await? == 1)
}

/// A use of a token: when, and from which address.
pub struct CliTokenUse {
    pub id: CliTokenId,
    pub at: Timestamp,
    pub from: IpAddr,
}

/// Records uses of tokens, for each token at most one a minute on all nodes together.
pub async fn mark_used(db: &Connection, uses: &[CliTokenUse]) -> Result<u64, Error> {
    let ids: Vec<_> = uses.iter().map(|used| used.id.uuid()).collect();
    let at: Vec<_> = uses.iter().map(|used| used.at).collect();
    let from: Vec<_> = uses.iter().map(|used| used.from.to_string()).collect();
    let shards: Vec<_> = uses.iter().map(|used| used.id.shard().number()).collect();
    db.execute(
        r"/* housekeeping */
          update cli_tokens t set last_used_at = used.at, last_used_from = used.from_address
            from unnest($1::uuid[], $4::smallint[], $2::timestamptz[], $3::text[]) as used (id, shard, at, from_address)
           where t.id = used.id and t.shard = used.shard and (t.last_used_at is null or t.last_used_at <= used.at - interval '1 minute')
             and t.id in (select id from cli_tokens where id = any($1) order by id for update skip locked)",
        &[&ids, &at, &from, &shards],
    )
    .await
}

/// A token whose owner is to be notified that it expires soon.
pub struct ExpiringCliToken {
    pub email: String,
    pub name: String,
    pub hint: String,
    pub expires_at: Timestamp,
}

/// Claims tokens that expire within a week or a day, each once for either. A token with a life of a week or less is not
/// announced a week ahead.
pub async fn claim_expiring(db: &Connection, batch: super::Batch) -> Result<Vec<ExpiringCliToken>, Error> {
    let rows = db
        .query(
            r"/* housekeeping */
              update cli_tokens t
                 set warned_at_days = case when t.expires_at <= $1::timestamptz + interval '1 day' then 1 else 7 end
                from users u
               where u.id = t.user_id and u.shard = t.shard and t.id in
                     (select id from cli_tokens
                       where revoked_at is null and expires_at > $1
                         and expires_at <= $1::timestamptz + interval '7 days'
                         and (warned_at_days is null and expires_at - created_at > interval '7 days'
                              or expires_at <= $1::timestamptz + interval '1 day'
                                  and coalesce(warned_at_days, 7) > 1 and expires_at - created_at > interval '1 day')
                       limit $2 for update skip locked)
              returning u.email, t.name, t.hint, t.expires_at",
            &[&batch.now, &batch.size],
        )
        .await?;
    rows.iter()
        .map(|row| {
            Ok(ExpiringCliToken {
                email: row.try_get("email")?,
                name: row.try_get("name")?,
                hint: row.try_get("hint")?,
                expires_at: row.try_get("expires_at")?,
            })
        })
        .collect()
}

/// Deletes up to `size` tokens that are no longer listed.
pub async fn delete_expired(db: &Connection, dead_since: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from cli_tokens where id in
              (select id from cli_tokens where expires_at <= $1 or revoked_at <= $1 limit $2 for update skip locked)",
        &[&dead_since, &size],
    )
    .await
}
