//! Readiness: whether this node can serve requests.
//!
//! A node checks tokens for 30 seconds without its database, and is ready as long as it does. During a failover all nodes are
//! without the database at once: if they were not ready, load balancers would have none left.

use std::time::Duration;

use crate::{
    app::App,
    database::{self, restore_fence::Fence},
    store,
    tokens::revocations::StaleReason,
};

/// The time that the database has to answer. Load balancers ask once a second, and wait no longer than that.
const PING_TIMEOUT: Duration = Duration::from_millis(500);

/// What a node that is ready can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    Complete,
    /// The database does not answer: tokens are checked, and what needs the database is 503.
    OnlyTokens,
}

/// Why a node is not ready.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum NotReady {
    #[error("the node is starting; its log says what it waits for")]
    Starting,
    #[error("the node is stopping")]
    Stopping,
    #[error("there is no signing key")]
    NoSigningKey,
    #[error("the signing keys were not read for 15 minutes")]
    StaleSigningKeys,
    #[error("the database looks restored from a backup; see `serviced admin restore finish`")]
    Restored,
    #[error("the database was not checked for a restore yet")]
    NotCompared,
    #[error("the revocations were not read for 30 seconds")]
    NoRevocations,
    #[error("no heartbeat was confirmed for 30 seconds; check that this is the primary, and that its standby follows")]
    NoHeartbeat,
    #[error("the clock differs from the database's by more than 10 seconds")]
    WrongClock,
}

pub async fn check(app: &App) -> Result<Readiness, NotReady> {
    if app.leaving.is_cancelled() || app.stop.is_cancelled() {
        return Err(NotReady::Stopping);
    }
    if !app.started.is_cancelled() {
        return Err(NotReady::Starting);
    }
    if !app.signing_keys.can_sign() {
        return Err(NotReady::NoSigningKey);
    }
    if app.revocations.clock_is_off() {
        return Err(NotReady::WrongClock);
    }
    let readiness = match ping(app).await {
        Ok(()) => Readiness::Complete,
        Err(_) => Readiness::OnlyTokens,
    };
    match app.fence() {
        Fence::Open | Fence::Comparing => {}
        Fence::NotCompared => return Err(NotReady::NotCompared),
        Fence::Closed(_) => return Err(NotReady::Restored),
    }
    // After the database was asked, so that it is what a token is checked by now.
    match app.revocations.stale() {
        None if app.signing_keys.are_stale() => Err(NotReady::StaleSigningKeys),
        None => Ok(readiness),
        Some(StaleReason::WrongClock) => Err(NotReady::WrongClock),
        Some(StaleReason::NotRead) => Err(NotReady::NoRevocations),
        Some(StaleReason::NotConfirmed) => Err(NotReady::NoHeartbeat),
    }
}

async fn ping(app: &App) -> Result<(), database::Error> {
    let db = app.database.connect_within(PING_TIMEOUT).await?;
    store::ping(&db).await
}
