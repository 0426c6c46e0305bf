//! Tests of deadlines and of the rest of a stream.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufWriter, DuplexStream, duplex};

use super::*;

/// Writes to a client that reads a byte now and then; returns the error and how long it took.
async fn write_to(timeouts: WriteTimeouts, pause: Duration) -> (io::ErrorKind, Duration) {
    let (ours, mut peer) = duplex(64);
    let mut guarded = GuardedStream::new(ours);
    guarded.write_timeouts = timeouts;
    let began = Instant::now();
    let write = guarded.write_all(&[0; 10_000]);
    let read = async {
        let mut ticks = tokio::time::interval(pause);
        loop {
            ticks.tick().await;
            peer.read_u8().await?;
        }
    };
    let error: io::Result<()> = tokio::select! { written = write => written, read = read => read };
    (error.err().map_or(io::ErrorKind::Other, |error| error.kind()), began.elapsed())
}

#[tokio::test]
async fn a_peer_that_takes_a_byte_now_and_then_is_given_up_in_the_end_rv_25() {
    let (short, long) = (Duration::from_millis(300), Duration::from_secs(60));
    let (error, took) = write_to(WriteTimeouts { idle: long, total: short }, Duration::from_millis(20)).await;
    assert_eq!(error, io::ErrorKind::TimedOut);
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(5), "{took:?}");
    let (error, took) = write_to(WriteTimeouts { idle: short, total: long }, long).await;
    assert_eq!(error, io::ErrorKind::TimedOut);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn a_peer_that_reads_nothing_is_given_up_although_the_stream_takes_all_bytes() {
    let (short, long) = (Duration::from_millis(300), Duration::from_secs(60));
    for timeouts in [WriteTimeouts { idle: short, total: long }, WriteTimeouts { idle: long, total: short }] {
        let (ours, _peer) = duplex(64);
        let mut guarded = GuardedStream::new(BufWriter::with_capacity(20_000, ours));
        guarded.write_timeouts = timeouts;
        guarded.write_all(&[0; 10_000]).await.unwrap();
        let flushed = tokio::time::timeout(Duration::from_secs(5), guarded.flush()).await.unwrap();
        assert_eq!(flushed.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let closed = tokio::time::timeout(Duration::from_secs(5), guarded.shutdown()).await.unwrap();
        assert_eq!(closed.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}

/// A stream with these timeouts, whose client has a quarter of a second for its first byte.
fn guarded(stream: DuplexStream, timeouts: ReadTimeouts) -> GuardedStream<DuplexStream> {
    let mut guarded = GuardedStream::new(stream);
    guarded.head_due = MovingDeadline::new(SHORT);
    guarded.read_timeouts = timeouts;
    guarded
}

/// Reads until the stream gives its client up, in a request or at rest; returns how long that took.
async fn given_up_after(guarded: &mut GuardedStream<DuplexStream>) -> Duration {
    let (began, mut buffer) = (Instant::now(), [0; 100]);
    let given_up = async {
        loop {
            match guarded.read(&mut buffer).await {
                Err(error) => return assert_eq!(error.kind(), io::ErrorKind::TimedOut),
                Ok(0) => {
                    assert!(guarded.ends_rest(), "the stream ended");
                    if !guarded.begins_request().await {
                        return;
                    }
                }
                Ok(_) => {}
            }
        }
    };
    tokio::time::timeout(LONG / 2, given_up).await.expect("the client was not given up");
    began.elapsed()
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: service.test\r\n\r\n";
const REST: Duration = Duration::from_millis(50);
const SHORT: Duration = Duration::from_millis(250);
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_client_that_sends_no_head_is_given_up() {
    let timeouts = ReadTimeouts { head: LONG, idle: LONG, rest: REST };
    let (ours, _peer) = duplex(64);
    let silent = given_up_after(&mut guarded(ours, timeouts)).await;
    assert!((SHORT..LONG / 10).contains(&silent), "{silent:?}");
}

#[tokio::test]
async fn bytes_that_arrive_one_by_one_do_not_extend_the_time_for_a_head() {
    let (ours, mut peer) = duplex(64);
    let mut guarded = guarded(ours, ReadTimeouts { head: SHORT, idle: LONG, rest: REST });
    let trickle = async {
        let mut ticks = tokio::time::interval(SHORT / 5);
        for byte in REQUEST {
            ticks.tick().await;
            peer.write_u8(*byte).await.unwrap();
        }
    };
    tokio::select! {
        took = given_up_after(&mut guarded) => assert!((SHORT..LONG / 10).contains(&took), "{took:?}"),
        () = trickle => panic!("the head was waited for"),
    }
}

#[tokio::test]
async fn the_time_between_requests_counts_from_the_last_response() {
    let (ours, mut peer) = duplex(1_000);
    let mut guarded = guarded(ours, ReadTimeouts { head: SHORT, idle: SHORT, rest: REST });
    let mut buffer = [0; 100];
    for _ in 0..3 {
        peer.write_all(REQUEST).await.unwrap();
        assert_eq!(guarded.read(&mut buffer).await.unwrap(), REQUEST.len());
        // The response takes longer than the client may be idle.
        assert!(tokio::time::timeout(SHORT * 2, guarded.read(&mut buffer)).await.is_err());
        guarded.requests.phase.fetch_add(2, Ordering::Relaxed);
    }
    let idle = given_up_after(&mut guarded).await;
    assert!((SHORT..LONG / 10).contains(&idle), "{idle:?}");
}

#[tokio::test]
async fn a_connection_whose_body_never_ends_is_given_up_after_its_response() {
    let (ours, mut peer) = duplex(1_000);
    let mut guarded = guarded(ours, ReadTimeouts { head: LONG, idle: SHORT, rest: REST });
    peer.write_all(b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").await.unwrap();
    assert!(guarded.read(&mut [0; 100]).await.unwrap() > 0);
    guarded.requests.phase.fetch_add(2, Ordering::Relaxed);
    let took = given_up_after(&mut guarded).await;
    assert!((SHORT..LONG / 10).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_head_in_pieces_has_its_own_time_although_the_timer_was_set_for_later() {
    let (ours, mut peer) = duplex(1_000);
    let mut guarded = guarded(ours, ReadTimeouts { head: SHORT, idle: LONG, rest: REST });
    let mut buffer = [0; 100];
    peer.write_all(REQUEST).await.unwrap();
    assert_eq!(guarded.read(&mut buffer).await.unwrap(), REQUEST.len());
    guarded.requests.phase.fetch_add(2, Ordering::Relaxed);
    assert_eq!(guarded.read(&mut buffer).await.unwrap(), 0);
    assert!(guarded.ends_rest());
    peer.write_all(&REQUEST[..10]).await.unwrap();
    assert!(guarded.begins_request().await);
    let took = given_up_after(&mut guarded).await;
    assert!((SHORT..LONG / 10).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_stream_does_not_rest_before_all_of_a_response_is_sent() {
    let (ours, mut peer) = duplex(1_000);
    let mut guarded = GuardedStream::new(BufWriter::new(ours));
    guarded.read_timeouts.rest = REST;
    let mut buffer = [0; 100];
    peer.write_all(REQUEST).await.unwrap();
    assert_eq!(guarded.read(&mut buffer).await.unwrap(), REQUEST.len());
    guarded.requests.phase.fetch_add(2, Ordering::Relaxed);
    guarded.write_all(b"HTTP/1.1 200 OK").await.unwrap();
    assert!(tokio::time::timeout(SHORT, guarded.read(&mut buffer)).await.is_err());
    guarded.flush().await.unwrap();
    guarded.requests.set_body(true);
    assert!(tokio::time::timeout(SHORT, guarded.read(&mut buffer)).await.is_err());
    guarded.requests.set_body(false);
    assert_eq!(guarded.read(&mut buffer).await.unwrap(), 0);
    assert!(guarded.ends_rest());
}
