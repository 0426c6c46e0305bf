//! The figures of all products, as a table or as JSON.

use serde_json::json;

use super::measure::{Entry, RoundCost};
use crate::{bench::median, say};

/// The medians of an operation of a product.
struct Medians {
    per_second: f64,
    server_micros: Option<f64>,
    postgres_micros: f64,
    megabytes: Option<f64>,
}

pub(super) fn print(entries: &[Entry], json: bool) {
    if !json {
        let titles = ["per second", "server µs", "PostgreSQL µs", "memory MB"];
        let [rate, server, postgres, memory] = titles;
        say(&format!("{:14} {:32} {rate:>12} {server:>12} {postgres:>14} {memory:>10}", "operation", "product"));
    }
    for entry in entries {
        let medians = medians(&entry.rounds);
        say(&if json { json_line(entry, &medians) } else { table_line(entry, &medians) });
    }
}

fn json_line(entry: &Entry, medians: &Medians) -> String {
    json!({
        "operation": entry.operation,
        "product": entry.product,
        "per_second": medians.per_second.round(),
        "server_micros": medians.server_micros.map(one_digit),
        "postgres_micros": one_digit(medians.postgres_micros),
        "megabytes": medians.megabytes.map(one_digit),
    })
    .to_string()
}

fn table_line(entry: &Entry, medians: &Medians) -> String {
    let figure = |value: Option<f64>| value.map_or_else(|| "—".to_owned(), |value| format!("{value:.0}"));
    format!(
        "{:14} {:32} {:>12.0} {:>12} {:>14.0} {:>10}",
        entry.operation,
        entry.product,
        medians.per_second,
        figure(medians.server_micros),
        medians.postgres_micros,
        figure(medians.megabytes),
    )
}

fn medians(rounds: &[RoundCost]) -> Medians {
    let all = |figure: fn(&RoundCost) -> f64| median(&rounds.iter().map(figure).collect::<Vec<_>>());
    let known = |figure: fn(&RoundCost) -> Option<f64>| {
        let values: Vec<_> = rounds.iter().filter_map(figure).collect();
        (!values.is_empty()).then(|| median(&values))
    };
    Medians {
        per_second: all(|round| round.per_second),
        server_micros: known(|round| round.server_micros),
        postgres_micros: all(|round| round.postgres_micros),
        megabytes: known(|round| round.megabytes),
    }
}

fn one_digit(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::{RoundCost, medians};

    #[test]
    fn a_product_without_a_server_has_no_figures_of_one() {
        let round = |per_second| RoundCost { per_second, server_micros: None, postgres_micros: 2.0, megabytes: None };
        let found = medians(&[round(1.0), round(9.0), round(3.0)]);
        assert!((found.per_second - 3.0).abs() < f64::EPSILON);
        assert!(found.server_micros.is_none() && found.megabytes.is_none());
    }
}
