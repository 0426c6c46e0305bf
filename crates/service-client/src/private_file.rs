//! Files that only their owner can read. A file that another user could have written is rejected.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::Path,
};

use crate::StoreError;

/// The contents of a file, and whether other users could read it until now.
pub struct Contents {
    /// What the file contains.
    pub text: String,
    /// The mode that it had, if that was more permissive than it is now.
    pub repaired: Option<u32>,
}

/// Reads a private file; `None` if it does not exist. A file that other users could read is made private.
///
/// # Errors
/// [`StoreError`] if the file cannot be read, is a symbolic link, or belongs to another user.
pub fn read(path: &Path) -> Result<Option<Contents>, StoreError> {
    let mut file = match open(path, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| refused(path, &error))?,
    };
    let repaired = platform::check(path, &file)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| StoreError::io(path, &error))?;
    Ok(Some(Contents { text, repaired }))
}

/// Replaces a private file atomically: a reader sees the old or the new one, also after a crash. Only one caller may do so at a
/// time.
///
/// # Errors
/// [`StoreError`] if the file cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), StoreError> {
    let folder = path.parent().ok_or_else(|| StoreError::new(path, "has no parent directory."))?;
    make_folder(folder)?;
    // The file that is replaced is looked at as if it were read: a link is somebody's doing, and not replaced in silence.
    if let Ok(metadata) = fs::symlink_metadata(path) {
        if metadata.is_symlink() {
            return Err(StoreError::new(path, "is a symbolic link. Replace it with a file."));
        }
        platform::check_owner(path, &metadata)?;
    }
    // One name for what is not there yet: whatever a killed process left under it goes now. Callers hold a lock.
    let new = path.with_extension("new");
    remove(&new)?;
    let written = open(&new, OpenOptions::new().write(true).create_new(true)).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        platform::sync_folder(folder)
    });
    written.map_err(|error| StoreError::io(path, &error))
}

/// Removes a private file, if it exists.
///
/// # Errors
/// [`StoreError`] if the file cannot be removed.
pub fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(path, &error)),
        _ => Ok(()),
    }
}

/// Opens a lock file, and creates it if it does not exist.
///
/// # Errors
/// [`StoreError`] if the file cannot be opened.
pub(crate) fn open_lock(path: &Path) -> Result<File, StoreError> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let file = open(path, OpenOptions::new().read(true).write(true).create(true).truncate(false));
    let file = file.map_err(|error| refused(path, &error))?;
    platform::check(path, &file)?;
    Ok(file)
}

/// Creates a folder that only its owner can enter, and its parents. An existing folder must belong to the user.
///
/// # Errors
/// [`StoreError`] if the folder cannot be created, or another user could change it.
pub fn make_folder(path: &Path) -> Result<(), StoreError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => {
            Err(StoreError::new(path, "is a symbolic link. Replace it with a directory."))
        }
        Ok(metadata) if !metadata.is_dir() => Err(StoreError::new(path, "is not a directory.")),
        Ok(metadata) => {
            platform::check_owner(path, &metadata)?;
            platform::check_folder(path, &metadata)
        }
        Err(_) => platform::create_folder(path).map_err(|error| StoreError::io(path, &error)),
    }
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    platform::without_following(options).open(path)
}

fn refused(path: &Path, error: &io::Error) -> StoreError {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if is_link {
        StoreError::new(path, "is a symbolic link. Replace it with a file.")
    } else {
        StoreError::io(path, error)
    }
}

#[cfg(unix)]
mod platform {
    use std::{
        fs::{DirBuilder, File, Metadata, OpenOptions, Permissions},
        io,
        os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
        path::Path,
    };

    use crate::StoreError;

    /// The permissions of a mode for users other than the owner.
    const OTHERS: u32 = 0o077;

    pub(super) fn without_following(options: &mut OpenOptions) -> &mut OpenOptions {
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
    }

    pub(super) fn check(path: &Path, file: &File) -> Result<Option<u32>, StoreError> {
        let metadata = file.metadata().map_err(|error| StoreError::io(path, &error))?;
        if !metadata.is_file() {
            return Err(StoreError::new(path, "is not a file."));
        }
        check_owner(path, &metadata)?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & OTHERS == 0 {
            return Ok(None);
        }
        file.set_permissions(Permissions::from_mode(0o600)).map_err(|error| StoreError::io(path, &error))?;
        Ok(Some(mode))
    }

    pub(super) fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), StoreError> {
        if metadata.uid() == rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        Err(StoreError::new(path, "belongs to another user. Change its owner, or delete it."))
    }

    /// Leaves an existing folder as it is, and rejects one that other users can change.
    pub(super) fn check_folder(path: &Path, metadata: &Metadata) -> Result<(), StoreError> {
        let mode = metadata.permissions().mode();
        if mode & 0o022 == 0 || mode & 0o1000 != 0 {
            return Ok(());
        }
        Err(StoreError::new(path, "is writable by other users. Run chmod go-w on it."))
    }

    pub(super) fn create_folder(path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// On other systems a user's folders are private by default.
#[cfg(not(unix))]
mod platform {
    use std::{
        fs::{self, File, Metadata, OpenOptions},
        io,
        path::Path,
    };

    use crate::StoreError;

    pub(super) fn without_following(options: &mut OpenOptions) -> &mut OpenOptions {
        options
    }

    pub(super) fn check(_: &Path, _: &File) -> Result<Option<u32>, StoreError> {
        Ok(None)
    }

    pub(super) fn check_owner(_: &Path, _: &Metadata) -> Result<(), StoreError> {
        Ok(())
    }

    pub(super) fn check_folder(_: &Path, _: &Metadata) -> Result<(), StoreError> {
        Ok(())
    }

    pub(super) fn create_folder(path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    pub(super) fn sync_folder(_: &Path) -> io::Result<()> {
        Ok(())
    }
}
