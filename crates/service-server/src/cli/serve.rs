//! `serviced run`: a node, from its start to the signal that stops it.

use std::path::Path;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::reload::Reloading,
    clock::Clock,
    config::{Config, Sources},
    server::Server,
    telemetry,
};

/// The target of the program's own messages, so that `warn,serviced=info` shows when a node is ready, and little else.
const PROGRAM: &str = "serviced";

pub(super) async fn run(config: Config, sources: &Sources, file: Option<&Path>) -> anyhow::Result<()> {
    let log = telemetry::start_log(&config.log)?;
    for warning in sources.warnings() {
        tracing::warn!(warning, "The configuration has a problem");
    }
    let (stop, stop_at_once) = (CancellationToken::new(), CancellationToken::new());
    let signals =
        StopSignals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? };
    tokio::spawn(signals.pass_on(stop.clone(), stop_at_once.clone()));
    // From here on, a signal that comes before the node is ready does not end it.
    let hang_up = signal(SignalKind::hangup())?;
    let Some(started) = stop.run_until_cancelled(Server::start(config, Clock::System)).await else {
        tracing::info!(target: PROGRAM, "Stopping before the start was complete");
        return Ok(());
    };
    let server = started?;
    let support_address = server.support_address.map(tracing::field::display);
    tracing::info!(
        target: PROGRAM, address = %server.address, ops_address = %server.ops_address, support_address, "Ready"
    );
    let app = server.app.clone();
    let reloading = Reloading { app: &app, file, log: &log, running: sources.clone() };
    let serving = async {
        tokio::select! {
            ended = server.run_until(stop.cancelled()) => ended,
            () = reloading.at_every(hang_up) => Ok(()),
        }
    };
    match stop_at_once.run_until_cancelled(serving).await {
        Some(ended) => Ok(ended?),
        None => anyhow::bail!("told to stop twice: ended without waiting for running requests"),
    }
}

/// The signals that tell a node to stop.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Cancels `stop` at the first signal, and `stop_at_once` at the second.
    async fn pass_on(mut self, stop: CancellationToken, stop_at_once: CancellationToken) {
        for token in [stop, stop_at_once] {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            token.cancel();
        }
    }
}
