//! A connection pooler in transaction mode: each statement may run over another connection of the server.

use std::{
    fs,
    net::TcpStream,
    os::unix::fs::chown,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::{ports, postgres::unprivileged_account};

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A running `pgbouncer`, which is killed when dropped.
pub struct Pooler {
    pub port: u16,
    process: Child,
    _directory: TempDir,
}

impl Pooler {
    /// Starts a pooler in front of the cluster on this port.
    pub fn start(cluster: u16) -> Result<Self> {
        let (port, directory) = (ports::free()?, tempfile::tempdir()?);
        let (settings, users) = (directory.path().join("pgbouncer.ini"), directory.path().join("users"));
        fs::write(&users, "\"serviced\" \"\"\n")?;
        fs::write(
            &settings,
            format!(
                "[databases]\n* = host=127.0.0.1 port={cluster}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                 listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n\
                 default_pool_size = 4\nignore_startup_parameters = extra_float_digits,options\n",
                users.display()
            ),
        )?;
        let program = if fs::exists("/usr/sbin/pgbouncer")? { "/usr/sbin/pgbouncer" } else { "pgbouncer" };
        let mut command = Command::new(program);
        if let Some((user, group)) = unprivileged_account()? {
            for path in [directory.path(), &settings, &users] {
                chown(path, Some(user), Some(group))?;
            }
            command = Command::new("setpriv");
            command.args([format!("--reuid={user}"), format!("--regid={group}")]).args(["--clear-groups", program]);
        }
        let process = command.arg("--quiet").arg(&settings).stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut pooler =
            Self { port, process: process.context("cannot start pgbouncer: is it installed?")?, _directory: directory };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(pooler.process.try_wait()?.is_none(), "pgbouncer ended at once");
            ensure!(began.elapsed() < START_TIMEOUT, "pgbouncer did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(pooler)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
