//! The stream of one connection: timeouts that a slow or silent client cannot extend, and the filter for ambiguous heads.
//!
//! The head of a request must arrive within seconds of its first byte. Between requests a connection may be idle for
//! longer, as proxies keep connections open.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

use crate::http::{deadline::MovingDeadline, framing::Framing, head::Head};

/// From accepting a connection to its first byte.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);
/// From the first byte of a request to the end of its head.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may be idle between requests.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(60);
/// After this time without a request, the HTTP library is released from the connection.
const REST_AFTER: Duration = Duration::from_secs(1);
/// What is read at once of a request that ends the rest of a connection: the whole head of most requests.
const FIRST_BYTES: usize = 2 * 1024;
/// How long a client may read nothing of a response.
const WRITE_IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// From the moment at which a response first waits for the client until it is written: 17 kB/s for the largest.
const TOTAL_WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// From the first wait for the client until a response is written that is made while the client reads it. What makes it has a shorter
/// deadline.
const LONG_WRITE_TIMEOUT: Duration = Duration::from_secs(16 * 60);

/// A TCP or TLS stream with a header-read timeout, write timeouts and a request-smuggling filter.
///
/// It passes on one request at a time. Bytes that follow a request are held until its response begins, and then pass
/// the same filter.
///
/// A stream between two requests rests after a second: it tells the HTTP library that it has ended, although it is open.
pub(super) struct GuardedStream<S> {
    stream: S,
    requests: Arc<Requests>,
    stage: Stage,
    /// Bytes that were read and not passed on: until the current response begins, or those that ended a rest.
    held: Vec<u8>,
    /// Runs while the client should send a head.
    head_due: MovingDeadline,
    /// Whether a part of the head has arrived.
    has_begun: bool,
    /// Runs while the HTTP library waits for a request.
    rest_due: MovingDeadline,
    is_resting: bool,
    /// Whether a part of a response may not be sent yet.
    is_writing: bool,
    read_timeouts: ReadTimeouts,
    write_timeouts: WriteTimeouts,
    /// Runs while the client does not read.
    write_due: Option<Pin<Box<Sleep>>>,
    /// Runs from the first wait for the client until the next request; with the phase in which it started.
    total_write_due: Option<(u64, Pin<Box<Sleep>>)>,
}

/// What the stream has to know of the requests that the HTTP library serves.
#[derive(Default)]
pub(super) struct Requests {
    /// Increases when a request starts and when its response begins. It is odd in between.
    phase: AtomicU64,
    /// Whether the library holds a response body of which it has not taken everything.
    has_body: AtomicBool,
    /// Whether the response is made while the client reads it.
    is_long: AtomicBool,
}

impl Requests {
    /// Records that a request starts, or that its response begins.
    pub(super) fn step(&self) {
        self.phase.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_body(&self, has_body: bool) {
        self.has_body.store(has_body, Ordering::Relaxed);
    }

    pub(super) fn set_long(&self, is_long: bool) {
        self.is_long.store(is_long, Ordering::Relaxed);
    }
}

/// How long a client may take to send a head.
#[derive(Clone, Copy)]
struct ReadTimeouts {
    /// From the first byte to its end.
    head: Duration,
    /// From the end of the last response to its first byte.
    idle: Duration,
    /// From the end of the last response to the rest of the stream. Shorter than `idle`.
    rest: Duration,
}

/// How long a client may take to read a response.
#[derive(Clone, Copy)]
struct WriteTimeouts {
    /// Without reading anything.
    idle: Duration,
    /// For the whole response.
    total: Duration,
}

/// What the client is expected to send next.
enum Stage {
    Head(Head),
    Body {
        rest: Framing,
        /// The phase in which its head ended.
        since: u64,
    },
    /// Nothing, until the request whose head ended in this phase has its response.
    Answer {
        since: u64,
    },
}

fn due(limit: Duration) -> Pin<Box<Sleep>> {
    Box::pin(sleep_until(Instant::now() + limit))
}

/// Whether a deadline has passed. If not, the task is woken when it does.
fn is_over(due: &mut Option<Pin<Box<Sleep>>>, context: &mut Context<'_>) -> bool {
    due.as_mut().is_some_and(|due| due.as_mut().poll(context).is_ready())
}

impl<S> GuardedStream<S> {
    /// A stream that rests until its first request.
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            requests: Arc::default(),
            stage: Stage::Head(Head::default()),
            held: Vec::new(),
            head_due: MovingDeadline::new(FIRST_BYTE_TIMEOUT),
            has_begun: false,
            rest_due: MovingDeadline::new(REST_AFTER),
            is_resting: false,
            is_writing: false,
            read_timeouts: ReadTimeouts { head: HEADER_READ_TIMEOUT, idle: KEEP_ALIVE_TIMEOUT, rest: REST_AFTER },
            write_timeouts: WriteTimeouts { idle: WRITE_IDLE_TIMEOUT, total: TOTAL_WRITE_TIMEOUT },
            write_due: None,
            total_write_due: None,
        }
    }

    #[cfg(test)]
    pub(super) fn resting_after(mut self, rest: Duration) -> Self {
        self.read_timeouts.rest = rest;
        self
    }

    pub(super) fn requests(&self) -> Arc<Requests> {
        self.requests.clone()
    }

    /// Whether the stream ended for the HTTP library only. It is open again then.
    pub(super) fn ends_rest(&mut self) -> bool {
        std::mem::take(&mut self.is_resting)
    }

    /// Whether the client has no request under way, and has been sent everything.
    fn is_idle(&self) -> bool {
        let is_answering = self.is_writing || self.requests.has_body.load(Ordering::Relaxed);
        matches!(self.stage, Stage::Head(_)) && !self.has_begun && !is_answering
    }

    /// Lets the time between requests begin.
    fn begin_idle(&mut self) {
        let now = Instant::now();
        self.head_due.set(now + self.read_timeouts.idle);
        self.rest_due.set(now + self.read_timeouts.rest);
    }

    /// Expects the next head, if the request has its response.
    fn begin_next(&mut self, phase: u64) {
        match self.stage {
            Stage::Answer { since } if phase >= since + 2 => {
                self.stage = Stage::Head(Head::default());
                self.begin_idle();
            }
            // The HTTP library may have found the end of the body elsewhere, or not wait for it.
            Stage::Body { since, .. } if phase >= since + 2 && !self.head_due.is_set() => {
                self.head_due.set(Instant::now() + self.read_timeouts.idle);
            }
            _ => {}
        }
    }

    /// Lets the time between requests begin when the response is written: the library may read before that.
    fn note_written(&mut self) {
        self.is_writing = true;
        if matches!(self.stage, Stage::Head(_)) && !self.has_begun {
            self.begin_idle();
        }
    }

    /// Fails a write that makes no progress, or that takes too long in total.
    fn watch_write<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_due = None;
            return written;
        }
        let phase = self.requests.phase.load(Ordering::Relaxed);
        let mut timeouts = self.write_timeouts;
        if self.requests.is_long.load(Ordering::Relaxed) {
            timeouts.total = LONG_WRITE_TIMEOUT;
        }
        self.total_write_due.take_if(|(since, _)| *since != phase);
        let (_, total) = self.total_write_due.get_or_insert_with(|| (phase, due(timeouts.total)));
        let is_late = total.as_mut().poll(context).is_ready();
        self.write_due.get_or_insert_with(|| due(timeouts.idle));
        if is_over(&mut self.write_due, context) || is_late {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }

    /// Returns how many of the received bytes may be passed on now. Heads among them have passed the filter.
    fn pass(&mut self, bytes: &mut [u8], phase: u64) -> usize {
        let mut at = 0;
        loop {
            match &mut self.stage {
                Stage::Head(head) => {
                    let Some(length) = head.look(&mut bytes[at..]) else {
                        // The timeout starts only if a head does not arrive in one piece.
                        if !std::mem::replace(&mut self.has_begun, true) {
                            self.head_due.set(Instant::now() + self.read_timeouts.head);
                        }
                        return bytes.len();
                    };
                    at += length;
                    self.has_begun = false;
                    self.head_due.clear();
                    self.stage = Stage::Body { rest: head.framing(), since: phase };
                }
                Stage::Body { rest, since } => {
                    at += rest.take(&bytes[at..]);
                    if !rest.has_ended() {
                        return at;
                    }
                    self.stage = Stage::Answer { since: *since };
                }
                Stage::Answer { .. } => return at,
            }
        }
    }
}

impl<S: AsyncRead + Unpin> GuardedStream<S> {
    /// Waits for the next request. Returns whether its first bytes arrived in time.
    pub(super) async fn begins_request(&mut self) -> bool {
        poll_fn(|context| self.poll_first_bytes(context)).await
    }

    fn poll_first_bytes(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        if self.head_due.is_over(context) {
            return Poll::Ready(false);
        }
        let mut bytes = [0; FIRST_BYTES];
        let mut buffer = ReadBuf::new(&mut bytes);
        Pin::new(&mut self.stream).poll_read(context, &mut buffer).map(|read| {
            self.held.extend_from_slice(buffer.filled());
            read.is_ok() && !self.held.is_empty()
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let phase = this.requests.phase.load(Ordering::Relaxed);
        this.begin_next(phase);
        let is_idle = this.is_idle();
        // An idle stream rests long before it is late.
        if !is_idle && this.head_due.is_over(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        if this.held.is_empty() {
            let read = Pin::new(&mut this.stream).poll_read(context, buffer);
            if read.is_pending() && is_idle && this.rest_due.is_over(context) {
                this.is_resting = true;
                return Poll::Ready(Ok(()));
            }
            if !matches!(read, Poll::Ready(Ok(()))) || buffer.filled().len() == before {
                return read;
            }
        } else {
            let length = this.held.len().min(buffer.remaining());
            buffer.put_slice(&this.held[..length]);
            this.held.drain(..length);
            if this.held.is_empty() {
                // Most connections hold nothing again.
                this.held = Vec::new();
            }
        }
        let came = &mut buffer.filled_mut()[before..];
        let passed = this.pass(came, phase);
        if passed < came.len() {
            this.held.splice(..0, came[passed..].iter().copied());
            buffer.set_filled(before + passed);
        }
        // Holding all bytes is not the end of the stream. The connection reads again when the response has begun.
        if passed == 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_written();
        self.watch_write(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A TLS stream takes bytes that it could not send yet, and waits for the client here.
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.is_writing &= !matches!(flushed, Poll::Ready(Ok(())));
        self.watch_write(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_resting {
            return Poll::Ready(Ok(()));
        }
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch_write(context, closed)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note_written();
        self.watch_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
