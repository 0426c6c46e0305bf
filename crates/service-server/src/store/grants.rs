//! Table `grants`: one row per sign-in.

use service_api::{
    errors::Reason,
    ids::{GrantId, Id, UserId, WorkspaceId},
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

/// Generations of refresh tokens are counted from here; the one before was never issued.
pub const FIRST_GENERATION: i32 = 1;

pub struct NewGrant<'a> {
    pub id: GrantId,
    pub user_id: UserId,
    pub client_id: &'a str,
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub audience: &'a str,
    pub salt: [u8; 16],
    /// The root key that its first token is derived under.
    pub issued_key: u8,
    pub created_at: Timestamp,
    pub created_from: String,
    pub expires_at: Timestamp,
}

pub async fn insert(db: &Connection, grant: &NewGrant<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into grants
              (id, user_id, client_id, scopes, workspace_id, audience, salt, base, issued, issued_key,
               rotated_at, rotated_from, created_at, created_from, expires_at)
          values ($1, $2, $3, $4, $5, $6, $7, $8 - 1, $8, $9, $10, $11, $10, $11, $12)",
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
        ],
    )
    .await
    .map(drop)
}

/// A grant with all that decides about it: its user, its client, and whether the user is still in its workspace.
pub struct StoredGrant {
    pub id: GrantId,
    pub user_id: UserId,
    pub user_email: String,
    pub client: Client,
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub audience: String,
    pub salt: Vec<u8>,
    /// The root key that the youngest token was derived under.
    pub issued_key: Option<u8>,
    pub created_at: Timestamp,
    pub facts: rotation::Grant,
}

pub async fn find(db: &Connection, id: GrantId) -> Result<Option<StoredGrant>, Error> {
    let row = db
        .query_opt(
            r"select g.user_id, g.scopes, g.workspace_id, g.audience, g.salt, g.base, g.issued, g.issued_key,
                     g.rotated_at, g.rotated_from, g.created_at, g.expires_at,
                     case when g.revoked_at is not null then coalesce(g.revoked_because, 'revoked_by_admin') end
                         as revoked_because,
                     u.email, u.disabled_at is not null as user_disabled,
                     g.workspace_id is not null and m.user_id is null as workspace_left,
                     c.id as client_id, c.name, c.kind, c.may_use_otp, c.may_introspect, c.auth_method, c.secret_digest,
                     c.redirect_uris,
                     c.disabled_at is not null as disabled
                from grants g
                join users u on u.id = g.user_id
                join clients c on c.id = g.client_id
                left join memberships m
                  on m.user_id = g.user_id and m.workspace_id = g.workspace_id and m.ended_at is null
               where g.id = $1",
            &[&id.uuid()],
        )
        .await?;
    row.map(|row| stored(id, &row)).transpose()
}

fn stored(id: GrantId, row: &Row) -> Result<StoredGrant, Error> {
    let impossible = |column| super::impossible("grants", column);
    let because: Option<&str> = row.try_get("revoked_because")?;
    let client = super::clients::read(row, "client_id")?;
    let facts = rotation::Grant {
        client_id: client.id.clone(),
        generations: Generations { base: row.try_get("base")?, issued: row.try_get("issued")? },
        rotated_at: row.try_get("rotated_at")?,
        rotated_from: row.try_get::<_, &str>("rotated_from")?.parse().ok(),
        expires_at: row.try_get("expires_at")?,
        ended: because.map(|text| Reason::parse(text).ok_or_else(|| impossible("revoked_because"))).transpose()?,
        user_disabled: row.try_get("user_disabled")?,
        workspace_left: row.try_get("workspace_left")?,
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
        facts,
    })
}

/// Where a rotation leads, and who asked for it.
pub struct Advance {
    pub to: Generations,
    pub issued_key: u8,
    pub at: Timestamp,
    pub from: String,
}

/// Moves a grant on from where it was read, in place; `false`: somebody else has moved or ended it meanwhile.
pub async fn advance(db: &Connection, id: GrantId, seen: Generations, advance: &Advance) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update grants set base = $4, issued = $5, issued_key = $6, rotated_at = $7, rotated_from = $8
               where id = $1 and base = $2 and issued = $3 and revoked_at is null",
            &[
                &id.uuid(),
                &seen.base,
                &seen.issued,
                &advance.to.base,
                &advance.to.issued,
                &i16::from(advance.issued_key),
                &advance.at,
                &advance.from,
            ],
        )
        .await?;
    Ok(changed == 1)
}

/// Ends a grant; `false`: it had been ended already.
pub async fn mark_revoked(db: &Connection, id: GrantId, because: Reason, now: Timestamp) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update grants set revoked_at = $2, revoked_because = $3 where id = $1 and revoked_at is null",
            &[&id.uuid(), &now, &because.as_str()],
        )
        .await?;
    Ok(changed == 1)
}

/// Writes a grant that was ended as it is.
pub async fn touch(db: &Connection, id: GrantId) -> Result<(), Error> {
    db.execute(r"update grants set revoked_at = revoked_at where id = $1", &[&id.uuid()]).await.map(drop)
}

/// Which grants of a user.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    All,
    Except(GrantId),
    For(WorkspaceId),
}

/// Ends grants of a user; returns which were alive.
pub async fn mark_all_revoked(
    db: &Connection,
    user_id: UserId,
    which: Which,
    because: Reason,
    now: Timestamp,
) -> Result<Vec<GrantId>, Error> {
    let (except, workspace) = match which {
        Which::All => (None, None),
        Which::Except(id) => (Some(id.uuid()), None),
        Which::For(id) => (None, Some(id.uuid())),
    };
    let rows = db
        .query(
            r"update grants set revoked_at = $2, revoked_because = $3
               where user_id = $1 and revoked_at is null and expires_at > $2
                 and ($4::uuid is null or id <> $4) and ($5::uuid is null or workspace_id = $5)
              returning id",
            &[&user_id.uuid(), &now, &because.as_str(), &except, &workspace],
        )
        .await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).collect()
}

/// Whether a grant is alive; whoever ends it waits until this transaction ends.
pub async fn lock_live(db: &Connection, id: GrantId) -> Result<bool, Error> {
    let sql = r"select from grants where id = $1 and revoked_at is null for share";
    Ok(db.query_opt(sql, &[&id.uuid()]).await?.is_some())
}

/// What lives of a user's grants to one client.
pub async fn list_by_client(db: &Connection, user_id: UserId, client_id: &str) -> Result<Vec<GrantId>, Error> {
    let sql = r"select id from grants where user_id = $1 and client_id = $2 and revoked_at is null";
    let rows = db.query(sql, &[&user_id.uuid(), &client_id]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).collect()
}

/// Whether this user ever had this grant.
pub async fn is_of_user(db: &Connection, id: GrantId, user_id: UserId) -> Result<bool, Error> {
    let sql = r"select from grants where id = $1 and user_id = $2";
    Ok(db.query_opt(sql, &[&id.uuid(), &user_id.uuid()]).await?.is_some())
}

/// Which live grants of a user to list.
pub struct Listed {
    pub now: Timestamp,
    /// Grants that nobody has used since are dead.
    pub used_after: Timestamp,
    pub before: Option<GrantId>,
    pub limit: i64,
}

/// The youngest first.
pub async fn list_by_user(db: &Connection, user_id: UserId, listed: &Listed) -> Result<Vec<Session>, Error> {
    let rows = db
        .query(
            r"select g.id, g.client_id, c.name, g.workspace_id, g.scopes, g.created_at, g.created_from,
                     g.rotated_at, g.rotated_from, g.expires_at
                from grants g join clients c on c.id = g.client_id
               where g.user_id = $1 and ($2::uuid is null or g.id < $2)
                 and g.revoked_at is null and g.expires_at > $3 and g.rotated_at > $4
               order by g.id desc limit $5",
            &[&user_id.uuid(), &listed.before.map(Id::uuid), &listed.now, &listed.used_after, &listed.limit],
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
    })
}
