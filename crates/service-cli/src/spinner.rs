//! A spinner on the terminal while the command waits for the service.

use std::time::Duration;

use crate::{output, terminal::Terminal};

/// How long a call takes before the spinner appears.
const SPINNER_DELAY: Duration = Duration::from_millis(400);
const SPINNER_FRAME_INTERVAL: Duration = Duration::from_millis(100);
const SPINNER_FRAMES: [&str; 4] = ["⠋", "⠙", "⠸", "⠴"];

/// Runs `work`, and shows a spinner if it takes longer than `SPINNER_DELAY`.
pub(crate) async fn spin_while<T>(terminal: Terminal, work: impl Future<Output = T>) -> T {
    if !terminal.can_animate() {
        return work.await;
    }
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(SPINNER_DELAY, &mut work).await {
        return done;
    }
    let mut frames = SPINNER_FRAMES.iter().cycle();
    loop {
        output::print_prompt(&format!("\r{} ", frames.next().unwrap_or(&"…")));
        if let Ok(done) = tokio::time::timeout(SPINNER_FRAME_INTERVAL, &mut work).await {
            output::clear_line();
            return done;
        }
    }
}
