//! Says on the terminal what the command waits for.

use std::time::Duration;

use crate::{output, terminal::Terminal, text::shorten};

/// How long a call takes before the spinner appears.
const SPINNER_DELAY: Duration = Duration::from_millis(400);
/// How long a call takes before a terminal that shows no spinner gets a line.
const LINE_DELAY: Duration = Duration::from_secs(1);
const SPINNER_FRAME_INTERVAL: Duration = Duration::from_millis(100);
const SPINNER_FRAMES: [&str; 4] = ["⠋", "⠙", "⠸", "⠴"];
/// The columns of the frame, and of the cursor after the line.
const SPINNER_COLUMNS: usize = 3;

/// Runs `work`. If it takes longer than `SPINNER_DELAY`, shows a spinner and what the command waits for, or only a line if the
/// terminal cannot show a spinner.
pub(crate) async fn spin_while<T>(terminal: Terminal, waiting_for: &str, work: impl Future<Output = T>) -> T {
    if !terminal.can_report_progress() {
        return work.await;
    }
    let mut work = std::pin::pin!(work);
    let delay = if terminal.can_animate() { SPINNER_DELAY } else { LINE_DELAY };
    if let Ok(done) = tokio::time::timeout(delay, &mut work).await {
        return done;
    }
    if !terminal.can_animate() {
        output::print_instruction(&format!("{waiting_for}..."));
        return work.await;
    }
    let text = format!("{waiting_for}…");
    let text = shorten(&text, terminal.columns.saturating_sub(SPINNER_COLUMNS), "…");
    let mut frames = SPINNER_FRAMES.iter().cycle();
    loop {
        output::print_prompt(&format!("\r{} {text}", frames.next().unwrap_or(&"…")));
        if let Ok(done) = tokio::time::timeout(SPINNER_FRAME_INTERVAL, &mut work).await {
            output::clear_line();
            return done;
        }
    }
}
