//! The effect on other users of a network that opens connections and sends nothing, or half of a body.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::AtomicU64,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use service_testkit::process::Process;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
    process::Command,
    task::JoinSet,
};

use super::{Bench, others::Others};
use crate::{say, say_error};

const HALF_SENT: usize = 5_000;
const SILENT: usize = 2_000;
const MAX_RATIO: f64 = 1.5;
const HALF: &str = "POST /v1/login-options HTTP/1.1\r\nHost: service.test\r\nContent-Type: application/json\r\n\
                    Content-Length: 1000\r\n\r\n{\"email\":";

pub(super) async fn measure(bench: &Bench, json: bool) -> Result<()> {
    bench.mailbox.stall(false);
    let mut settings = bench.settings.clone();
    settings.set("http.trusted_proxies", "");
    let server = Process::start(&bench.binary, &settings, &bench.leaks)?;
    let others =
        Others { http: &server.http, mailbox: &bench.mailbox, leaks: &bench.leaks, made: AtomicU64::default() };
    let address: SocketAddr = server.http.url.trim_start_matches("http://").parse()?;
    let (rounds, duration) = if bench.quick { (1, Duration::from_secs(2)) } else { (5, Duration::from_secs(8)) };
    let (half, silent) = if bench.quick { (500, 200) } else { (HALF_SENT, SILENT) };
    let ratio = others
        .compare("half-sent requests", rounds, duration, async |until| attack(address, half, silent, until).await)
        .await?;
    if json {
        say(
            &serde_json::json!({ "name": "half_sent", "half_sent": half, "silent": silent, "others_p99_ratio": ratio })
                .to_string(),
        );
    } else {
        say(&format!(
            "{:24} {half} half-sent bodies, {silent} silent connections; others' p99 × {ratio:.2}",
            "half_sent"
        ));
    }
    ensure!(bench.quick || ratio <= MAX_RATIO, "others waited {ratio:.2} times as long");
    Ok(())
}

/// Runs the attack in a process of its own. It has the lowest priority, because a real attacker would use another
/// machine's processor.
async fn attack(server: SocketAddr, half: usize, silent: usize, until: Instant) -> Result<()> {
    let left = until.saturating_duration_since(Instant::now()).as_millis();
    let mut attacker = Command::new("nice");
    attacker.args(["-n", "19"]).arg(std::env::current_exe()?).args(["bench", "--dawdle", &server.to_string()]);
    attacker.args([left, half as u128, silent as u128].map(|number| number.to_string()));
    ensure!(attacker.status().await?.success(), "the attack failed");
    Ok(())
}

/// Keeps connections open from one network. A connection that the server closes is opened again a second later.
pub(super) async fn dawdle(arguments: &[String]) -> Result<()> {
    let [server, milliseconds, half, silent] = arguments else { bail!("four arguments are needed") };
    let (server, half, silent): (SocketAddr, usize, usize) = (server.parse()?, half.parse()?, silent.parse()?);
    let until = Instant::now() + Duration::from_millis(milliseconds.parse()?);
    let mut peers = JoinSet::new();
    for number in 0..half + silent {
        let from = IpAddr::V4(Ipv4Addr::new(127, 9, 9, u8::try_from(number % 250)? + 1));
        peers.spawn(wait(server, SocketAddr::new(from, 0), if number < half { HALF } else { "" }, until));
    }
    let mut held = 0;
    while let Some(ended) = peers.join_next().await {
        held += usize::from(ended?);
    }
    say_error(&format!("{held} of {} connections were held for two seconds or more", half + silent));
    Ok(())
}

/// Whether the server kept the connection open for two seconds.
async fn wait(server: SocketAddr, from: SocketAddr, sent: &str, until: Instant) -> bool {
    let mut held = false;
    while Instant::now() < until {
        let began = Instant::now();
        let held_open = async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(from)?;
            let mut stream = socket.connect(server).await?;
            stream.write_all(sent.as_bytes()).await?;
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await
        };
        drop(tokio::time::timeout_at(until.into(), held_open).await);
        held |= began.elapsed() >= Duration::from_secs(2);
        let again = (Instant::now() + Duration::from_secs(1)).min(until);
        tokio::time::sleep_until(again.into()).await;
    }
    held
}
