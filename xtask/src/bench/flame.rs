//! Where a node spends its time: `perf` samples it while it verifies tokens or refreshes sessions, and a flame graph is drawn.
//!
//! `perf` follows callers by the tables for unwinding that every build has: frame pointers would need another one.

use std::{net::SocketAddr, process::Command, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use service_testkit::{load, process::Process};

use super::{
    Bench,
    refresh::{self, Holder},
    whoami,
};
use crate::{pictures::flame, root, say, say_error};

const GRANTS: u32 = 10_000;
/// How often `perf` takes a sample of each thread, in a second: no divisor of the clock's rate.
const SAMPLES_PER_SECOND: &str = "199";
const SAMPLED: Duration = Duration::from_secs(10);
/// How much longer than the samples the load lasts: `perf` needs a moment to begin.
const BESIDE: Duration = Duration::from_secs(2);
/// Threads whose time is not drawn: they wait, or work for all requests together.
const OUTERMOST: [&str; 2] = ["serviced", "tokio-rt-worker"];

pub(super) async fn measure(bench: &Bench) -> Result<()> {
    let server = &bench.server;
    let address: SocketAddr = server.http.url.trim_start_matches("http://").parse()?;

    let token = whoami::sign_in(bench, "flame@acme.test", "read").await?;
    let request = format!("GET /v1/whoami HTTP/1.1\r\nHost: service.test\r\nAuthorization: Bearer {token}\r\n\r\n");
    let bytes = Arc::new(request.into_bytes());
    let verifying = load::run(address, bench.connections, SAMPLED + BESIDE, move |_, _| bytes.to_vec());
    sample("whoami", "A node that answers GET /v1/whoami", server, verifying).await?;

    refresh::seed(&bench.cluster.url(&bench.database), GRANTS).await?;
    let holder = Arc::new(Holder::new(&bench.settings, GRANTS, bench.connections)?);
    let request = move |connection, number| holder.request(connection, number);
    let refreshing = load::run(address, bench.connections, SAMPLED + BESIDE, request);
    sample("refresh", "A node that refreshes sessions", server, refreshing).await
}

/// Samples the server while the load lasts, and draws the samples.
async fn sample(
    name: &str,
    title: &str,
    server: &Process,
    load: impl Future<Output = Result<load::Seen>>,
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let recorded = folder.path().join("perf.data");
    let mut perf = tokio::process::Command::new("perf");
    perf.args(["record", "--quiet", "--freq", SAMPLES_PER_SECOND, "--call-graph", "dwarf,65528", "--pid"])
        .arg(server.pid().to_string())
        .arg("--output")
        .arg(&recorded)
        .args(["--", "sleep", &SAMPLED.as_secs().to_string()]);
    let (status, seen) = tokio::join!(perf.status(), load);
    ensure!(status.context("perf does not run: install linux-perf")?.success(), "perf cannot sample the server");
    let seen = seen?;
    ensure!(seen.failures == 0, "{} of {} requests failed", seen.failures, seen.requests);
    let script = Command::new("perf").args(["script", "--fields", "comm,ip,sym", "--input"]).arg(&recorded).output()?;
    ensure!(script.status.success(), "perf cannot read what it recorded");

    let mut all = flame::Frame::default();
    for stack in String::from_utf8_lossy(&script.stdout).split("\n\n") {
        if let Some(stack) = outermost_first(stack) {
            all.add(stack.iter().map(String::as_str));
        }
    }
    ensure!(all.samples() > 0, "perf took no samples");
    let file = root().join("docs/pictures").join(format!("bench-flame-{name}.svg"));
    std::fs::write(&file, flame::draw(title, &all))?;
    say(&format!("{:24} {} samples", format!("flame_{name}"), all.samples()));
    say_error(&format!("docs/pictures/bench-flame-{name}.svg"));
    Ok(())
}

/// Returns the functions of one sample, the outermost first; `None` for a thread that is not drawn.
fn outermost_first(sample: &str) -> Option<Vec<String>> {
    let mut lines = sample.lines().filter(|line| !line.is_empty());
    let thread = lines.next()?.trim();
    OUTERMOST.contains(&thread).then_some(())?;
    let mut stack: Vec<_> = lines.filter_map(|line| line.trim().split_once(' ')).map(|(_, name)| short(name)).collect();
    stack.reverse();
    // `perf` names an inlined function once for itself and once for the function that it is a part of.
    stack.dedup();
    // The runtime's own frames are the same below every sample.
    let work = stack.iter().rposition(|name| name.contains("poll_inner") || name.contains("::harness::"));
    // A stack that is deeper than what `perf` copies of it has no beginning.
    let known = || stack.iter().take_while(|name| *name == "[unknown]").count();
    let from = work.unwrap_or_else(known);
    Some(stack.split_off(from))
}

/// Returns the name of a function without the hash and the types that its compiler added.
fn short(name: &str) -> String {
    let name = name.rsplit_once("+0x").map_or(name, |(name, _)| name);
    let name = match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    };
    let mut depth = 0_usize;
    let mut plain = String::new();
    for letter in name.replace("{{closure}}", "…").chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            letter if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    if plain.trim_start_matches(':').is_empty() { name.to_owned() } else { plain.trim_start_matches(':').to_owned() }
}
