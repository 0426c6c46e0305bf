//! `cargo xtask faults`: injects thousands of faults, with the server as a process.

use std::time::Instant;

use anyhow::Result;
use service_testkit::{faults, server::Setup};

use crate::{build_server, say};

#[derive(clap::Args)]
pub(crate) struct FaultsOptions {
    /// 10,000 loops instead of 500
    #[arg(long)]
    long: bool,
}

pub(crate) fn run(options: &FaultsOptions) -> Result<()> {
    let loops = if options.long { 10_000 } else { 500 };
    let binary = build_server(!cfg!(debug_assertions))?;
    let began = Instant::now();
    Setup::default().on_system_clock().run(async |server| {
        faults::kill_between_commit_and_answer(server, &binary, loops, |done| {
            if done.is_multiple_of(100) {
                say(&format!("{done} of {loops}, {} s", began.elapsed().as_secs()));
            }
        })
        .await
    })?;
    say(&format!(
        "{loops} nodes killed between commit and answer: every retry with the old token worked ({} s)",
        began.elapsed().as_secs()
    ));
    Ok(())
}
