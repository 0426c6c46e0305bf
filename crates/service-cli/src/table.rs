//! Lists: aligned columns on a terminal, tab-separated values elsewhere.

use service_api::{Timestamp, instant};

use crate::{clock, duration::format_count, output::Output};

/// The rows of a list, and the headers of its columns.
pub(crate) struct Table {
    headers: &'static [&'static str],
    rows: Vec<Vec<Cell>>,
}

/// One value of a row, for a terminal and for a script.
pub(crate) struct Cell {
    shown: String,
    plain: String,
}

impl Cell {
    /// A value that reads the same everywhere.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        let shown = text.into();
        Self { plain: shown.clone(), shown }
    }

    /// A value that is shown in one way on a terminal, and in another to a script.
    pub(crate) fn pair(shown: impl Into<String>, plain: impl Into<String>) -> Self {
        Self { shown: shown.into(), plain: plain.into() }
    }

    /// A point in time: its age or its date on a terminal, the full timestamp for a script.
    pub(crate) fn time(at: Option<Timestamp>) -> Self {
        at.map_or_else(|| Self::pair("never", ""), |at| Self::pair(format_age(at, clock::now()), instant::to_text(at)))
    }
}

impl Table {
    pub(crate) const fn new(headers: &'static [&'static str]) -> Self {
        Self { headers, rows: Vec::new() }
    }

    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn render(&self, output: &Output) -> String {
        if output.terminal.stdout { self.render_columns() } else { self.render_tabs() }
    }

    fn render_tabs(&self) -> String {
        let plain = |cell: &Cell| cell.plain.replace(['\t', '\n', '\r'], " ");
        let line = |row: &Vec<Cell>| row.iter().map(plain).collect::<Vec<_>>().join("\t");
        self.rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn render_columns(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.shown.chars().count());
            cells.chain([self.headers[column].chars().count()]).max().unwrap_or_default()
        };
        let widths: Vec<_> = (0..self.headers.len()).map(width).collect();
        let line = |texts: Vec<&str>| {
            let padded = texts.iter().zip(&widths).map(|(text, width)| format!("{:width$}", strip_control(text)));
            padded.collect::<Vec<_>>().join("   ").trim_end().to_owned()
        };
        let headers = line(self.headers.to_vec());
        let rows = self.rows.iter().map(|row| line(row.iter().map(|cell| cell.shown.as_str()).collect()));
        [headers].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
    }
}

/// Replaces control characters with spaces, so that names chosen by other users cannot control the terminal.
pub(crate) fn strip_control(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

pub(crate) fn format_date(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

fn format_age(at: Timestamp, now: Timestamp) -> String {
    let ago = |number: i64, unit: &str| format!("{} ago", format_count(number.unsigned_abs(), unit));
    match now.as_second() - at.as_second() {
        seconds @ 0..60 => ago(seconds, "second"),
        seconds @ 60..3600 => ago(seconds / 60, "minute"),
        seconds @ 3600..86_400 => ago(seconds / 3600, "hour"),
        _ => format_date(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_times_are_shown_as_ages_and_others_as_dates() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let before = |seconds: i64| format_age(Timestamp::from_second(1_800_000_000 - seconds).unwrap(), now);
        assert_eq!(before(1), "1 second ago");
        assert_eq!(before(150), "2 minutes ago");
        assert_eq!(before(7200), "2 hours ago");
        assert_eq!(before(86_400), "2027-01-14");
        assert_eq!(before(-1), "2027-01-15");
    }

    #[test]
    fn a_name_cannot_control_the_terminal() {
        assert_eq!(strip_control("a\x1b[31mb\u{9b}c\n"), "a [31mb c ");
    }
}
