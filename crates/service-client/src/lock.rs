//! A lock between processes: a file lock, which the kernel releases when its holder exits.

use std::{fs::File, path::Path, thread, time::Duration};

use tokio::{sync::oneshot, time::timeout};

use crate::{StoreError, private_file};

/// A lock between processes. It is released when it is dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock is on this open file")] File);

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process held the lock for the whole time.
    #[error("another process holds the lock")]
    Busy,
    /// The lock file cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Lock {
    /// Waits for the lock on the file at `path`, for at most `limit`. Creates the file if it does not exist.
    ///
    /// # Errors
    /// [`LockError::Busy`] if another process held the lock for the whole time; [`LockError::Store`] if the file cannot be
    /// used.
    pub async fn take(path: &Path, limit: Duration) -> Result<Self, LockError> {
        let file = private_file::open_lock(path)?;
        if file.try_lock().is_ok() {
            return Ok(Self(file));
        }
        // A thread of its own: it can wait without end, and does not keep the process from exiting.
        let (give, got) = oneshot::channel();
        thread::spawn(move || give.send(file.lock().map(|()| file)));
        match timeout(limit, got).await {
            Ok(Ok(Ok(file))) => Ok(Self(file)),
            Ok(Ok(Err(error))) => Err(StoreError::new(path, &format!("cannot be locked ({error})")).into()),
            Ok(Err(_)) | Err(_) => Err(LockError::Busy),
        }
    }
}
