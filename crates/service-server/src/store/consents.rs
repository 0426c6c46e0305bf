//! Table `consents`: the access that users gave to clients.

use service_api::{
    consents::{Consent as Listed, ConsentClient},
    ids::{ConsentId, Id as _, UserId, WorkspaceId},
    scope::Scopes,
};
use service_rules::{Timestamp, consent::PriorConsent};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Identifies a consent: user, client, redirect host and resource.
#[derive(Clone, Copy, Debug)]
pub struct ConsentKey<'a> {
    pub user_id: UserId,
    pub client_id: &'a str,
    pub redirect_host: &'a str,
    pub audience: &'a str,
}

/// The access that a user consented to.
pub struct Consent {
    pub id: ConsentId,
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    /// When the user was last prompted.
    pub agreed_at: Timestamp,
    /// The end date. First-party clients have none.
    pub expires_at: Option<Timestamp>,
}

impl Consent {
    #[must_use]
    pub fn prior(&self) -> PriorConsent {
        PriorConsent { scopes: self.scopes }
    }

    /// Whether it lasts longer than until this moment.
    #[must_use]
    pub fn is_beyond(&self, end: Timestamp) -> bool {
        self.expires_at.is_none_or(|own| own > end)
    }
}

/// Which consents count: those that have not expired, and that the client has used since `used_since`. Refreshing a session
/// counts as use.
#[derive(Clone, Copy, Debug)]
pub struct ConsentsAt {
    pub now: Timestamp,
    pub used_since: Timestamp,
}

/// Returns the consent of a user to a client, if it counts.
pub async fn find(db: &Connection, about: ConsentKey<'_>, at: ConsentsAt) -> Result<Option<Consent>, Error> {
    let row = db
        .query_opt(
            r"select id, scopes, workspace_id, agreed_at, expires_at from consents c
               where user_id = $1 and shard = $6 and client_id = $2 and redirect_host = $3 and audience = $4
                 and (expires_at is null or expires_at > $7)
                 and (coalesce(used_at, agreed_at) > $5
                      or exists (select from grants g
                                  where g.user_id = $1 and g.shard = $6 and g.client_id = $2
                                    and g.audience = $4 and g.rotated_at > $5))",
            &[
                &about.user_id.uuid(),
                &about.client_id,
                &about.redirect_host,
                &about.audience,
                &at.used_since,
                &about.user_id.shard().number(),
                &at.now,
            ],
        )
        .await?;
    let consent = row.map(|row| -> Result<Consent, Error> {
        Ok(Consent {
            id: row.try_get::<_, Uuid>("id")?.into(),
            scopes: Scopes::parse(row.try_get("scopes")?),
            workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
            agreed_at: row.try_get("agreed_at")?,
            expires_at: row.try_get("expires_at")?,
        })
    });
    consent.transpose()
}

/// Stores a consent. A consent of the same key is replaced and keeps its id.
pub async fn replace(db: &Connection, about: ConsentKey<'_>, consent: &Consent) -> Result<(), Error> {
    db.execute(
        r"insert into consents
              (id, user_id, client_id, redirect_host, audience, scopes, workspace_id, agreed_at, used_at, expires_at, shard)
          values ($8, $1, $2, $3, $7, $4, $5, $6, $6, $10, $9)
          on conflict (user_id, client_id, redirect_host, audience, shard) do update
             set scopes = excluded.scopes, workspace_id = excluded.workspace_id, agreed_at = excluded.agreed_at,
                 used_at = excluded.used_at, expires_at = excluded.expires_at",
        &[
            &about.user_id.uuid(),
            &about.client_id,
            &about.redirect_host,
            &consent.scopes.to_string(),
            &consent.workspace_id.map(WorkspaceId::uuid),
            &consent.agreed_at,
            &about.audience,
            &consent.id.uuid(),
            &about.user_id.shard().number(),
            &consent.expires_at,
        ],
    )
    .await
    .map(drop)
}

/// Records that the client used the consent to obtain access.
pub async fn mark_used(db: &Connection, about: ConsentKey<'_>, now: Timestamp) -> Result<(), Error> {
    db.execute(
        r"update consents set used_at = $5
           where user_id = $1 and shard = $6 and client_id = $2 and redirect_host = $3 and audience = $4",
        &[
            &about.user_id.uuid(),
            &about.client_id,
            &about.redirect_host,
            &about.audience,
            &now,
            &about.user_id.shard().number(),
        ],
    )
    .await
    .map(drop)
}

/// Returns up to `limit` consents of a user to third-party clients before `before`, newest first.
pub async fn list_by_user(
    db: &Connection,
    user_id: UserId,
    before: Option<ConsentId>,
    at: ConsentsAt,
    limit: i64,
) -> Result<Vec<Listed>, Error> {
    let rows = db
        .query(
            r"select c.id, c.client_id, k.name, k.kind = 'registered' as verified,
                     c.redirect_host, c.audience, c.scopes, c.workspace_id, c.agreed_at,
                     c.expires_at, c.last_used_at
                from (select *, greatest(coalesce(used_at, agreed_at),
                                         (select max(g.rotated_at) from grants g
                                           where g.user_id = $1 and g.shard = $5 and g.client_id = o.client_id
                                             and g.audience = o.audience)) as last_used_at
                        from consents o where o.user_id = $1 and o.shard = $5) c
                join clients k on k.id = c.client_id and k.kind <> 'first_party'
               where ($2::uuid is null or c.id < $2) and c.last_used_at > $3
                 and (c.expires_at is null or c.expires_at > $6)
               order by c.id desc limit $4",
            &[
                &user_id.uuid(),
                &before.map(ConsentId::uuid),
                &at.used_since,
                &limit,
                &user_id.shard().number(),
                &at.now,
            ],
        )
        .await?;
    rows.iter().map(listed).collect()
}

fn listed(row: &Row) -> Result<Listed, Error> {
    Ok(Listed {
        id: row.try_get::<_, Uuid>("id")?.into(),
        client: ConsentClient {
            id: row.try_get("client_id")?,
            name: row.try_get("name")?,
            verified: row.try_get("verified")?,
        },
        redirect_host: row.try_get("redirect_host")?,
        resource: row.try_get("audience")?,
        scopes: Scopes::parse(row.try_get("scopes")?),
        workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
        granted_at: row.try_get("agreed_at")?,
        expires_at: row.try_get("expires_at")?,
        last_used_at: row.try_get("last_used_at")?,
    })
}

/// Returns the name of the client that a user's consent is for.
pub async fn find_client_name(db: &Connection, user_id: UserId, id: ConsentId) -> Result<Option<String>, Error> {
    let sql = r"select c.name from consents s join clients c on c.id = s.client_id
                 where s.id = $1 and s.shard = $2 and s.user_id = $3";
    let row = db.query_opt(sql, &[&id.uuid(), &user_id.shard().number(), &user_id.uuid()]).await?;
    row.map(|row| Ok(row.try_get("name")?)).transpose()
}

/// Counts the third-party clients to which a user has given a consent that still counts.
pub async fn count_by_user(db: &Connection, user_id: UserId, at: ConsentsAt) -> Result<i64, Error> {
    let row = db
        .query_opt(
            r"select count(*) as consents
                from consents c join clients k on k.id = c.client_id and k.kind <> 'first_party'
               where c.user_id = $1 and c.shard = $3 and (c.expires_at is null or c.expires_at > $4)
                 and (coalesce(c.used_at, c.agreed_at) > $2
                      or exists (select from grants g
                                  where g.user_id = $1 and g.shard = $3 and g.client_id = c.client_id
                                    and g.audience = c.audience and g.rotated_at > $2))",
            &[&user_id.uuid(), &at.used_since, &user_id.shard().number(), &at.now],
        )
        .await?;
    Ok(row.ok_or_else(|| super::impossible("consents", "id"))?.try_get("consents")?)
}

/// The client that a withdrawn consent was for.
pub struct WithdrawnConsent {
    pub client_id: String,
    pub audience: String,
    pub workspace_id: Option<WorkspaceId>,
}

/// Withdraws one consent of a user; `None`: the user has none with this id.
pub async fn delete(db: &Connection, user_id: UserId, id: ConsentId) -> Result<Option<WithdrawnConsent>, Error> {
    let row = db
        .query_opt(
            r"delete from consents where user_id = $1 and id = $2 and shard = $3
              returning client_id, audience, workspace_id",
            &[&user_id.uuid(), &id.uuid(), &user_id.shard().number()],
        )
        .await?;
    row.map(|row| {
        Ok(WithdrawnConsent {
            client_id: row.try_get("client_id")?,
            audience: row.try_get("audience")?,
            workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
        })
    })
    .transpose()
}

/// Withdraws the user's consents to third-party clients without a live session.
pub async fn delete_without_sessions(
    db: &Connection,
    user_id: UserId,
    now: Timestamp,
    used_after: Timestamp,
) -> Result<u64, Error> {
    db.execute(
        r"delete from consents c using clients k
           where c.user_id = $1 and c.shard = $4 and k.id = c.client_id and k.kind <> 'first_party'
             and not exists (select from grants g
                              where g.user_id = $1 and g.shard = $4 and g.client_id = c.client_id
                                and g.revoked_at is null and g.expires_at > $2 and g.rotated_at > $3)",
        &[&user_id.uuid(), &now, &used_after, &user_id.shard().number()],
    )
    .await
}

/// Withdraws all consents of a user.
pub async fn delete_by_user(db: &Connection, user_id: UserId) -> Result<(), Error> {
    let sql = r"delete from consents where user_id = $1 and shard = $2";
    db.execute(sql, &[&user_id.uuid(), &user_id.shard().number()]).await.map(drop)
}

/// Withdraws all consents of a user to a client.
pub async fn delete_by_client(db: &Connection, user_id: UserId, client_id: &str) -> Result<u64, Error> {
    let sql = r"delete from consents where user_id = $1 and client_id = $2 and shard = $3";
    db.execute(sql, &[&user_id.uuid(), &client_id, &user_id.shard().number()]).await
}

/// Withdraws the consents of a user that let a client into one workspace.
pub async fn delete_in_workspace(
    db: &Connection,
    user_id: UserId,
    client_id: &str,
    workspace_id: WorkspaceId,
) -> Result<u64, Error> {
    let sql = r"delete from consents where user_id = $1 and client_id = $2 and workspace_id = $3 and shard = $4";
    db.execute(sql, &[&user_id.uuid(), &client_id, &workspace_id.uuid(), &user_id.shard().number()]).await
}

/// A consent that was deleted because the client did not use it, or because its end date passed.
pub struct EndedConsent {
    pub id: ConsentId,
    pub user_id: UserId,
    pub client_id: String,
}

/// Deletes up to `size` consents that clients have not used since `used_since`.
pub async fn delete_unused(db: &Connection, used_since: Timestamp, size: i64) -> Result<Vec<EndedConsent>, Error> {
    let rows = db
        .query(
            r"/* housekeeping */
              delete from consents where (user_id, id, shard) in
                  (select user_id, id, shard from consents c
                    where coalesce(used_at, agreed_at) <= $1
                      and not exists (select from grants g
                                       where g.user_id = c.user_id and g.shard = c.shard and g.client_id = c.client_id
                                         and g.audience = c.audience and g.rotated_at > $1)
                    limit $2 for update skip locked)
              returning id, user_id, client_id",
            &[&used_since, &size],
        )
        .await?;
    rows.iter().map(ended).collect()
}

/// Deletes up to `size` consents whose end date has passed.
pub async fn delete_expired(db: &Connection, now: Timestamp, size: i64) -> Result<Vec<EndedConsent>, Error> {
    let rows = db
        .query(
            r"/* housekeeping */
              delete from consents where (user_id, id, shard) in
                  (select user_id, id, shard from consents where expires_at <= $1 limit $2 for update skip locked)
              returning id, user_id, client_id",
            &[&now, &size],
        )
        .await?;
    rows.iter().map(ended).collect()
}

fn ended(row: &Row) -> Result<EndedConsent, Error> {
    Ok(EndedConsent {
        id: row.try_get::<_, Uuid>("id")?.into(),
        user_id: row.try_get::<_, Uuid>("user_id")?.into(),
        client_id: row.try_get("client_id")?,
    })
}
