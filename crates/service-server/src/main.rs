//! `serviced`: runs the service, and administers it.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A request allocates some hundred times, on several threads. The allocators of glibc and, more so, of musl cost more.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    service_server::cli::run()
}
