//! `serviced`: runs the service, and administers it.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_server::cli::run()
}
