//! One connection: HTTP/1.1, with time limits that a slow or silent peer cannot stretch.
//!
//! A request's head must arrive within seconds of its first byte, while a connection between requests may rest longer,
//! as proxies keep them. HTTP/2 and TLS are the proxy's business.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, extract::ConnectInfo};
use hyper::{Method, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::Watcher,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};
use tower::ServiceExt as _;

use crate::http::head::Head;

/// From the first byte of a request to the end of its head.
const HEAD_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection may rest between requests.
const REST_LIMIT: Duration = Duration::from_secs(60);
/// How long a peer may take nothing of what it is sent.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Beyond what the edge allows, so that the edge can answer in words.
const MAX_BUFFER: usize = 32 * 1024;
const MAX_HEADERS: usize = 200;

/// Serves one connection until it ends or the server stops.
pub async fn serve(stream: TcpStream, peer: SocketAddr, router: Router, watcher: Watcher) {
    let phase = Arc::new(AtomicU64::new(0));
    let io = Patient { stream, phase: phase.clone(), seen: 0, head_due: None, head: Head::default(), write_due: None };
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        phase.fetch_add(1, Ordering::Relaxed);
        request.extensions_mut().insert(ConnectInfo(peer));
        let reads_only = matches!(*request.method(), Method::GET | Method::HEAD);
        let answer = router.clone().oneshot(request.map(axum::body::Body::new));
        let phase = phase.clone();
        async move {
            // What changes something is finished even if nobody waits for the answer any more: a peer that hangs up
            // must not be able to break off a transaction.
            let answer = if reads_only { Ok(answer.await) } else { tokio::spawn(answer).await };
            phase.fetch_add(1, Ordering::Relaxed);
            match answer {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(never)) => match never {},
                Err(broken) => Err(io::Error::other(broken)),
            }
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REST_LIMIT)
        .max_buf_size(MAX_BUFFER)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(io), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(error = error.to_string(), "Connection ended early");
    }
}

/// A stream whose reader loses patience with a head that does not end, and sees none that is in doubt.
struct Patient {
    stream: TcpStream,
    /// Grows when a request begins to be worked on, and when it has been: odd in between. What is read then is its
    /// body, which has a limit of its own.
    phase: Arc<AtomicU64>,
    seen: u64,
    head_due: Option<Pin<Box<Sleep>>>,
    head: Head,
    /// Running while the peer does not take what it is sent.
    write_due: Option<Pin<Box<Sleep>>>,
}

fn due(limit: Duration) -> Pin<Box<Sleep>> {
    Box::pin(sleep_until(Instant::now() + limit))
}

impl Patient {
    /// Lets a write that makes no progress fail in the end.
    fn watch_write<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_due = None;
            return written;
        }
        match self.write_due.get_or_insert_with(|| due(WRITE_LIMIT)).as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let phase = self.phase.load(Ordering::Relaxed);
        if phase != self.seen {
            self.seen = phase;
            self.head_due = None;
            self.head = Head::default();
        }
        if let Some(due) = &mut self.head_due
            && due.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let came = &mut buffer.filled_mut()[before..];
        if phase.is_multiple_of(2) && !came.is_empty() {
            self.head.look(came);
            // A head that came whole, as nearly all do, needs no clock.
            if self.head.is_under_way() {
                self.head_due.get_or_insert_with(|| due(HEAD_LIMIT));
            }
        }
        read
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch_write(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
