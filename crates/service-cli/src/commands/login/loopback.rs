//! The door that a browser comes back to: on this machine only, open only while somebody signs in (RFC 8252).
//!
//! One task for each connection, so that one that says nothing holds up no other. A wrong state is answered and waited
//! past: any page could send one.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use hyper::{Method, Request, StatusCode, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use service_api::token::OtpCode;
use subtle::ConstantTimeEq as _;
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use url::Url;

use super::page::{self, Page};

/// How long a connection may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST_BYTES: usize = 8 * 1024;
/// How long a browser may take to fetch the last page.
const FAREWELL: Duration = Duration::from_secs(2);

/// What an address that came back says.
#[derive(Debug)]
pub(super) enum Arrival {
    Code(OtpCode),
    /// Refused in the browser.
    Denied,
    /// Of another sign-in, or nobody's.
    Foreign,
}

/// What an answer must carry to be ours.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) state: String,
    pub(super) issuer: String,
}

impl Expected {
    /// Reads an address by its query. Its state decides first: nothing else in a foreign one matters.
    pub(super) fn judge(&self, url: &Url) -> Arrival {
        let find = |name: &str| url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
        let state = find("state").unwrap_or_default();
        let is_ours = bool::from(state.as_bytes().ct_eq(self.state.as_bytes()));
        // The service always says who it is (RFC 9207).
        if !is_ours || find("iss").as_deref() != Some(&self.issuer) {
            return Arrival::Foreign;
        }
        match (find("code"), find("error")) {
            (Some(code), None) => Arrival::Code(OtpCode::new(code)),
            (_, Some(_)) => Arrival::Denied,
            (None, None) => Arrival::Foreign,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Open,
    Good,
    Bad,
}

pub(super) struct Loopback {
    pub(super) port: u16,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    outcome: watch::Sender<Outcome>,
    shown: Arc<Notify>,
    serving: JoinHandle<()>,
}

struct Door {
    host: String,
    expected: Arc<Expected>,
    arrived: mpsc::UnboundedSender<Arrival>,
    outcome: watch::Receiver<Outcome>,
    shown: Arc<Notify>,
}

impl Loopback {
    /// On the address itself, never on a name for it, and on any free port.
    pub(super) async fn open(expected: Arc<Expected>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (arrived, arrivals) = mpsc::unbounded_channel();
        let (outcome, seen) = watch::channel(Outcome::Open);
        let shown = Arc::<Notify>::default();
        let host = format!("127.0.0.1:{port}");
        let door = Arc::new(Door { host, expected, arrived, outcome: seen, shown: shown.clone() });
        let serving = tokio::spawn(serve(listener, door));
        Ok(Self { port, arrivals, outcome, shown, serving })
    }

    /// The next answer that is ours.
    pub(super) async fn arrival(&mut self) -> Option<Arrival> {
        self.arrivals.recv().await
    }

    /// Tells a waiting browser how it went, and closes the door.
    pub(super) async fn close(self, good: bool, is_waiting: bool) {
        self.outcome.send_replace(if good { Outcome::Good } else { Outcome::Bad });
        if is_waiting {
            drop(timeout(FAREWELL, self.shown.notified()).await);
        }
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, door: Arc<Door>) {
    // Ends all connections when it ends itself.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let door = door.clone();
        connections.spawn(async move {
            let answer = service_fn(|request| async { Ok::<_, std::convert::Infallible>(door.answer(request).await) });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MOST_BYTES).keep_alive(false);
            let served = http.serve_connection(TokioIo::new(stream), answer).await;
            // The last page counts as shown when its bytes have left.
            if served.is_ok() && *door.outcome.borrow() != Outcome::Open {
                door.shown.notify_one();
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Door {
    async fn answer(&self, request: Request<Incoming>) -> Page {
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        // A name that leads here is somebody else's page in disguise.
        if host != Some(&self.host) {
            return page::show(StatusCode::BAD_REQUEST, "Not here", "This address is not served.");
        }
        if request.method() != Method::GET {
            return page::show(StatusCode::METHOD_NOT_ALLOWED, "Not here", "This address is only shown.");
        }
        match request.uri().path() {
            "/callback" => self.come_back(&request),
            "/done" => self.done().await,
            _ => page::show(StatusCode::NOT_FOUND, "Not here", "There is nothing at this address."),
        }
    }

    fn come_back(&self, request: &Request<Incoming>) -> Page {
        let url = Url::parse(&format!("http://{}{}", self.host, request.uri()));
        if let Ok(arrival @ (Arrival::Code(_) | Arrival::Denied)) = url.map(|url| self.expected.judge(&url)) {
            drop(self.arrived.send(arrival));
            return page::go_to_done();
        }
        let text = "This address belongs to another sign-in. Go back to the page that the command opened.";
        page::show(StatusCode::BAD_REQUEST, "Not this sign-in", text)
    }

    /// Waits for the exchange: only then is it true that somebody is signed in.
    async fn done(&self) -> Page {
        let mut outcome = self.outcome.clone();
        let known = outcome.wait_for(|outcome| *outcome != Outcome::Open).await.map(|outcome| *outcome);
        match known {
            Ok(Outcome::Good) => {
                page::show(StatusCode::OK, "Signed in", "You can close this window and go back to the terminal.")
            }
            _ => page::show(StatusCode::OK, "Not signed in", "Go back to the terminal: it says why."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(query: &str) -> Arrival {
        let expected = Expected { state: "right".into(), issuer: "https://service.example".into() };
        expected.judge(&Url::parse(&format!("http://127.0.0.1:1/callback?{query}")).unwrap())
    }

    #[test]
    fn the_state_decides_first() {
        assert!(matches!(judge("state=right&code=c&iss=https%3A%2F%2Fservice.example"), Arrival::Code(_)));
        assert!(matches!(judge("state=right&error=access_denied&iss=https%3A%2F%2Fservice.example"), Arrival::Denied));
        for foreign in [
            "state=wrong&code=c&iss=https%3A%2F%2Fservice.example",
            "state=right&code=c",
            "code=c",
            "state=wrong&error=x",
            "state=right",
            "state=&code=c",
            "state=right&code=c&iss=https%3A%2F%2Fother.example",
        ] {
            assert!(matches!(judge(foreign), Arrival::Foreign), "{foreign}");
        }
    }
}
