//! Progress of a measurement: which part it is at, of how many, and about how long the rest takes.

use std::time::{Duration, Instant};

use crate::say_error;

pub(crate) struct Plan {
    total: u32,
    started: u32,
    began: Instant,
}

impl Plan {
    pub(crate) fn new(total: usize) -> Self {
        Self { total: u32::try_from(total).unwrap_or(u32::MAX), started: 0, began: Instant::now() }
    }

    /// Says that the next part begins.
    pub(crate) fn begin(&mut self, name: &str) {
        let left = match self.started {
            0 => String::new(),
            done => format!(", {} left", rough(self.began.elapsed() / done * self.total.saturating_sub(done))),
        };
        self.started += 1;
        say_error(&format!("[{} of {}] {name}{left}", self.started, self.total));
    }
}

/// Writes a duration as a person would estimate it.
fn rough(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("about {seconds} s"),
        seconds => format!("about {} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_as_an_estimate() {
        for (seconds, expected) in [(0, "about 0 s"), (89, "about 89 s"), (90, "about 2 min"), (600, "about 10 min")] {
            assert_eq!(rough(Duration::from_secs(seconds)), expected);
        }
    }
}
