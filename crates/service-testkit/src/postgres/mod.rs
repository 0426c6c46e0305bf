//! Throwaway PostgreSQL clusters for tests, benchmarks and the development command.
//!
//! A cluster is a real server with its own data directory on a free loopback port, with durability on. It stops with
//! the process that started it, see `supervisor`.

mod databases;
mod password;
mod place;
mod supervisor;

use std::env::temp_dir;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::sync::OnceCell;

use self::supervisor::{Life, Supervisor};
pub use self::supervisor::{programs, unprivileged_account};

pub struct Cluster {
    directory: PathBuf,
    port: u16,
    /// The password of both roles; `None`: local connections are trusted.
    password: Option<String>,
    supervisor: Mutex<Supervisor>,
    template: OnceCell<String>,
}

/// How PostgreSQL is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Open transactions are rolled back, and the data is left clean.
    Fast,
    /// As in a crash: the next start recovers from the write-ahead log.
    Immediate,
}

impl Cluster {
    /// Starts a cluster for tests. Blocks for about a second.
    pub fn start() -> Result<Self> {
        Self::start_throwaway(&place::for_tests(), &FOR_TESTS, None)
    }

    /// Starts a cluster that logs no statements, because logging would slow down a benchmark.
    pub fn start_quiet() -> Result<Self> {
        Self::start_throwaway(&temp_dir(), &STATEMENTS_NOT_LOGGED, None)
    }

    /// Starts a cluster whose tables can be replicated one by one, and that can replicate tables of another.
    pub fn start_logical() -> Result<Self> {
        Self::start_throwaway(&place::for_tests(), &LOGICAL_REPLICATION, None)
    }

    /// Starts a cluster with `fsync` off, which the service must refuse.
    pub fn start_unsafe() -> Result<Self> {
        Self::start_throwaway(&temp_dir(), &["fsync=off"], None)
    }

    /// Starts a cluster on this port, whose data stays in `directory` for the next start. It requires a password, which
    /// only the owner of the directory can read.
    pub fn start_in(directory: &Path, port: u16) -> Result<Self> {
        let private = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        private.with_context(|| format!("cannot create {}", directory.display()))?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
        let directory = directory.canonicalize()?;
        let password = password::read_or_create(&directory)?;
        Self::launch(Launch {
            life: Life::Kept,
            settings: &STATEMENTS_NOT_LOGGED,
            port: Some(port),
            password: Some(password),
            ..Launch::throwaway(directory)
        })
    }

    /// Starts a standby of the cluster on this port. Its name for `synchronous_standby_names` is `standby`.
    pub fn start_standby(primary: u16) -> Result<Self> {
        Self::start_throwaway(&place::for_tests(), &FOR_TESTS, Some(primary))
    }

    /// Returns the shared cluster of this test process. Callers wait while the first one starts it.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();
        let started = SHARED.get_or_init(|| Self::start().map_err(|error| format!("{error:#}")));
        started.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// Returns the URL for a superuser, with which a test bypasses the service.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://service{}@127.0.0.1:{}/{database}", self.password_in_url(), self.port)
    }

    /// Returns the URL for the service. Its role owns its databases and nothing else, so row-level security applies to
    /// it.
    #[must_use]
    pub fn service_url(&self, database: &str) -> String {
        self.service_url_at(self.port, database)
    }

    /// Returns the URL for the service through a proxy on this port.
    #[must_use]
    pub fn service_url_at(&self, port: u16, database: &str) -> String {
        format!("postgres://{SERVICE_ROLE}{}@127.0.0.1:{port}/{database}", self.password_in_url())
    }

    /// Returns the password of both roles, if the cluster requires one.
    #[must_use]
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    fn password_in_url(&self) -> String {
        self.password.as_ref().map_or_else(String::new, |password| format!(":{password}"))
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the directory of the data, the log and the Unix socket.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns PostgreSQL's log since this cluster was started, including restarts.
    pub fn log(&self) -> Result<String> {
        log_since(&self.directory, 0)
    }

    /// Returns the length of PostgreSQL's log in bytes, for [`Cluster::log_since`].
    #[must_use]
    pub fn logged(&self) -> u64 {
        fs::metadata(self.directory.join("log")).map_or(0, |log| log.len())
    }

    /// Returns PostgreSQL's log after the first `offset` bytes.
    pub fn log_since(&self, offset: u64) -> Result<String> {
        log_since(&self.directory, offset)
    }

    /// Returns the process id of the postmaster while PostgreSQL runs.
    #[must_use]
    pub fn postmaster(&self) -> Option<u32> {
        self.supervisor().postmaster()
    }

    /// Stops PostgreSQL; returns when it has exited, also if it had been killed before.
    pub fn stop(&self, how: Stop) -> Result<()> {
        self.supervisor().stop_postgres(match how {
            Stop::Fast => "INT",
            Stop::Immediate => "QUIT",
        })
    }

    /// Kills the postmaster with SIGKILL. Its processes end as soon as they notice.
    pub fn kill(&self) -> Result<()> {
        let postmaster = self.postmaster().context("PostgreSQL does not run")?.to_string();
        let killed = std::process::Command::new("kill").args(["-KILL", &postmaster]).status()?;
        anyhow::ensure!(killed.success(), "PostgreSQL could not be killed");
        Ok(())
    }

    /// Starts PostgreSQL again after [`Cluster::stop`], on the same port.
    pub fn resume(&self) -> Result<()> {
        start_postgres(&mut self.supervisor(), &self.directory, Some(self.port)).map(drop)
    }

    pub fn restart(&self, how: Stop) -> Result<()> {
        self.stop(how)?;
        self.resume()
    }

    fn start_throwaway(parent: &Path, log_settings: &[&str], primary: Option<u16>) -> Result<Self> {
        let private = fs::Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().prefix("postgres-").permissions(private).tempdir_in(parent)?;
        let path = directory.path().canonicalize()?;
        let cluster = Self::launch(Launch { settings: log_settings, primary, ..Launch::throwaway(path) })?;
        // From here on the supervisor removes the directory.
        drop(directory.keep());
        Ok(cluster)
    }

    fn launch(launch: Launch<'_>) -> Result<Self> {
        let Launch { directory, life, settings, primary, port, password } = launch;
        let socket_directory = if directory.as_os_str().len() <= SOCKET_DIRECTORY_LENGTH {
            directory.display().to_string()
        } else {
            String::new()
        };
        let mut arguments = vec!["-c".to_owned(), format!("unix_socket_directories={socket_directory}")];
        for setting in SETTINGS.iter().chain(settings) {
            arguments.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        // The log of an earlier start is truncated before its length is first read.
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(directory.join("log"))?;
        let mut supervisor = Supervisor::spawn(&directory, life, &arguments)?;
        if let Some(primary) = primary {
            supervisor.follow(primary)?;
        }
        let port = start_postgres(&mut supervisor, &directory, port)?;
        Ok(Self { directory, port, password, supervisor: Mutex::new(supervisor), template: OnceCell::new() })
    }

    fn supervisor(&self) -> MutexGuard<'_, Supervisor> {
        self.supervisor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a cluster is started.
struct Launch<'a> {
    directory: PathBuf,
    life: Life,
    settings: &'a [&'a str],
    /// The port of the cluster that this one is a standby of.
    primary: Option<u16>,
    /// `None`: a free one.
    port: Option<u16>,
    password: Option<String>,
}

impl Launch<'_> {
    fn throwaway(directory: PathBuf) -> Self {
        Self { directory, life: Life::Throwaway, settings: &[], primary: None, port: None, password: None }
    }
}

/// The role that servers connect as.
const SERVICE_ROLE: &str = "serviced";

const SETTINGS: [&str; 8] = [
    "listen_addresses=127.0.0.1",
    "fsync=on",
    "synchronous_commit=on",
    "max_connections=300",
    "shared_buffers=128MB",
    "logging_collector=off",
    "log_destination=stderr",
    "log_line_prefix=%m [%p] %d ",
];

const FOR_TESTS: [&str; 4] = [
    // The leak scanner reads the log, and needs bound parameters in full.
    "log_statement=all",
    "log_parameter_max_length=-1",
    "log_parameter_max_length_on_error=-1",
    // Each test has a database of its own: autovacuum would start a process for one of them many times a second.
    "autovacuum_naptime=1h",
];

const STATEMENTS_NOT_LOGGED: [&str; 2] = ["log_statement=none", "log_checkpoints=off"];

/// Logical replication copies a table at a time for each worker.
const LOGICAL_REPLICATION: [&str; 8] = [
    "wal_level=logical",
    // A worker that has copied its table holds its slot a little longer than it counts as a worker.
    "max_replication_slots=64",
    "max_wal_senders=64",
    "log_statement=none",
    "max_worker_processes=32",
    "max_logical_replication_workers=24",
    "max_sync_workers_per_subscription=8",
    "wal_retrieve_retry_interval=100ms",
];

/// A socket's path has at most 107 bytes, and PostgreSQL appends `/.s.PGSQL.65535` and then `.lock` to the directory.
const SOCKET_DIRECTORY_LENGTH: usize = 107 - 20;

/// Errors after which starting is retried: another process took the port, or an earlier server of the same directory is
/// still stopping.
const TRANSIENT_START_ERRORS: [&str; 3] =
    ["Address already in use", "lock file \"postmaster.pid\" already exists", "pre-existing shared memory block"];

const START_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_AFTER: Duration = Duration::from_millis(100);
const LOG_LINES_IN_ERRORS: usize = 20;

fn start_postgres(supervisor: &mut Supervisor, directory: &Path, wanted_port: Option<u16>) -> Result<u16> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let port = wanted_port.map_or_else(free_port, Ok)?;
        let logged_before = fs::metadata(directory.join("log")).map_or(0, |log| log.len());
        if supervisor.start_postgres(port)? {
            return Ok(port);
        }
        let log = log_since(directory, logged_before)?;
        let passing = TRANSIENT_START_ERRORS.iter().any(|obstacle| log.contains(obstacle));
        if !passing || Instant::now() > deadline {
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(LOG_LINES_IN_ERRORS)..];
            bail!("PostgreSQL did not start in {}; its log ends with:\n{}", directory.display(), tail.join("\n"));
        }
        sleep(RETRY_AFTER);
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}

fn log_since(directory: &Path, offset: u64) -> Result<String> {
    let mut log = fs::File::open(directory.join("log")).context("cannot read PostgreSQL's log")?;
    log.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    log.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
