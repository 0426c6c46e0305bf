//! `cargo xtask ops traces`: a node sends its spans to a real collector, which then goes away and hangs.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_testkit::leaks::Leaks;
use service_testkit::ports;
use service_testkit::postgres::Cluster;
use service_testkit::response::TestClient;
use service_testkit::server::{SignedIn, otp_exchange, refresh_body, request_code, signed_in};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::nodes::{DrillDatabase, DrillNode, Installation};
use super::report;
use crate::root;
use crate::tools::install_python;

const REQUESTS: usize = 1_000;
/// The part of the requests whose spans the collector must get.
const RECEIVED: f64 = 0.99;
const EMAIL: &str = "person@acme.test";
const ROUNDS: usize = 9;
/// Requests of which p99 is taken, for each state of the collector in each round.
const MEASURED: usize = 150;
/// How much longer p99 may be without a collector. The debug build is not judged: on two busy cores its p99 of 150 requests is
/// chance.
const P99_RATIO: f64 = if cfg!(debug_assertions) { f64::INFINITY } else { 1.5 };
const START_TIMEOUT: Duration = Duration::from_secs(20);
const EXPORT_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) async fn run() -> Result<()> {
    let program = install_rotel()?;
    let cluster = Cluster::start_quiet()?;
    let mut installation = Installation::prepare(&DrillDatabase::create(&cluster).await?).await?;
    let rotel = Rotel::start(&program, installation.directory.path()).await?;
    let mut relay = Relay::start(rotel.address).await?;
    let node = installation.nodes.first_mut().context("there is no node")?;
    node.set("traces.endpoint", &format!("http://{}/v1/traces", relay.address));
    node.set("traces.sample_ratio", "1");
    node.start().await?;

    let leaks = Leaks::default();
    leaks.register("email address", EMAIL);
    let (ids, session) = send_requests(&installation, &leaks).await?;
    let node = installation.nodes.first().context("there is no node")?;
    let printed = rotel.until_printed(&ids).await?;
    let received = ids.iter().filter(|id| printed.contains(id.as_str())).count();
    let recorded = relay.recorded();
    let secrets = leaks.scan("exported bytes", &recorded).len() + leaks.scan("spans", printed.as_bytes()).len();
    let spans = printed.matches("\nSpan #").count();

    let mut ratios = Ratios::default();
    for _ in 0..ROUNDS {
        relay.restart(RelayTarget::Collector(rotel.address)).await?;
        let taken = p99(&node.http, &session).await?;
        relay.stop();
        ratios.gone.push(p99(&node.http, &session).await? / taken);
        relay.restart(RelayTarget::Nowhere).await?;
        ratios.hanging.push(p99(&node.http, &session).await? / taken);
    }
    let (gone, hanging) = (median(&mut ratios.gone), median(&mut ratios.hanging));
    let count = async |outcome: &str| node.metric(&format!("service_trace_spans_total{{outcome=\"{outcome}\"}}")).await;
    let measured = json!({
        "drill": "traces",
        "requests": ids.len(),
        "received": received,
        "spans": spans,
        "exported_bytes": recorded.len(),
        "secrets_found": secrets,
        "p99_ratio_gone": gone,
        "p99_ratio_hanging": hanging,
        "spans_exported": count("exported").await?,
        "spans_failed": count("failed").await?,
        "spans_dropped": count("dropped").await?,
    });
    let enough = f64::from(u32::try_from(received)?) >= RECEIVED * f64::from(u32::try_from(ids.len())?);
    report(&measured, enough && secrets == 0 && gone <= P99_RATIO && hanging <= P99_RATIO)
}

/// How much longer p99 is, in each round, with a collector that is gone and with one that hangs.
#[derive(Default)]
struct Ratios {
    gone: Vec<f64>,
    hanging: Vec<f64>,
}

/// Signs in, and sends requests with everything that must be in no span. Returns the ids of the requests.
async fn send_requests(installation: &Installation, leaks: &Leaks) -> Result<(Vec<String>, SignedIn)> {
    let node: &DrillNode = installation.nodes.first().context("there is no node")?;
    let http = TestClient::new(node.http.url.clone(), leaks.clone())?;
    let (otp_id, code) = request_code(&http, &installation.mailbox, leaks, EMAIL).await?;
    let response = http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?;
    let mut session = signed_in(&response)?;
    let (mut ids, mut cli_token) = (Vec::new(), String::new());
    for number in 0..REQUESTS {
        let request = match number % 10 {
            0 => http.request(Method::POST, "/oauth/token").json(&refresh_body(&session.refresh_token)),
            1 => {
                let body = json!({ "name": format!("Build server {number}"), "scope": "read" });
                http.request(Method::POST, "/v1/cli/tokens").bearer_auth(&session.access_token).json(&body)
            }
            2 => http.request(Method::GET, "/v1/projects").bearer_auth(&cli_token),
            _ => http.request(Method::GET, "/v1/whoami").bearer_auth(&session.access_token),
        };
        let response = http.send(request).await?;
        ensure!(response.status.is_success(), "a request failed: {} {}", response.status, response.text);
        ids.push(response.header("x-request-id").context("a response has no id")?.to_owned());
        match number % 10 {
            0 => session = signed_in(&response)?,
            1 => response.field("access_token").clone_into(&mut cli_token),
            _ => {}
        }
    }
    Ok((ids, session))
}

/// Returns p99 of the time of requests, in seconds.
async fn p99(http: &TestClient, session: &SignedIn) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..MEASURED {
        let began = Instant::now();
        let response = http.get("/v1/whoami", Some(&session.access_token)).await?;
        times.push(began.elapsed().as_secs_f64());
        ensure!(response.status == 200, "a request failed: {} {}", response.status, response.text);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[MEASURED * 99 / 100])
}

fn median(ratios: &mut [f64]) -> f64 {
    ratios.sort_by(f64::total_cmp);
    (ratios[ratios.len() / 2] * 100.0).round() / 100.0
}

/// Installs the collector from `PyPI`; returns its program.
fn install_rotel() -> Result<PathBuf> {
    let folder = root().canonicalize()?.join("target/tools/rotel");
    install_python(&folder, &root().join("xtask/tools/rotel-requirements.txt"))?;
    let libraries = fs::read_dir(folder.join("lib"))?.next().context("the virtual environment is empty")??.path();
    Ok(libraries.join("site-packages/rotel/rotel-agent"))
}

/// A running collector, which prints every span that it gets.
struct Rotel {
    address: SocketAddr,
    output: PathBuf,
    _process: Child,
}

impl Rotel {
    async fn start(program: &Path, folder: &Path) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], ports::free()?));
        let output = folder.join("rotel.log");
        let mut command = Command::new(program);
        command.args([
            "start",
            "--exporter",
            "blackhole",
            "--debug-log",
            "traces",
            "--debug-log-verbosity",
            "detailed",
        ]);
        command.args(["--otlp-http-endpoint", &address.to_string()]);
        command.args(["--otlp-grpc-endpoint", &format!("127.0.0.1:{}", ports::free()?)]);
        command.arg("--pid-file").arg(folder.join("rotel.pid")).env_clear();
        let file = File::create(&output)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let rotel = Self { address, output, _process: command.kill_on_drop(true).spawn()? };
        let began = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            ensure!(began.elapsed() < START_TIMEOUT, "rotel does not listen: {}", rotel.printed()?);
            sleep(Duration::from_millis(50)).await;
        }
        Ok(rotel)
    }

    fn printed(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.output)?).into_owned())
    }

    /// Waits until the spans of all requests are printed, or for as long as that may take. Returns what is printed.
    async fn until_printed(&self, ids: &[String]) -> Result<String> {
        let began = Instant::now();
        loop {
            let printed = self.printed()?;
            if ids.iter().all(|id| printed.contains(id)) || began.elapsed() > EXPORT_TIMEOUT {
                return Ok(printed);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Where a relay passes connections on to.
#[derive(Clone, Copy)]
enum RelayTarget {
    Collector(SocketAddr),
    /// It accepts connections, and never answers.
    Nowhere,
}

/// Stands between the node and the collector, and records what the node sends. While it is stopped, it refuses connections.
struct Relay {
    address: SocketAddr,
    recorded: Arc<Mutex<Vec<u8>>>,
    running: Option<JoinHandle<()>>,
}

impl Relay {
    async fn start(collector: SocketAddr) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], ports::free()?));
        let mut relay = Self { address, recorded: Arc::default(), running: None };
        relay.restart(RelayTarget::Collector(collector)).await?;
        Ok(relay)
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
        }
    }

    async fn restart(&mut self, target: RelayTarget) -> Result<()> {
        if let Some(running) = self.running.take() {
            running.abort();
            // The listener is closed when the task has ended.
            drop(running.await);
        }
        let listener = TcpListener::bind(self.address).await?;
        let recorded = self.recorded.clone();
        self.running = Some(tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                match target {
                    RelayTarget::Collector(collector) => {
                        drop(tokio::spawn(pass_on(stream, collector, recorded.clone())));
                    }
                    RelayTarget::Nowhere => held.push(stream),
                }
            }
        }));
        Ok(())
    }

    fn recorded(&self) -> Vec<u8> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn pass_on(node: TcpStream, collector: SocketAddr, recorded: Arc<Mutex<Vec<u8>>>) -> Result<()> {
    let collector = TcpStream::connect(collector).await?;
    let ((mut from_node, mut to_node), (mut answers, mut requests)) = (node.into_split(), collector.into_split());
    let answering = tokio::spawn(async move { copy(&mut answers, &mut to_node).await });
    let mut buffer = vec![0; 16 * 1_024];
    loop {
        let read = from_node.read(&mut buffer).await?;
        if read == 0 {
            answering.abort();
            return Ok(());
        }
        recorded.lock().unwrap_or_else(PoisonError::into_inner).extend(&buffer[..read]);
        requests.write_all(&buffer[..read]).await?;
    }
}
