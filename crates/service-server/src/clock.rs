//! The only place that asks what time it is.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::SignedDuration;
use service_rules::Timestamp;

/// Further apart than this, a node's clock and the database's do not agree on what has expired.
const CLOCKS_APART: SignedDuration = SignedDuration::from_secs(10);

#[derive(Clone)]
pub enum Clock {
    System,
    /// Stands still until it is moved.
    Manual(Arc<Mutex<Timestamp>>),
    /// The system's, off by so much.
    Wrong(Arc<Mutex<SignedDuration>>),
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
            Self::Wrong(by) => system_time() + *by.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Whether `now`, as this clock said it, is too far from what the database says. A clock that is set by hand is right
    /// by definition, unless it was made to be compared.
    #[must_use]
    pub fn is_off(&self, now: Timestamp, database_time: Timestamp) -> bool {
        !matches!(self, Self::Manual(_)) && now.duration_since(database_time).abs() > CLOCKS_APART
    }

    /// The system's clock, right until it is moved: a node's clock that goes wrong.
    #[must_use]
    pub fn that_goes_wrong() -> Self {
        Self::Wrong(Arc::default())
    }

    /// Moves a clock of a test; the system's cannot be moved.
    pub fn advance(&self, by: SignedDuration) {
        match self {
            Self::System => {}
            Self::Manual(time) => *time.lock().unwrap_or_else(PoisonError::into_inner) += by,
            Self::Wrong(off) => *off.lock().unwrap_or_else(PoisonError::into_inner) += by,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn system_time() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}
