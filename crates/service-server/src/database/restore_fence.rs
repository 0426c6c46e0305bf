//! The fence that closes when the database looks restored from a backup, as this node knows it.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use anyhow::Context as _;
use service_rules::restore::{Anchor, Suspicion};

use crate::database::Comparison;

/// Whether this node may serve requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    Open,
    /// The database server has not been compared yet with the recorded one.
    NotCompared,
    /// Another server took over and has not been compared yet. What needs the database waits; tokens are checked by what the
    /// former server gave.
    Comparing,
    Closed(Suspicion),
}

/// This node's view of the fence.
#[derive(Default)]
pub struct RestoreFence(Mutex<FenceState>);

#[derive(Default)]
struct FenceState {
    closed: Option<Suspicion>,
    /// The newest confirmed heartbeat of this node.
    confirmed: Option<Anchor>,
}

impl RestoreFence {
    /// Returns whether requests may be served, after this much of the comparison with the recorded server.
    #[must_use]
    pub fn state(&self, comparison: Comparison) -> Fence {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (state.closed, comparison) {
            (Some(suspicion), _) => Fence::Closed(suspicion),
            (None, Comparison::NotBegun) => Fence::NotCompared,
            (None, Comparison::Pending) => Fence::Comparing,
            (None, Comparison::Done) => Fence::Open,
        }
    }

    /// Records whether the fence is closed.
    pub(crate) fn record(&self, closed: Option<Suspicion>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(suspicion) = closed.filter(|_| state.closed.is_none()) {
            tracing::error!(
                because = suspicion.as_str(),
                "The database looks restored from a backup: this node responds with 503 until `serviced admin restore finish`"
            );
        } else if closed.is_none() && state.closed.is_some() {
            tracing::warn!("The restore was finished; this node serves requests again");
        }
        state.closed = closed;
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
