//! A lock between processes: a file lock, which the kernel releases when its holder exits.

use std::{fs::File, path::Path, thread, time::Duration};

use tokio::{sync::oneshot, time::timeout};

use crate::{StoreError, private_file};

/// A lock between processes. It is released when it is dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock is on this open file")] File);

/// Another process held the lock for the whole time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("another process holds the lock")]
pub struct Busy;

impl Lock {
    /// Waits for the lock on the file at `path`, for at most `limit`. Creates the file if it does not exist.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be used; [`Busy`] inside `Ok` if the time is up.
    pub async fn take(path: &Path, limit: Duration) -> Result<Result<Self, Busy>, StoreError> {
        let file = private_file::open_lock(path)?;
        if file.try_lock().is_ok() {
            return Ok(Ok(Self(file)));
        }
        // A thread of its own: it can wait without end, and does not keep the process from exiting.
        let (give, got) = oneshot::channel();
        thread::spawn(move || give.send(file.lock().map(|()| file)));
        match timeout(limit, got).await {
            Ok(Ok(Ok(file))) => Ok(Ok(Self(file))),
            Ok(Ok(Err(error))) => Err(StoreError::new(path, &format!("cannot be locked ({error})"))),
            Ok(Err(_)) | Err(_) => Ok(Err(Busy)),
        }
    }
}
