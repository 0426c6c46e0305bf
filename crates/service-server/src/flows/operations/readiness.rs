//! Readiness: whether this node can serve requests.

use crate::{app::App, database::restore_fence::Fence, store, tokens::revocations::StaleReason};

/// Why a node is not ready.
#[derive(Clone, Copy, Debug)]
pub enum NotReady {
    Stopping,
    NoSigningKey,
    NoDatabase,
    Restored,
    NotCompared,
    NoRevocations,
    NoHeartbeat,
    WrongClock,
}

impl NotReady {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopping => "not ready: the node is stopping\n",
            Self::NoSigningKey => "not ready: there is no signing key\n",
            Self::NoDatabase => "not ready: the database does not answer\n",
            Self::Restored => {
                "not ready: the database looks restored from a backup; see `serviced admin restore finish`\n"
            }
            Self::NotCompared => "not ready: the database server was not compared yet with the one before\n",
            Self::NoRevocations => "not ready: the revocations were not read for 30 seconds\n",
            Self::NoHeartbeat => {
                "not ready: no heartbeat was confirmed for 30 seconds; is this the primary, and does its standby follow?\n"
            }
            Self::WrongClock => "not ready: the clock differs from the database's by more than 10 seconds\n",
        }
    }
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
