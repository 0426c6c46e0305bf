//! Tables `cli_tokens` and `grants`: the credentials of members that are bound to one workspace.
//!
//! Sessions of first-party clients are not among them: they give access to every space of their user.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use service_api::{
    ids::{CliTokenId, GrantId, Id as _, UserId, WorkspaceId},
    scope::Scopes,
};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Selects live credentials that are bound to a workspace.
pub struct CredentialQuery<'a> {
    pub workspace_id: WorkspaceId,
    /// The members whose credentials are listed.
    pub users: &'a [UserId],
    pub now: Timestamp,
    /// Sessions that were last refreshed before this moment are left out.
    pub used_after: Timestamp,
    /// CLI tokens from before the epoch are left out.
    pub epoch: Option<Timestamp>,
    /// How many of either kind are listed for each member.
    pub limit: i64,
}

/// A live CLI token for a workspace.
pub struct BoundCliToken {
    pub id: CliTokenId,
    pub name: String,
    pub hint: String,
    pub scopes: Scopes,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
}

/// A live session of a third-party client for a workspace.
pub struct BoundSession {
    pub id: GrantId,
    pub client_name: String,
    /// Whether an operator has verified the client's name.
    pub name_verified: bool,
    pub scopes: Scopes,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub last_used_at: Timestamp,
}

/// The credentials of a member for a workspace, newest first.
#[derive(Default)]
pub struct BoundCredentials {
    pub cli_tokens: Vec<BoundCliToken>,
    pub sessions: Vec<BoundSession>,
    /// How many there are, also of those that are not listed.
    pub total: i64,
}

/// Returns the credentials of members, with two statements for each shard. Members without any are left out.
pub async fn list(db: &Connection, query: &CredentialQuery<'_>) -> Result<HashMap<UserId, BoundCredentials>, Error> {
    let tokens = super::by_shard(query.users).into_iter();
    let tokens = try_join_all(tokens.map(async |(shard, users)| list_cli_tokens(db, query, &users, shard).await));
    let sessions = super::by_shard(query.users).into_iter();
    let sessions = try_join_all(sessions.map(async |(shard, users)| list_sessions(db, query, &users, shard).await));
    let (tokens, sessions) = futures_util::try_join!(tokens, sessions)?;
    let mut found = HashMap::<UserId, BoundCredentials>::new();
    for row in tokens.iter().flatten() {
        let of_user = of_user(&mut found, row)?;
        of_user.cli_tokens.push(cli_token(row)?);
    }
    for row in sessions.iter().flatten() {
        let of_user = of_user(&mut found, row)?;
        of_user.sessions.push(session(row)?);
    }
    Ok(found)
}

/// The entry of the user whom a row belongs to. The first row of each kind of a user adds how many there are.
fn of_user<'a>(found: &'a mut HashMap<UserId, BoundCredentials>, row: &Row) -> Result<&'a mut BoundCredentials, Error> {
    let entry = found.entry(row.try_get::<_, Uuid>("user_id")?.into()).or_default();
    if row.try_get::<_, i64>("place")? == 1 {
        entry.total += row.try_get::<_, i64>("total")?;
    }
    Ok(entry)
}

async fn list_cli_tokens(
    db: &Connection,
    query: &CredentialQuery<'_>,
    users: &[Uuid],
    shard: i16,
) -> Result<Vec<Row>, Error> {
    db.query(
        r"select * from
              (select user_id, id, name, hint, scopes, created_at, expires_at, last_used_at,
                      row_number() over (partition by user_id order by id desc) as place,
                      count(*) over (partition by user_id) as total
                 from cli_tokens
                where user_id = any ($1) and shard = $2 and workspace_id = $3 and revoked_at is null
                  and expires_at > $4 and ($5::timestamptz is null or created_at >= $5)) t
           where place <= $6 order by user_id, place",
        &[&users, &shard, &query.workspace_id.uuid(), &query.now, &query.epoch, &query.limit],
    )
    .await
}

async fn list_sessions(
    db: &Connection,
    query: &CredentialQuery<'_>,
    users: &[Uuid],
    shard: i16,
) -> Result<Vec<Row>, Error> {
    db.query(
        r"select * from
              (select g.user_id, g.id, c.name, c.kind = 'registered' as name_verified, g.scopes, g.created_at,
                      g.expires_at, g.rotated_at,
                      row_number() over (partition by g.user_id order by g.id desc) as place,
                      count(*) over (partition by g.user_id) as total
                 from grants g join clients c on c.id = g.client_id and c.kind <> 'first_party'
                where g.user_id = any ($1) and g.shard = $2 and g.workspace_id = $3 and g.revoked_at is null
                  and g.expires_at > $4 and g.rotated_at > $5) s
           where place <= $6 order by user_id, place",
        &[&users, &shard, &query.workspace_id.uuid(), &query.now, &query.used_after, &query.limit],
    )
    .await
}

fn cli_token(row: &Row) -> Result<BoundCliToken, Error> {
    Ok(BoundCliToken {
        id: row.try_get::<_, Uuid>("id")?.into(),
        name: row.try_get("name")?,
        hint: row.try_get("hint")?,
        scopes: Scopes::parse(row.try_get("scopes")?),
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        last_used_at: row.try_get("last_used_at")?,
    })
}

fn session(row: &Row) -> Result<BoundSession, Error> {
    Ok(BoundSession {
        id: row.try_get::<_, Uuid>("id")?.into(),
        client_name: row.try_get("name")?,
        name_verified: row.try_get("name_verified")?,
        scopes: Scopes::parse(row.try_get("scopes")?),
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        last_used_at: row.try_get("rotated_at")?,
    })
}
