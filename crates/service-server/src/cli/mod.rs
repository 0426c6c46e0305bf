//! The subcommands of `serviced`.

pub(crate) mod admin;
pub(crate) mod output;
pub(crate) mod scan_secrets;
