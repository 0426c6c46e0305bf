//! Following what ended: how nodes hear of each other's revocations.
//!
//! Nodes poll the table `revocations` over a connection of their own, so that a busy pool does not delay them. A
//! notification only makes the next poll come sooner; that none arrives costs a quarter of a second. What a read has seen
//! is remembered as PostgreSQL's own snapshot, so a transaction that commits late is found whenever it commits.

use std::time::Duration;

use service_rules::{Timestamp, revocation::Subject};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    database,
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
/// Reading everything may take longer than other statements.
const LIST_WITHIN: Duration = Duration::from_secs(5);

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
