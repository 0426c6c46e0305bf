//! Readiness: whether this node can serve requests.

use crate::{app::App, database::restore_fence::Fence, store, tokens::revocations::StaleReason};

/// Why a node is not ready.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum NotReady {
    #[error("the node is stopping")]
    Stopping,
    #[error("there is no signing key")]
    NoSigningKey,
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
    if app.stop.is_cancelled() {
        return Err(NotReady::Stopping);
    }
    if !app.signing_keys.can_sign() {
        return Err(NotReady::NoSigningKey);
    }
    let stale = app.revocations.stale();
    if stale == Some(StaleReason::WrongClock) {
        return Err(NotReady::WrongClock);
    }
    let db = app.database.connect().await.map_err(|_| NotReady::NoDatabase)?;
    store::ping(&db).await.map_err(|_| NotReady::NoDatabase)?;
    match app.fence() {
        Fence::Open => {}
        Fence::NotCompared => return Err(NotReady::NotCompared),
        Fence::Closed(_) => return Err(NotReady::Restored),
    }
    match stale {
        None => Ok(()),
        Some(StaleReason::WrongClock) => Err(NotReady::WrongClock),
        Some(StaleReason::NotRead) => Err(NotReady::NoRevocations),
        Some(StaleReason::NotConfirmed) => Err(NotReady::NoHeartbeat),
    }
}
