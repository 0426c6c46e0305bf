//! The only place that asks what time it is.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::SignedDuration;
use service_rules::Timestamp;

#[derive(Clone)]
pub enum Clock {
    System,
    /// Stands still until it is moved.
    Manual(Arc<Mutex<Timestamp>>),
}

impl Clock {
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self::Manual(Arc::new(Mutex::new(start)))
    }

    /// The current moment, in the microseconds that PostgreSQL can keep.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => system_time(),
            Self::Manual(time) => *time.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Whether the machine's clock is further than this from `other`; one that was set by hand is right by definition.
    #[must_use]
    pub fn differs_from(&self, other: Timestamp, tolerated: SignedDuration) -> bool {
        matches!(self, Self::System) && self.now().duration_since(other).abs() > tolerated
    }

    /// Moves a manual clock; the system's cannot be moved.
    pub fn advance(&self, by: SignedDuration) {
        if let Self::Manual(time) = self {
            *time.lock().unwrap_or_else(PoisonError::into_inner) += by;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn system_time() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}
