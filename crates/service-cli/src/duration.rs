//! Durations as people say them.

use std::time::Duration;

const MINUTE_SECONDS: u64 = 60;
const HOUR_SECONDS: u64 = 60 * MINUTE_SECONDS;
const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;

/// Formats a duration in its largest useful unit, rounded up: `45 seconds`, `33 minutes`, `2 hours`.
pub(crate) fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (unit, unit_seconds) = match seconds {
        MINUTE_SECONDS => ("minute", MINUTE_SECONDS),
        HOUR_SECONDS => ("hour", HOUR_SECONDS),
        DAY_SECONDS => ("day", DAY_SECONDS),
        ..120 => ("second", 1),
        120..7_200 => ("minute", MINUTE_SECONDS),
        7_200..172_800 => ("hour", HOUR_SECONDS),
        _ => ("day", DAY_SECONDS),
    };
    format_count(seconds.div_ceil(unit_seconds), unit)
}

/// Formats a number with its unit: `1 minute`, `2 minutes`.
pub(crate) fn format_count(number: u64, unit: &str) -> String {
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_up_to_their_largest_useful_unit() {
        for (seconds, text) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (45, "45 seconds"),
            (60, "1 minute"),
            (90, "90 seconds"),
            (120, "2 minutes"),
            (600, "10 minutes"),
            (1938, "33 minutes"),
            (3600, "1 hour"),
            (3700, "62 minutes"),
            (7201, "3 hours"),
            (86_400, "1 day"),
            (200_000, "3 days"),
        ] {
            assert_eq!(format_duration(Duration::from_secs(seconds)), text);
        }
    }
}
