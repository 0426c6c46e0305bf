//! Lists: columns that fit the width of a terminal, tab-separated values elsewhere.

use service_api::{Timestamp, instant};

pub(crate) use crate::text::strip_control;
use crate::{
    clock,
    duration::format_count,
    output::Output,
    text::{display_width, shorten},
};

/// The header of the column with the ID of each row. It is the last column on a terminal.
const ID_HEADER: &str = "ID";
/// The narrowest that a column of free text gets.
const MIN_TEXT_COLUMNS: usize = 10;
const COLUMN_GAP: &str = "  ";
const DAY_SECONDS: i64 = 86_400;
/// An expiry that is nearer than this is shown as the number of days until then.
const NEAR_EXPIRY_DAYS: i64 = 14;

/// The rows of a list, and the headers of its columns.
pub(crate) struct Table {
    headers: &'static [&'static str],
    /// The columns on a terminal, the most important first.
    shown: Option<&'static [&'static str]>,
    /// How many columns a script gets.
    piped: usize,
    rows: Vec<Vec<Cell>>,
}

/// One value of a row, for a terminal and for a script.
pub(crate) struct Cell {
    shown: String,
    plain: String,
    kind: CellKind,
}

/// Whether a value can be shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellKind {
    /// It can.
    Text,
    /// It is useless without its end.
    Whole,
}

impl Cell {
    /// A value that reads the same everywhere.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        let shown = text.into();
        Self { plain: shown.clone(), shown, kind: CellKind::Text }
    }

    /// A value that reads the same everywhere and is never shortened, such as an ID.
    pub(crate) fn whole(text: impl Into<String>) -> Self {
        Self { kind: CellKind::Whole, ..Self::text(text) }
    }

    /// A value that is shown in one way on a terminal, and in another to a script.
    pub(crate) fn pair(shown: impl Into<String>, plain: impl Into<String>) -> Self {
        Self { shown: shown.into(), plain: plain.into(), kind: CellKind::Text }
    }

    /// A point in time: its age or its date on a terminal, the full timestamp for a script.
    pub(crate) fn time(at: Option<Timestamp>) -> Self {
        Self::instant(at, format_age)
    }

    /// When something expires: in how many days or its date on a terminal, the full timestamp for a script.
    pub(crate) fn expiry(at: Option<Timestamp>) -> Self {
        Self::instant(at, format_expiry)
    }

    fn instant(at: Option<Timestamp>, format: fn(Timestamp, Timestamp) -> String) -> Self {
        let cell =
            at.map_or_else(|| Self::pair("never", ""), |at| Self::pair(format(at, clock::now()), instant::to_text(at)));
        Self { kind: CellKind::Whole, ..cell }
    }

    /// Marks a row, such as the current one. The script gets a word for it.
    pub(crate) fn mark(is_marked: bool, word: &str) -> Self {
        let cell = if is_marked { Self::pair("*", word) } else { Self::text("") };
        Self { kind: CellKind::Whole, ..cell }
    }
}

impl Table {
    pub(crate) const fn new(headers: &'static [&'static str]) -> Self {
        Self { headers, shown: None, piped: headers.len(), rows: Vec::new() }
    }

    /// Names the columns on a terminal, the most important first. Those at the end are left out if there is no room. Without
    /// this, all columns are shown in their order. The ID is last in any case.
    pub(crate) const fn shown(mut self, headers: &'static [&'static str]) -> Self {
        self.shown = Some(headers);
        self
    }

    /// Gives a script only the first columns.
    pub(crate) const fn piped(mut self, columns: usize) -> Self {
        self.piped = columns;
        self
    }

    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn render(&self, output: &Output) -> String {
        if !output.terminal.stdout {
            return self.render_tabs();
        }
        let ellipsis = if output.terminal.dumb { "..." } else { "…" };
        self.render_columns(output.terminal.columns, ellipsis)
    }

    fn render_tabs(&self) -> String {
        let plain = |cell: &Cell| cell.plain.replace(['\t', '\n', '\r'], " ");
        let line = |row: &Vec<Cell>| row.iter().take(self.piped).map(plain).collect::<Vec<_>>().join("\t");
        self.rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn render_columns(&self, width: usize, ellipsis: &str) -> String {
        let mut columns: Vec<_> = self.column_order().into_iter().map(|index| self.column(index)).collect();
        columns.retain(|column| column.width > 0);
        fit(&mut columns, width);
        let line = |index: Option<usize>| {
            let pad = |column: &Column| {
                let text = shorten(&column.texts[index.map_or(0, |row| row + 1)], column.width, ellipsis);
                format!("{text}{}", " ".repeat(column.width.saturating_sub(display_width(&text))))
            };
            columns.iter().map(pad).collect::<Vec<_>>().join(COLUMN_GAP).trim_end().to_owned()
        };
        let lines = [None].into_iter().chain((0..self.rows.len()).map(Some));
        lines.map(line).collect::<Vec<_>>().join("\n")
    }

    /// The columns on a terminal. The ID is last, because it is long and everything else is read first.
    fn column_order(&self) -> Vec<usize> {
        let all: Vec<usize> = match self.shown {
            Some(shown) => {
                shown.iter().filter_map(|name| self.headers.iter().position(|known| known == name)).collect()
            }
            None => (0..self.headers.len()).collect(),
        };
        let (ids, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|index| self.headers[*index] == ID_HEADER);
        others.into_iter().chain(ids).collect()
    }

    fn column(&self, index: usize) -> Column {
        let cells = || self.rows.iter().filter_map(|row| row.get(index));
        let texts: Vec<_> = [strip_control(self.headers[index])]
            .into_iter()
            .chain(self.rows.iter().map(|row| strip_control(row.get(index).map_or("", |cell| &cell.shown))))
            .collect();
        let width = texts.iter().map(|text| display_width(text)).max().unwrap_or_default();
        let is_id = self.headers[index] == ID_HEADER;
        let is_whole = is_id || cells().any(|cell| cell.kind == CellKind::Whole);
        let narrowest = if is_whole { width } else { width.min(MIN_TEXT_COLUMNS.max(display_width(&texts[0]))) };
        Column { texts, width, narrowest, is_id }
    }
}

/// A column on a terminal: its header and its values.
struct Column {
    texts: Vec<String>,
    width: usize,
    narrowest: usize,
    is_id: bool,
}

/// Makes columns fit: shortens the widest texts first. If that is not enough, it leaves out the last column that is not the ID,
/// and tries again.
fn fit(columns: &mut Vec<Column>, width: usize) {
    let natural: Vec<_> = columns.iter().map(|column| column.width).collect();
    let mut excess = total_width(columns).saturating_sub(width);
    while excess > 0 {
        let widest =
            columns.iter_mut().filter(|column| column.width > column.narrowest).max_by_key(|column| column.width);
        let Some(widest) = widest else { break };
        widest.width -= 1;
        excess -= 1;
    }
    if excess == 0 {
        return;
    }
    // The first column with a header says what the row is.
    let first = columns.iter().position(|column| !column.texts[0].is_empty()).unwrap_or_default();
    let Some(last) = columns.iter().rposition(|column| !column.is_id).filter(|index| *index > first) else { return };
    for (column, natural) in columns.iter_mut().zip(natural) {
        column.width = natural;
    }
    columns.remove(last);
    fit(columns, width);
}

fn total_width(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.width).sum::<usize>() + COLUMN_GAP.len() * columns.len().saturating_sub(1)
}

pub(crate) fn format_date(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

fn format_age(at: Timestamp, now: Timestamp) -> String {
    let ago = |number: i64, unit: &str| format!("{} ago", format_count(number.unsigned_abs(), unit));
    match now.as_second() - at.as_second() {
        seconds @ 0..60 => ago(seconds, "second"),
        seconds @ 60..3600 => ago(seconds / 60, "minute"),
        seconds @ 3600..DAY_SECONDS => ago(seconds / 3600, "hour"),
        _ => format_date(at),
    }
}

fn format_expiry(at: Timestamp, now: Timestamp) -> String {
    match (at.as_second() - now.as_second()).div_euclid(DAY_SECONDS) {
        0 => "today".to_owned(),
        days @ 1..NEAR_EXPIRY_DAYS => format!("in {}", format_count(days.unsigned_abs(), "day")),
        _ => format_date(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn recent_times_are_shown_as_ages_and_others_as_dates() {
        let before = |seconds: i64| format_age(at(1_800_000_000 - seconds), at(1_800_000_000));
        assert_eq!(before(1), "1 second ago");
        assert_eq!(before(150), "2 minutes ago");
        assert_eq!(before(7200), "2 hours ago");
        assert_eq!(before(86_400), "2027-01-14");
        assert_eq!(before(-1), "2027-01-15");
    }

    #[test]
    fn near_expiries_are_shown_in_days_and_others_as_dates_fh_14() {
        let after = |seconds: i64| format_expiry(at(1_800_000_000 + seconds), at(1_800_000_000));
        assert_eq!(after(3600), "today");
        assert_eq!(after(DAY_SECONDS), "in 1 day");
        assert_eq!(after(13 * DAY_SECONDS + 5), "in 13 days");
        assert_eq!(after(14 * DAY_SECONDS), "2027-01-29");
        assert_eq!(after(-3600), "2027-01-15");
    }

    fn tokens() -> Table {
        let mut table = Table::new(&["ID", "NAME", "SCOPES", "LAST USED", "NOTE"]).shown(&[
            "NAME",
            "SCOPES",
            "NOTE",
            "LAST USED",
            "ID",
        ]);
        for (number, name) in
            ["Build server of the release team", "日本語の名前がとても長いプロジェクト"].into_iter().enumerate()
        {
            table.add_row([
                Cell::whole(format!("clit_0000000000000000000000000{number}")),
                Cell::text(name),
                Cell::text("read write"),
                Cell::time(Some(at(1_000_000_000))),
                Cell::text("\u{202e}note\x1b[31m"),
            ]);
        }
        table
    }

    #[test]
    fn columns_fit_the_terminal_and_the_id_is_last_and_whole_fh_14() {
        for width in 40..200 {
            let shown = tokens().render_columns(width, "…");
            for (number, line) in shown.lines().enumerate() {
                assert!(display_width(line) <= width.max(43), "{width}: {line}");
                assert!(!line.contains(['\u{202e}', '\u{1b}']), "{line:?}");
                assert!(
                    number == 0 || line.ends_with(&format!("clit_0000000000000000000000000{}", number - 1)),
                    "{line}"
                );
            }
        }
        let wide = tokens().render_columns(200, "…");
        assert_eq!(
            wide.lines().next().unwrap().split_whitespace().collect::<Vec<_>>(),
            ["NAME", "SCOPES", "NOTE", "LAST", "USED", "ID"]
        );
        assert!(wide.contains("Build server of the release team  ") && wide.contains("2001-09-09"), "{wide}");
        // The least important column goes first.
        let narrow = tokens().render_columns(70, "…");
        assert!(!narrow.contains("LAST USED") && narrow.contains("NOTE"), "{narrow}");
        let narrowest = tokens().render_columns(40, "…");
        assert!(narrowest.starts_with("NAME") && !narrowest.contains("SCOPES"), "{narrowest}");
    }

    #[test]
    fn a_script_gets_full_values_in_their_order_fh_14() {
        let mut table = tokens().piped(3);
        table.add_row([Cell::text("id"), Cell::text("a\tb\nc"), Cell::pair("shown", "plain"), Cell::text("left out")]);
        let piped = table.render_tabs();
        let first = piped.lines().next().unwrap();
        assert_eq!(first, "clit_00000000000000000000000000\tBuild server of the release team\tread write");
        assert!(piped.ends_with("id\ta b c\tplain"), "{piped}");
    }
}
