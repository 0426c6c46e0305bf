//! Background tasks: mail, the revocation feed, the heartbeat, housekeeping, measurements, traces
//! and checks of domains; and their supervisor.

pub mod domain_checks;
pub mod heartbeat;
pub mod housekeeping;
pub mod mailer;
pub mod measurements;
pub mod revocation_feed;
pub mod sso_revocations;
pub mod supervisor;
pub mod trace_export;
