//! The binary `service`.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_cli::run()
}
