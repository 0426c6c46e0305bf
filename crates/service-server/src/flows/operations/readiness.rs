//! Readiness: whether this node can serve requests.

use crate::{app::App, database::restore_fence::Fence, store, tokens::revocations::StaleReason};

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
    #[error("the database does not answer")]
    NoDatabase,
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

pub async fn check(app: &App) -> Result<(), NotReady> {
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
    let db = app.database.connect().await.map_err(|_| NotReady::NoDatabase)?;
    store::ping(&db).await.map_err(|_| NotReady::NoDatabase)?;
    match app.fence() {
        Fence::Open => {}
        Fence::NotCompared => return Err(NotReady::NotCompared),
        Fence::Closed(_) => return Err(NotReady::Restored),
    }
    // After the database has answered, so that it is what a token is checked by now.
    match app.revocations.stale() {
        None if app.signing_keys.are_stale() => Err(NotReady::StaleSigningKeys),
        None => Ok(()),
        Some(StaleReason::WrongClock) => Err(NotReady::WrongClock),
        Some(StaleReason::NotRead) => Err(NotReady::NoRevocations),
        Some(StaleReason::NotConfirmed) => Err(NotReady::NoHeartbeat),
    }
}
