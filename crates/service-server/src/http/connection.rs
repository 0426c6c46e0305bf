//! One HTTP/1.1 connection. HTTP/2 is left to the proxy, and so is TLS, except for the support listener.
//!
//! hyper keeps buffers of 16 kB for a connection. While a connection is idle, there is no hyper connection: `GuardedStream`
//! tells hyper that the stream has ended, waits for the first bytes of the next request, and a new hyper connection reads them.

use std::{
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::future::BoxFuture;
use hyper::{
    Method,
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::{
    http::{
        deadline::NoTimer,
        download::LongResponse,
        guarded_stream::{GuardedStream, Requests},
    },
    net::server_tls::PeerCertificate,
};

/// hyper is told of a timeout for heads, but its timer never fires; see `NoTimer`.
const UNUSED_TIMEOUT: Duration = Duration::from_secs(60);
/// More than the edge allows, so that the edge can respond with an error message.
const MAX_BUFFER_BYTES: usize = 32 * 1024;

/// The other end of a connection.
#[derive(Clone, Copy)]
pub struct Peer {
    pub address: SocketAddr,
    /// `None`: the listener does not speak TLS.
    pub certificate: Option<PeerCertificate>,
}

/// What a listener serves.
pub trait Serves: Clone + Send + Sync + 'static {
    /// Serves one request. Boxed, so that what waits for the response moves a pointer and not the whole future.
    fn serve(self, peer: Peer, request: Request) -> BoxFuture<'static, Response>;
}

impl Serves for Router {
    fn serve(self, peer: Peer, mut request: Request) -> BoxFuture<'static, Response> {
        if let Some(certificate) = peer.certificate {
            request.extensions_mut().insert(certificate);
        }
        let answer = self.oneshot(request);
        Box::pin(async move {
            match answer.await {
                Ok(answer) => answer,
                Err(never) => match never {},
            }
        })
    }
}

/// When a connection closes.
#[derive(Clone)]
pub struct Closing {
    /// With the next response, which says so: then the client sends its next request elsewhere.
    pub with_response: CancellationToken,
    /// When no request is under way.
    pub when_idle: CancellationToken,
}

/// Serves one connection until it closes.
pub fn serve<S>(stream: S, peer: Peer, served: impl Serves, closing: Closing) -> impl Future<Output = ()> + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_guarded(GuardedStream::new(stream), peer, served, closing)
}

async fn serve_guarded<S>(mut stream: GuardedStream<S>, peer: Peer, served: impl Serves, closing: Closing)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    loop {
        let begins = tokio::select! {
            biased;
            begins = stream.begins_request() => begins,
            () = closing.when_idle.cancelled() => false,
        };
        if !begins {
            break;
        }
        // Boxed, so that an idle connection does not keep the memory of a busy one.
        let ended = Box::pin(serve_requests(&mut stream, peer, &served, &closing)).await;
        if let Err(error) = &ended {
            tracing::debug!(error = error.to_string(), "Connection ended early");
        }
        if !stream.ends_rest() || ended.is_err() {
            return;
        }
    }
    drop(stream.shutdown().await);
}

/// Serves requests until the connection closes or rests.
async fn serve_requests<S>(
    stream: &mut GuardedStream<S>,
    peer: Peer,
    served: &impl Serves,
    closing: &Closing,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let requests = stream.requests();
    let service = service_fn(|request: hyper::Request<Incoming>| {
        requests.step();
        let reads_only = matches!(*request.method(), Method::GET | Method::HEAD);
        let into_body = |body: Incoming| if body.is_end_stream() { Body::empty() } else { Body::new(body) };
        let answer = served.clone().serve(peer, request.map(into_body));
        let requests = requests.clone();
        async move {
            // A request that changes something runs to its end even if the client disconnects, so that a client cannot
            // interrupt a transaction.
            let answer = if reads_only { Ok(answer.await) } else { tokio::spawn(answer).await };
            requests.step();
            let mut answer = answer.map_err(io::Error::other)?;
            requests.set_long(answer.extensions().get::<LongResponse>().is_some());
            if closing.with_response.is_cancelled() {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            io::Result::Ok(answer.map(|body| ResponseBody::new(body, requests)))
        }
    });
    // The library refuses more than 100 headers: that is its default, and the only limit for which it clears no room.
    let connection = http1::Builder::new()
        .timer(NoTimer)
        .header_read_timeout(UNUSED_TIMEOUT)
        .max_buf_size(MAX_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = closing.when_idle.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

/// The body of a response. hyper drops it when it has taken everything.
struct ResponseBody {
    body: Body,
    requests: Arc<Requests>,
}

impl ResponseBody {
    fn new(body: Body, requests: Arc<Requests>) -> Self {
        requests.set_body(true);
        Self { body, requests }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.requests.set_body(false);
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::{
        io::{AsyncReadExt as _, DuplexStream, duplex},
        task::JoinHandle,
        time::timeout,
    };

    use super::*;

    const REST: Duration = Duration::from_millis(50);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: service.test\r\n\r\n";

    struct Served {
        client: DuplexStream,
        closing: Closing,
        /// Held by the stream, by this test, and by hyper while there is a connection of it.
        requests: Arc<Requests>,
        task: JoinHandle<()>,
    }

    /// Serves a router over a stream that rests soon.
    fn served(router: Router) -> Served {
        let (ours, client) = duplex(64 * 1024);
        let stream = GuardedStream::new(ours).resting_after(REST);
        let closing = Closing { with_response: CancellationToken::new(), when_idle: CancellationToken::new() };
        let peer = Peer { address: (Ipv4Addr::LOCALHOST, 1).into(), certificate: None };
        let requests = stream.requests();
        let task = tokio::spawn(serve_guarded(stream, peer, router, closing.clone()));
        Served { client, closing, requests, task }
    }

    impl Served {
        /// Reads from the client's end until these bytes come last.
        async fn reads_until(&mut self, end: &str) -> String {
            let mut read = Vec::new();
            while !read.ends_with(end.as_bytes()) {
                let byte = timeout(Duration::from_secs(10), self.client.read_u8()).await;
                read.push(byte.expect("nothing more came").expect("the connection ended"));
            }
            String::from_utf8(read).unwrap()
        }

        /// Waits until hyper has a part in the connection, or none.
        async fn serves(&self, is_serving: bool) {
            let changed = async {
                while (Arc::strong_count(&self.requests) > 2) != is_serving {
                    tokio::task::yield_now().await;
                }
            };
            timeout(Duration::from_secs(10), changed).await.expect("the connection does not rest or wake");
        }

        async fn sends_and_gets(&mut self, request: &[u8], status: &str) {
            self.client.write_all(request).await.unwrap();
            let response = self.reads_until("\r\n\r\n").await;
            assert!(response.starts_with(status), "{response}");
        }
    }

    fn empty_responses() -> Router {
        Router::new().fallback(|| async {})
    }

    #[tokio::test]
    async fn a_connection_serves_requests_after_each_rest() {
        let mut served = served(empty_responses());
        served.serves(false).await;
        for _ in 0..3 {
            served.sends_and_gets(REQUEST, "HTTP/1.1 200").await;
            served.serves(false).await;
            // The bytes that end a rest may be any part of a head, and more than one request may follow.
            let (first, rest) = REQUEST.split_at(1);
            served.client.write_all(first).await.unwrap();
            served.serves(true).await;
            served.sends_and_gets(&[rest, REQUEST].concat(), "HTTP/1.1 200").await;
            assert!(served.reads_until("\r\n\r\n").await.starts_with("HTTP/1.1 200"));
            served.serves(false).await;
            // Without a body in the response, and with one in the request that is not read.
            served.sends_and_gets(b"HEAD / HTTP/1.1\r\nHost: service.test\r\n\r\n", "HTTP/1.1 200").await;
            served.serves(false).await;
            let post = b"POST / HTTP/1.1\r\nHost: service.test\r\nContent-Length: 4\r\n\r\nbody";
            served.sends_and_gets(post, "HTTP/1.1 200").await;
            served.serves(false).await;
        }
        served.closing.when_idle.cancel();
        assert_eq!(served.client.read(&mut [0; 10]).await.unwrap(), 0);
        served.task.await.unwrap();
    }

    #[tokio::test]
    async fn a_head_after_a_rest_passes_the_filter() {
        let mut served = served(empty_responses());
        served.sends_and_gets(REQUEST, "HTTP/1.1 200").await;
        served.serves(false).await;
        let ambiguous = b"POST / HTTP/1.1\r\nHost: service.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        served.sends_and_gets(ambiguous, "HTTP/1.1 400").await;
        timeout(Duration::from_secs(10), served.task).await.expect("the connection stays").unwrap();
    }

    #[tokio::test]
    async fn a_connection_does_not_rest_within_a_request_or_a_response() {
        let slow = || async {
            tokio::time::sleep(REST * 3).await;
            let parts = [Duration::ZERO, REST * 3, REST * 3].map(|pause| async move {
                tokio::time::sleep(pause).await;
                io::Result::Ok("part ")
            });
            Body::from_stream(futures_util::StreamExt::buffered(futures_util::stream::iter(parts), 1))
        };
        let mut served = served(Router::new().fallback(slow));
        for _ in 0..2 {
            served.client.write_all(REQUEST).await.unwrap();
            let response = served.reads_until("0\r\n\r\n").await;
            assert_eq!(response.matches("part ").count(), 3, "{response}");
            served.serves(false).await;
        }
    }

    #[tokio::test]
    async fn a_client_that_disconnects_ends_a_resting_connection() {
        let mut served = served(empty_responses());
        served.sends_and_gets(REQUEST, "HTTP/1.1 200").await;
        served.serves(false).await;
        drop(served.client);
        timeout(Duration::from_secs(10), served.task).await.expect("the connection stays").unwrap();
    }
}
