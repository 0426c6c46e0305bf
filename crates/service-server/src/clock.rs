//! The clock: the only place that reads the current time.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::SignedDuration;
use service_rules::Timestamp;

/// The largest difference between a node's clock and the database's. Beyond it they disagree about what has expired.
pub const MAX_CLOCK_DIFFERENCE: SignedDuration = SignedDuration::from_secs(10);

/// The clock of a node.
#[derive(Clone)]
pub enum Clock {
    System,
    /// A clock of a test, which stands still until it is moved.
    Manual(Arc<Mutex<Timestamp>>),
    /// A clock of a test that differs from the system's clock.
    Wrong(Arc<Mutex<SignedDuration>>),
}

impl Clock {
    /// Creates a clock that stands still.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self::Manual(Arc::new(Mutex::new(start)))
    }

    /// Returns the current time in microseconds, the precision of PostgreSQL.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => system_time(),
            Self::Manual(time) => *time.lock().unwrap_or_else(PoisonError::into_inner),
            Self::Wrong(by) => system_time() + *by.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Whether `now`, as this clock returned it, differs too much from the database's time. A manual clock is never
    /// wrong.
    #[must_use]
    pub fn is_off(&self, now: Timestamp, database_time: Timestamp) -> bool {
        !matches!(self, Self::Manual(_)) && now.duration_since(database_time).abs() > MAX_CLOCK_DIFFERENCE
    }

    /// Creates a clock that runs with the system's until a test moves it.
    #[must_use]
    pub fn that_goes_wrong() -> Self {
        Self::Wrong(Arc::default())
    }

    /// Moves the clock of a test. The system's clock cannot be moved.
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
