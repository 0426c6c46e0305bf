//! The HTTP server on 127.0.0.1 to which the browser redirects, while a user signs in (RFC 8252).
//!
//! Every connection has its own task, so that an idle one does not delay the others. A callback with the wrong state is
//! answered with 400 and otherwise ignored, because any web page can send one.

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

use super::page::{self, HtmlResponse};

const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_HEADER_BYTES: usize = 8 * 1024;
/// How long the server stays up for the browser to fetch the page with the result.
const RESULT_PAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// What a redirect URL says.
#[derive(Debug)]
pub(super) enum Callback {
    Code(OtpCode),
    /// The user cancelled in the browser.
    Denied,
    /// It does not belong to this sign-in.
    Mismatch,
}

/// What a callback must contain to belong to this sign-in.
#[derive(Debug)]
pub(super) struct ExpectedCallback {
    pub(super) state: String,
    pub(super) issuer: String,
}

impl ExpectedCallback {
    /// Reads the query of a redirect URL. It checks the state first: nothing else in a foreign callback matters.
    pub(super) fn check_url(&self, url: &Url) -> Callback {
        let find = |name: &str| url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
        let state = find("state").unwrap_or_default();
        let is_ours = bool::from(state.as_bytes().ct_eq(self.state.as_bytes()));
        // The service always sends its issuer (RFC 9207).
        if !is_ours || find("iss").as_deref() != Some(&self.issuer) {
            return Callback::Mismatch;
        }
        match (find("code"), find("error")) {
            (Some(code), None) => Callback::Code(OtpCode::new(code)),
            (_, Some(_)) => Callback::Denied,
            (None, None) => Callback::Mismatch,
        }
    }
}

/// How far the exchange of the authorization code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExchangeState {
    Pending,
    Succeeded,
    Failed,
}

/// The running server.
pub(super) struct LoopbackServer {
    pub(super) port: u16,
    callbacks: mpsc::UnboundedReceiver<Callback>,
    exchange: watch::Sender<ExchangeState>,
    result_shown: Arc<Notify>,
    task: JoinHandle<()>,
}

/// Answers the requests of browsers.
struct RequestHandler {
    host: String,
    expected: Arc<ExpectedCallback>,
    callbacks: mpsc::UnboundedSender<Callback>,
    exchange: watch::Receiver<ExchangeState>,
    result_shown: Arc<Notify>,
}

impl LoopbackServer {
    /// Listens on a free port of 127.0.0.1. It never uses a host name, which could resolve to something else.
    pub(super) async fn start(expected: Arc<ExpectedCallback>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (sender, callbacks) = mpsc::unbounded_channel();
        let (exchange, watched) = watch::channel(ExchangeState::Pending);
        let result_shown = Arc::<Notify>::default();
        let handler = RequestHandler {
            host: format!("127.0.0.1:{port}"),
            expected,
            callbacks: sender,
            exchange: watched,
            result_shown: result_shown.clone(),
        };
        let task = tokio::spawn(serve(listener, Arc::new(handler)));
        Ok(Self { port, callbacks, exchange, result_shown, task })
    }

    /// Waits for a callback that belongs to this sign-in.
    pub(super) async fn next_callback(&mut self) -> Option<Callback> {
        self.callbacks.recv().await
    }

    /// Shows the result to a browser that is waiting, and stops the server.
    pub(super) async fn stop(self, succeeded: bool, browser_waits: bool) {
        self.exchange.send_replace(if succeeded { ExchangeState::Succeeded } else { ExchangeState::Failed });
        if browser_waits {
            drop(timeout(RESULT_PAGE_TIMEOUT, self.result_shown.notified()).await);
        }
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, handler: Arc<RequestHandler>) {
    // Dropping the set aborts all connections.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let handler = handler.clone();
        connections.spawn(async move {
            let service =
                service_fn(|request| async { Ok::<_, std::convert::Infallible>(handler.handle(request).await) });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEADER_READ_TIMEOUT)
                .max_buf_size(MAX_HEADER_BYTES)
                .keep_alive(false);
            let served = http.serve_connection(TokioIo::new(stream), service).await;
            // The result counts as shown when its bytes were sent.
            if served.is_ok() && *handler.exchange.borrow() != ExchangeState::Pending {
                handler.result_shown.notify_one();
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

impl RequestHandler {
    async fn handle(&self, request: Request<Incoming>) -> HtmlResponse {
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        // Another host name that resolves to this machine is a DNS rebinding attack.
        if host != Some(&self.host) {
            return page::show(StatusCode::BAD_REQUEST, "Bad request", "This host name isn't served here.");
        }
        if request.method() != Method::GET {
            return page::show(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", "Only GET is supported.");
        }
        match request.uri().path() {
            "/callback" => self.handle_callback(&request),
            "/done" => self.show_result().await,
            _ => page::show(StatusCode::NOT_FOUND, "Page not found", "There is nothing at this address."),
        }
    }

    fn handle_callback(&self, request: &Request<Incoming>) -> HtmlResponse {
        let url = Url::parse(&format!("http://{}{}", self.host, request.uri()));
        if let Ok(callback @ (Callback::Code(_) | Callback::Denied)) = url.map(|url| self.expected.check_url(&url)) {
            drop(self.callbacks.send(callback));
            return page::redirect_to_done();
        }
        let text = "This link is from a different sign-in. Go back to the page that the command opened.";
        page::show(StatusCode::BAD_REQUEST, "Wrong sign-in", text)
    }

    /// Waits for the exchange: only then is the user signed in.
    async fn show_result(&self) -> HtmlResponse {
        let mut exchange = self.exchange.clone();
        let state = exchange.wait_for(|state| *state != ExchangeState::Pending).await.map(|state| *state);
        match state {
            Ok(ExchangeState::Succeeded) => {
                page::show(StatusCode::OK, "Signed in", "You can close this window and return to your terminal.")
            }
            _ => page::show(StatusCode::OK, "Sign-in failed", "See your terminal for details."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str) -> Callback {
        let expected = ExpectedCallback { state: "right".into(), issuer: "https://service.example".into() };
        expected.check_url(&Url::parse(&format!("http://127.0.0.1:1/callback?{query}")).unwrap())
    }

    #[test]
    fn the_state_is_checked_first() {
        assert!(matches!(check("state=right&code=c&iss=https%3A%2F%2Fservice.example"), Callback::Code(_)));
        assert!(matches!(check("state=right&error=access_denied&iss=https%3A%2F%2Fservice.example"), Callback::Denied));
        for foreign in [
            "state=wrong&code=c&iss=https%3A%2F%2Fservice.example",
            "state=right&code=c",
            "code=c",
            "state=wrong&error=x",
            "state=right",
            "state=&code=c",
            "state=right&code=c&iss=https%3A%2F%2Fother.example",
        ] {
            assert!(matches!(check(foreign), Callback::Mismatch), "{foreign}");
        }
    }
}
