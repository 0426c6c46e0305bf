//! Curves over two logarithmic axes.

use std::fmt::Write as _;

use super::{LEFT, WIDTH, picture, ten};

const HEIGHT: f64 = 420.0;
const RIGHT: f64 = 210.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 46.0;
const LABEL_HEIGHT: f64 = 15.0;

/// A curve with its name.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<CurvePoint>,
}

#[derive(Clone, Copy)]
pub(crate) struct CurvePoint {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

pub(crate) struct Curves {
    pub(crate) title: &'static str,
    pub(crate) lines: Vec<Curve>,
    /// What the horizontal axis counts.
    pub(crate) over: &'static str,
    /// The powers of ten at which the axes begin and end.
    pub(crate) across: [i32; 2],
    pub(crate) down: [i32; 2],
    /// Whether a line marks 1.
    pub(crate) marks_one: bool,
}

/// Returns how far a value lies between two powers of ten: 0 to 1.
fn part(value: f64, [first, last]: [i32; 2]) -> f64 {
    (value.log10() - f64::from(first)) / f64::from(last - first)
}

impl Curves {
    pub(crate) fn draw(&self) -> String {
        let mut svg = String::new();
        self.draw_grid(&mut svg);
        for (place, curve) in self.lines.iter().enumerate() {
            self.draw_curve(&mut svg, place, curve);
        }
        self.draw_names(&mut svg);
        picture(self.title, HEIGHT, &svg)
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + part(value, self.across) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - part(value, self.down).clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn draw_grid(&self, svg: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for power in self.across[0]..=self.across[1] {
            let x = self.x(10_f64.powi(power));
            let text =
                format!("<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>", bottom + 20.0, ten(power));
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>{text}");
        }
        let _ =
            writeln!(svg, "<text x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", bottom + 38.0, self.over);
        for power in self.down[0]..=self.down[1] {
            let y = self.y(10_f64.powi(power));
            let class = if power == 0 && self.marks_one { "one" } else { "grid" };
            let text =
                format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", LEFT - 8.0, y + 4.0, ten(power));
            let _ = writeln!(svg, "<path class=\"{class}\" d=\"M{LEFT} {y:.1}H{right}\"/>{text}");
        }
    }

    /// Draws the part of a curve that is within the axes.
    fn draw_curve(&self, svg: &mut String, place: usize, curve: &Curve) {
        let points = curve.points.iter().filter(|point| (0.0..=1.0).contains(&part(point.y, self.down)));
        let points: Vec<_> = points.map(|point| format!("{:.1},{:.1}", self.x(point.x), self.y(point.y))).collect();
        let _ = writeln!(svg, "<polyline class=\"line c{place}\" points=\"{}\"/>", points.join(" "));
    }

    /// Writes the names at the ends of the curves, with room between them.
    fn draw_names(&self, svg: &mut String) {
        let mut ends: Vec<_> = self
            .lines
            .iter()
            .enumerate()
            .map(|(place, curve)| (self.y(curve.points.last().map_or(1.0, |point| point.y)), place, &curve.name))
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
