//! Something that moves while the service takes its time; only where somebody watches.

use std::time::Duration;

use crate::{output, terminal::Terminal};

/// Quick answers are not announced.
const PATIENCE: Duration = Duration::from_millis(400);
const FRAMES: [&str; 4] = ["⠋", "⠙", "⠸", "⠴"];

/// Runs `work`, and spins after a while.
pub(crate) async fn while_waiting<T>(terminal: Terminal, work: impl Future<Output = T>) -> T {
    if !terminal.may_spin() {
        return work.await;
    }
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
        return done;
    }
    let mut frames = FRAMES.iter().cycle();
    loop {
        output::ask(&format!("\r{} ", frames.next().unwrap_or(&"…")));
        if let Ok(done) = tokio::time::timeout(Duration::from_millis(100), &mut work).await {
            output::clear_line();
            return done;
        }
    }
}
