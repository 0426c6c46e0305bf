//! The password of a kept cluster, in a file beside its data.

use std::{
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::fs::{OpenOptionsExt as _, chown},
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::rand;

use super::supervisor::unprivileged_account;

/// Returns the password of the cluster in this directory. A new cluster gets a random one.
pub(super) fn read_or_create(directory: &Path) -> Result<String> {
    let path = directory.join("password");
    match fs::read_to_string(&path) {
        Ok(password) => return Ok(password.trim_end().to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
    // Without it nothing connects, and with a new one nothing would either.
    ensure!(!directory.join("data").exists(), "{} has data, but no password", directory.display());
    let password = random_password()?;
    // The rename comes last, so that the file is never found empty.
    let new = directory.join("password.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(file, "{password}")?;
    if let Some((user, group)) = unprivileged_account()? {
        // initdb reads it under this account.
        chown(&new, Some(user), Some(group)).with_context(|| format!("chown {}", new.display()))?;
    }
    fs::rename(new, path)?;
    Ok(password)
}

#[expect(clippy::disallowed_methods, reason = "the kit's own randomness, for its own clusters")]
fn random_password() -> Result<String> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes)?;
    bytes.iter().try_fold(String::new(), |mut password, byte| {
        write!(password, "{byte:02x}")?;
        Ok(password)
    })
}
