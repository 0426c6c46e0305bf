//! Histograms below each other, over one logarithmic axis of milliseconds.

use std::fmt::Write as _;

use super::{LEFT, WIDTH, picture, ten};

const RIGHT: f64 = 30.0;
const TOP: f64 = 40.0;
const ROW: f64 = 90.0;
const BOTTOM: f64 = 46.0;
/// Bars for each power of ten.
const STEPS: i32 = 10;

/// The times of requests in milliseconds.
pub(crate) struct Histogram {
    pub(crate) name: String,
    /// Sorted.
    pub(crate) times: Vec<f64>,
}

/// Draws histograms over the same powers of ten of a millisecond. The longest bar of each is as high as its row.
pub(crate) fn draw(title: &str, histograms: &[Histogram]) -> String {
    let powers = powers(histograms);
    let wide = (WIDTH - LEFT - RIGHT) / f64::from((powers[1] - powers[0]) * STEPS);
    let mut rows: u32 = 0;
    let mut svg = String::new();
    for histogram in histograms {
        let top = TOP + ROW * f64::from(rows);
        rows += 1;
        let at = |share: usize| {
            histogram.times.get((histogram.times.len() * share / 100).min(histogram.times.len().saturating_sub(1)))
        };
        let (Some(p50), Some(p99)) = (at(50), at(99)) else { continue };
        let counts = counts(&histogram.times, powers);
        let most = counts.iter().copied().max().unwrap_or(1).max(1);
        let base = top + ROW - 8.0;
        for (place, count) in (0_u32..).zip(&counts).filter(|(_, count)| **count > 0) {
            let height = (ROW - 30.0) * f64::from(*count) / f64::from(most);
            let x = LEFT + wide * f64::from(place);
            let _ = write!(
                svg,
                "<path class=\"bar\" d=\"M{x:.1} {base:.1}v-{height:.1}h{:.1}v{height:.1}z\"/>",
                wide - 1.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{:.1}\">{}: p50 {p50:.1} ms, p99 {p99:.1} ms</text><path class=\"grid\" d=\"M{LEFT} {base:.1}H{}\"/>",
            top + 14.0,
            histogram.name,
            WIDTH - RIGHT
        );
    }
    let bottom = TOP + ROW * f64::from(rows);
    for power in powers[0]..=powers[1] {
        let x = LEFT + wide * f64::from((power - powers[0]) * STEPS);
        let _ =
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>", bottom + 14.0, ten(power));
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">milliseconds</text>",
        WIDTH - RIGHT,
        bottom + 34.0
    );
    picture(title, bottom + BOTTOM, &svg)
}

/// Returns the powers of ten between which all times lie.
fn powers(histograms: &[Histogram]) -> [i32; 2] {
    let has_time = |power: i32, is_beyond: fn(f64, f64) -> bool| {
        let limit = 10_f64.powi(power);
        histograms.iter().flat_map(|histogram| &histogram.times).any(|time| is_beyond(*time, limit))
    };
    let first = (-3..3).find(|power| has_time(power + 1, |time, limit| time < limit)).unwrap_or(-1);
    let last = (first + 1..6).find(|power| !has_time(*power, |time, limit| time > limit)).unwrap_or(6);
    [first, last]
}

/// Counts the times of each bar.
fn counts(times: &[f64], powers: [i32; 2]) -> Vec<u32> {
    let steps = (powers[0] * STEPS..powers[1] * STEPS).map(|step| f64::from(step + 1) / f64::from(STEPS));
    let mut counts = Vec::new();
    let mut begin = 0;
    for end in steps.map(|step| 10_f64.powf(step)) {
        let until = times.partition_point(|time| *time < end);
        counts.push(u32::try_from(until - begin).unwrap_or(u32::MAX));
        begin = until;
    }
    counts
}
