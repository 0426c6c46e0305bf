//! Refreshes at half of the load that a node can take one by one: what sharing statements costs each of them.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Result, ensure};
use serde_json::json;
use service_testkit::{
    load::{self, Pace},
    process::Process,
};

use super::{
    Bench, median,
    refresh::{self, Holder},
};
use crate::{say, say_error};

const GRANTS: u32 = 10_000;
/// The longest that refreshes which share statements may take, in times of those one by one; with room for what rounds differ by.
const MAX_RATIO: f64 = 1.1;

pub(super) async fn measure(bench: &Bench, json: bool) -> Result<()> {
    refresh::seed(&bench.cluster.url(&bench.database), GRANTS).await?;
    let mut settings = bench.settings.clone();
    settings.set("database.coalesce", "no");
    let one_by_one = Process::start(&bench.binary, &settings, &bench.leaks)?;
    let holder = Arc::new(Holder::new(&bench.settings, GRANTS, bench.connections)?);
    let request = {
        let holder = holder.clone();
        move |connection, number| holder.request(connection, number)
    };
    let address = |process: &Process| anyhow::Ok(process.http.url.trim_start_matches("http://").parse::<SocketAddr>()?);
    let (alone, together) = (address(&one_by_one)?, address(&bench.server)?);
    let most = load::run(alone, bench.connections, bench.round, request.clone()).await?;
    ensure!(most.failures == 0, "{} of {} requests failed", most.failures, most.requests);
    let pace = Pace { per_second: most.per_second() / 2.0, duration: bench.round };

    let mut ratios = Vec::new();
    for round in 0..bench.rounds {
        // Each is first in every second round.
        let mut sides = [alone, together];
        sides.rotate_left(round % 2);
        let first = p99(load::at_rate(sides[0], bench.connections, pace, request.clone()).await?);
        let second = p99(load::at_rate(sides[1], bench.connections, pace, request.clone()).await?);
        let (alone, together) = if round % 2 == 0 { (first, second) } else { (second, first) };
        say_error(&format!("p99: {alone:.2} ms one by one, {together:.2} ms together"));
        ratios.push(together / alone);
    }
    let (ratio, rate) = (median(&ratios), pace.per_second);
    if json {
        say(&json!({ "name": "refresh_half_load", "per_second": rate.round(), "p99_ratio": ratio }).to_string());
    } else {
        say(&format!("{:24} {rate:.0}/s; p99 × {ratio:.2} of refreshes one by one", "refresh_half_load"));
    }
    ensure!(bench.quick || ratio <= MAX_RATIO, "refreshes that share statements take {ratio:.2} times as long");
    Ok(())
}

fn p99(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() * 99 / 100).copied().unwrap_or_default()
}
