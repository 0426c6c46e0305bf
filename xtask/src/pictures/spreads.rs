//! Ratios with their spread over rounds: a row for each measurement, with its aim.

use std::fmt::Write as _;

use super::{WIDTH, picture};

const NAMES: f64 = 190.0;
const RIGHT: f64 = 60.0;
const TOP: f64 = 44.0;
const ROW: f64 = 26.0;
const BOTTOM: f64 = 40.0;

/// A measurement: the ratio of each of its rounds.
pub(crate) struct Spread {
    pub(crate) name: String,
    /// Sorted.
    pub(crate) ratios: Vec<f64>,
    /// `None`: there is no aim.
    pub(crate) aim: Option<f64>,
}

/// Draws ratios on one axis that begins at zero. A dot is the median, a line reaches from the lowest round to the highest.
pub(crate) fn draw(title: &str, spreads: &[Spread]) -> String {
    let values = spreads.iter().flat_map(|spread| spread.ratios.iter().chain(&spread.aim));
    let most = values.fold(1.0_f64, |most, value| most.max(*value)) * 1.05;
    let x = |ratio: f64| NAMES + ratio / most * (WIDTH - NAMES - RIGHT);
    let mut rows: u32 = 0;
    let mut svg = String::new();
    for spread in spreads {
        let y = TOP + ROW * f64::from(rows) + ROW / 2.0;
        rows += 1;
        let (Some(first), Some(last), Some(median)) =
            (spread.ratios.first(), spread.ratios.last(), spread.ratios.get(spread.ratios.len() / 2))
        else {
            continue;
        };
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            NAMES - 10.0,
            y + 4.0,
            spread.name
        );
        if let Some(aim) = spread.aim {
            let _ = write!(svg, "<path class=\"aim\" d=\"M{:.1} {:.1}V{:.1}\"/>", x(aim), y - ROW / 3.0, y + ROW / 3.0);
        }
        let _ = writeln!(
            svg,
            "<path class=\"line c0\" d=\"M{:.1} {y:.1}H{:.1}\"/><circle class=\"dot\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{median:.2}</text>",
            x(*first),
            x(*last),
            x(*median),
            x(*last) + 8.0,
            y + 4.0
        );
    }
    let bottom = TOP + ROW * f64::from(rows);
    let mut grid = String::new();
    let mut ratio = 0.0;
    while ratio <= most {
        let class = if (ratio - 1.0_f64).abs() < 0.01 { "one" } else { "grid" };
        let _ = writeln!(
            grid,
            "<path class=\"{class}\" d=\"M{0:.1} {TOP}V{bottom}\"/><text x=\"{0:.1}\" y=\"{1:.1}\" text-anchor=\"middle\">{ratio:.1}</text>",
            x(ratio),
            bottom + 20.0
        );
        ratio += 0.5;
    }
    picture(title, bottom + BOTTOM, &(grid + &svg))
}
