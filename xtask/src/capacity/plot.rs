//! Plots with two logarithmic axes, as SVG that can be read on light and dark pages.

use std::fmt::Write as _;

use super::{
    costs::Costs,
    model::{Limit, Needs},
};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 210.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 46.0;
/// Users from 10⁴ to 10⁹, in steps of a quarter of a power of ten.
const FIRST_POWER: i32 = 4;
const LAST_POWER: i32 = 9;
const STEPS: i32 = 4;
const LABEL_HEIGHT: f64 = 15.0;

const STYLE: &str = "text { font: 13px system-ui, sans-serif; fill: #24292f } .grid { stroke: #d0d7de } .one { stroke: #24292f; \
    stroke-dasharray: 5 4 } .line { fill: none; stroke-width: 2 } .c0 { stroke: #0969da } .c1 { stroke: #cf222e } \
    .c2 { stroke: #1a7f37 } .c3 { stroke: #9a6700 } .c4 { stroke: #8250df } .c5 { stroke: #57606a } \
    @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #30363d } .one { stroke: #e6edf3 } \
    .c0 { stroke: #58a6ff } .c1 { stroke: #ff7b72 } .c2 { stroke: #3fb950 } .c3 { stroke: #d29922 } .c4 { stroke: #bc8cff } \
    .c5 { stroke: #8b949e } }";

/// A line with its name; its points are over [`users`].
struct Series {
    name: String,
    values: Vec<f64>,
}

struct Plot {
    title: &'static str,
    series: Vec<Series>,
    /// The powers of ten at which the vertical axis begins and ends.
    powers: (i32, i32),
    /// Whether a line marks 1.
    marks_one: bool,
}

/// Operations a second at the peak.
pub(crate) fn rates(costs: &Costs) -> String {
    let series = |name: &str, value: fn(&Needs) -> f64| Series {
        name: name.to_owned(),
        values: users().map(|users| value(&Needs::of(users, costs))).collect(),
    };
    let plot = Plot {
        title: "Operations a second at the peak, over users",
        series: vec![
            series("verifications", |needs| needs.verifications.peak),
            series("refreshes", |needs| needs.refreshes.peak),
            series("sign-in mails", |needs| needs.sign_ins.peak),
            series("revocations", |needs| needs.revocations.peak),
        ],
        powers: (-3, 7),
        marks_one: false,
    };
    plot.draw()
}

/// The used share of each limit of one primary.
pub(crate) fn limits(costs: &Costs) -> String {
    let all: Vec<[Limit; 6]> = users().map(|users| Needs::of(users, costs).limits).collect();
    let series = (0..6).map(|place| Series {
        name: all[0][place].name.to_owned(),
        values: all.iter().map(|limits| limits[place].used).collect(),
    });
    let plot = Plot {
        title: "Used share of each limit of one primary, over users",
        series: series.collect(),
        powers: (-4, 2),
        marks_one: true,
    };
    plot.draw()
}

fn users() -> impl Iterator<Item = f64> {
    (FIRST_POWER * STEPS..=LAST_POWER * STEPS).map(|step| 10_f64.powf(f64::from(step) / f64::from(STEPS)))
}

fn across(users: f64) -> f64 {
    let part = (users.log10() - f64::from(FIRST_POWER)) / f64::from(LAST_POWER - FIRST_POWER);
    LEFT + part * (WIDTH - LEFT - RIGHT)
}

impl Plot {
    fn down(&self, value: f64) -> f64 {
        let (first, last) = self.powers;
        let part = (value.log10() - f64::from(first)) / f64::from(last - first);
        HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn draw(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">\n\
             <title>{0}</title>\n<style>{STYLE}</style>\n<text x=\"{LEFT}\" y=\"22\">{0}</text>\n",
            self.title
        );
        self.draw_grid(&mut svg);
        for (place, series) in self.series.iter().enumerate() {
            self.draw_line(&mut svg, place, series);
        }
        self.draw_labels(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_grid(&self, svg: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for power in FIRST_POWER..=LAST_POWER {
            let x = across(10_f64.powi(power));
            let text =
                format!("<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>", bottom + 20.0, ten(power));
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>{text}");
        }
        let _ = writeln!(svg, "<text x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">users</text>", bottom + 38.0);
        for power in self.powers.0..=self.powers.1 {
            let y = self.down(10_f64.powi(power));
            let class = if power == 0 && self.marks_one { "one" } else { "grid" };
            let text =
                format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", LEFT - 8.0, y + 4.0, ten(power));
            let _ = writeln!(svg, "<path class=\"{class}\" d=\"M{LEFT} {y:.1}H{right}\"/>{text}");
        }
    }

    fn draw_line(&self, svg: &mut String, place: usize, series: &Series) {
        let points: Vec<_> = users()
            .zip(&series.values)
            .filter(|(_, value)| value.log10() >= f64::from(self.powers.0) && value.log10() <= f64::from(self.powers.1))
            .map(|(users, value)| format!("{:.1},{:.1}", across(users), self.down(*value)))
            .collect();
        let _ = writeln!(svg, "<polyline class=\"line c{place}\" points=\"{}\"/>", points.join(" "));
    }

    /// Writes the names at the ends of the lines, with room between them.
    fn draw_labels(&self, svg: &mut String) {
        let mut ends: Vec<_> = self
            .series
            .iter()
            .enumerate()
            .map(|(place, series)| (self.down(series.values.last().copied().unwrap_or(1.0)), place, &series.name))
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = TOP;
        for (end, place, name) in ends {
            let y = end.max(free);
            free = y + LABEL_HEIGHT;
            let x = WIDTH - RIGHT;
            let _ = writeln!(
                svg,
                "<path class=\"line c{place}\" d=\"M{x} {end:.1}L{:.1} {y:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
                x + 10.0,
                x + 20.0,
                x + 25.0,
                y + 4.0
            );
        }
    }
}

/// A power of ten, as it is written.
fn ten(power: i32) -> String {
    let digits = power.unsigned_abs().to_string();
    let raised = digits.chars().map(|digit| match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁰',
    });
    match power {
        0 => "1".to_owned(),
        1 => "10".to_owned(),
        _ => format!("10{}{}", if power < 0 { "⁻" } else { "" }, raised.collect::<String>()),
    }
}
