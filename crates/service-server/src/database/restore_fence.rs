//! The fence that closes when the database looks restored from a backup, as this node knows it.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use anyhow::Context as _;
use service_rules::restore::{Anchor, Suspicion};

use crate::database::Identity;

/// Whether this node may serve requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    Open,
    /// The database server has not been compared yet with the recorded one.
    NotCompared,
    Closed(Suspicion),
}

/// This node's view of the fence.
#[derive(Default)]
pub struct RestoreFence(Mutex<FenceState>);

#[derive(Default)]
struct FenceState {
    compared: Option<Identity>,
    closed: Option<Suspicion>,
    /// The newest confirmed heartbeat of this node.
    confirmed: Option<Anchor>,
}

impl RestoreFence {
    /// Returns whether requests may be served from the server that this node is connected to.
    #[must_use]
    pub fn state(&self, talking_to: Option<&Identity>) -> Fence {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.closed {
            Some(suspicion) => Fence::Closed(suspicion),
            None if state.compared.is_some() && state.compared.as_ref() == talking_to => Fence::Open,
            None => Fence::NotCompared,
        }
    }

    /// Records that this server was compared with the recorded one, and whether the fence is closed.
    pub(crate) fn record_comparison(&self, server: Identity, closed: Option<Suspicion>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(suspicion) = closed.filter(|_| state.closed.is_none()) {
            tracing::error!(
                because = suspicion.as_str(),
                "The database looks restored from a backup: this node responds with 503 until `serviced admin restore finish`"
            );
        } else if closed.is_none() && state.closed.is_some() {
            tracing::warn!("The restore was finished; this node serves requests again");
        }
        (state.compared, state.closed) = (Some(server), closed);
    }

    /// Records a confirmed heartbeat.
    pub(crate) fn record_confirmed(&self, anchor: Anchor) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).confirmed = Some(anchor);
    }

    /// Returns the last confirmed heartbeat.
    #[must_use]
    pub(crate) fn last_confirmed(&self) -> Option<Anchor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).confirmed
    }
}

/// Reads `restore.anchor_file`; `None`: it does not exist yet. Fails if the file cannot be read, because it may be
/// ahead of the database.
pub(crate) fn read_anchor(path: &Path) -> anyhow::Result<Option<Anchor>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Anchor::parse(&text).map(Some).with_context(|| format!("{} holds no anchor", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Replaces the file atomically.
pub(crate) fn write_anchor(path: &Path, anchor: Anchor) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, anchor.to_text())
        .and_then(|()| std::fs::rename(&beside, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
