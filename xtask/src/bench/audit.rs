//! Audit events: a hundred writers while events are sealed without a pause, against the same writers alone.

use anyhow::{Result, ensure};
use service_server::{
    app::App,
    clock::Clock,
    flows::audit::{sealing, verification},
};
use service_testkit::server;

use super::{Bench, Measured, pgbench};
use crate::say_error;

const WRITERS: u64 = 100;

pub(super) async fn measure(bench: &Bench) -> Result<Measured> {
    let script = tempfile::NamedTempFile::new()?;
    std::fs::write(script.path(), format!("{};\n", pgbench::audit_event(&pgbench::OTP_REQUESTED)?))?;
    let app = App::new(server::config(&bench.settings)?, Clock::System)?;
    let mut measured = Measured { name: "audit_while_sealing", ours: Vec::new(), bare: Vec::new() };
    let (mut seals, mut events) = (0_u64, 0_u64);
    let run = async || {
        let (target, script) = (bench.target(), script.path().to_owned());
        tokio::task::spawn_blocking(move || pgbench::run_as(&target, &script, WRITERS)).await?
    };
    for _ in 0..bench.rounds {
        measured.bare.push(run().await?);
        let mut writing = Box::pin(run());
        measured.ours.push(loop {
            tokio::select! {
                written = &mut writing => break written?,
                pass = sealing::seal(&app) => {
                    let pass = pass?;
                    events += pass.events;
                    seals += u64::from(pass.youngest.is_some());
                }
            }
        });
    }
    while sealing::seal(&app).await?.more {}
    let problems = verification::verify(&app, None, |_| {}).await?.problems;
    ensure!(problems.is_empty(), "the chain is broken: {problems:?}");
    say_error(&format!("{events} events were sealed meanwhile, in {seals} passes; the chain is sound"));
    Ok(measured)
}
