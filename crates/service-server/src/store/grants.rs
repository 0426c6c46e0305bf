//! Table `grants`: one row for each session of a client.

use service_api::{
    errors::Reason,
    ids::{ConnectionId, GrantId, Id, UserId, WorkspaceId},
    scope::Scopes,
    sessions::{Session, SessionClient},
};
use service_rules::{
    Timestamp,
    clients::Client,
    rotation::{self, Generations},
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// The generation of a grant's first refresh token.
pub const FIRST_GENERATION: i32 = 1;

/// A grant to be stored.
pub struct NewGrant<'a> {
    pub id: GrantId,
    pub user_id: UserId,
    pub client_id: &'a str,
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub audience: &'a str,
    pub salt: [u8; 16],
    /// The root key from which its first refresh token is derived.
    pub issued_key: u8,
    pub created_at: Timestamp,
    pub created_from: String,
    pub expires_at: Timestamp,
    /// When the user authenticated; `None`: the user's provider did not say.
    pub auth_time: Option<Timestamp>,
    /// The session that created it; `None`: the user signed in.
    pub made_by: Option<String>,
    /// The connection through which the user signed in.
    pub connection_id: Option<ConnectionId>,
    /// When an interactive session has to sign in through the connection again.
    pub sso_until: Option<Timestamp>,
}

/// Stores a grant.
pub async fn insert(db: &Connection, grant: &NewGrant<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into grants
              (id, user_id, client_id, scopes, workspace_id, audience, salt, base, issued, issued_key,
               rotated_at, rotated_from, created_at, created_from, expires_at, auth_time, made_by, shard,
               connection_id, sso_until)
          values ($1, $2, $3, $4, $5, $6, $7, $8 - 1, $8, $9, $10, $11, $10, $11, $12, $13, $14, $15, $16, $17)",
        &[
            &grant.id.uuid(),
            &grant.user_id.uuid(),
            &grant.client_id,
            &grant.scopes.to_string(),
            &grant.workspace_id.map(Id::uuid),
            &grant.audience,
            &grant.salt.as_slice(),
            &FIRST_GENERATION,
            &i16::from(grant.issued_key),
            &grant.created_at,
            &grant.created_from,
            &grant.expires_at,
            &grant.auth_time,
            &grant.made_by,
            &grant.id.shard().number(),
            &grant.connection_id.map(Id::uuid),
            &grant.sso_until,
        ],
    )
    .await
    .map(drop)
}

/// Returns when the user of a grant authenticated, if that is known; `None`: there is no such grant.
pub async fn find_auth_time(db: &Connection, id: GrantId) -> Result<Option<Option<Timestamp>>, Error> {
    let row = db
        .query_opt(r"select auth_time from grants where id = $1 and shard = $2", &[&id.uuid(), &id.shard().number()])
        .await?;
    row.map(|row| Ok(row.try_get("auth_time")?)).transpose()
}

/// A grant with all facts that decide whether it is accepted: its user, its client, whether the user is still a member of
/// its workspace, and until when the user's company accepts it.
#[derive(Clone)]
pub struct StoredGrant {
    pub id: GrantId,
    pub user_id: UserId,
    pub user_email: String,
    pub client: Client,
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub audience: String,
    pub salt: Vec<u8>,
    /// The root key from which the newest refresh token was derived.
    pub issued_key: Option<u8>,
    pub created_at: Timestamp,
    /// Whether the credentials that this grant created were revoked because the grant was compromised.
    pub lineage_revoked: bool,
    /// The connection that `facts.sso_until` depends on.
    pub connection_id: Option<ConnectionId>,
    pub facts: rotation::Grant,
}

impl StoredGrant {
    /// When the last access token of the grant expires, unless the user signs in again.
    #[must_use]
    pub fn token_end(&self) -> Timestamp {
        self.facts.sso_until.map_or(self.facts.expires_at, |until| until.min(self.facts.expires_at))
    }
}

/// Finds a grant by its id. An interactive session has the deadline of the sign-in that it began with, and none if it began with
/// a code. Other grants have the deadline of the user's tokens.
pub(super) const FIND: &str = r"select g.user_id, g.scopes, g.workspace_id, g.audience, g.salt, g.base, g.issued, g.issued_key,
             g.rotated_at, g.rotated_from, g.created_at, g.expires_at, g.made_revoked_at is not null as lineage_revoked,
             case when g.revoked_at is not null then coalesce(g.revoked_because, 'revoked_by_admin') end
                 as revoked_because,
             u.email, u.disabled_at is not null as user_disabled,
             g.workspace_id is not null and m.user_id is null as workspace_left,
             coalesce(g.sso_until, case when g.client_id not in ('service-web', 'service-cli') then s.tokens_until end)
                 as sso_until,
             case when g.sso_until is null then s.connection_id else g.connection_id end as connection_id,
             c.id as client_id, c.name, c.kind, c.may_use_otp, c.may_introspect, c.auth_method, c.secret_digest,
             c.redirect_uris,
             c.disabled_at is not null as disabled
        from grants g
        join users u on u.id = g.user_id and u.shard = g.shard
        join clients c on c.id = g.client_id
        left join memberships m on m.user_id = g.user_id and m.workspace_id = g.workspace_id and m.shard = g.shard
                               and m.ended_at is null
        left join user_connections s on s.user_id = g.user_id and s.shard = g.shard
       where g.id = $1 and g.shard = $2";

/// Returns a grant by its id.
pub async fn find(db: &Connection, id: GrantId) -> Result<Option<StoredGrant>, Error> {
    let row = db.query_opt(FIND, &[&id.uuid(), &id.shard().number()]).await?;
    row.map(|row| stored(id, &row)).transpose()
}

pub(super) fn stored(id: GrantId, row: &Row) -> Result<StoredGrant, Error> {
    let impossible = |column| super::impossible("grants", column);
    let reason: Option<&str> = row.try_get("revoked_because")?;
    let client = super::clients::read(row, "client_id")?;
    let facts = rotation::Grant {
        client_id: client.id.clone(),
        generations: Generations { base: row.try_get("base")?, issued: row.try_get("issued")? },
        rotated_at: row.try_get("rotated_at")?,
        rotated_from: row.try_get::<_, &str>("rotated_from")?.parse().ok(),
        expires_at: row.try_get("expires_at")?,
        ended: reason.map(|text| Reason::parse(text).ok_or_else(|| impossible("revoked_because"))).transpose()?,
        user_disabled: row.try_get("user_disabled")?,
        workspace_left: row.try_get("workspace_left")?,
        sso_until: row.try_get("sso_until")?,
    };
    let issued_key = row.try_get::<_, Option<i16>>("issued_key")?.map(u8::try_from).transpose();
    Ok(StoredGrant {
        id,
        user_id: row.try_get::<_, Uuid>("user_id")?.into(),
        user_email: row.try_get("email")?,
        client,
        scopes: Scopes::parse(row.try_get("scopes")?),
        workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
        audience: row.try_get("audience")?,
        salt: row.try_get("salt")?,
        issued_key: issued_key.map_err(|_| impossible("issued_key"))?,
        created_at: row.try_get("created_at")?,
        lineage_revoked: row.try_get("lineage_revoked")?,
        connection_id: row.try_get::<_, Option<Uuid>>("connection_id")?.map(Into::into),
        facts,
    })
}

/// The new state of a grant after a rotation.
#[derive(Clone)]
pub struct GrantRotation {
    pub to: Generations,
    pub issued_key: u8,
    pub at: Timestamp,
    pub from: String,
}

/// Rotates a grant from the generations that were read; `false`: it was rotated or revoked meanwhile.
pub async fn advance(db: &Connection, id: GrantId, seen: Generations, advance: &GrantRotation) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update grants set base = $4, issued = $5, issued_key = $6, rotated_at = $7, rotated_from = $8
               where id = $1 and shard = $9 and base = $2 and issued = $3 and revoked_at is null",
            &[
                &id.uuid(),
                &seen.base,
                &seen.issued,
                &advance.to.base,
                &advance.to.issued,
                &i16::from(advance.issued_key),
                &advance.at,
                &advance.from,
                &id.shard().number(),
            ],
        )
        .await?;
    Ok(changed == 1)
}

/// Revokes a grant; `false`: it was revoked before.
pub async fn mark_revoked(db: &Connection, id: GrantId, reason: Reason, now: Timestamp) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update grants set revoked_at = $2, revoked_because = $3 where id = $1 and shard = $4 and revoked_at is null",
            &[&id.uuid(), &now, &reason.as_str(), &id.shard().number()],
        )
        .await?;
    Ok(changed == 1)
}

/// Revokes several grants of a user; returns those that were not revoked before. Rows are locked in the order of their ids, so
/// that two transactions that revoke the same grants do not deadlock.
pub async fn mark_several_revoked(
    db: &Connection,
    user_id: UserId,
    ids: &[Uuid],
    reason: Reason,
    now: Timestamp,
) -> Result<Vec<GrantId>, Error> {
    let rows = db
        .query(
            r"update grants set revoked_at = $2, revoked_because = $3
               where shard = $4 and id in
                     (select id from grants where id = any ($1) and shard = $4 and revoked_at is null order by id for update)
              returning id",
            &[&ids, &now, &reason.as_str(), &user_id.shard().number()],
        )
        .await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).collect()
}

/// Claims the revocation of everything that a grant created; `false`: it was claimed before.
pub async fn claim_lineage(db: &Connection, id: GrantId, now: Timestamp) -> Result<bool, Error> {
    let sql = r"update grants set made_revoked_at = $2 where id = $1 and shard = $3 and made_revoked_at is null";
    Ok(db.execute(sql, &[&id.uuid(), &now, &id.shard().number()]).await? == 1)
}

/// Writes the row of a revoked grant unchanged, so that the commit confirms the revocation.
pub async fn touch(db: &Connection, id: GrantId) -> Result<(), Error> {
    let sql = r"update grants set revoked_at = revoked_at where id = $1 and shard = $2";
    db.execute(sql, &[&id.uuid(), &id.shard().number()]).await.map(drop)
}

/// Selects grants of a user.
#[derive(Clone, Copy, Debug)]
pub enum GrantSelection {
    All,
    Except(GrantId),
    For(WorkspaceId),
}

/// Revokes grants of a user; returns those that were live.
pub async fn mark_all_revoked(
    db: &Connection,
    user_id: UserId,
    which: GrantSelection,
    reason: Reason,
    now: Timestamp,
) -> Result<Vec<GrantId>, Error> {
    let (except, workspace) = match which {
        GrantSelection::All => (None, None),
        GrantSelection::Except(id) => (Some(id.uuid()), None),
        GrantSelection::For(id) => (None, Some(id.uuid())),
    };
    let rows = db
        .query(
            r"update grants set revoked_at = $2, revoked_because = $3
               where shard = $6 and id in
                     (select id from grants
                       where user_id = $1 and shard = $6 and revoked_at is null and expires_at > $2
                         and ($4::uuid is null or id <> $4) and ($5::uuid is null or workspace_id = $5)
                       order by id for update)
              returning id",
            &[&user_id.uuid(), &now, &reason.as_str(), &except, &workspace, &user_id.shard().number()],
        )
        .await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).collect()
}

/// Revokes one batch of a client's grants; returns how many it revoked.
pub async fn mark_revoked_by_client(
    db: &Connection,
    client_id: &str,
    reason: Reason,
    batch: super::Batch,
) -> Result<u64, Error> {
    db.execute(
        r"/* every shard */ update grants set revoked_at = $2, revoked_because = $3 where id in
              (select id from grants where client_id = $1 and revoked_at is null order by id limit $4 for update)",
        &[&client_id, &batch.now, &reason.as_str(), &batch.size],
    )
    .await
}

/// A live grant that creates another credential.
pub struct LiveGrant {
    pub expires_at: Timestamp,
    pub auth_time: Option<Timestamp>,
    /// The connection through which the user signed in.
    pub connection_id: Option<ConnectionId>,
}

/// Returns a live grant and locks it: transactions that revoke it wait until this one ends.
pub async fn lock_live(db: &Connection, id: GrantId) -> Result<Option<LiveGrant>, Error> {
    let sql = r"select expires_at, auth_time, connection_id from grants
                 where id = $1 and shard = $2 and revoked_at is null for share";
    let Some(row) = db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await? else { return Ok(None) };
    let connection_id = row.try_get::<_, Option<Uuid>>("connection_id")?.map(Into::into);
    Ok(Some(LiveGrant { expires_at: row.try_get("expires_at")?, auth_time: row.try_get("auth_time")?, connection_id }))
}

/// A range of the table by primary key: the rows after an id.
#[derive(Clone, Copy, Debug)]
pub struct TablePart {
    pub after: Uuid,
    pub rows: i64,
}

/// The result of deleting from a part of the table.
pub struct DeletedPart {
    /// The number of deleted rows.
    pub deleted: u64,
    /// The id after which the next part begins; `None`: the end of the table was reached.
    pub next: Option<Uuid>,
}

/// Deletes the grants in a part of the table that were revoked, or expired, before `ended_before`, or that were last
/// refreshed before `unused_since`.
///
/// The table is scanned by its primary key, because an index over columns that a refresh changes would slow down every
/// refresh.
pub async fn delete_ended(
    db: &Connection,
    part: TablePart,
    ended_before: Timestamp,
    unused_since: Timestamp,
) -> Result<DeletedPart, Error> {
    let row = db
        .query_opt(
            r"/* housekeeping */ with part as materialized (
                  select id, shard from grants where id > $1 order by id limit $2
              ), gone as (
                  delete from grants g using part
                   where g.id = part.id and g.shard = part.shard and (g.revoked_at <= $3 or g.expires_at <= $3 or g.rotated_at <= $4)
                  returning 1
              )
              select (select count(*) from gone) as deleted, (select count(*) from part) as seen,
                     (select id from part order by id desc limit 1) as last",
            &[&part.after, &part.rows, &ended_before, &unused_since],
        )
        .await?;
    let row = row.ok_or_else(|| super::impossible("grants", "id"))?;
    let (deleted, seen): (i64, i64) = (row.try_get("deleted")?, row.try_get("seen")?);
    let next = if seen < part.rows { None } else { row.try_get("last")? };
    Ok(DeletedPart { deleted: deleted.unsigned_abs(), next })
}

/// Selects live grants of a user.
pub struct GrantQuery {
    pub now: Timestamp,
    /// Grants that were last refreshed before this moment are left out.
    pub used_after: Timestamp,
    pub before: Option<GrantId>,
    pub limit: i64,
}

/// A client with live sessions of a user.
pub struct ClientSessions {
    pub client: SessionClient,
    /// Whether an operator has verified the client's name.
    pub name_verified: bool,
    /// The number of sessions.
    pub sessions: i64,
    /// The newest session.
    pub newest: GrantId,
}

/// Returns up to `limit` clients with live sessions of a user before `before`, the client with the newest session
/// first.
pub async fn list_clients(db: &Connection, user_id: UserId, query: &GrantQuery) -> Result<Vec<ClientSessions>, Error> {
    let (before, shard) = (query.before.map(Id::uuid), user_id.shard().number());
    let rows = db
        .query(
            r"select s.client_id, c.name, c.kind in ('first_party', 'registered') as name_verified,
                     s.sessions, s.newest
                from (select client_id, count(*) as sessions, (array_agg(id order by id desc))[1] as newest
                        from grants
                       where user_id = $1 and shard = $6 and revoked_at is null and expires_at > $3 and rotated_at > $4
                       group by client_id) s
                join clients c on c.id = s.client_id
               where $2::uuid is null or s.newest < $2
               order by s.newest desc limit $5",
            &[&user_id.uuid(), &before, &query.now, &query.used_after, &query.limit, &shard],
        )
        .await?;
    let client = |row: &Row| {
        Ok(ClientSessions {
            client: SessionClient { id: row.try_get("client_id")?, name: row.try_get("name")? },
            name_verified: row.try_get("name_verified")?,
            sessions: row.try_get("sessions")?,
            newest: row.try_get::<_, Uuid>("newest")?.into(),
        })
    };
    rows.iter().map(client).collect()
}

/// Returns up to `limit` live sessions of a user for each of these clients before `before`, newest first.
pub async fn list_by_clients(
    db: &Connection,
    user_id: UserId,
    clients: &[&str],
    query: &GrantQuery,
) -> Result<Vec<Session>, Error> {
    let (before, shard) = (query.before.map(Id::uuid), user_id.shard().number());
    let rows = db
        .query(
            r"select s.id, s.client_id, c.name, s.workspace_id, s.scopes, s.created_at, s.created_from,
                     s.rotated_at, s.rotated_from, s.expires_at, s.made_by
                from (select *, row_number() over (partition by client_id order by id desc) as place
                        from grants
                       where user_id = $1 and shard = $7 and client_id = any($6) and ($2::uuid is null or id < $2)
                         and revoked_at is null and expires_at > $3 and rotated_at > $4) s
                join clients c on c.id = s.client_id
               where s.place <= $5
               order by s.id desc",
            &[&user_id.uuid(), &before, &query.now, &query.used_after, &query.limit, &clients, &shard],
        )
        .await?;
    rows.iter().map(session).collect()
}

/// Counts the live sessions of a user.
pub async fn count_by_user(
    db: &Connection,
    user_id: UserId,
    now: Timestamp,
    used_after: Timestamp,
) -> Result<i64, Error> {
    let row = db
        .query_opt(
            r"select count(*) as sessions from grants
               where user_id = $1 and shard = $4 and revoked_at is null and expires_at > $2 and rotated_at > $3",
            &[&user_id.uuid(), &now, &used_after, &user_id.shard().number()],
        )
        .await?;
    Ok(row.ok_or_else(|| super::impossible("grants", "id"))?.try_get("sessions")?)
}

/// Returns live sessions of a user, newest first.
pub async fn list_by_user(db: &Connection, user_id: UserId, query: &GrantQuery) -> Result<Vec<Session>, Error> {
    let (before, shard) = (query.before.map(Id::uuid), user_id.shard().number());
    let rows = db
        .query(
            r"select g.id, g.client_id, c.name, g.workspace_id, g.scopes, g.created_at, g.created_from,
                     g.rotated_at, g.rotated_from, g.expires_at, g.made_by
                from grants g join clients c on c.id = g.client_id
               where g.user_id = $1 and g.shard = $6 and ($2::uuid is null or g.id < $2)
                 and g.revoked_at is null and g.expires_at > $3 and g.rotated_at > $4
               order by g.id desc limit $5",
            &[&user_id.uuid(), &before, &query.now, &query.used_after, &query.limit, &shard],
        )
        .await?;
    rows.iter().map(session).collect()
}

fn session(row: &Row) -> Result<Session, Error> {
    Ok(Session {
        id: row.try_get::<_, Uuid>("id")?.into(),
        client: SessionClient { id: row.try_get("client_id")?, name: row.try_get("name")? },
        workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
        scopes: Scopes::parse(row.try_get("scopes")?),
        created_at: row.try_get("created_at")?,
        created_from: row.try_get("created_from")?,
        last_used_at: row.try_get("rotated_at")?,
        last_used_from: row.try_get("rotated_from")?,
        expires_at: row.try_get("expires_at")?,
        current: false,
        made_by: row.try_get("made_by")?,
    })
}
