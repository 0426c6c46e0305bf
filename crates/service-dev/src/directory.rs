//! The directory of the data: in the build directory, except for root, because PostgreSQL then runs as another account,
//! which may have no access to the checkout.

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io::{ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::geteuid;
use service_testkit::{postgres::Cluster, settings::Settings};

/// The file that a running instance holds locked. It marks a directory as one of these.
const LOCK: &str = "lock";

/// The directory of the data, which belongs to this user.
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Opens this directory, by default that of the checkout. It is created if it does not exist.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let path = path.map_or_else(default_path, |path| Ok(path.to_owned()))?;
        // Root's cluster belongs to another account, which has to pass.
        let mode = if geteuid().is_root() { 0o711 } else { 0o700 };
        let is_usable = !path.exists() || path.join(LOCK).exists() || fs::read_dir(&path)?.next().is_none();
        ensure!(is_usable, "{} has other files: choose an empty directory, or a new one", path.display());
        let created = DirBuilder::new().recursive(true).mode(mode).create(&path);
        created.with_context(|| format!("cannot create {}", path.display()))?;
        // A directory that another user created first could be exchanged later.
        let found = fs::symlink_metadata(&path)?;
        let is_own = found.is_dir() && found.uid() == geteuid().as_raw();
        ensure!(is_own, "{} does not belong to you: remove it, or choose another with --directory", path.display());
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        Ok(Self { path: path.canonicalize()? })
    }

    /// Returns the file that a running instance holds locked.
    pub(crate) fn lock(&self) -> PathBuf {
        self.path.join(LOCK)
    }

    /// Returns the directory of PostgreSQL.
    pub(crate) fn cluster(&self) -> PathBuf {
        self.path.join("postgres")
    }

    pub(crate) fn has_data(&self) -> bool {
        self.cluster().join("data").exists()
    }

    /// Removes the data. The lock stays: an instance that starts meanwhile finds it.
    pub(crate) fn clear(&self) -> Result<()> {
        let removed = fs::remove_dir_all(self.cluster());
        ignore_missing(removed).with_context(|| format!("cannot remove {}", self.cluster().display()))?;
        for file in [self.root_key_file(), self.password_file()] {
            ignore_missing(fs::remove_file(&file)).with_context(|| format!("cannot remove {}", file.display()))?;
        }
        Ok(())
    }

    /// Returns the root key of earlier runs, because their data must stay readable.
    pub(crate) fn root_key(&self) -> Result<String> {
        let path = self.root_key_file();
        match fs::read_to_string(&path) {
            Ok(key) => Ok(key),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let key = Settings::random_root_key()?;
                write_private(&path, &key)?;
                Ok(key)
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Writes the password of the database into a file that `psql` reads; returns its path.
    pub(crate) fn write_password_file(&self, cluster: &Cluster) -> Result<PathBuf> {
        let password = cluster.password().context("the cluster has no password")?;
        let path = self.password_file();
        write_private(&path, &format!("127.0.0.1:*:*:*:{password}\n"))?;
        Ok(path)
    }

    fn root_key_file(&self) -> PathBuf {
        self.path.join("root-key")
    }

    fn password_file(&self) -> PathBuf {
        self.path.join("pgpass")
    }
}

/// Replaces a file that only this user can read. It is never found half-written.
fn write_private(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    ignore_missing(fs::remove_file(&new))?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?.write_all(text.as_bytes())?;
    Ok(fs::rename(new, path)?)
}

fn ignore_missing(result: std::io::Result<()>) -> std::io::Result<()> {
    result.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn default_path() -> Result<PathBuf> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    if !geteuid().is_root() {
        return Ok(checkout.join("target").join("dev"));
    }
    let name: String =
        checkout.display().to_string().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    Ok(std::env::temp_dir().join(format!("service-dev{name}")))
}
