//! Table `browser_sessions`.

use service_api::ids::{BrowserSessionId, Id as _, UserId};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

pub struct NewSession<'a> {
    pub id: BrowserSessionId,
    pub digest: &'a [u8; 32],
    pub now: Timestamp,
    pub expires_at: Timestamp,
}

pub async fn insert(db: &Connection, new: &NewSession<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into browser_sessions (id, digest, created_at, last_seen_at, expires_at) values ($1, $2, $3, $3, $4)",
        &[&new.id.uuid(), &new.digest.as_slice(), &new.now, &new.expires_at],
    )
    .await
    .map(drop)
}

/// A browser, and who is signed in there.
pub struct Stored {
    pub id: BrowserSessionId,
    pub person: Option<Person>,
    pub last_seen_at: Timestamp,
}

#[derive(Clone, Debug)]
pub struct Person {
    pub user_id: UserId,
    pub email: String,
    pub signed_in_at: Timestamp,
}

/// The browser with this cookie, if it is not over. Nobody is signed in who is disabled.
pub async fn find(
    db: &Connection,
    digest: &[u8; 32],
    seen_since: Timestamp,
    now: Timestamp,
) -> Result<Option<Stored>, Error> {
    let row = db
        .query_opt(
            r"select b.id, b.user_id, b.signed_in_at, b.last_seen_at, u.email
                from browser_sessions b left join users u on u.id = b.user_id and u.disabled_at is null
               where b.digest = $1 and b.expires_at > $2 and b.last_seen_at > $3",
            &[&digest.as_slice(), &now, &seen_since],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let email: Option<String> = row.try_get("email")?;
    let person = match (row.try_get::<_, Option<Uuid>>("user_id")?, row.try_get("signed_in_at")?, email) {
        (Some(user_id), Some(signed_in_at), Some(email)) => {
            Some(Person { user_id: user_id.into(), email, signed_in_at })
        }
        _ => None,
    };
    let id: Uuid = row.try_get("id")?;
    Ok(Some(Stored { id: id.into(), person, last_seen_at: row.try_get("last_seen_at")? }))
}

/// Gives a browser another cookie, and says who is signed in there from now on; `false`: its cookie is another already.
pub async fn renew(db: &Connection, id: BrowserSessionId, renewed: &Renewed<'_>) -> Result<bool, Error> {
    let (user_id, signed_in_at) = renewed.person.map_or((None, None), |(id, at)| (Some(id.uuid()), Some(at)));
    let changed = db
        .execute(
            r"update browser_sessions
                 set digest = $3, user_id = $4, signed_in_at = $5, last_seen_at = $6,
                     expires_at = coalesce($7, expires_at)
               where id = $1 and digest = $2",
            &[
                &id.uuid(),
                &renewed.old.as_slice(),
                &renewed.new.as_slice(),
                &user_id,
                &signed_in_at,
                &renewed.now,
                &renewed.expires_at,
            ],
        )
        .await?;
    Ok(changed == 1)
}

pub struct Renewed<'a> {
    pub old: &'a [u8; 32],
    pub new: &'a [u8; 32],
    pub person: Option<(UserId, Timestamp)>,
    pub now: Timestamp,
    /// `None`: it ends when it would have.
    pub expires_at: Option<Timestamp>,
}

pub async fn mark_seen(db: &Connection, id: BrowserSessionId, now: Timestamp) -> Result<(), Error> {
    db.execute(r"update browser_sessions set last_seen_at = $2 where id = $1", &[&id.uuid(), &now]).await.map(drop)
}

pub async fn delete(db: &Connection, id: BrowserSessionId) -> Result<(), Error> {
    db.execute(r"delete from browser_sessions where id = $1", &[&id.uuid()]).await.map(drop)
}

/// Signs a user out of every browser but one.
pub async fn delete_by_user(db: &Connection, user_id: UserId, except: Option<BrowserSessionId>) -> Result<u64, Error> {
    db.execute(
        r"delete from browser_sessions where user_id = $1 and ($2::uuid is null or id <> $2)",
        &[&user_id.uuid(), &except.map(BrowserSessionId::uuid)],
    )
    .await
}

pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"delete from browser_sessions where id in
              (select id from browser_sessions where expires_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}

pub async fn delete_unseen(db: &Connection, seen_since: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"delete from browser_sessions where id in
              (select id from browser_sessions where last_seen_at <= $1 limit $2 for update skip locked)",
        &[&seen_since, &size],
    )
    .await
}

/// A browser that a user is signed in with.
pub struct ListedBrowser {
    pub id: BrowserSessionId,
    pub signed_in_at: Timestamp,
    pub last_seen_at: Timestamp,
}

pub async fn list_by_user(db: &Connection, user_id: UserId, now: Timestamp) -> Result<Vec<ListedBrowser>, Error> {
    let rows = db
        .query(
            r"select id, signed_in_at, last_seen_at from browser_sessions
               where user_id = $1 and expires_at > $2 order by signed_in_at desc limit 100",
            &[&user_id.uuid(), &now],
        )
        .await?;
    let listed = |row: &tokio_postgres::Row| {
        let (signed_in_at, last_seen_at) = (row.try_get("signed_in_at")?, row.try_get("last_seen_at")?);
        Ok(ListedBrowser { id: row.try_get::<_, Uuid>("id")?.into(), signed_in_at, last_seen_at })
    };
    rows.iter().map(listed).collect()
}

/// Signs a user out of one browser; `false`: they were not signed in there.
pub async fn delete_one(db: &Connection, id: BrowserSessionId, user_id: UserId) -> Result<bool, Error> {
    let sql = r"delete from browser_sessions where id = $1 and user_id = $2";
    Ok(db.execute(sql, &[&id.uuid(), &user_id.uuid()]).await? == 1)
}

/// Lets a browser be known for longer in which nobody is signed in yet, if it is not known for too long already.
pub async fn extend(
    db: &Connection,
    id: BrowserSessionId,
    made_since: Timestamp,
    expires_at: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"update browser_sessions set expires_at = greatest(expires_at, $3)
           where id = $1 and user_id is null and created_at > $2",
        &[&id.uuid(), &made_since, &expires_at],
    )
    .await
    .map(drop)
}

/// Since when this user is signed in there; whoever ends that waits until this transaction ends.
pub async fn lock_signed_in(
    db: &Connection,
    id: BrowserSessionId,
    user_id: UserId,
) -> Result<Option<Timestamp>, Error> {
    let sql = r"select signed_in_at from browser_sessions where id = $1 and user_id = $2 for share";
    let row = db.query_opt(sql, &[&id.uuid(), &user_id.uuid()]).await?;
    row.map_or(Ok(None), |row| Ok(row.try_get("signed_in_at")?))
}
