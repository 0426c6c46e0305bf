//! Lists: in columns for people, separated by tabs for programs.

use service_api::{Timestamp, instant};

use crate::{clock, output::Output};

pub(crate) struct Table {
    heads: &'static [&'static str],
    rows: Vec<Vec<Cell>>,
}

/// What a person reads, and what a program reads.
pub(crate) struct Cell {
    shown: String,
    plain: String,
}

impl Cell {
    pub(crate) fn same(text: impl Into<String>) -> Self {
        let shown = text.into();
        Self { plain: shown.clone(), shown }
    }

    pub(crate) fn of(shown: impl Into<String>, plain: impl Into<String>) -> Self {
        Self { shown: shown.into(), plain: plain.into() }
    }

    /// A moment: how long ago it was, or its date.
    pub(crate) fn moment(at: Option<Timestamp>) -> Self {
        at.map_or_else(|| Self::of("never", ""), |at| Self::of(ago(at, clock::now()), instant::to_text(at)))
    }
}

impl Table {
    pub(crate) const fn new(heads: &'static [&'static str]) -> Self {
        Self { heads, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn render(&self, output: &Output) -> String {
        if output.terminal.stdout { self.columns() } else { self.tabs() }
    }

    fn tabs(&self) -> String {
        let clean = |cell: &Cell| cell.plain.replace(['\t', '\n', '\r'], " ");
        let line = |row: &Vec<Cell>| row.iter().map(clean).collect::<Vec<_>>().join("\t");
        self.rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn columns(&self) -> String {
        let width = |place: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.shown.chars().count());
            cells.chain([self.heads[place].chars().count()]).max().unwrap_or_default()
        };
        let widths: Vec<_> = (0..self.heads.len()).map(width).collect();
        let line = |texts: Vec<&str>| {
            let padded = texts.iter().zip(&widths).map(|(text, width)| format!("{:width$}", clean(text)));
            padded.collect::<Vec<_>>().join("   ").trim_end().to_owned()
        };
        let heads = line(self.heads.to_vec());
        let rows = self.rows.iter().map(|row| line(row.iter().map(|cell| cell.shown.as_str()).collect()));
        [heads].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
    }
}

/// Without what a terminal would obey: names are chosen by others.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

pub(crate) fn date(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    let count = |number: i64, unit: &str| format!("{number} {unit}{} ago", if number == 1 { "" } else { "s" });
    match now.as_second() - at.as_second() {
        seconds @ 0..60 => count(seconds, "second"),
        seconds @ 60..3600 => count(seconds / 60, "minute"),
        seconds @ 3600..86_400 => count(seconds / 3600, "hour"),
        _ => date(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_near_or_have_a_date() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let before = |seconds: i64| ago(Timestamp::from_second(1_800_000_000 - seconds).unwrap(), now);
        assert_eq!(before(1), "1 second ago");
        assert_eq!(before(150), "2 minutes ago");
        assert_eq!(before(7200), "2 hours ago");
        assert_eq!(before(86_400), "2027-01-14");
        assert_eq!(before(-1), "2027-01-15");
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(clean("a\x1b[31mb\u{9b}c\n"), "a [31mb c ");
    }
}
