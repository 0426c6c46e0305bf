//! pgBackRest, run with `deploy/postgresql/pgbackrest.conf` as it is shipped: only paths and the port are replaced.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use service_testkit::postgres::{Cluster, Stop, programs, unprivileged_account};
use tempfile::TempDir;

use crate::root;
use crate::tools::succeed_in_silence;

/// The backups of a cluster, and its archived write-ahead log.
pub(super) struct Backups<'a> {
    cluster: &'a Cluster,
    file: PathBuf,
    _directory: TempDir,
}

impl<'a> Backups<'a> {
    /// Lets the cluster archive its log. Restarts it.
    pub(super) fn begin(cluster: &'a Cluster) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("backups-").tempdir()?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let path =
            |name: &str| Ok::<_, anyhow::Error>(directory.path().join(name).to_str().context("not UTF-8")?.to_owned());
        let text = super::replace(
            &fs::read_to_string(root().join("deploy/postgresql/pgbackrest.conf"))?,
            &[
                ("/var/lib/pgbackrest", &path("repository")?),
                ("/var/log/pgbackrest", &path("log")?),
                ("/run/lock/pgbackrest", &path("lock")?),
                ("/var/lib/postgresql/serviced", cluster.directory().join("data").to_str().context("not UTF-8")?),
                ("/var/run/postgresql", cluster.directory().to_str().context("not UTF-8")?),
                ("5432", &cluster.port().to_string()),
            ],
        )?;
        let file = directory.path().join("pgbackrest.conf");
        fs::write(&file, text)?;
        for folder in ["repository", "log", "lock"] {
            fs::create_dir(directory.path().join(folder))?;
            if let Some((user, group)) = unprivileged_account()? {
                chown(directory.path().join(folder), Some(user), Some(group))?;
            }
        }
        let backups = Self { cluster, file, _directory: directory };
        let archive = format!("pgbackrest --config={} --stanza=serviced archive-push %p", backups.file.display());
        for (name, value) in [("archive_mode", "on"), ("archive_timeout", "60"), ("archive_command", &archive)] {
            backups.sql("postgres", &format!("alter system set {name} = '{value}'"))?;
        }
        cluster.restart(Stop::Fast)?;
        backups.run(&["stanza-create"])?;
        Ok(backups)
    }

    /// Runs a command of pgBackRest as the account of PostgreSQL.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new("pgbackrest");
        if let Some((user, group)) = unprivileged_account()? {
            command = Command::new("setpriv");
            command
                .args([format!("--reuid={user}"), format!("--regid={group}")])
                .args(["--clear-groups", "pgbackrest"]);
        }
        command
            .arg(format!("--config={}", self.file.display()))
            .args(["--stanza=serviced", "--log-level-console=warn"]);
        // The superuser of clusters of tests.
        command.env("PGBACKREST_PG1_USER", "service").current_dir("/");
        succeed_in_silence(command.args(arguments)).context("pgbackrest: `.ci/install drills` installs it")
    }

    /// Runs a statement as superuser; returns what it selects.
    pub(super) fn sql(&self, database: &str, statement: &str) -> Result<String> {
        let mut psql = Command::new(programs()?.join("psql"));
        psql.args([&self.cluster.url(database), "--no-psqlrc", "-At", "--command", statement]);
        let output = psql.output()?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}
