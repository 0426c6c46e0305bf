//! What this node knows about credentials that ended before their time.
//!
//! Nodes follow the table `revocations` by polling it over a connection of their own, so that a busy pool does not delay
//! them. A notification only makes the next poll come sooner; that none arrives costs a quarter of a second. What a read
//! has seen is remembered as PostgreSQL's own snapshot, so a transaction that commits late is found whenever it commits.
//!
//! A node that could not read the table for 30 seconds does not know what ended meanwhile, and accepts nothing.

use std::{
    sync::{PoisonError, RwLock},
    time::Duration,
};

use service_rules::{
    Timestamp,
    bearer::{Claims, Refusal},
    revocation::{Ending, Endings, Subject},
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    database,
    failure::Failure,
    store::{
        self,
        revocations::{News, Position},
    },
};

/// Where nodes ring for each other; `store/revocations.rs` rings.
const CHANNEL: &str = "service_revocations";
const POLL_EVERY: Duration = Duration::from_millis(250);
/// What was heard more often than this is told together.
const RING_EVERY: Duration = Duration::from_millis(20);
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(1);
const STALE_AFTER: Duration = Duration::from_secs(30);
/// Reading everything may take longer than other statements.
const LIST_WITHIN: Duration = Duration::from_secs(5);
/// About 200 bytes each.
const REMEMBERED: usize = 500_000;

pub struct Revocations {
    known: RwLock<Known>,
    /// Rung when there may be something to read.
    news: Notify,
    /// Rung when this node wrote something that others should read.
    bell: Notify,
}

struct Known {
    endings: Endings,
    /// When the last read that succeeded began.
    confirmed_at: Option<Instant>,
    clock_is_off: bool,
}

impl Default for Revocations {
    fn default() -> Self {
        let known = Known { endings: Endings::with_capacity(REMEMBERED), confirmed_at: None, clock_is_off: false };
        Self { known: RwLock::new(known), news: Notify::new(), bell: Notify::new() }
    }
}

impl Revocations {
    /// Whether nothing ended a token with these claims, signed by this key; broken if this node cannot know.
    pub fn judge(&self, claims: &Claims, key_id: &str) -> Result<(), Failure<Refusal>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.check()?;
        known.endings.judge(claims, key_id).map_err(Failure::Refused)
    }

    /// Grants opened before this moment are over; an error if this node cannot know.
    pub fn epoch(&self) -> anyhow::Result<Option<Timestamp>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.check()?;
        Ok(known.endings.epoch())
    }

    /// An error if this node does not know what was ended, or goes by a clock that nobody else goes by.
    pub fn check(&self) -> anyhow::Result<()> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).check()
    }

    #[must_use]
    pub fn clock_is_off(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clock_is_off
    }

    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).is_fresh()
    }

    /// How many endings are remembered, and how many seconds ago the last read began.
    #[must_use]
    pub fn state(&self) -> (usize, f64) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let age = known.confirmed_at.map_or(f64::INFINITY, |at| at.elapsed().as_secs_f64());
        (known.endings.len(), age)
    }

    /// What this node itself has just committed: known here at once, and told to the others.
    pub fn committed(&self, endings: Vec<Ending>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for ending in endings {
            known.endings.insert(ending);
        }
        drop(known);
        self.bell.notify_one();
    }

    fn read(&self, began: Instant, news: News, clock_is_off: bool, now: Timestamp) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for ending in news.endings {
            known.endings.insert(ending);
        }
        if !clock_is_off {
            known.endings.forget_expired(now);
        }
        known.confirmed_at = Some(began);
        known.clock_is_off = clock_is_off;
    }
}

impl Known {
    fn is_fresh(&self) -> bool {
        self.confirmed_at.is_some_and(|at| at.elapsed() <= STALE_AFTER)
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.clock_is_off {
            Err(unavailable("this node's clock differs from the database's by more than ten seconds"))
        } else if !self.is_fresh() {
            Err(unavailable("the revocations were not seen lately"))
        } else {
            Ok(())
        }
    }
}

/// Reads the table before the node takes requests; returns where to go on.
pub async fn begin(app: &App) -> anyhow::Result<Position> {
    read(app, None).await
}

/// Follows the table from where [`begin`] left off.
pub async fn follow(app: App, begun: Position, stop: CancellationToken) {
    let mut position = Some(begun);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = app.revocations.news.notified() => {}
            () = tokio::time::sleep(POLL_EVERY) => {}
        }
        let clock_was_off = app.revocations.clock_is_off();
        match read(&app, position.as_ref()).await {
            // What was forgotten by a clock that was wrong is read again.
            Ok(_) if clock_was_off => position = None,
            Ok(next) => position = Some(next),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "Could not read the revocations"),
        }
    }
}

/// One read, from `position` or from the beginning; returns where the next one begins.
async fn read(app: &App, position: Option<&Position>) -> anyhow::Result<Position> {
    let began = Instant::now();
    let (news, now) = fetch(app, position).await?;
    let clock_is_off = app.clock.is_off(now, news.database_time);
    if clock_is_off && !app.revocations.clock_is_off() {
        tracing::error!("This node's clock differs from the database's: nothing is done by it until they agree");
    }
    let next = news.position.clone();
    let of_keys = news.endings.iter().any(|ending| matches!(ending.subject, Subject::SigningKey(_)));
    app.revocations.read(began, news, clock_is_off, now);
    if of_keys {
        // Not waited for: the key is refused already, this only takes it off the published list.
        let app = app.clone();
        tokio::spawn(async move { app.reload_signing_keys().await });
    }
    Ok(next)
}

/// What is new since `position`, and the moment at which that was asked.
///
/// A position means nothing beyond the connection that it was read over: a server that crashed, failed over or was
/// restored may give numbers of transactions out again. Then everything is read.
async fn fetch(app: &App, position: Option<&Position>) -> anyhow::Result<(News, Timestamp)> {
    if let Some(position) = position {
        let db = app.feed_database.connect().await?;
        let now = app.clock.now();
        let news = store::revocations::list_since(&db, &position.snapshot).await?;
        if news.position.backend == position.backend {
            return Ok((news, now));
        }
        if news.position.server != position.server {
            tracing::warn!("This is another database than before, by failover or restore: reading everything anew");
        }
    }
    let db = app.feed_database.connect_within(LIST_WITHIN).await?;
    let now = app.clock.now();
    Ok((store::revocations::list(&db, now).await?, now))
}

/// Tells the other nodes that this one wrote something.
pub async fn ring(app: App, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = app.revocations.bell.notified() => {}
        }
        if let Err(error) = ring_now(&app).await {
            // They find it by themselves, a little later.
            tracing::debug!(error = format!("{error:#}"), "Could not ring");
        }
        tokio::time::sleep(RING_EVERY).await;
    }
}

pub async fn ring_now(app: &App) -> anyhow::Result<()> {
    let db = app.database.connect().await?;
    Ok(store::revocations::notify(&db).await?)
}

/// Waits for the other nodes to ring. A hint only: whatever goes wrong here is made good by the next poll.
pub async fn listen(app: App, stop: CancellationToken) {
    loop {
        let listening = database::listen(&app.config.database, CHANNEL, || app.revocations.news.notify_one());
        tokio::select! {
            () = stop.cancelled() => return,
            ended = listening => if let Err(error) = ended {
                tracing::debug!(error = format!("{error:#}"), "Not listening");
            },
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LISTEN_AGAIN_AFTER) => {}
        }
    }
}

fn unavailable(what: &str) -> anyhow::Error {
    database::Error::Unavailable(what.to_owned()).into()
}
