//! Table `cli_tokens`.

use std::net::IpAddr;

use service_api::{
    cli_tokens::{ListedCliToken, Status, StatusFilter},
    errors::Reason,
    ids::{CliTokenId, Id as _, UserId, WorkspaceId},
    scope::Scopes,
};
use service_rules::{Timestamp, cli_tokens::Found};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};

pub struct NewCliToken<'a> {
    pub id: CliTokenId,
    pub user_id: UserId,
    /// The client that its maker had signed in with.
    pub client_id: &'a str,
    pub name: &'a str,
    pub digest: [u8; 32],
    pub hint: &'a str,
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub idempotency_key: Option<&'a str>,
}

/// `false`: this user has used the idempotency key before.
pub async fn insert(db: &Connection, token: &NewCliToken<'_>) -> Result<bool, Error> {
    let inserted = db
        .execute(
            r"insert into cli_tokens (id, user_id, client_id, name, digest, hint, scopes, workspace_id, created_at,
                                      expires_at, idempotency_key)
              values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
              on conflict (user_id, idempotency_key) where idempotency_key is not null do nothing",
            &[
                &token.id.uuid(),
                &token.user_id.uuid(),
                &token.client_id,
                &token.name,
                &token.digest.as_slice(),
                &token.hint,
                &token.scopes.to_string(),
                &token.workspace_id.map(WorkspaceId::uuid),
                &token.created_at,
                &token.expires_at,
                &token.idempotency_key,
            ],
        )
        .await?;
    Ok(inserted == 1)
}

/// How many tokens of a user work; those from before the epoch do not.
pub async fn count_live(
    db: &Connection,
    user_id: UserId,
    epoch: Option<Timestamp>,
    now: Timestamp,
) -> Result<i64, Error> {
    let row = db
        .query_opt(
            r"select count(*) as live from cli_tokens
               where user_id = $1 and revoked_at is null and expires_at > $2
                 and ($3::timestamptz is null or created_at >= $3)",
            &[&user_id.uuid(), &now, &epoch],
        )
        .await?;
    Ok(row.ok_or_else(|| super::impossible("cli_tokens", "id"))?.try_get("live")?)
}

/// A token with all that decides about it.
pub struct StoredCliToken {
    pub id: CliTokenId,
    pub user_id: UserId,
    pub client_id: String,
    pub name: String,
    pub digest: Vec<u8>,
    pub found: Found,
}

pub async fn find(db: &Connection, id: CliTokenId) -> Result<Option<StoredCliToken>, Error> {
    let row = db
        .query_opt(
            r"select t.user_id, t.client_id, t.name, t.digest, t.scopes, t.workspace_id, t.created_at, t.expires_at,
                     t.revoked_because, u.disabled_at is not null as user_disabled,
                     t.workspace_id is not null and m.user_id is null as workspace_left
                from cli_tokens t
                join users u on u.id = t.user_id
                left join memberships m
                  on m.user_id = t.user_id and m.workspace_id = t.workspace_id and m.ended_at is null
               where t.id = $1",
            &[&id.uuid()],
        )
        .await?;
    row.map(|row| stored(id, &row)).transpose()
}

fn stored(id: CliTokenId, row: &Row) -> Result<StoredCliToken, Error> {
    let because: Option<&str> = row.try_get("revoked_because")?;
    let found = Found {
        scopes: Scopes::parse(row.try_get("scopes")?),
        workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        ended: because.map(|text| Reason::parse(text).unwrap_or(Reason::RevokedByAdmin)),
        user_disabled: row.try_get("user_disabled")?,
        workspace_left: row.try_get("workspace_left")?,
    };
    Ok(StoredCliToken {
        id,
        user_id: row.try_get::<_, Uuid>("user_id")?.into(),
        client_id: row.try_get("client_id")?,
        name: row.try_get("name")?,
        digest: row.try_get("digest")?,
        found,
    })
}

/// Which tokens of a user to list.
pub struct Listed {
    pub now: Timestamp,
    /// Tokens that have been dead since before this are not listed any more.
    pub dead_since: Timestamp,
    pub status: StatusFilter,
    pub before: Option<CliTokenId>,
    pub limit: i64,
}

/// The youngest first.
pub async fn list_by_user(db: &Connection, user_id: UserId, listed: &Listed) -> Result<Vec<ListedCliToken>, Error> {
    let rows = db
        .query(
            r"select id, name, workspace_id, scopes, hint, created_at, expires_at, last_used_at, last_used_from,
                     revoked_at, expires_at <= $2 as expired
                from cli_tokens
               where user_id = $1 and ($5::uuid is null or id < $5)
                 and expires_at > $3 and (revoked_at is null or revoked_at > $3)
                 and case $4 when 'active' then revoked_at is null and expires_at > $2
                             when 'expired' then revoked_at is null and expires_at <= $2
                             when 'revoked' then revoked_at is not null
                             else true end
               order by id desc limit $6",
            &[
                &user_id.uuid(),
                &listed.now,
                &listed.dead_since,
                &listed.status.as_str(),
                &listed.before.map(CliTokenId::uuid),
                &listed.limit,
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
        status,
    })
}

/// Ends a token; `false`: it had been ended already.
pub async fn mark_revoked(db: &Connection, id: CliTokenId, because: Reason, now: Timestamp) -> Result<bool, Error> {
    let sql = r"update cli_tokens set revoked_at = $2, revoked_because = $3 where id = $1 and revoked_at is null";
    Ok(db.execute(sql, &[&id.uuid(), &now, &because.as_str()]).await? == 1)
}

/// Writes a token that was ended as it is.
pub async fn touch(db: &Connection, id: CliTokenId) -> Result<(), Error> {
    db.execute(r"update cli_tokens set revoked_at = revoked_at where id = $1", &[&id.uuid()]).await.map(drop)
}

/// Ends every token of a user, or those for one workspace.
pub async fn mark_all_revoked(
    db: &Connection,
    user_id: UserId,
    workspace_id: Option<WorkspaceId>,
    because: Reason,
    now: Timestamp,
) -> Result<u64, Error> {
    db.execute(
        r"update cli_tokens set revoked_at = $2, revoked_because = $3
           where user_id = $1 and revoked_at is null and ($4::uuid is null or workspace_id = $4)",
        &[&user_id.uuid(), &now, &because.as_str(), &workspace_id.map(WorkspaceId::uuid)],
    )
    .await
}

/// Ends every token for a workspace.
pub async fn mark_revoked_for(
    db: &Connection,
    workspace_id: WorkspaceId,
    because: Reason,
    now: Timestamp,
) -> Result<u64, Error> {
    let sql =
        r"update cli_tokens set revoked_at = $2, revoked_because = $3 where workspace_id = $1 and revoked_at is null";
    db.execute(sql, &[&workspace_id.uuid(), &now, &because.as_str()]).await
}

/// Lets a token end earlier than it would have; `false`: it has been ended.
pub async fn mark_ends_at(db: &Connection, id: CliTokenId, ends_at: Timestamp) -> Result<bool, Error> {
    let sql = r"update cli_tokens set expires_at = least(expires_at, $2) where id = $1 and revoked_at is null";
    Ok(db.execute(sql, &[&id.uuid(), &ends_at]).await? == 1)
}

/// When and where from a token was last used.
pub struct Use {
    pub id: CliTokenId,
    pub at: Timestamp,
    pub from: IpAddr,
}

/// Writes uses down, at most one a minute for each token, whichever node saw it.
pub async fn mark_used(db: &Connection, uses: &[Use]) -> Result<u64, Error> {
    let ids: Vec<_> = uses.iter().map(|used| used.id.uuid()).collect();
    let at: Vec<_> = uses.iter().map(|used| used.at).collect();
    let from: Vec<_> = uses.iter().map(|used| used.from.to_string()).collect();
    db.execute(
        r"update cli_tokens t set last_used_at = used.at, last_used_from = used.from_address
            from unnest($1::uuid[], $2::timestamptz[], $3::text[]) as used (id, at, from_address)
           where t.id = used.id and (t.last_used_at is null or t.last_used_at <= used.at - interval '1 minute')
             and t.id in (select id from cli_tokens where id = any($1) order by id for update skip locked)",
        &[&ids, &at, &from],
    )
    .await
}

/// A token whose owner is to be told that it ends soon.
pub struct Ending {
    pub email: String,
    pub name: String,
    pub hint: String,
    pub expires_at: Timestamp,
}

/// Takes tokens that end within a week or a day, each once for both; short-lived ones are not announced a week before.
pub async fn claim_ending(db: &Connection, batch: super::Batch) -> Result<Vec<Ending>, Error> {
    let rows = db
        .query(
            r"update cli_tokens t
                 set warned_at_days = case when t.expires_at <= $1::timestamptz + interval '1 day' then 1 else 7 end
                from users u
               where u.id = t.user_id and t.id in
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
            Ok(Ending {
                email: row.try_get("email")?,
                name: row.try_get("name")?,
                hint: row.try_get("hint")?,
                expires_at: row.try_get("expires_at")?,
            })
        })
        .collect()
}

/// Forgets tokens that nobody can list any more.
pub async fn delete_expired(db: &Connection, dead_since: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"delete from cli_tokens where id in
              (select id from cli_tokens where expires_at <= $1 or revoked_at <= $1 limit $2 for update skip locked)",
        &[&dead_since, &size],
    )
    .await
}
