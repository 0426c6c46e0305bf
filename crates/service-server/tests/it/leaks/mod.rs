//! Leaked credentials, and the scanner that keeps secrets out of logs.

pub(crate) mod log_scanner;
pub(crate) mod reports;
