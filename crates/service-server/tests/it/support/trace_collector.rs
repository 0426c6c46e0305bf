//! A collector of traces on this machine. It keeps what it gets.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use service_testkit::server::Setup;

const SOON: Duration = Duration::from_secs(10);

/// What a collector does with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Takes,
    /// Reads the request, and never answers.
    Hangs,
}

/// A running collector.
pub(crate) struct TraceCollector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<u8>>>,
    bodies: Arc<Mutex<Vec<Value>>>,
    stopped: Arc<AtomicBool>,
}

impl TraceCollector {
    pub(crate) fn start(manner: Manner) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let collector = Self {
            address: listener.local_addr()?,
            received: Arc::default(),
            bodies: Arc::default(),
            stopped: Arc::default(),
        };
        let (received, bodies, stopped) =
            (collector.received.clone(), collector.bodies.clone(), collector.stopped.clone());
        thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok((bytes, body)) = read(&stream) else { continue };
                lock(&received).extend(bytes);
                if manner == Manner::Hangs {
                    held.push(stream);
                    continue;
                }
                lock(&bodies).push(body);
                let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
                drop((&stream).write_all(answer.as_bytes()));
            }
        });
        Ok(collector)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/traces", self.address)
    }

    /// A server that traces every request and sends the spans here.
    pub(crate) fn setup(&self) -> Setup {
        Setup::default().set("traces.endpoint", &self.url()).set("traces.sample_ratio", "1")
    }

    /// Everything that was received, with the heads of requests.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        lock(&self.received).clone()
    }

    /// All spans so far.
    pub(crate) fn spans(&self) -> Vec<Value> {
        let bodies = lock(&self.bodies);
        let spans = bodies.iter().filter_map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array());
        spans.flatten().cloned().collect()
    }

    /// Waits for a span with this attribute.
    pub(crate) async fn span(&self, key: &str, value: &str) -> Result<Value> {
        let began = Instant::now();
        loop {
            if let Some(found) = self.spans().into_iter().find(|span| attribute(span, key) == Some(value.into())) {
                return Ok(found);
            }
            ensure!(began.elapsed() < SOON, "no span has {key} = {value}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for TraceCollector {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
    }
}

/// The value of an attribute as a text.
pub(crate) fn attribute(span: &Value, key: &str) -> Option<String> {
    let found = span["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?;
    let value = found["value"].as_object()?.values().next()?;
    value.as_str().map(str::to_owned)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a request: all of its bytes, and its body.
fn read(stream: &TcpStream) -> Result<(Vec<u8>, Value)> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let begun = head.len();
        reader.read_line(&mut head)?;
        let line = head[begun..].trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let json = serde_json::from_slice(&body).context("the body is not JSON")?;
    Ok(([head.into_bytes(), body].concat(), json))
}
