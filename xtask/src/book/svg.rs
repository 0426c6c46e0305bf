//! A drawing: lines, boxes and texts in the colors of the page around it.

use std::fmt::Write as _;

/// The width that a character of a text is given.
const CHARACTER: f64 = 7.2;
const MARGIN: f64 = 8.0;

/// A point of a drawing.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A drawing that grows with what is drawn.
#[derive(Default)]
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// The width of a text.
#[expect(clippy::cast_precision_loss, reason = "texts are short")]
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

pub(super) fn point(x: f64, y: f64) -> Point {
    Point { x, y }
}

impl Svg {
    /// A text around a point.
    pub(super) fn text(&mut self, at: Point, text: &str) {
        if text.is_empty() {
            return;
        }
        let half = text_width(text) / 2.0;
        self.include(point(at.x + half, at.y + 4.0));
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.push(&format!(r#"<text x="{:.1}" y="{:.1}">{escaped}</text>"#, at.x, at.y + 4.0));
    }

    /// A box around a text, whose middle is `at`.
    pub(super) fn labeled_box(&mut self, at: Point, width: f64, height: f64, text: &str) {
        let corner = point(at.x - width / 2.0, at.y - height / 2.0);
        self.include(point(corner.x + width, corner.y + height));
        self.push(&format!(
            r#"<rect x="{:.1}" y="{:.1}" width="{width:.1}" height="{height:.1}" rx="4"/>"#,
            corner.x, corner.y
        ));
        self.text(at, text);
    }

    /// A line, dashed or not.
    pub(super) fn line(&mut self, from: Point, to: Point, dashed: bool) {
        self.include(from);
        self.include(to);
        let dashes = if dashed { r#" stroke-dasharray="5 4""# } else { "" };
        self.push(&format!(r#"<path d="M{:.1} {:.1}L{:.1} {:.1}"{dashes}/>"#, from.x, from.y, to.x, to.y));
    }

    /// A line with an arrow at its end.
    pub(super) fn arrow(&mut self, from: Point, to: Point, dashed: bool) {
        self.line(from, to, dashed);
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        let length = dx.hypot(dy).max(1.0);
        let (dx, dy) = (dx / length, dy / length);
        let left = point(to.x - 9.0 * dx - 4.0 * dy, to.y - 9.0 * dy + 4.0 * dx);
        let right = point(to.x - 9.0 * dx + 4.0 * dy, to.y - 9.0 * dy - 4.0 * dx);
        self.push(&format!(
            r#"<path class="head" d="M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}z"/>"#,
            to.x, to.y, left.x, left.y, right.x, right.y
        ));
    }

    /// The whole drawing, with a name for readers who do not see it.
    pub(super) fn finish(self, title: &str) -> String {
        let (width, height) = (self.width + MARGIN, self.height + MARGIN);
        let title = title.replace('&', "&amp;").replace('<', "&lt;");
        let style = "svg.diagram{max-width:100%;height:auto}svg.diagram rect,svg.diagram path{fill:none;stroke:currentColor}\
            svg.diagram path.head{fill:currentColor}\
            svg.diagram text{fill:currentColor;font:13px sans-serif;text-anchor:middle;paint-order:stroke;\
            stroke:var(--bg);stroke-width:4px}";
        format!(
            "<svg class=\"diagram\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" \
             height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">\n<title>{title}</title>\n\
             <style>{style}</style>\n{}</svg>",
            self.body
        )
    }

    fn push(&mut self, element: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "{element}");
    }

    fn include(&mut self, at: Point) {
        self.width = self.width.max(at.x);
        self.height = self.height.max(at.y);
    }
}
