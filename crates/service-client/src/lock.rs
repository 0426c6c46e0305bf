//! A lock that processes share: the kernel holds it on a file, and lets go of it when its holder dies.

use std::{fs::File, path::Path, thread, time::Duration};

use tokio::{sync::oneshot, time::timeout};

use crate::{StoreError, private_file};

/// Held until it is dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock is on this open file")] File);

/// Somebody else held it for the whole time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("another process holds the lock")]
pub struct Busy;

impl Lock {
    /// Waits for the lock on the file at `path`, which is made if it is not there.
    pub async fn take(path: &Path, limit: Duration) -> Result<Result<Self, Busy>, StoreError> {
        let file = private_file::open_lock(path)?;
        if file.try_lock().is_ok() {
            return Ok(Ok(Self(file)));
        }
        // A thread of its own, which may wait for ever without keeping the process.
        let (give, got) = oneshot::channel();
        thread::spawn(move || give.send(file.lock().map(|()| file)));
        match timeout(limit, got).await {
            Ok(Ok(Ok(file))) => Ok(Ok(Self(file))),
            Ok(Ok(Err(error))) => Err(StoreError::new(path, &format!("cannot be locked ({error})"))),
            Ok(Err(_)) | Err(_) => Ok(Err(Busy)),
        }
    }
}
