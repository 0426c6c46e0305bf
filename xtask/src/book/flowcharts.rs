//! Flowcharts from left to right: `a[Text] --> b[Text]`, `a -->|text| b`.

use anyhow::{Context as _, Result, ensure};

use super::svg::{Svg, point, text_width};

const BOX_HEIGHT: f64 = 34.0;
const STEP: f64 = 54.0;
/// How far behind a box its edges turn up or down.
const TURN: f64 = 16.0;

/// A box, in a column by the longest way to it.
struct Node {
    id: String,
    name: String,
    column: usize,
    x: f64,
    y: f64,
}

struct Edge<'a> {
    from: usize,
    to: usize,
    text: &'a str,
}

pub(super) fn draw(statements: &[&str]) -> Result<Svg> {
    let mut nodes = Vec::new();
    let mut edges = Vec::new();
    for statement in statements {
        let (from, rest) = statement.split_once("-->").with_context(|| format!("“{statement}” is not understood"))?;
        let (text, to) = match rest.trim().strip_prefix('|') {
            Some(labeled) => labeled.split_once('|').with_context(|| format!("no end of the text in “{statement}”"))?,
            None => ("", rest),
        };
        edges.push(Edge { from: node(&mut nodes, from), to: node(&mut nodes, to), text });
    }
    choose_columns(&mut nodes, &edges)?;
    place(&mut nodes, &edges);
    let mut svg = Svg::default();
    for edge in &edges {
        draw_edge(&mut svg, &nodes, edge);
    }
    for node in &nodes {
        svg.labeled_box(point(node.x, node.y), 2.0 * half_width(node), BOX_HEIGHT, &node.name);
    }
    Ok(svg)
}

/// Draws an edge as a step: its text stands over the last part, which leads to one box only.
fn draw_edge(svg: &mut Svg, nodes: &[Node], edge: &Edge<'_>) {
    let (from, to) = (&nodes[edge.from], &nodes[edge.to]);
    let (begin, end) = (point(from.x + half_width(from), from.y), point(to.x - half_width(to), to.y));
    let turn = begin.x + TURN;
    svg.line(begin, point(turn, begin.y), false);
    svg.line(point(turn, begin.y), point(turn, end.y), false);
    svg.arrow(point(turn, end.y), end, false);
    svg.text(point(turn + 8.0 + text_width(edge.text) / 2.0, end.y - 10.0), edge.text);
}

fn half_width(node: &Node) -> f64 {
    text_width(&node.name) / 2.0 + 12.0
}

/// The number of a node such as `a[Text]`, or `a` if it was named before.
fn node(nodes: &mut Vec<Node>, text: &str) -> usize {
    let text = text.trim();
    let (id, name) = text.strip_suffix(']').and_then(|text| text.split_once('[')).unwrap_or((text, text));
    nodes.iter().position(|node| node.id == id).unwrap_or_else(|| {
        nodes.push(Node { id: id.to_owned(), name: name.to_owned(), column: 0, x: 0.0, y: 0.0 });
        nodes.len() - 1
    })
}

fn choose_columns(nodes: &mut [Node], edges: &[Edge<'_>]) -> Result<()> {
    for round in 0..=nodes.len() {
        let mut moved = false;
        for edge in edges {
            let column = nodes[edge.from].column + 1;
            if nodes[edge.to].column < column {
                nodes[edge.to].column = column;
                moved = true;
            }
        }
        if !moved {
            return Ok(());
        }
        ensure!(round < nodes.len(), "it has a circle");
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a diagram has few nodes")]
fn place(nodes: &mut [Node], edges: &[Edge<'_>]) {
    let columns = nodes.iter().map(|node| node.column + 1).max().unwrap_or_default();
    let count = |nodes: &[Node], column| nodes.iter().filter(|node| node.column == column).count();
    let tallest = (0..columns).map(|column| count(nodes, column)).max().unwrap_or_default();
    let mut left = 2.0;
    for column in 0..columns {
        let widest = nodes.iter().filter(|node| node.column == column).map(half_width).fold(0.0, f64::max);
        let mut y = BOX_HEIGHT / 2.0 + 2.0 + (tallest - count(nodes, column)) as f64 * STEP / 2.0;
        for node in nodes.iter_mut().filter(|node| node.column == column) {
            (node.x, node.y) = (left + half_width(node), y);
            y += STEP;
        }
        let texts = edges.iter().filter(|edge| nodes[edge.from].column == column).map(|edge| text_width(edge.text));
        left += 2.0 * widest + texts.fold(0.0, f64::max) + 60.0;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn nodes_and_labels_are_drawn_once_each() {
        let svg = super::draw(&["a[One] -->|yes| b[Two]", "a --> c[Three]", "b --> c"]).unwrap().finish("x");
        for text in ["One", "Two", "Three", "yes"] {
            assert_eq!(svg.matches(&format!(">{text}</text>")).count(), 1, "{svg}");
        }
        assert_eq!(svg.matches("class=\"head\"").count(), 3);
    }

    #[test]
    fn a_circle_is_an_error() {
        assert!(super::draw(&["a --> b", "b --> a"]).is_err());
    }
}
