//! How long refreshes take at a quarter, a half, three quarters and nine tenths of what a node reaches.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Result, ensure};
use serde_json::json;
use service_testkit::load::{self, Pace};

use super::{
    Bench,
    refresh::{self, Holder},
};
use crate::{pictures::histograms::Histogram, say};

const GRANTS: u32 = 10_000;
const SHARES: [u32; 4] = [25, 50, 75, 90];

pub(super) async fn measure(bench: &Bench, json: bool) -> Result<Vec<Histogram>> {
    refresh::seed(&bench.cluster.url(&bench.database), GRANTS).await?;
    let holder = Arc::new(Holder::new(&bench.settings, GRANTS, bench.connections)?);
    let request = move |connection, number| holder.request(connection, number);
    let address: SocketAddr = bench.server.http.url.trim_start_matches("http://").parse()?;
    let most = load::run(address, bench.connections, bench.round, request.clone()).await?;
    ensure!(most.failures == 0, "{} of {} requests failed", most.failures, most.requests);
    let mut times: Vec<Vec<f64>> = SHARES.map(|_| Vec::new()).into();
    for _ in 0..bench.rounds {
        for (share, times) in SHARES.iter().zip(&mut times) {
            let pace = Pace { per_second: most.per_second() * f64::from(*share) / 100.0, duration: bench.round };
            times.extend(load::at_rate(address, bench.connections, pace, request.clone()).await?);
        }
    }
    let mut histograms = Vec::new();
    for (share, mut times) in SHARES.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)];
        let rate = most.per_second() * f64::from(*share) / 100.0;
        let name = format!("{share} % of the highest rate, {rate:.0}/s");
        if json {
            let line = json!({ "name": format!("refresh_latency_{share}"), "per_second": rate.round(), "p50_ms": at(50), "p99_ms": at(99) });
            say(&line.to_string());
        } else {
            say(&format!("refresh_latency_{share:<8} {rate:.0}/s; p50 {:.2} ms, p99 {:.2} ms", at(50), at(99)));
        }
        histograms.push(Histogram { name, times });
    }
    Ok(histograms)
}
