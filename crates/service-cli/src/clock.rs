//! The only place that asks the time.

use service_api::Timestamp;

#[expect(clippy::disallowed_methods, reason = "a command runs once, on the clock of its user")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
