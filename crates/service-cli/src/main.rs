//! `service`: the service from the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_cli::run()
}
