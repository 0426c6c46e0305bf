//! `cargo xtask bench`: the service against what lies under it, interleaved in one run, as ratios.
//!
//! Everything runs on this machine at once: PostgreSQL, the server as a process of its own, the load. So only ratios
//! within one run mean anything, and rounds alternate: bare, ours, bare, ours.

mod audit;
mod bare;
mod cli_token_issuing;
mod cli_tokens;
mod otp_creation;
mod pgbench;
mod refresh;
mod search;
mod whoami;

use std::{fs, path::PathBuf, process::Command, time::Duration};

use anyhow::{Result, ensure};
use service_testkit::{
    leaks::Leaks, mailbox::Mailbox, postgres::Cluster, process::Process, server::fresh_database, settings::Settings,
};

use crate::{build_server, root, say, say_error};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// One line of JSON for each measurement
    #[arg(long)]
    json: bool,
    /// One short round each: whether it runs, not how fast
    #[arg(long)]
    quick: bool,
    /// Only what is named like this: `whoami`, `otp_creation`, `cli_tokens`, `search`, `audit` or `refresh`
    #[arg(long)]
    only: Option<String>,
    /// Measure the unoptimised build
    #[arg(long)]
    debug: bool,
    /// Connections the load is sent over
    #[arg(long, default_value_t = 32)]
    connections: u64,
    /// Serve a file's bytes at /v1/whoami and nothing else: the bare handler
    #[arg(long, hide = true)]
    bare: Option<PathBuf>,
}

/// What both sides of a measurement share.
pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    pub(crate) database: String,
    pub(crate) mailbox: Mailbox,
    pub(crate) leaks: Leaks,
    pub(crate) settings: Settings,
    pub(crate) server: Process,
    /// The same with a line in the log for every request, which somebody has to read.
    pub(crate) logging: Process,
    pub(crate) connections: u64,
    pub(crate) round: Duration,
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
}

/// Requests or transactions a second, round by round.
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) ours: Vec<f64>,
    pub(crate) bare: Vec<f64>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(file) = &options.bare {
        return tokio::runtime::Runtime::new()?.block_on(bare::serve(file));
    }
    if cfg!(debug_assertions) && !options.debug {
        return again_in_release();
    }
    tokio::runtime::Runtime::new()?.block_on(measure(options))
}

fn again_in_release() -> Result<()> {
    say_error("Building in release mode …");
    let arguments = std::env::args_os().skip(1);
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--release", "--package", "xtask", "--"])
        .args(arguments)
        .current_dir(root())
        .status()?;
    ensure!(status.success(), "the benchmark failed");
    Ok(())
}

async fn measure(options: &Options) -> Result<()> {
    let bench = Bench::start(options).await?;
    say_error(&format!("Load of the machine before: {}", load()));
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| only == name);
    if wanted("whoami") {
        for measured in whoami::measure(&bench).await? {
            report(&measured, options.json);
        }
    }
    if wanted("otp_creation") {
        report(&otp_creation::measure(&bench).await?, options.json);
    }
    if wanted("cli_tokens") {
        for measured in cli_tokens::measure(&bench).await? {
            report(&measured, options.json);
        }
        report(&cli_token_issuing::measure(&bench).await?, options.json);
    }
    if wanted("search") {
        report(&search::measure(&bench).await?, options.json);
    }
    if wanted("audit") {
        report(&audit::measure(&bench).await?, options.json);
    }
    if wanted("refresh") {
        for measured in refresh::measure(&bench).await? {
            report(&measured, options.json);
        }
    }
    say_error(&format!("Load of the machine after: {}", load()));
    Ok(())
}

impl Bench {
    async fn start(options: &Options) -> Result<Self> {
        let binary = build_server(!options.debug)?;
        let cluster = Cluster::start_quiet()?;
        let database = fresh_database(&cluster).await?;
        let mailbox = Mailbox::start().await?;
        // Mail is sent by another worker; here nothing but the request is to be measured.
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
        Ok(Self { cluster, database, mailbox, leaks, settings, server, logging, connections, round, rounds, quick })
    }
}

impl Bench {
    /// The engine by itself.
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

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}
