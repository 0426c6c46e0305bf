//! Rate limits: exact windows for email addresses, steady rates for networks and for all callers together.

use crate::Timestamp;

/// The number of parts in which the limit on wrong codes of all callers is stored, and the smallest burst of a part.
pub const MAX_OTP_FAILURE_PARTS: u32 = 64;
pub const MIN_OTP_FAILURE_BURST: u32 = 8;

/// At most `count` requests in any period of `seconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub count: u32,
    pub seconds: u32,
}

/// `burst` requests at once, then `per_hour` evenly spread (the generic cell rate algorithm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub burst: u32,
    pub per_hour: u32,
}

/// The share of wrong ones among all attempts that a limit allows in addition to its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureShare {
    percent: u8,
}

impl FailureShare {
    const MAX_PERCENT: u8 = 90;

    /// `None`: more than 90 percent, which is no limit.
    #[must_use]
    pub fn from_percent(percent: u8) -> Option<Self> {
        (percent <= Self::MAX_PERCENT).then_some(Self { percent })
    }

    /// The number of failures that one success makes room for: at 20 percent a fourth of one.
    #[must_use]
    pub fn per_success(self) -> f64 {
        f64::from(self.percent) / f64::from(100 - self.percent)
    }
}

/// A rate limit was reached. The fields are those that the caller is told (draft-ietf-httpapi-ratelimit-headers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit {policy} is reached for {retry_after} seconds")]
pub struct Limited {
    pub policy: &'static str,
    pub quota: u32,
    pub window_seconds: u32,
    /// Whole seconds until a request can succeed, at least one.
    pub retry_after: u32,
}

/// What is left of a rate after a request was counted (draft-ietf-httpapi-ratelimit-headers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub policy: &'static str,
    pub quota: u32,
    pub window_seconds: u32,
    /// Requests that may follow at once.
    pub remaining: u32,
    /// Whole seconds until the whole burst is available again.
    pub reset: u32,
}

/// Which of `windows` has no room left for another hit; of several, the one that opens last. `None`: there is room.
#[must_use]
pub fn judge_windows(policy: &'static str, windows: &[Window], hits: &[Timestamp], now: Timestamp) -> Option<Limited> {
    let mut newest_first = hits.to_vec();
    newest_first.sort_unstable_by(|a, b| b.cmp(a));
    let waits = windows.iter().filter_map(|window| {
        // The window has room again once the oldest of its `count` newest hits has left it.
        let oldest = newest_first.get(usize::try_from(window.count).ok()?.checked_sub(1)?)?;
        let opens = oldest.as_microsecond() + i64::from(window.seconds) * MICROSECONDS;
        let wait = opens - now.as_microsecond();
        (wait > 0).then_some((wait, window))
    });
    let (wait, window) = waits.max_by_key(|(wait, _)| *wait)?;
    Some(Limited { policy, quota: window.count, window_seconds: window.seconds, retry_after: whole_seconds(wait) })
}

/// The part of the fullest window that is used: 0 is nothing, 1 is all of it.
#[must_use]
pub fn used_of_windows(windows: &[Window], hits: &[Timestamp], now: Timestamp) -> f64 {
    let used = windows.iter().map(|window| {
        let began = now.as_microsecond() - i64::from(window.seconds) * MICROSECONDS;
        let counted = hits.iter().filter(|hit| hit.as_microsecond() > began).count();
        f64::from(u32::try_from(counted).unwrap_or(u32::MAX)) / f64::from(window.count.max(1))
    });
    used.fold(0.0, f64::max)
}

impl Rate {
    /// Microseconds between two requests at the steady rate. Whole ones, as PostgreSQL stores them, so that the intervals
    /// of a full burst add up to exactly the tolerance.
    fn interval_micros(self) -> i64 {
        (3_600 * MICROSECONDS / i64::from(self.per_hour.max(1))).max(1)
    }

    fn tolerance_micros(self) -> i64 {
        self.interval_micros().saturating_mul(i64::from(self.burst))
    }

    /// Seconds between two requests at the steady rate.
    #[must_use]
    pub fn interval(self) -> f64 {
        seconds(self.interval_micros())
    }

    /// How far ahead of the steady rate a caller may be, in seconds.
    #[must_use]
    pub fn tolerance(self) -> f64 {
        seconds(self.tolerance_micros())
    }

    /// Whether no further request is allowed when the theoretical arrival time is `tat`.
    #[must_use]
    pub fn is_exhausted(self, tat: Timestamp, now: Timestamp) -> bool {
        let ahead = (tat.as_microsecond() - now.as_microsecond()).max(0);
        ahead + self.interval_micros() > self.tolerance_micros()
    }

    /// Counts one request at `now`, given the theoretical arrival time in microseconds (0 if there was none). Returns the
    /// next theoretical arrival time and what is left.
    ///
    /// # Errors
    /// [`Limited`] if the rate has no room.
    pub fn count(self, policy: &'static str, tat: i64, now: Timestamp) -> Result<(i64, Allowance), Limited> {
        let at = now.as_microsecond();
        let next = tat.max(at).saturating_add(self.interval_micros());
        let left = self.tolerance_micros() - (next - at);
        if left < 0 {
            let wait = whole_seconds(left.saturating_neg());
            return Err(Limited { policy, quota: self.per_hour, window_seconds: 3_600, retry_after: wait });
        }
        let remaining = u32::try_from(left / self.interval_micros()).unwrap_or(u32::MAX);
        let reset = whole_seconds(next - at);
        Ok((next, Allowance { policy, quota: self.per_hour, window_seconds: 3_600, remaining, reset }))
    }

    /// Divides the rate into up to `max_parts` equal parts, and returns their number and the rate of one. Each request is
    /// counted in a random part, so that concurrent requests rarely wait for one another. A part keeps a burst of at least
    /// `min_burst`, so that chance does not use up one of them early: a small rate has fewer parts.
    #[must_use]
    pub fn divide(self, max_parts: u32, min_burst: u32) -> (u32, Self) {
        let parts = (self.burst / min_burst.max(1)).min(self.per_hour).clamp(1, max_parts.max(1));
        (parts, Self { burst: self.burst / parts, per_hour: self.per_hour / parts })
    }

    /// The part of the rate that is used up when the theoretical arrival time is `tat`: 0 is idle, 1 is exhausted.
    #[must_use]
    pub fn used(self, tat: Timestamp, now: Timestamp) -> f64 {
        let ahead = (tat.as_microsecond() - now.as_microsecond()).max(0);
        seconds(ahead) / seconds(self.tolerance_micros())
    }

    /// The error for a caller whose theoretical arrival time `tat` is too far ahead.
    #[must_use]
    pub fn limited(self, policy: &'static str, tat: Timestamp, now: Timestamp) -> Limited {
        let allowed_at = tat.as_microsecond() + self.interval_micros() - self.tolerance_micros();
        let retry_after = whole_seconds(allowed_at - now.as_microsecond());
        Limited { policy, quota: self.per_hour, window_seconds: 3_600, retry_after }
    }
}

const MICROSECONDS: i64 = 1_000_000;

#[expect(clippy::cast_precision_loss, reason = "years of microseconds are exact in a double")]
fn seconds(microseconds: i64) -> f64 {
    microseconds as f64 / 1e6
}

/// Whole seconds, rounded up, so that a caller who waits this long is let through.
fn whole_seconds(microseconds: i64) -> u32 {
    u32::try_from(microseconds.max(1).saturating_add(MICROSECONDS - 1) / MICROSECONDS).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOWS: &[Window] = &[Window { count: 1, seconds: 60 }, Window { count: 3, seconds: 3_600 }];

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn check(hits: &[i64], now: i64, retry_after: Option<u32>) {
        let hits: Vec<_> = hits.iter().map(|&second| at(second)).collect();
        let limited = judge_windows("p", WINDOWS, &hits, at(now));
        assert_eq!(limited.map(|limited| limited.retry_after), retry_after, "{hits:?} at {now}");
    }

    #[test]
    fn a_window_opens_when_its_oldest_hit_has_left_it() {
        check(&[], 0, None);
        check(&[0], 0, Some(60));
        check(&[0], 59, Some(1));
        check(&[0], 60, None);
        check(&[0, 60], 120, None);
        check(&[0, 60, 120], 180, Some(3_420));
        check(&[120, 0, 60], 3_599, Some(1));
        check(&[0, 60, 120], 3_600, None);
    }

    #[test]
    fn the_longest_wait_is_told() {
        check(&[0, 60, 3_580], 3_590, Some(50));
        check(&[3_000, 3_300, 3_580], 3_590, Some(3_010));
    }

    #[test]
    fn a_rate_tells_when_the_next_one_may_come() {
        let rate = Rate { burst: 10, per_hour: 30 };
        assert_eq!(rate.limited("p", at(1_200), at(0)).retry_after, 120);
        assert_eq!(rate.limited("p", at(1_200), at(119)).retry_after, 1);
        assert_eq!(rate.limited("p", at(1_200), at(119)).quota, 30);
        assert!(rate.is_exhausted(at(1_200), at(119)));
        assert!(!rate.is_exhausted(at(1_200), at(120)));
        assert!(!rate.is_exhausted(at(0), at(500)));
    }

    #[test]
    fn the_parts_of_a_rate_do_not_exceed_it() {
        let divided = |burst, per_hour| {
            let (parts, each) = Rate { burst, per_hour }.divide(64, 8);
            assert!(parts * each.burst <= burst && parts * each.per_hour <= per_hour);
            (parts, each.burst, each.per_hour)
        };
        assert_eq!(divided(500, 1_500), (62, 8, 24));
        assert_eq!(divided(5_000, 15_000), (64, 78, 234));
        assert_eq!(divided(15, 100), (1, 15, 100));
        assert_eq!(divided(100_000, 3), (3, 33_333, 1));
    }

    #[test]
    fn a_burst_is_counted_down_and_fills_up_again() {
        let rate = Rate { burst: 3, per_hour: 3_600 };
        let (mut tat, mut left) = (0, Vec::new());
        for _ in 0..3 {
            let (next, allowance) = rate.count("p", tat, at(1_000)).unwrap();
            tat = next;
            left.push((allowance.remaining, allowance.reset));
        }
        assert_eq!(left, [(2, 1), (1, 2), (0, 3)]);
        assert_eq!(rate.count("p", tat, at(1_000)).unwrap_err().retry_after, 1);
        let (tat, allowance) = rate.count("p", tat, at(1_001)).unwrap();
        assert_eq!(allowance.remaining, 0);
        assert_eq!(rate.count("p", tat, at(9_000)).unwrap().1.remaining, 2);
    }
}
