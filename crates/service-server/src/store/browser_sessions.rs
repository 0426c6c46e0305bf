//! Table `browser_sessions`: browsers that hold our cookie, signed in or not. A row is in the shard that the cookie carries:
//! the shard of the user who is signed in, or any if no user is.

use std::net::IpAddr;

use service_api::{
    ids::{BrowserSessionId, ConnectionId, Id as _, UserId},
    shard::Shard,
    token::{BrowserSession, Token},
};
use service_rules::{Timestamp, user_agent::UserAgent};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    crypto::digest::token_digest,
    database::{Connection, Error},
    store::sign_in_flows,
};

/// A browser session to be stored.
pub struct NewBrowserSession<'a> {
    pub id: BrowserSessionId,
    pub digest: &'a [u8; 32],
    pub now: Timestamp,
    pub expires_at: Timestamp,
}

/// Stores a browser session.
pub async fn insert(db: &Connection, new: &NewBrowserSession<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into browser_sessions (id, shard, digest, created_at, last_seen_at, expires_at)
          values ($1, $2, $3, $4, $4, $5)",
        &[&new.id.uuid(), &new.id.shard().number(), &new.digest.as_slice(), &new.now, &new.expires_at],
    )
    .await
    .map(drop)
}

/// What a session is found by: the SHA-256 of its cookie, and the shard that the cookie carries.
#[derive(Clone, Copy)]
pub struct CookieKey {
    pub digest: [u8; 32],
    pub shard: Shard,
}

impl CookieKey {
    #[must_use]
    pub fn of(cookie: &Token<BrowserSession>) -> Self {
        Self { digest: token_digest(cookie), shard: cookie.shard() }
    }
}

/// A browser session and the user who is signed in there.
pub struct StoredBrowserSession {
    pub id: BrowserSessionId,
    pub person: Option<SignedInUser>,
    pub last_seen_at: Timestamp,
}

/// The user who is signed in with a browser.
#[derive(Clone, Debug)]
pub struct SignedInUser {
    pub email: String,
    pub sign_in: BrowserSignIn,
}

/// A sign-in with a browser.
#[derive(Clone, Copy, Debug)]
pub struct BrowserSignIn {
    pub user_id: UserId,
    pub signed_in_at: Timestamp,
    /// When the user authenticated, as far as step-up is concerned; `None`: the user's provider did not say, or a user who has
    /// a passkey entered a code.
    pub auth_time: Option<Timestamp>,
    /// The connection through which the user signed in; `None`: by an email code or a passkey.
    pub connection_id: Option<ConnectionId>,
    pub origin: SignInOrigin,
}

/// Where a user signed in, so that they recognize the device later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignInOrigin {
    pub agent: UserAgent,
    pub address: Option<IpAddr>,
}

impl SignInOrigin {
    fn read(row: &Row) -> Result<Self, Error> {
        let agent = row.try_get::<_, Option<&str>>("agent")?.map(UserAgent::from_stored).unwrap_or_default();
        let address = row.try_get::<_, Option<&str>>("signed_in_from")?.and_then(|text| text.parse().ok());
        Ok(Self { agent, address })
    }
}

impl BrowserSignIn {
    fn read(row: &Row) -> Result<Option<Self>, Error> {
        let user_id = row.try_get::<_, Option<Uuid>>("user_id")?;
        let (Some(user_id), Some(signed_in_at)) = (user_id, row.try_get("signed_in_at")?) else { return Ok(None) };
        let connection_id = row.try_get::<_, Option<Uuid>>("connection_id")?.map(ConnectionId::from);
        let auth_time = row.try_get("auth_time")?;
        let origin = SignInOrigin::read(row)?;
        Ok(Some(Self { user_id: user_id.into(), signed_in_at, auth_time, connection_id, origin }))
    }
}

impl std::ops::Deref for SignedInUser {
    type Target = BrowserSignIn;

    fn deref(&self) -> &BrowserSignIn {
        &self.sign_in
    }
}

/// Returns the unexpired session with this cookie. A disabled user does not count as signed in.
pub async fn find(
    db: &Connection,
    cookie: &CookieKey,
    seen_since: Timestamp,
    now: Timestamp,
) -> Result<Option<StoredBrowserSession>, Error> {
    let row = db
        .query_opt(
            r"select b.id, b.user_id, b.signed_in_at, b.auth_time, b.connection_id, b.last_seen_at, b.agent,
                     b.signed_in_from, u.email
                from browser_sessions b
                left join users u on u.id = b.user_id and u.shard = b.shard and u.disabled_at is null
               where b.digest = $1 and b.shard = $4 and b.expires_at > $2 and b.last_seen_at > $3",
            &[&cookie.digest.as_slice(), &now, &seen_since, &cookie.shard.number()],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let email: Option<String> = row.try_get("email")?;
    let person = BrowserSignIn::read(&row)?.zip(email).map(|(sign_in, email)| SignedInUser { email, sign_in });
    let id: Uuid = row.try_get("id")?;
    Ok(Some(StoredBrowserSession { id: id.into(), person, last_seen_at: row.try_get("last_seen_at")? }))
}

/// Replaces a browser's cookie, and sets the user who is signed in there. `false`: the cookie was replaced meanwhile.
///
/// The session of a signed-in user is in the shard of the user. If it is in another one, it moves: it gets a new row
/// with a new id, and the sign-ins in progress in the browser go with it.
pub async fn renew(db: &Connection, id: BrowserSessionId, renewed: &BrowserSessionRenewal<'_>) -> Result<bool, Error> {
    if renewed.id != id {
        return move_to(db, id, renewed).await;
    }
    let stored = StoredSignIn::of(renewed.person);
    let changed = db
        .execute(
            r"update browser_sessions
                 set digest = $3, user_id = $4, signed_in_at = $5, last_seen_at = $6,
                     expires_at = coalesce($7, expires_at), auth_time = $9, connection_id = $10, agent = $11,
                     signed_in_from = $12
               where id = $1 and shard = $8 and digest = $2",
            &[
                &id.uuid(),
                &renewed.old.as_slice(),
                &renewed.new.as_slice(),
                &stored.user_id,
                &stored.signed_in_at,
                &renewed.now,
                &renewed.expires_at,
                &id.shard().number(),
                &stored.auth_time,
                &stored.connection_id,
                &stored.agent,
                &stored.signed_in_from,
            ],
        )
        .await?;
    Ok(changed == 1)
}

async fn move_to(db: &Connection, old: BrowserSessionId, renewed: &BrowserSessionRenewal<'_>) -> Result<bool, Error> {
    let sql =
        r"delete from browser_sessions where id = $1 and shard = $2 and digest = $3 returning created_at, expires_at";
    let row = db.query_opt(sql, &[&old.uuid(), &old.shard().number(), &renewed.old.as_slice()]).await?;
    let Some(row) = row else { return Ok(false) };
    let (created_at, expires_at): (Timestamp, Timestamp) = (row.try_get("created_at")?, row.try_get("expires_at")?);
    let stored = StoredSignIn::of(renewed.person);
    db.execute(
        r"insert into browser_sessions
              (id, shard, digest, user_id, signed_in_at, created_at, last_seen_at, expires_at, auth_time, connection_id,
               agent, signed_in_from)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        &[
            &renewed.id.uuid(),
            &renewed.id.shard().number(),
            &renewed.new.as_slice(),
            &stored.user_id,
            &stored.signed_in_at,
            &created_at,
            &renewed.now,
            &renewed.expires_at.unwrap_or(expires_at),
            &stored.auth_time,
            &stored.connection_id,
            &stored.agent,
            &stored.signed_in_from,
        ],
    )
    .await?;
    sign_in_flows::update_browser(db, old, renewed.id).await?;
    Ok(true)
}

/// The new state of a browser session.
pub struct BrowserSessionRenewal<'a> {
    /// Its id from now on, in the shard of the user who is signed in.
    pub id: BrowserSessionId,
    pub old: &'a [u8; 32],
    pub new: &'a [u8; 32],
    pub person: Option<BrowserSignIn>,
    pub now: Timestamp,
    /// `None`: the expiry stays as it is.
    pub expires_at: Option<Timestamp>,
}

/// The columns of a sign-in, all of them null if no user is signed in.
#[derive(Default)]
struct StoredSignIn {
    user_id: Option<Uuid>,
    signed_in_at: Option<Timestamp>,
    auth_time: Option<Timestamp>,
    connection_id: Option<Uuid>,
    agent: Option<String>,
    signed_in_from: Option<String>,
}

impl StoredSignIn {
    fn of(person: Option<BrowserSignIn>) -> Self {
        person.map_or_else(Self::default, |sign_in| Self {
            user_id: Some(sign_in.user_id.uuid()),
            signed_in_at: Some(sign_in.signed_in_at),
            auth_time: sign_in.auth_time,
            connection_id: sign_in.connection_id.map(ConnectionId::uuid),
            agent: Some(sign_in.origin.agent.to_stored()),
            signed_in_from: sign_in.origin.address.map(|address| address.to_string()),
        })
    }
}

/// Records that a browser was used.
pub async fn mark_seen(db: &Connection, id: BrowserSessionId, now: Timestamp) -> Result<(), Error> {
    let sql = r"update browser_sessions set last_seen_at = $2 where id = $1 and shard = $3";
    db.execute(sql, &[&id.uuid(), &now, &id.shard().number()]).await.map(drop)
}

/// Deletes a browser session; `false`: it was deleted before.
pub async fn delete(db: &Connection, id: BrowserSessionId) -> Result<bool, Error> {
    let sql = r"delete from browser_sessions where id = $1 and shard = $2";
    Ok(db.execute(sql, &[&id.uuid(), &id.shard().number()]).await? == 1)
}

/// Deletes every browser session of a user but one; returns the deleted ones.
pub async fn delete_by_user(
    db: &Connection,
    user_id: UserId,
    except: Option<BrowserSessionId>,
) -> Result<Vec<BrowserSessionId>, Error> {
    let rows = db
        .query(
            r"delete from browser_sessions where user_id = $1 and shard = $3 and ($2::uuid is null or id <> $2)
              returning id",
            &[&user_id.uuid(), &except.map(BrowserSessionId::uuid), &user_id.shard().number()],
        )
        .await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).collect()
}

/// Deletes a batch of expired sessions.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from browser_sessions where id in
              (select id from browser_sessions where expires_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}

/// Deletes up to `size` sessions that were last used before `seen_since`.
pub async fn delete_unseen(db: &Connection, seen_since: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from browser_sessions where id in
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
    pub origin: SignInOrigin,
}

/// Selects browsers of a user.
pub struct BrowserSessionQuery {
    pub now: Timestamp,
    /// Browsers that were last used before this moment are left out.
    pub seen_since: Timestamp,
    pub before: Option<BrowserSessionId>,
    pub limit: i64,
}

/// Returns the browsers that a user is signed in with, newest first.
pub async fn list_by_user(
    db: &Connection,
    user_id: UserId,
    query: &BrowserSessionQuery,
) -> Result<Vec<ListedBrowser>, Error> {
    let rows = db
        .query(
            r"select id, signed_in_at, last_seen_at, agent, signed_in_from from browser_sessions
               where user_id = $1 and shard = $6 and expires_at > $2 and last_seen_at > $3
                 and ($4::uuid is null or id < $4)
               order by id desc limit $5",
            &[
                &user_id.uuid(),
                &query.now,
                &query.seen_since,
                &query.before.map(BrowserSessionId::uuid),
                &query.limit,
                &user_id.shard().number(),
            ],
        )
        .await?;
    rows.iter().map(listed).collect()
}

fn listed(row: &Row) -> Result<ListedBrowser, Error> {
    let (signed_in_at, last_seen_at) = (row.try_get("signed_in_at")?, row.try_get("last_seen_at")?);
    let origin = SignInOrigin::read(row)?;
    Ok(ListedBrowser { id: row.try_get::<_, Uuid>("id")?.into(), signed_in_at, last_seen_at, origin })
}

/// Returns a browser that a user is signed in with.
pub async fn find_listed(
    db: &Connection,
    id: BrowserSessionId,
    user_id: UserId,
    now: Timestamp,
) -> Result<Option<ListedBrowser>, Error> {
    let sql = r"select id, signed_in_at, last_seen_at, agent, signed_in_from from browser_sessions
                 where id = $1 and shard = $4 and user_id = $2 and expires_at > $3";
    let row = db.query_opt(sql, &[&id.uuid(), &user_id.uuid(), &now, &user_id.shard().number()]).await?;
    row.as_ref().map(listed).transpose()
}

/// Counts the browsers that a user is signed in with.
pub async fn count_by_user(
    db: &Connection,
    user_id: UserId,
    now: Timestamp,
    seen_since: Timestamp,
) -> Result<i64, Error> {
    let sql = r"select count(*) as browsers from browser_sessions
                 where user_id = $1 and shard = $4 and expires_at > $2 and last_seen_at > $3";
    let row = db.query_opt(sql, &[&user_id.uuid(), &now, &seen_since, &user_id.shard().number()]).await?;
    Ok(row.ok_or_else(|| super::impossible("browser_sessions", "id"))?.try_get("browsers")?)
}

/// Returns the user who is signed in with a browser.
pub async fn find_user(db: &Connection, id: BrowserSessionId) -> Result<Option<UserId>, Error> {
    let sql = r"select user_id from browser_sessions where id = $1 and shard = $2 and user_id is not null";
    let row = db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await?;
    row.map(|row| Ok(row.try_get::<_, Uuid>("user_id")?.into())).transpose()
}

/// Signs a user out of one browser; `false`: the user was not signed in there.
pub async fn delete_one(db: &Connection, id: BrowserSessionId, user_id: UserId) -> Result<bool, Error> {
    let sql = r"delete from browser_sessions where id = $1 and shard = $3 and user_id = $2";
    Ok(db.execute(sql, &[&id.uuid(), &user_id.uuid(), &user_id.shard().number()]).await? == 1)
}

/// Extends a browser session in which no user is signed in yet, unless it was created before `made_since`.
pub async fn extend(
    db: &Connection,
    id: BrowserSessionId,
    made_since: Timestamp,
    expires_at: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"update browser_sessions set expires_at = greatest(expires_at, $3)
           where id = $1 and shard = $4 and user_id is null and created_at > $2",
        &[&id.uuid(), &made_since, &expires_at, &id.shard().number()],
    )
    .await
    .map(drop)
}

/// The sign-in of a browser session that is locked.
pub struct LockedSignIn {
    pub sign_in: BrowserSignIn,
    /// When the session expires.
    pub expires_at: Timestamp,
}

/// Returns the sign-in of this user with a browser, and locks the session: transactions that sign the user out there wait
/// until this one ends.
pub async fn lock_signed_in(
    db: &Connection,
    id: BrowserSessionId,
    user_id: UserId,
) -> Result<Option<LockedSignIn>, Error> {
    let sql = r"select user_id, signed_in_at, auth_time, connection_id, expires_at, agent, signed_in_from
                  from browser_sessions where id = $1 and shard = $3 and user_id = $2 for share";
    let Some(row) = db.query_opt(sql, &[&id.uuid(), &user_id.uuid(), &user_id.shard().number()]).await? else {
        return Ok(None);
    };
    let expires_at = row.try_get("expires_at")?;
    Ok(BrowserSignIn::read(&row)?.map(|sign_in| LockedSignIn { sign_in, expires_at }))
}

/// Signs a user out of every browser in which they signed in through a connection; returns these browsers.
pub async fn delete_by_connection(
    db: &Connection,
    user_id: UserId,
    connection_id: ConnectionId,
) -> Result<Vec<BrowserSessionId>, Error> {
    let sql = r"delete from browser_sessions where user_id = $1 and shard = $3 and connection_id = $2 returning id";
    let rows = db.query(sql, &[&user_id.uuid(), &connection_id.uuid(), &user_id.shard().number()]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).collect()
}

/// Signs a user out of every browser in which they signed in not through a connection, and before a time, if there is one.
/// Returns how many browsers these are.
pub async fn delete_without_connection(
    db: &Connection,
    user_id: UserId,
    connection_id: ConnectionId,
    before: Option<Timestamp>,
) -> Result<u64, Error> {
    let sql = r"delete from browser_sessions
                 where user_id = $1 and shard = $4 and connection_id is distinct from $2
                   and ($3::timestamptz is null or signed_in_at < $3)";
    db.execute(sql, &[&user_id.uuid(), &connection_id.uuid(), &before, &user_id.shard().number()]).await
}

/// Lets no browser in which a user signed in through a connection stay signed in for more than this many hours.
pub async fn shorten(db: &Connection, connection_id: ConnectionId, session_hours: i16) -> Result<u64, Error> {
    db.execute(
        r"/* every shard */
          update browser_sessions b set expires_at = b.signed_in_at + make_interval(hours => $2)
            from user_connections u
           where u.connection_id = $1 and b.user_id = u.user_id and b.shard = u.shard and b.connection_id = $1
             and b.expires_at > b.signed_in_at + make_interval(hours => $2)",
        &[&connection_id.uuid(), &i32::from(session_hours)],
    )
    .await
}
