//! One instance for each directory: the lock that a running one holds.
//!
//! The lock belongs to the open file, which PostgreSQL and its supervisor inherit. So it is held until the last of their
//! processes has ended, even if this process is killed, and a directory is never removed under a running cluster.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::{
    io::{FdFlags, fcntl_setfd},
    process::{Pid, test_kill_process},
};

use crate::{announce::say_error, directory::Directory};

/// How long PostgreSQL may take to stop after its instance was killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// The running instance of a directory.
pub(crate) struct Instance {
    /// Holds the lock.
    _file: File,
}

/// There is a running instance; the text says where, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AlreadyRunning(String);

/// What a running instance writes into its lock.
struct Holder {
    process: u32,
    base_url: String,
}

impl Instance {
    /// Becomes the running instance. Fails if there is one.
    pub(crate) fn start(directory: &Directory, base_url: &str, fresh: bool) -> Result<Self> {
        let path = directory.lock();
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = opened.with_context(|| format!("cannot open {}", path.display()))?;
        take(&mut file, fresh)?;
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{} {base_url}", std::process::id())?;
        fcntl_setfd(&file, FdFlags::empty())?;
        Ok(Self { _file: file })
    }
}

/// Locks the file. Waits for a PostgreSQL whose instance was killed.
fn take(file: &mut File, fresh: bool) -> Result<()> {
    let started = Instant::now();
    let mut is_waiting = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Err(TryLockError::WouldBlock) => {}
        }
        if let Some(holder) = Holder::read(file)?.filter(Holder::is_running) {
            return Err(AlreadyRunning(holder.refusal(fresh)).into());
        }
        if started.elapsed() > STOP_TIMEOUT {
            bail!("PostgreSQL of the last start is still running; stop it first");
        }
        if !is_waiting {
            say_error("Waiting for PostgreSQL of the last start to stop …");
            is_waiting = true;
        }
        sleep(RETRY_AFTER);
    }
}

impl Holder {
    fn read(file: &mut File) -> Result<Option<Self>> {
        let mut text = String::new();
        file.rewind()?;
        file.read_to_string(&mut text)?;
        Ok(text.trim_end().split_once(' ').and_then(|(process, base_url)| {
            Some(Self { process: process.parse().ok()?, base_url: base_url.to_owned() })
        }))
    }

    fn is_running(&self) -> bool {
        let process = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        process.is_some_and(|process| test_kill_process(process).is_ok())
    }

    fn refusal(&self, fresh: bool) -> String {
        let Self { process, base_url } = self;
        let next = if fresh {
            "Its database was not touched. To start with an empty one, press Ctrl-C in its terminal first"
        } else {
            "Open that address, or press Ctrl-C in its terminal to stop it"
        };
        format!("Already running at {base_url} (process {process}). {next}.")
    }
}
