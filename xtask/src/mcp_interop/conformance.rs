//! The server scenarios of the official conformance suite.

use anyhow::Result;

pub(super) const NAME: &str = "server-suite";
pub(super) const WHAT: &str = "The server scenarios of the official conformance suite";

pub(super) fn run() -> Result<()> {
    Ok(())
}
