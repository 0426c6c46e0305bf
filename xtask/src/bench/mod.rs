//! `cargo xtask bench`: compares the service with what it is built on, in alternating rounds, as ratios.
//!
//! PostgreSQL, the server and the load all run on this machine. So only ratios within one run are meaningful, and
//! rounds alternate: bare, ours, bare, ours.

mod against;
mod audit;
pub(crate) mod bare;
mod cli_token_issuing;
mod cli_tokens;
pub(crate) mod engine;
mod feed;
mod flame;
mod growth;
mod half_load;
mod half_sent;
mod idle;
mod latency;
mod mcp;
mod others;
mod otp_creation;
mod passkey_sign_in;
pub(crate) mod pgbench;
mod plot;
pub(crate) mod refresh;
mod search;
mod search_quota;
mod slow_provider;
mod whoami;

use std::{fs, path::PathBuf, process::Command, time::Duration};

use anyhow::{Result, ensure};
use service_testkit::{
    leaks::Leaks, mailbox::Mailbox, postgres::Cluster, process::Process, server::fresh_database, settings::Settings,
};

use self::plot::Results;
use crate::{build_server, progress::Plan, root, say, say_error};

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command")]
pub(crate) struct BenchOptions {
    /// Print one line of JSON for each measurement
    #[arg(long)]
    json: bool,
    /// One short round each, to see whether it runs
    #[arg(long)]
    quick: bool,
    /// Only these measurements, separated by commas: `whoami`, `mcp`, `otp_creation`, `cli_tokens`, `passkey_sign_in`,
    /// `search`, `search_quota`, `half_sent`, `slow_provider`, `audit`, `refresh`, `half_load`, `latency`, `idle`, `feed`
    /// or `growth`
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Draw what was measured into docs/pictures
    #[arg(long)]
    plot: bool,
    /// Sample a server with `perf` instead, and draw where it spends its time into docs/pictures
    #[arg(long)]
    flame: bool,
    /// Compare with another revision instead: both are built and run in alternating rounds
    #[arg(long, value_name = "REVISION")]
    against: Option<String>,
    /// Rounds of a comparison
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Measure the debug build
    #[arg(long)]
    debug: bool,
    /// Connections of the load
    #[arg(long, default_value_t = 32)]
    connections: u64,
    /// Serve the bytes of a file at /v1/whoami: the bare handler
    #[arg(long, hide = true)]
    bare: Option<PathBuf>,
    /// Attack an address for this many milliseconds with this many half-sent and silent connections
    #[arg(long, hide = true, num_args = 4)]
    dawdle: Option<Vec<String>>,
}

impl BenchOptions {
    /// Whether a measurement is wanted: all are, unless some are named.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

/// The measurements in their order.
const MEASUREMENTS: [&str; 16] = [
    "mcp",
    "whoami",
    "otp_creation",
    "cli_tokens",
    "passkey_sign_in",
    "search",
    "search_quota",
    "half_sent",
    "slow_provider",
    "audit",
    "refresh",
    "half_load",
    "latency",
    "idle",
    "feed",
    "growth",
];

/// What both sides of a measurement share.
pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    pub(crate) database: String,
    pub(crate) mailbox: Mailbox,
    pub(crate) leaks: Leaks,
    pub(crate) settings: Settings,
    pub(crate) binary: PathBuf,
    pub(crate) server: Process,
    /// A server that logs a line for every request, which is read.
    pub(crate) logging: Process,
    pub(crate) connections: u64,
    pub(crate) round: Duration,
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
}

/// Requests or transactions per second of each round.
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) ours: Vec<f64>,
    pub(crate) bare: Vec<f64>,
}

pub(crate) fn run(options: &BenchOptions) -> Result<()> {
    if let Some(file) = &options.bare {
        return tokio::runtime::Runtime::new()?.block_on(bare::serve(file));
    }
    if let Some(dawdle) = &options.dawdle {
        return tokio::runtime::Runtime::new()?.block_on(half_sent::dawdle(dawdle));
    }
    if cfg!(debug_assertions) && !options.debug {
        return again_in_release();
    }
    let runtime = tokio::runtime::Runtime::new()?;
    match &options.against {
        Some(revision) => runtime.block_on(against::compare(options, revision)),
        None => runtime.block_on(measure(options)),
    }
}

pub(crate) fn again_in_release() -> Result<()> {
    say_error("Building in release mode …");
    let arguments = std::env::args_os().skip(1);
    let status = Command::new("cargo")
        // It builds all packages at once: of one alone, cargo would build dependencies again with other features.
        .args(["run", "--release", "--package", "xtask-start", "--"])
        .args(arguments)
        .current_dir(root())
        .status()?;
    ensure!(status.success(), "the measurement failed");
    Ok(())
}

async fn measure(options: &BenchOptions) -> Result<()> {
    if options.flame {
        return flame::measure(&Bench::start(options).await?).await;
    }
    let exists = |only: &String| MEASUREMENTS.contains(&only.as_str());
    ensure!(options.only.iter().all(exists), "there is no such measurement; --help lists them");
    let mut plan = Plan::new(MEASUREMENTS.into_iter().filter(|name| options.wants(name)).count());
    let bench = Bench::start(options).await?;
    say_error(&format!("Load of the machine before: {}", load()));
    let mut wanted = |name: &str| {
        let is_chosen = options.wants(name);
        if is_chosen {
            plan.begin(name);
        }
        is_chosen
    };
    let mut results = Results { ratios: ratios(&bench, options.json, &mut wanted).await?, ..Results::default() };
    let mut measured = measure_others(&bench, options.json, &mut wanted).await;
    measured.extend(measure_node(&bench, options.json, &mut results, wanted).await);
    if options.plot {
        plot::draw(&results)?;
    }
    say_error(&format!("Load of the machine after: {}", load()));
    // An aim that is missed is an error only after everything was measured and drawn.
    let errors: Vec<_> = measured.into_iter().filter_map(|result| Some(format!("{:#}", result.err()?))).collect();
    ensure!(errors.is_empty(), "{}", errors.join("; "));
    Ok(())
}

/// Measures what has a bare counterpart.
async fn ratios(bench: &Bench, json: bool, mut wanted: impl FnMut(&str) -> bool) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    let mut add = |measured: Measured| {
        report(&measured, json);
        all.push(measured);
    };
    if wanted("mcp") {
        add(mcp::measure(bench).await?);
    }
    if wanted("whoami") {
        whoami::measure(bench).await?.into_iter().for_each(&mut add);
    }
    if wanted("otp_creation") {
        add(otp_creation::measure(bench).await?);
    }
    if wanted("cli_tokens") {
        cli_tokens::measure(bench).await?.into_iter().for_each(&mut add);
        add(cli_token_issuing::measure(bench).await?);
    }
    if wanted("passkey_sign_in") {
        add(passkey_sign_in::measure(bench).await?);
    }
    if wanted("search") {
        add(search::measure(bench).await?);
    }
    if wanted("audit") {
        add(audit::measure(bench).await?);
    }
    if wanted("refresh") {
        refresh::measure(bench).await?.into_iter().for_each(&mut add);
    }
    Ok(all)
}

/// Measures what the load of some users costs the others.
async fn measure_others(bench: &Bench, json: bool, mut wanted: impl FnMut(&str) -> bool) -> Vec<Result<()>> {
    let mut measured = Vec::new();
    if wanted("search_quota") {
        measured.push(search_quota::measure(bench, json).await);
    }
    if wanted("half_sent") {
        measured.push(half_sent::measure(bench, json).await);
    }
    if wanted("slow_provider") {
        measured.push(slow_provider::measure(bench, json).await);
    }
    measured
}

/// Measures what a node costs, rather than what it reaches.
async fn measure_node(
    bench: &Bench,
    json: bool,
    results: &mut Results,
    mut wanted: impl FnMut(&str) -> bool,
) -> Vec<Result<()>> {
    let mut measured = Vec::new();
    if wanted("half_load") {
        measured.push(half_load::measure(bench, json).await);
    }
    if wanted("latency") {
        measured.push(latency::measure(bench, json).await.map(|latencies| results.latencies = latencies));
    }
    if wanted("idle") {
        measured.push(idle::measure(bench, json).await);
    }
    if wanted("feed") {
        measured.push(feed::measure(bench, json).await);
    }
    if wanted("growth") {
        let grown = growth::measure(bench, json).await;
        measured.push(grown.and_then(|grown| {
            results.growth = grown;
            if bench.quick { Ok(()) } else { growth::check(&results.growth) }
        }));
    }
    measured
}

impl Bench {
    async fn start(options: &BenchOptions) -> Result<Self> {
        let binary = build_server(!options.debug)?;
        let cluster = Cluster::start_quiet()?;
        let database = fresh_database(&cluster).await?;
        let mailbox = Mailbox::start().await?;
        // Mail is sent by another task. Only the request is measured here.
        mailbox.stall(true);
        let mut settings = Settings::complete(&cluster.service_url(&database), &mailbox)?;
        settings.set("http.trusted_proxies", "127.0.0.1/32");
        settings.set("database.connections", "32");
        let leaks = Leaks::default();
        let logging = Process::start(&binary, &settings, &leaks)?;
        settings.set("log.filter", "warn,serviced=info");
        let server = Process::start(&binary, &settings, &leaks)?;
        let (round, rounds) = if options.quick { (Duration::from_millis(500), 1) } else { (Duration::from_secs(4), 5) };
        let (connections, quick) = (options.connections, options.quick);
        Ok(Self {
            cluster,
            database,
            mailbox,
            leaks,
            settings,
            binary,
            server,
            logging,
            connections,
            round,
            rounds,
            quick,
        })
    }
}

impl Bench {
    /// Returns the database, for measuring it alone.
    fn target(&self) -> pgbench::Target {
        pgbench::Target { url: self.cluster.url(&self.database), round: self.round }
    }
}

fn report(measured: &Measured, json: bool) {
    let (ours, bare) = (median(&measured.ours), median(&measured.bare));
    let ratio = ours / bare;
    if json {
        say(&serde_json::json!({ "name": measured.name, "ours": ours.round(), "bare": bare.round(), "ratio": (ratio * 1000.0).round() / 1000.0 }).to_string());
    } else {
        say(&format!("{:24} ours {ours:9.0}/s   bare {bare:9.0}/s   ratio {ratio:.3}", measured.name));
    }
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Returns the load of the machine, as the kernel averages it.
pub(crate) fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{cli_token_issuing, otp_creation, passkey_sign_in, refresh, search};

    /// Scripts for pgbench find statements of the service by how they begin.
    #[test]
    fn scripts_find_their_statements() {
        cli_token_issuing::script_text().unwrap();
        otp_creation::script_text().unwrap();
        passkey_sign_in::script_text(2).unwrap();
        refresh::script_text(2).unwrap();
        search::index_statement().unwrap();
    }
}
