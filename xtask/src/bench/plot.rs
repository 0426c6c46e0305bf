//! The pictures of docs/performance.md, of what a run has measured.

use std::fs;

use anyhow::Result;

use super::{Measured, growth::Grown, median};
use crate::{
    pictures::{
        curves::{Curve, CurvePoint, Curves},
        histograms::{self, Histogram},
        spreads::{self, Spread},
    },
    root, say_error,
};

/// What a run has measured. What is empty was not chosen, and its picture stays as it is.
#[derive(Default)]
pub(super) struct Results {
    pub(super) ratios: Vec<Measured>,
    pub(super) growth: Vec<Grown>,
    pub(super) latencies: Vec<Histogram>,
}

/// Returns the smallest ratio that a measurement should reach; docs/performance.md explains them.
fn aim(name: &str) -> Option<f64> {
    Some(match name {
        "whoami" | "cli_token_hit" | "passkey_sign_in" => 0.85,
        "whoami_logged" => 0.6,
        "otp_creation" => 0.8,
        "cli_token_miss" => 0.7,
        "refresh_1e4" | "refresh_1e6" | "refresh_128" => 1.3,
        _ => return None,
    })
}

/// Draws the pictures into docs/pictures.
pub(super) fn draw(results: &Results) -> Result<()> {
    if !results.ratios.is_empty() {
        let spreads: Vec<_> = results.ratios.iter().map(spread).collect();
        write(
            "bench-ratios.svg",
            &spreads::draw("Ours as a part of bare: median, lowest and highest round, aim", &spreads),
        )?;
    }
    if !results.growth.is_empty() {
        write("bench-growth.svg", &growth(&results.growth))?;
    }
    if !results.latencies.is_empty() {
        write("bench-latency.svg", &histograms::draw("Time of a refresh over the load", &results.latencies))?;
    }
    Ok(())
}

fn spread(measured: &Measured) -> Spread {
    let mut ratios: Vec<_> = measured.ours.iter().zip(&measured.bare).map(|(ours, bare)| ours / bare).collect();
    ratios.sort_by(f64::total_cmp);
    Spread { name: measured.name.to_owned(), ratios, aim: aim(measured.name) }
}

fn growth(grown: &[Grown]) -> String {
    let curve = |grown: &Grown| Curve {
        name: format!("{} × {:.2}", grown.name.replace('_', " "), grown.ratio()),
        points: grown
            .sizes
            .iter()
            .map(|size| CurvePoint { x: f64::from(size.rows), y: median(&size.per_second) })
            .collect(),
    };
    let lines = grown.iter().map(curve).collect();
    let title = "Operations a second, over the rows of their tables";
    Curves { title, lines, over: "rows", across: [4, 7], down: [0, 5], marks_one: false }.draw()
}

fn write(name: &str, picture: &str) -> Result<()> {
    say_error(&format!("docs/pictures/{name}"));
    Ok(fs::write(root().join("docs/pictures").join(name), picture)?)
}
