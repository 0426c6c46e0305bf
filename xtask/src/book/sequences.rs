//! Sequence diagrams: `participant a as Text`, `a->>b: text`, `a-->>b: text` (dashed), `Note over a,b: text`.

use anyhow::{Context as _, Result, bail};

use super::svg::{Svg, point, text_width};

const BOX_HEIGHT: f64 = 34.0;
const STEP: f64 = 40.0;

/// A participant in its column.
struct Column {
    id: String,
    name: String,
    x: f64,
}

/// A message between two columns, or a note over them.
struct SequenceRow<'a> {
    from: usize,
    to: usize,
    text: &'a str,
    kind: SequenceRowKind,
}

#[derive(Clone, Copy, PartialEq)]
enum SequenceRowKind {
    Message,
    Dashed,
    Note,
}

pub(super) fn draw(statements: &[&str]) -> Result<Svg> {
    let mut columns = Vec::new();
    let mut rows = Vec::new();
    for statement in statements {
        if let Some(declared) = statement.strip_prefix("participant ") {
            let (id, name) = declared.split_once(" as ").unwrap_or((declared, declared));
            columns.push(Column { id: id.trim().to_owned(), name: name.trim().to_owned(), x: 0.0 });
        } else {
            rows.push(read_row(statement, &mut columns)?);
        }
    }
    place(&mut columns, &rows);
    let mut svg = Svg::default();
    #[expect(clippy::cast_precision_loss, reason = "a diagram has few rows")]
    let bottom = BOX_HEIGHT + 4.0 + STEP * (rows.len() as f64 + 0.5);
    for column in &columns {
        svg.line(point(column.x, BOX_HEIGHT + 2.0), point(column.x, bottom), true);
        svg.labeled_box(
            point(column.x, BOX_HEIGHT / 2.0 + 2.0),
            text_width(&column.name) + 24.0,
            BOX_HEIGHT,
            &column.name,
        );
    }
    let mut y = BOX_HEIGHT + 4.0;
    for row in &rows {
        y += STEP;
        draw_row(&mut svg, &columns, row, y);
    }
    Ok(svg)
}

fn draw_row(svg: &mut Svg, columns: &[Column], row: &SequenceRow<'_>, y: f64) {
    let (from, to) = (columns[row.from].x, columns[row.to].x);
    let middle = f64::midpoint(from, to);
    match row.kind {
        SequenceRowKind::Note => {
            let width = ((to - from).abs() + 60.0).max(text_width(row.text) + 20.0);
            svg.labeled_box(point(middle, y - 8.0), width, 26.0, row.text);
        }
        SequenceRowKind::Message | SequenceRowKind::Dashed if row.from == row.to => {
            let edge = from + 28.0;
            svg.line(point(from, y - 8.0), point(edge, y - 8.0), false);
            svg.line(point(edge, y - 8.0), point(edge, y + 4.0), false);
            svg.arrow(point(edge, y + 4.0), point(from, y + 4.0), false);
            svg.text(point(edge + 8.0 + text_width(row.text) / 2.0, y - 2.0), row.text);
        }
        SequenceRowKind::Message | SequenceRowKind::Dashed => {
            svg.text(point(middle, y - 10.0), row.text);
            svg.arrow(point(from, y), point(to, y), row.kind == SequenceRowKind::Dashed);
        }
    }
}

fn read_row<'a>(statement: &'a str, columns: &mut Vec<Column>) -> Result<SequenceRow<'a>> {
    let (head, text) = statement.split_once(':').with_context(|| format!("no text in “{statement}”"))?;
    let (from, to, kind) = if let Some(over) = head.strip_prefix("Note over ") {
        let (from, to) = over.split_once(',').unwrap_or((over, over));
        (from, to, SequenceRowKind::Note)
    } else if let Some((from, to)) = head.split_once("-->>") {
        (from, to, SequenceRowKind::Dashed)
    } else if let Some((from, to)) = head.split_once("->>") {
        (from, to, SequenceRowKind::Message)
    } else {
        bail!("“{statement}” is not understood");
    };
    Ok(SequenceRow { from: column(columns, from.trim()), to: column(columns, to.trim()), text: text.trim(), kind })
}

/// The number of a participant, which is declared by its first mention.
fn column(columns: &mut Vec<Column>, id: &str) -> usize {
    columns.iter().position(|column| column.id == id).unwrap_or_else(|| {
        columns.push(Column { id: id.to_owned(), name: id.to_owned(), x: 0.0 });
        columns.len() - 1
    })
}

/// Gives every column its place: far enough from the one before for the boxes and for the texts between them.
fn place(columns: &mut [Column], rows: &[SequenceRow<'_>]) {
    for index in 0..columns.len() {
        let half = text_width(&columns[index].name) / 2.0 + 14.0;
        let mut x = if index == 0 {
            half
        } else {
            columns[index - 1].x + half + text_width(&columns[index - 1].name) / 2.0 + 34.0
        };
        for row in rows {
            let (left, right) = (row.from.min(row.to), row.from.max(row.to));
            if right == index && left < index && row.kind != SequenceRowKind::Note {
                x = x.max(columns[left].x + text_width(row.text) + 24.0);
            }
            if left == right && left + 1 == index {
                x = x.max(columns[left].x + text_width(row.text) + 60.0);
            }
            if row.kind == SequenceRowKind::Note && left == index && right == index {
                x = x.max(text_width(row.text) / 2.0 + 14.0);
            }
        }
        columns[index].x = x;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_long_message_moves_its_columns_apart() {
        let width = |text: &str| {
            let svg = super::draw(&[&format!("a->>b: {text}")]).unwrap().finish("x");
            svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse::<f64>().unwrap()
        };
        assert!(width("a message that is much longer than the names") > width("short") + 100.0);
    }

    #[test]
    fn every_kind_of_row_is_drawn() {
        let rows = ["participant a as Ann", "a->>b: one", "b-->>a: two", "Note over a,b: three", "b->>b: four"];
        let svg = super::draw(&rows).unwrap().finish("x");
        for text in ["Ann", "one", "two", "three", "four"] {
            assert!(svg.contains(&format!(">{text}</text>")), "{svg}");
        }
        assert_eq!(svg.matches("class=\"head\"").count(), 3);
    }
}
