//! `docs/capacity.md`: what was measured, what is assumed, and what follows.

use std::fmt::Write as _;

use super::{
    costs::{Cost, Costs},
    model::{ASSUMPTIONS, Needs, Rate, USERS},
};

const OPENING: &str = "# Capacity

What operations cost, and what 10⁴ to 10⁹ users would need. `cargo xtask capacity` measures the costs, computes the needs and
writes this page and its plots; nothing here is written by hand. Costs are from one run, those of refreshes medians of three
rounds; runs differ by about 15 %. The rates per user are assumptions, listed below: replace them by your own in
`xtask/src/capacity/model.rs`. [scaling.md](scaling.md) says what to do about it.
";

pub(crate) fn write(costs: &Costs) -> String {
    let mut page = OPENING.to_owned();
    page.push_str(&measured(costs));
    page.push_str(&rows(costs));
    page.push_str(&needed(costs));
    page.push_str(&limits(costs));
    page.push_str("\n## What is assumed\n\n| assumption | value |\n|---|---|\n");
    for assumption in ASSUMPTIONS {
        line(&mut page, &[assumption.what.to_owned(), number(assumption.value)]);
    }
    page
}

fn line(page: &mut String, cells: &[String]) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn measured(costs: &Costs) -> String {
    let mut page = format!(
        "\n## What was measured\n\nOn a machine with {} cores that PostgreSQL {}, one node and the load share; `fsync` {}, \
         `shared_buffers` {}, {} sessions in the table,\nrequests over 16 connections. Processor time is what the kernel counted \
         for the processes, less what they use without requests.\nNo checkpoint and no vacuum ran during a measurement.\n\n\
         | operation | PostgreSQL | node | WAL | transaction ids | measured over |\n|---|---|---|---|---|---|\n",
        costs.cores,
        costs.postgres,
        costs.fsync,
        costs.shared_buffers,
        number(f64::from(costs.grants)),
    );
    let operations: [(&str, &Cost); 9] = [
        ("refresh, of any session", &costs.refresh),
        ("refresh, page not written since the checkpoint", &costs.refresh_cold),
        ("refresh, page not written since the checkpoint, `wal_compression = lz4`", &costs.refresh_cold_lz4),
        ("refresh, page written since the checkpoint", &costs.refresh_warm),
        ("refresh, page written since the checkpoint, `wal_compression = lz4`", &costs.refresh_warm_lz4),
        ("verification of an access token that the node has seen", &costs.verification),
        ("verification of an access token that is new to the node", &costs.first_verification),
        ("CLI token that is new to the node", &costs.cli_token_miss),
        ("sign-in: code, mail, exchange", &costs.sign_in),
    ];
    for (name, cost) in operations {
        let cells = [
            name.to_owned(),
            micros(cost.engine),
            micros(cost.node),
            if cost.wal < 10.0 { "–".to_owned() } else { format!("{} B", number(cost.wal)) },
            if cost.transactions < 0.05 { "–".to_owned() } else { number(cost.transactions) },
            number_of(cost.operations),
        ];
        line(&mut page, &cells);
    }
    let _ = write!(
        page,
        "\nA sign-in writes {} audit events. In memory a revocation takes {} B on every node for {} s, a connection to a node \
         {}, and a connection to PostgreSQL {} there.\n",
        number(costs.events_per_sign_in),
        number(costs.revocation_bytes),
        number(costs.revocation_seconds),
        bytes(costs.http_connection_bytes),
        bytes(costs.database_connection_bytes),
    );
    page
}

fn rows(costs: &Costs) -> String {
    let mut page =
        "\nBytes of a row with its share of all indexes, newly written:\n\n| table | bytes | rows |\n|---|---|---|\n"
            .to_owned();
    for row in &costs.rows {
        let count = u64::try_from(row.rows).unwrap_or_default();
        line(&mut page, &[format!("`{}`", row.table), number(row.bytes), number_of(count)]);
    }
    page
}

fn needed(costs: &Costs) -> String {
    let needs = USERS.map(|users| Needs::of(users, costs));
    let mut page = "\n## What users need\n\nPeaks, unless it says mean.\n\n| users | 10⁴ | 10⁶ | 10⁸ | 10⁹ |\n|---|---|---|---|---|\n"
        .to_owned();
    let mut row = |name: &str, cell: &dyn Fn(&Needs) -> String| {
        let cells: Vec<_> = std::iter::once(name.to_owned()).chain(needs.iter().map(cell)).collect();
        line(&mut page, &cells);
    };
    let both = |rate: Rate| format!("{} / {}", number(rate.mean), number(rate.peak));
    row("refreshes a second, mean / peak", &|needs| both(needs.refreshes));
    row("verifications a second, mean / peak", &|needs| both(needs.verifications));
    row("sign-in mails a second, mean / peak", &|needs| both(needs.sign_ins));
    row("revocations a second, mean / peak", &|needs| both(needs.revocations));
    row("WAL a second, pages cold", &|needs| bytes(needs.wal));
    row("WAL a second, pages cold, lz4", &|needs| bytes(needs.wal_lz4));
    row("cores of PostgreSQL", &|needs| number(needs.engine_cores));
    row("storage: live rows", &|needs| bytes(needs.live_bytes));
    row("storage: audit events of 400 days", &|needs| bytes(needs.audit_bytes));
    row("revocations that every node holds", &|needs| number(needs.revocations_held));
    row("memory of a node for them", &|needs| bytes(needs.revocations_held * costs.revocation_bytes));
    row("cores of all nodes", &|needs| number(needs.node_cores));
    row("nodes", &|needs| number(needs.nodes));
    row("database connections", &|needs| number(needs.connections));
    row("memory of PostgreSQL for them", &|needs| bytes(needs.connections * costs.database_connection_bytes));
    row("200 million transaction ids last", &|needs| time(needs.freeze_days));
    row("first bottleneck of one primary", &|needs| {
        let limit = needs.tightest();
        let share = format!("{} at {} %", limit.name, number(limit.used * 100.0));
        if limit.used < 0.5 { format!("none; {share}") } else { share }
    });
    page.push_str("\n![Operations a second over users](pictures/capacity-rates.svg)\n");
    page
}

fn limits(costs: &Costs) -> String {
    let mut page = "\n## Where one primary ends\n\nThe number of users at which each limit is reached, if nothing else changes:\n\n\
                    | limit | users |\n|---|---|\n"
        .to_owned();
    let names = Needs::of(USERS[0], costs).limits.map(|limit| limit.name);
    let mut reached: Vec<_> =
        names.iter().enumerate().map(|(place, name)| (Needs::users_at_limit(place, costs), name)).collect();
    reached.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (users, name) in reached {
        line(&mut page, &[(*name).to_owned(), format!("{} million", number(users / 1e6))]);
    }
    page.push_str(
        "\nFreezing grows with the square of the users: there are more rows to freeze, and ids are used up sooner. All other\n\
         limits grow with the users.\n\n![Used share of each limit of one primary over users](pictures/capacity-limits.svg)\n",
    );
    page
}

/// A number with three digits that count.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value >= 999.5 {
        return grouped(value);
    }
    let decimals = if value == 0.0 { 0 } else { (2 - digits_before_point(value)).clamp(0, 6) };
    let text = format!("{value:.*}", usize::try_from(decimals).unwrap_or_default());
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[expect(clippy::cast_possible_truncation, reason = "a logarithm of numbers of this page is small")]
fn digits_before_point(value: f64) -> i32 {
    value.abs().log10().floor() as i32
}

/// A large number, rounded to three digits, in groups of three.
fn grouped(value: f64) -> String {
    let unit = 10_f64.powi(digits_before_point(value) - 2);
    let digits = format!("{:.0}", (value / unit).round() * unit);
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn number_of(count: u64) -> String {
    number(count as f64)
}

fn micros(seconds: f64) -> String {
    let value = seconds * 1e6;
    if value < 0.5 { "–".to_owned() } else { format!("{} µs", number(value)) }
}

fn bytes(value: f64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.into_iter().find(|(size, _)| value >= *size);
    unit.map_or_else(|| format!("{} B", number(value)), |(size, name)| format!("{} {name}", number(value / size)))
}

fn time(days: f64) -> String {
    if days >= 700.0 {
        format!("{} years", number(days / 365.0))
    } else if days >= 2.0 {
        format!("{} days", number(days))
    } else {
        format!("{} hours", number(days * 24.0))
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes, number, time};

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.001_234, "0.00123"),
            (0.5, "0.5"),
            (7.0, "7"),
            (12.34, "12.3"),
            (999.4, "999"),
            (1_234.0, "1,230"),
            (694_444.0, "694,000"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!((bytes(4_567.0), bytes(2.1e12)), ("4.57 kB".to_owned(), "2.1 TB".to_owned()));
        assert_eq!((time(0.5), time(64.0)), ("12 hours".to_owned(), "64 days".to_owned()));
    }
}
