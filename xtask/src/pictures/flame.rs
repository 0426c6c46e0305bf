//! A flame graph: what a program was doing when it was sampled. Callers are below what they called.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{LEFT, WIDTH, picture};

const RIGHT: f64 = 10.0;
const BESIDE: f64 = 10.0;
const TOP: f64 = 40.0;
const ROW: f64 = 17.0;
/// Functions that took a smaller share of all samples are left out.
const MIN_SHARE: f64 = 0.004;
/// The width of a letter, on the average.
const LETTER: f64 = 7.0;

/// A function, where it was called from one chain of callers.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    samples: u32,
    called: BTreeMap<String, Self>,
}

impl Frame {
    /// Counts a sample. The stack begins with the outermost caller.
    pub(crate) fn add<'a>(&mut self, stack: impl IntoIterator<Item = &'a str>) {
        self.samples += 1;
        let mut frame = self;
        for name in stack {
            frame = frame.called.entry(name.to_owned()).or_default();
            frame.samples += 1;
        }
    }

    pub(crate) fn samples(&self) -> u32 {
        self.samples
    }

    /// How many functions lie above each other, counting only those that are drawn.
    fn depth(&self, smallest: f64) -> u32 {
        let drawn = self.called.values().filter(|called| f64::from(called.samples) >= smallest);
        drawn.map(|called| called.depth(smallest) + 1).max().unwrap_or(0)
    }
}

/// Draws everything that the outermost frame called.
pub(crate) fn draw(title: &str, root: &Frame) -> String {
    let smallest = f64::from(root.samples) * MIN_SHARE;
    let height = ROW * f64::from(root.depth(smallest));
    let scale = (WIDTH - BESIDE - RIGHT) / f64::from(root.samples.max(1));
    let mut drawing = Drawing { svg: String::new(), all: f64::from(root.samples.max(1)), scale, smallest };
    drawing.add_called(root, BESIDE, TOP + height);
    let legend = format!(
        "<text x=\"{LEFT}\" y=\"{:.1}\">width: share of {} samples; functions below {:.1} % are left out</text>\n",
        TOP + height + ROW + 4.0,
        root.samples,
        MIN_SHARE * 100.0
    );
    picture(title, TOP + height + 30.0, &(drawing.svg + &legend))
}

struct Drawing {
    svg: String,
    all: f64,
    /// The width of a sample.
    scale: f64,
    /// The samples below which a function is left out.
    smallest: f64,
}

impl Drawing {
    /// Adds what a frame called, side by side, above the line `base`.
    fn add_called(&mut self, frame: &Frame, left: f64, base: f64) {
        let mut x = left;
        for (name, called) in &frame.called {
            let samples = f64::from(called.samples);
            let width = samples * self.scale;
            if samples >= self.smallest {
                self.add(name, samples, [x, base - ROW, width]);
                self.add_called(called, x, base - ROW);
            }
            x += width;
        }
    }

    fn add(&mut self, name: &str, samples: f64, [x, y, width]: [f64; 3]) {
        let name = escape(name);
        let _ = write!(
            self.svg,
            "<g><title>{name}: {:.1} %</title><rect class=\"frame\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            100.0 * samples / self.all,
            (width - 0.5).max(0.2),
            ROW - 1.0
        );
        if width > LETTER * 4.0 {
            let _ = write!(
                self.svg,
                "<svg x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{ROW}\"><text x=\"3\" y=\"12.5\">{name}</text></svg>",
                width - 2.0
            );
        }
        self.svg.push_str("</g>\n");
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
