//! The position of a background scan through a large table.

use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

/// Where this node continues a scan through a table. After a restart the scan begins again.
#[derive(Debug, Default)]
pub struct TableWalk(Mutex<Uuid>);

impl TableWalk {
    /// Returns the id after which the scan continues.
    #[must_use]
    pub fn position(&self) -> Uuid {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the id after which the scan continues.
    pub fn set_position(&self, position: Uuid) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = position;
    }
}
