//! The only module that reads the system clock.

use service_api::Timestamp;

/// Returns the current time of this machine.
#[expect(clippy::disallowed_methods, reason = "a command runs once, on the clock of its user")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
