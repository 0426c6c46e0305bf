//! Warnings whose cause recurs with every request: each is logged at intervals, or once.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use service_rules::Timestamp;

/// Seconds between two warnings of one cause.
const WARN_EVERY_SECONDS: i64 = 60;

/// When warnings were last logged.
#[derive(Default)]
pub struct Alarms {
    otp_sends_warned_at: AtomicI64,
    forwarding_peer_warned: AtomicBool,
}

impl Alarms {
    /// Whether to warn again that the budget for all codes is nearly used up.
    pub fn warns_of_otp_sends(&self, now: Timestamp) -> bool {
        let (last, now) = (self.otp_sends_warned_at.load(Ordering::Relaxed), now.as_second());
        now - last >= WARN_EVERY_SECONDS
            && self.otp_sends_warned_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether this is the first time that an untrusted peer forwards addresses.
    pub fn warns_of_forwarding_peer(&self) -> bool {
        !self.forwarding_peer_warned.swap(true, Ordering::Relaxed)
    }
}
