//! Pictures of figures, as SVG that can be read on light and dark pages.

pub(crate) mod curves;
pub(crate) mod flame;
pub(crate) mod histograms;
pub(crate) mod spreads;

const WIDTH: f64 = 860.0;

const STYLE: &str = "text { font: 13px system-ui, sans-serif; fill: #24292f } .grid { stroke: #d0d7de } .one { stroke: #24292f; \
    stroke-dasharray: 5 4 } .line { fill: none; stroke-width: 2 } .c0 { stroke: #0969da } .c1 { stroke: #cf222e } \
    .c2 { stroke: #1a7f37 } .c3 { stroke: #9a6700 } .c4 { stroke: #8250df } .c5 { stroke: #57606a } .bar { fill: #0969da } .dot { fill: #0969da } .frame { fill: #ffd8a8 } .aim { stroke: #1a7f37; stroke-width: 2 } \
    @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #30363d } .one { stroke: #e6edf3 } \
    .c0 { stroke: #58a6ff } .c1 { stroke: #ff7b72 } .c2 { stroke: #3fb950 } .c3 { stroke: #d29922 } .c4 { stroke: #bc8cff } \
    .c5 { stroke: #8b949e } .bar { fill: #58a6ff } .dot { fill: #58a6ff } .frame { fill: #7a4100 } .aim { stroke: #3fb950 } }";

/// Returns a picture with a title, which is also what a screen reader says.
fn picture(title: &str, height: f64, content: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<text x=\"{LEFT}\" y=\"22\">{title}</text>\n{content}</svg>\n"
    )
}

/// Where the plots begin, to the right of what names their rows and values.
const LEFT: f64 = 70.0;

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
