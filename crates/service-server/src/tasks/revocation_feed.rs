//! The revocation feed: how a node learns of revocations by other nodes.
//!
//! Each node polls the lanes of the table `revocations` over its own connection, so that a busy pool does not delay it. A
//! poll reads the last number of each lane, and then only what is new. A notification triggers a poll; without it the
//! next poll comes a quarter of a second later. `service_rules::revocation::position` explains why nothing is missed.
//!
//! With `database.feed_urls` a node polls one of several servers, any of which may be a standby. If one fails or lags, the
//! node turns to the next, and at last to the primary. After a minute it tries the first one again.

use std::time::Duration;

use service_api::ids::Id as _;
use service_rules::{
    Timestamp,
    revocation::{
        Revocation, Subject,
        position::{FeedPosition, Heads, PageVerdict, Place},
    },
};
use tokio::time::Instant;

use crate::{
    app::App,
    crypto::random,
    database::{Connection, Database, FormerPrimary},
    flows::revocation,
    store::{self, revocations::LaneOfRevocations},
    tasks::supervisor::Progress,
    tokens::revocations::FeedRead,
};

/// The channel on which nodes notify each other; see `store/revocations.rs`.
const NOTIFY_CHANNEL: &str = "service_revocations";
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The shortest time between two polls, however many notifications arrive.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The shortest time between two notifications of all nodes together. Revocations in between share one.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum that is added when several nodes wait to notify, so that one of them comes first.
const NOTIFY_JITTER: Duration = Duration::from_millis(25);
/// How often a node asks the server that it polls which one it is, and what time it is there.
const IDENTIFY_INTERVAL: Duration = Duration::from_secs(2);
const LISTEN_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The number of revocations that are read in one statement.
const PAGE_SIZE: usize = 10_000;
/// The timeout for reading a page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// A server at which no heartbeat of this node arrived for this time lags, and another one is polled.
const LAGS_AFTER: Duration = Duration::from_secs(10);
/// After this time a node tries the first server again.
const RETURN_AFTER: Duration = Duration::from_secs(60);

/// Follows the revocations for a node.
pub struct Follower {
    app: App,
    /// How far each of the node's feed databases was read. `None`: it was not used yet.
    positions: Vec<Option<FeedPosition>>,
    /// Which of them is polled, and since when.
    server: usize,
    turned_at: Instant,
    /// What that server said about itself.
    identified: Option<Identified>,
}

/// What a node knows about the server that it polls.
#[derive(Clone, Copy)]
struct Identified {
    /// Whether it is the server that confirms this node's heartbeats. Then they have arrived there.
    is_primary: bool,
    /// When the heartbeat of this node began that the server has.
    arrived_at: Option<Instant>,
    /// When it was asked, by both clocks.
    asked_at: Instant,
    now: Timestamp,
}

impl Follower {
    /// Reads all revocations, before the node serves requests.
    ///
    /// # Errors
    /// If no server can be read: why the last one could not.
    pub async fn start(app: &App) -> anyhow::Result<Self> {
        let positions = vec![None; app.feed_databases.len()];
        let mut follower = Self { app: app.clone(), positions, server: 0, turned_at: Instant::now(), identified: None };
        let mut read = follower.read().await;
        for _ in 1..app.feed_databases.len() {
            if read.is_err() {
                follower.turn_to_next_server();
                read = follower.read().await;
            }
        }
        read.map(|()| follower)
    }

    /// Polls until the node stops.
    pub async fn run(mut self, progress: Progress) {
        let stop = self.app.stop.clone();
        let mut polled_at = Instant::now();
        let mut failed = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.app.revocations.poll_requested.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(polled_at + MIN_POLL_INTERVAL) => {}
            }
            polled_at = Instant::now();
            match self.read().await {
                Ok(()) => {
                    progress.succeeded();
                    if std::mem::take(&mut failed) {
                        // The database answers again, so what else depends on it need not wait for its turn.
                        self.app.revocations.beat_requested.notify_one();
                        self.app.signing_keys.reload_requested.notify_one();
                    }
                }
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "Could not read the revocations");
                    failed = true;
                    self.turn_to_next_server();
                }
            }
        }
    }

    /// Reads what is new since the last read.
    pub async fn read(&mut self) -> anyhow::Result<()> {
        let app = self.app.clone();
        let database = &app.feed_databases[self.server];
        let began = Instant::now();
        let db = database.connect().await?;
        let Identified { is_primary, arrived_at, now, .. } = self.identify(&db).await?;
        let arrived_at = if is_primary { Some(began) } else { arrived_at };
        app.metrics.revocation_polls.inc();
        let heads = store::revocations::poll(&db).await?;
        drop(db);
        let mut of_keys = false;
        let is_first = self.positions[self.server].is_none();
        let position = self.positions[self.server].get_or_insert_default();
        let unread = position.unread(&heads);
        read_lanes(database, &heads, position, |revocations| {
            of_keys |= revocations.iter().any(|revocation| matches!(revocation.subject, Subject::SigningKey(_)));
            app.revocations.insert_read(revocations);
        })
        .await?;
        app.revocations.record_read(&FeedRead { began, arrived_at, now });
        if !is_first {
            unread.iter().filter_map(|lane| heads[*lane]).for_each(|newest| observe_delay(&app, newest));
        }
        let lags = arrived_at.is_none_or(|at| at.elapsed() > LAGS_AFTER);
        if lags && self.turned_at.elapsed() > LAGS_AFTER {
            self.turn_to_next_server();
        } else if self.server > 0 && self.turned_at.elapsed() > RETURN_AFTER {
            self.turn_to(0);
        }
        if of_keys {
            // Not awaited: tokens of the key are rejected already. This only removes it from the published keys.
            tokio::spawn(async move { app.reload_signing_keys().await });
        }
        Ok(())
    }

    /// Returns what the server says about itself. It is asked every two seconds, after a failed poll, and as long as this
    /// node does not know the current revocations.
    async fn identify(&mut self, db: &Connection) -> anyhow::Result<Identified> {
        if let Some(identified) = self.identified
            && identified.asked_at.elapsed() < IDENTIFY_INTERVAL
            && self.app.revocations.stale().is_none()
        {
            return Ok(identified);
        }
        let (asked_at, now) = (Instant::now(), self.app.clock.now());
        let server = store::revocations::identify(db, self.app.node_id).await?;
        let is_last = self.server + 1 == self.app.feed_databases.len();
        if is_last {
            // The primary, or a former one. Where else revocations are read, the heartbeat that arrived is proof enough.
            let refused = |FormerPrimary| anyhow::anyhow!("this server is a former primary");
            self.app.servers.record(&server.identity).map_err(refused)?;
        }
        let clock_is_off = self.app.clock.is_off(now, server.database_time);
        let was_off = self.app.revocations.clock_is_off();
        self.app.revocations.record_clock(clock_is_off);
        if clock_is_off && !was_off {
            tracing::error!(
                "This node's clock differs from the database's: the node serves no requests until they agree"
            );
        }
        if was_off && !clock_is_off {
            // Revocations that a wrong clock expired are read again.
            self.positions.fill(None);
        }
        let arrived_at = server.own_beat_at.and_then(|at| self.app.revocations.heartbeat_with(at));
        let is_primary = is_last && !server.is_standby;
        Ok(*self.identified.insert(Identified { is_primary, arrived_at, asked_at, now }))
    }

    fn turn_to_next_server(&mut self) {
        self.turn_to((self.server + 1) % self.app.feed_databases.len());
    }

    /// Polls another server from now on. A server that was not used yet is read from where the last one was read.
    fn turn_to(&mut self, server: usize) {
        if self.positions[server].is_none() {
            self.positions[server] = self.positions[self.server].clone();
        }
        (self.server, self.turned_at, self.identified) = (server, Instant::now(), None);
    }
}

/// Observes how long ago a revocation was made that this node has just read. Its id has the time.
fn observe_delay(app: &App, newest: Place) {
    if let Some(made_at) = random::time_of(newest.id.uuid()) {
        let delay = app.clock.now().duration_since(made_at).as_secs_f64();
        app.metrics.revocation_seconds.observe(delay.max(0.0));
    }
}

/// Reads each lane from `position` up to its head, and calls `found` with what is new. Revocations may be found twice.
pub async fn read_lanes(
    database: &Database,
    heads: &Heads,
    position: &mut FeedPosition,
    mut found: impl FnMut(Vec<Revocation>),
) -> anyhow::Result<()> {
    let mut unread = position.unread(heads);
    while !unread.is_empty() {
        let wanted: Vec<_> = unread.iter().map(|lane| (*lane, position.begin(*lane))).collect();
        let db = database.connect_within(PAGE_TIMEOUT).await?;
        let pages = store::revocations::list(&db, &wanted, PAGE_SIZE / wanted.len()).await?;
        anyhow::ensure!(pages.len() == wanted.len(), "a lane of revocations is missing");
        for LaneOfRevocations { lane, page, revocations } in pages {
            match position.advance(lane, &page) {
                PageVerdict::Restart => {}
                PageVerdict::More => found(revocations),
                PageVerdict::Complete => {
                    // First, because the position has moved on, whatever fails next.
                    found(revocations);
                    // Behind one address there are several servers, and another one answered than before.
                    anyhow::ensure!(
                        is_at_least(page.head, heads[lane]),
                        "this server lags behind the one polled before"
                    );
                    unread.retain(|unread| *unread != lane);
                }
            }
        }
    }
    Ok(())
}

fn is_at_least(head: Option<Place>, expected: Option<Place>) -> bool {
    head.map(|head| head.number) >= expected.map(|expected| expected.number)
}

/// Notifies the other nodes of revocations that this node committed.
///
/// If any node has sent a notification recently, this node waits. A notification by another node in the meantime
/// announces this node's revocations too.
pub async fn notify_nodes(app: App, progress: Progress) {
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = app.revocations.notify_requested.notified() => {}
        }
        let requested_at = Instant::now();
        if let Some(last) = app.revocations.last_notification().filter(|last| *last + NOTIFY_INTERVAL > requested_at) {
            tokio::time::sleep_until(last + NOTIFY_INTERVAL + random::jitter(NOTIFY_JITTER)).await;
            if app.revocations.last_notification().is_some_and(|last| last > requested_at) {
                continue;
            }
        }
        match revocation::notify_nodes(&app).await {
            Ok(()) => {
                app.revocations.record_notification();
                progress.succeeded();
            }
            // Other nodes find the revocations with their next poll.
            Err(error) => tracing::debug!(error = format!("{error:#}"), "Could not notify the other nodes"),
        }
    }
}

/// Listens for notifications of other nodes. Failures are harmless, because the node polls anyway.
pub async fn listen(app: App, progress: Progress) {
    loop {
        let listening = app.database.listen(NOTIFY_CHANNEL, || {
            app.revocations.record_notification();
            app.revocations.poll_requested.notify_one();
            progress.succeeded();
        });
        tokio::select! {
            () = app.stop.cancelled() => return,
            ended = listening => if let Err(error) = ended {
                tracing::debug!(error = format!("{error:#}"), "Could not listen for notifications");
            },
        }
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = tokio::time::sleep(LISTEN_RETRY_INTERVAL) => {}
        }
    }
}
