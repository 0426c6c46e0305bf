//! Sites between a browser and the service: a phishing site that shows its pages under another host name and rewrites every
//! mention of the real one, and a proxy that lets other sites show its pages in frames.

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// The most bytes of a request that a browser sends here.
const MAX_REQUEST_BYTES: usize = 100_000;

pub(super) struct PhishingProxy {
    /// Where victims are led to.
    pub(super) url: String,
    serving: JoinHandle<()>,
}

impl Drop for PhishingProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What is replaced in what passes.
#[derive(Clone)]
struct Rewriting {
    /// Where the service listens.
    connects_to: String,
    /// The host and port of the service, and of this site.
    real: String,
    fake: String,
    /// The relying party that pages ask for: as it is, or the name of this site.
    relying_party: Option<String>,
    /// Whether the headers pass that forbid other sites to show a page in a frame.
    forbids_frames: bool,
}

impl PhishingProxy {
    /// Starts a site under this host name. `own_relying_party`: it asks the browser for passkeys of its own name.
    pub(super) async fn start(service: &str, host: &str, own_relying_party: bool) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let fake = format!("{host}:{}", listener.local_addr()?.port());
        let real = service.strip_prefix("http://").context("no address")?.to_owned();
        let relying_party = own_relying_party.then(|| host.to_owned());
        let connects_to = real.replace("localhost", "127.0.0.1");
        Ok(Self::serve(listener, Rewriting { connects_to, real, fake, relying_party, forbids_frames: true }))
    }

    /// Starts a proxy of the service at its own address, whose pages other sites can show in frames.
    pub(super) async fn allow_frames(service_port: u16, port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let name = format!("localhost:{port}");
        let connects_to = format!("127.0.0.1:{service_port}");
        let (real, fake) = (name.clone(), name);
        Ok(Self::serve(listener, Rewriting { connects_to, real, fake, relying_party: None, forbids_frames: false }))
    }

    fn serve(listener: TcpListener, rewriting: Rewriting) -> Self {
        let url = format!("http://{}", rewriting.fake);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let rewriting = rewriting.clone();
                tokio::spawn(async move { drop(rewriting.pass(stream).await) });
            }
        });
        Self { url, serving }
    }
}

impl Rewriting {
    /// Passes one request on, and its answer back.
    async fn pass(&self, mut victim: TcpStream) -> Result<()> {
        let (head, body) = read_request(&mut victim).await?;
        let lines =
            head.split("\r\n").filter(|line| !is_header(line, &["connection", "accept-encoding", "content-length"]));
        let head = lines.collect::<Vec<_>>().join("\r\n").replace(&self.fake, &self.real);
        let head = format!("{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut service = TcpStream::connect(&self.connects_to).await?;
        service.write_all(head.as_bytes()).await?;
        service.write_all(&body).await?;
        let mut answer = Vec::new();
        service.read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer).replace(&self.real, &self.fake);
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        let body = match &self.relying_party {
            Some(own) => body.replace("rpId&#34;:&#34;localhost", &format!("rpId&#34;:&#34;{own}")),
            None => body.to_owned(),
        };
        let frames: &[_] = if self.forbids_frames { &[] } else { &["content-security-policy", "x-frame-options"] };
        let is_dropped = |line: &str| is_header(line, &["connection", "content-length"]) || is_header(line, frames);
        let lines = head.split("\r\n").filter(|line| !is_dropped(line));
        let head = lines.collect::<Vec<_>>().join("\r\n");
        let answer = format!("{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        victim.write_all(answer.as_bytes()).await?;
        Ok(victim.shutdown().await?)
    }
}

fn is_header(line: &str, names: &[&str]) -> bool {
    line.split_once(':').is_some_and(|(name, _)| names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)))
}

/// Reads the head of a request without the empty line at its end, and its body.
async fn read_request(stream: &mut TcpStream) -> Result<(String, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(read[..end].to_vec())?;
            let stated = head.split("\r\n").find(|line| is_header(line, &["content-length"]));
            let stated = stated.and_then(|line| line.split_once(':')).map(|(_, length)| length.trim().parse::<usize>());
            let length = stated.transpose()?.unwrap_or_default();
            if read.len() >= end + 4 + length {
                return Ok((head, read[end + 4..].to_vec()));
            }
        }
        let read_now = stream.read_buf(&mut read).await?;
        anyhow::ensure!(read_now > 0 && read.len() < MAX_REQUEST_BYTES, "the request breaks off");
    }
}
