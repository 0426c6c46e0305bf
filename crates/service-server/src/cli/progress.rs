//! Progress of a command that can take long, on standard error. On a terminal one line is rewritten every second.
//! Otherwise there is a line from time to time, so that a log stays short.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    pin::pin,
    time::Duration,
};

use tokio::time::{Instant, interval_at};

/// What is done sooner needs no words.
const FIRST_AFTER: Duration = Duration::from_secs(1);
const EVERY_ON_TERMINAL: Duration = Duration::from_secs(1);
const EVERY_IN_LOG: Duration = Duration::from_secs(10);

/// Erases the line that the cursor is on.
const ERASE_LINE: &str = "\r\x1b[K";

/// Awaits `work`, and meanwhile shows what `position` says.
pub(crate) async fn show_while<T>(work: impl Future<Output = T>, position: impl Fn() -> String) -> T {
    let screen = Screen { is_terminal: stderr().is_terminal(), write };
    screen.show_while(work, position).await
}

/// Where the progress is shown.
struct Screen<W> {
    is_terminal: bool,
    write: W,
}

impl<W: Fn(&str)> Screen<W> {
    async fn show_while<T>(&self, work: impl Future<Output = T>, position: impl Fn() -> String) -> T {
        let mut work = pin!(work);
        let every = if self.is_terminal { EVERY_ON_TERMINAL } else { EVERY_IN_LOG };
        let mut ticks = interval_at(Instant::now() + FIRST_AFTER, every);
        loop {
            tokio::select! {
                result = &mut work => {
                    if self.is_terminal {
                        (self.write)(ERASE_LINE);
                    }
                    return result;
                }
                _ = ticks.tick() => {
                    let position = position();
                    let line =
                        if self.is_terminal { format!("{ERASE_LINE}{position}") } else { format!("{position}\n") };
                    (self.write)(&line);
                }
            }
        }
    }
}

/// Writes to standard error. That nothing reads it does not matter to the work.
fn write(text: &str) {
    let mut stderr = stderr().lock();
    drop(stderr.write_all(text.as_bytes()));
    drop(stderr.flush());
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::sync::Notify;

    use super::*;

    /// Shows the progress of work that ends when something was shown `times` times.
    async fn show(is_terminal: bool, times: usize) -> String {
        let (seen, shown) = (RefCell::new(String::new()), Notify::new());
        let write = |text: &str| {
            seen.borrow_mut().push_str(text);
            shown.notify_one();
        };
        let work = async {
            for _ in 0..times {
                shown.notified().await;
            }
        };
        Screen { is_terminal, write }.show_while(work, || "half".to_owned()).await;
        seen.into_inner()
    }

    #[tokio::test]
    async fn a_terminal_has_one_line_that_is_rewritten_and_erased() {
        assert_eq!(show(true, 2).await, "\r\x1b[Khalf\r\x1b[Khalf\r\x1b[K");
    }

    #[tokio::test]
    async fn a_log_has_plain_lines_and_what_is_done_at_once_has_none() {
        assert_eq!(show(false, 1).await, "half\n");
        assert_eq!(show(false, 0).await, "");
    }
}
