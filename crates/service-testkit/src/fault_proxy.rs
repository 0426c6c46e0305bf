//! A TCP proxy that fails on command. In front of a database it simulates a network failure.
//!
//! Bytes that it does not forward are held, and no connection is closed or reset. To both sides that looks like a
//! silent peer, the failure that timeouts are for.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Result;
use memchr::memmem;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, watch},
};
use tokio_util::sync::CancellationToken;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    /// Nothing is forwarded in either direction.
    Cut,
}

/// Forwards to one address on a thread of its own; stops when dropped.
pub struct FaultProxy {
    pub address: SocketAddr,
    mode: watch::Sender<Mode>,
    trap: Arc<Trap>,
    /// How many bytes came from the target.
    received: Arc<AtomicU64>,
    stop: CancellationToken,
}

/// The response that is to be held back.
#[derive(Default)]
struct Trap {
    pattern: Mutex<Option<Vec<u8>>>,
    sprung: Notify,
}

impl FaultProxy {
    pub fn start(target: SocketAddr) -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (mode, watched) = watch::channel(Mode::Pass);
        let (trap, received, stop) = (Arc::<Trap>::default(), Arc::<AtomicU64>::default(), CancellationToken::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn({
            let (trap, received, stop) = (trap.clone(), received.clone(), stop.clone());
            move || {
                runtime.block_on(async {
                    let Ok(listener) = TcpListener::from_std(listener) else { return };
                    stop.run_until_cancelled(accept(listener, target, watched, Watch { trap, received })).await;
                });
            }
        });
        Ok(Self { address, mode, trap, received, stop })
    }

    /// Stops forwarding, silently.
    pub fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    /// Forwards what was held back, and everything else again.
    pub fn mend(&self) {
        self.mode.send_replace(Mode::Pass);
    }

    /// Returns how many bytes came from the target so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits for a response that contains `pattern`, and holds it back for ever with all that follows on its
    /// connection.
    pub async fn hold_back(&self, pattern: &[u8]) {
        *self.trap.pattern.lock().unwrap_or_else(PoisonError::into_inner) = Some(pattern.to_vec());
        self.trap.sprung.notified().await;
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Trap {
    /// Whether this is the response to hold back. Matches once.
    fn springs(&self, bytes: &[u8]) -> bool {
        let mut pattern = self.pattern.lock().unwrap_or_else(PoisonError::into_inner);
        let found = pattern.as_ref().is_some_and(|pattern| memmem::find(bytes, pattern).is_some());
        if found {
            *pattern = None;
            self.sprung.notify_one();
        }
        found
    }
}

/// What is done with the bytes that come from the target.
#[derive(Clone)]
struct Watch {
    trap: Arc<Trap>,
    received: Arc<AtomicU64>,
}

async fn accept(listener: TcpListener, target: SocketAddr, mode: watch::Receiver<Mode>, watch: Watch) {
    while let Ok((near, _)) = listener.accept().await {
        let (mode, watch) = (mode.clone(), watch.clone());
        tokio::spawn(async move {
            let Ok(far) = TcpStream::connect(target).await else { return };
            drop((near.set_nodelay(true), far.set_nodelay(true)));
            let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
            // When one side closes, the other is closed too.
            tokio::select! {
                () = forward(from_near, to_far, mode.clone(), None) => {}
                () = forward(from_far, to_near, mode, Some(watch)) => {}
            }
        });
    }
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    watch: Option<Watch>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        let bytes = &buffer[..read];
        if let Some(Watch { trap, received }) = &watch {
            received.fetch_add(u64::try_from(read).unwrap_or_default(), Ordering::Relaxed);
            if trap.springs(bytes) {
                std::future::pending::<()>().await;
            }
        }
        if mode.wait_for(|mode| *mode == Mode::Pass).await.is_err() || bytes.is_empty() {
            return;
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}
