//! How often a race is repeated.

/// Returns `full` if `SERVICE_TEST_LONG` is set, as `cargo xtask nightly` sets it, and `short` otherwise.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the service")]
pub fn rounds(short: usize, full: usize) -> usize {
    if std::env::var("SERVICE_TEST_LONG").is_ok() { full } else { short }
}
