//! The way of the log to standard error: a thread writes what has collected since its last write.
//!
//! So a request does not make a system call for its line, and many lines share one. A request waits only if whatever reads the log
//! has fallen behind by `MAX_WAITING_BYTES`: no line is dropped as long as standard error can be written.

use std::{
    io::{self, Write},
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use tracing_subscriber::fmt::MakeWriter;

const MAX_WAITING_BYTES: usize = 1024 * 1024;
const RETRY_AFTER: Duration = Duration::from_millis(10);

/// Takes the lines of the log.
#[derive(Clone)]
pub(super) struct LogWriter(Arc<LogQueue>);

struct LogQueue {
    waiting: Mutex<WaitingLines>,
    /// Notified when there is something to write, or nothing will follow.
    added: Condvar,
    /// Notified when there is room.
    taken: Condvar,
}

#[derive(Default)]
struct WaitingLines {
    lines: Vec<u8>,
    /// Lines that follow are written at once.
    has_ended: bool,
}

impl LogWriter {
    /// Starts the thread. It ends when the second value is dropped, after it has written all lines.
    pub(super) fn start(mut to: impl Write + Send + 'static) -> io::Result<(Self, WriterThread)> {
        let queue = Arc::new(LogQueue { waiting: Mutex::default(), added: Condvar::new(), taken: Condvar::new() });
        let own = queue.clone();
        let thread = thread::Builder::new().name("log".to_owned()).spawn(move || own.run(&mut to))?;
        Ok((Self(queue.clone()), WriterThread { queue, thread: Some(thread) }))
    }
}

impl LogQueue {
    fn waiting(&self) -> MutexGuard<'_, WaitingLines> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what waits, until nothing will follow.
    fn run(&self, to: &mut impl Write) {
        let mut lines = Vec::new();
        loop {
            let is_idle = |waiting: &mut WaitingLines| waiting.lines.is_empty() && !waiting.has_ended;
            let mut waiting = self.added.wait_while(self.waiting(), is_idle).unwrap_or_else(PoisonError::into_inner);
            if waiting.lines.is_empty() {
                return;
            }
            mem::swap(&mut lines, &mut waiting.lines);
            drop(waiting);
            self.taken.notify_all();
            write_all(to, &lines);
            lines.clear();
        }
    }
}

/// Writes lines. If standard error is closed, there is no place to report that.
fn write_all(to: &mut impl Write, mut lines: &[u8]) {
    while !lines.is_empty() {
        match to.write(lines) {
            Ok(0) => return,
            Ok(written) => lines = &lines[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Another process has the same standard error, and made it non-blocking.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(RETRY_AFTER),
            Err(_) => return,
        }
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let is_full = |waiting: &mut WaitingLines| waiting.lines.len() >= MAX_WAITING_BYTES && !waiting.has_ended;
        let waiting = self.0.taken.wait_while(self.0.waiting(), is_full);
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        if waiting.has_ended {
            return io::stderr().write(line);
        }
        let was_idle = waiting.lines.is_empty();
        waiting.lines.extend_from_slice(line);
        drop(waiting);
        if was_idle {
            self.0.added.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// The thread that writes the log.
pub(super) struct WriterThread {
    queue: Arc<LogQueue>,
    thread: Option<JoinHandle<()>>,
}

/// Waits until all lines are written.
impl Drop for WriterThread {
    fn drop(&mut self) {
        self.queue.waiting().has_ended = true;
        self.queue.added.notify_one();
        self.queue.taken.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has nothing to return.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Passes on each write, and waits until the test takes it up.
    struct Slow {
        written: Sender<Vec<u8>>,
        go: Receiver<()>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.written.send(bytes.to_vec()).map_err(io::Error::other)?;
            // Without a test there is nothing to wait for.
            self.go.recv().unwrap_or_default();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_collect_during_a_write_share_the_next_one_and_none_is_lost() {
        let ((written, writes), (go, gate)) = (channel(), channel());
        let (mut log, thread) = LogWriter::start(Slow { written, go: gate }).unwrap();
        // Dropped before the thread is waited for, also if the test fails.
        let release = go;
        log.write_all(b"one\n").unwrap();
        assert_eq!(writes.recv().unwrap(), b"one\n");
        // The thread is in its first write.
        for line in ["two\n", "three\n", "four\n"] {
            log.make_writer().write_all(line.as_bytes()).unwrap();
        }
        release.send(()).unwrap();
        assert_eq!(writes.recv().unwrap(), b"two\nthree\nfour\n");
        log.write_all(b"last\n").unwrap();
        drop(release);
        drop(thread);
        assert_eq!(writes.recv().unwrap(), b"last\n");
    }

    #[test]
    fn a_reader_that_falls_behind_is_waited_for() {
        let ((written, writes), (go, gate)) = (channel(), channel());
        let (mut log, thread) = LogWriter::start(Slow { written, go: gate }).unwrap();
        // Dropped before the thread is waited for, also if the test fails.
        let release = go;
        log.write_all(b"one\n").unwrap();
        assert_eq!(writes.recv().unwrap(), b"one\n");
        log.write_all(&vec![b'x'; MAX_WAITING_BYTES]).unwrap();
        let mut late = log.clone();
        let (done, is_done) = channel();
        let writer = thread::spawn(move || {
            late.write_all(b"late\n").unwrap();
            done.send(()).unwrap();
        });
        assert!(is_done.recv_timeout(Duration::from_millis(200)).is_err(), "it did not wait");
        release.send(()).unwrap();
        is_done.recv().unwrap();
        assert_eq!(writes.recv().unwrap().len(), MAX_WAITING_BYTES);
        drop(release);
        assert_eq!(writes.recv().unwrap(), b"late\n");
        writer.join().unwrap();
        drop(thread);
    }
}
