//! Background tasks: mail, the revocation feed, the heartbeat and housekeeping; and their supervisor.

pub mod heartbeat;
pub mod housekeeping;
pub mod mailer;
pub mod revocation_feed;
pub mod supervisor;
