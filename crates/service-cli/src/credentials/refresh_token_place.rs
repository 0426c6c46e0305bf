//! The place of a refresh token: an entry of the system keyring, or a file of its own. It has a random name, so that no two
//! credentials share one.

use std::path::{Path, PathBuf};

use service_api::token::{Token, TokenKind};
use service_client::{StoreError, private_file};

use super::{StoreKind, keyring::KeyringEntry};
use crate::{environment::Environment, origin::Origin};

pub(super) enum RefreshTokenPlace {
    Keyring(KeyringEntry),
    File(PathBuf),
}

impl RefreshTokenPlace {
    /// The place with this name. `None` without a name, or with one that would lead to another directory.
    pub(super) fn new(directory: &Path, origin: &Origin, store: StoreKind, name: Option<&str>) -> Option<Self> {
        let name = name.filter(|name| is_safe_file_name(name))?;
        Some(match store {
            StoreKind::Keyring => Self::Keyring(KeyringEntry::new(origin, name)),
            StoreKind::File => Self::File(directory.join("refresh-tokens").join(name)),
        })
    }

    pub(super) fn read<K: TokenKind>(&self) -> Result<Option<Token<K>>, StoreError> {
        let text = match self {
            Self::Keyring(entry) => entry.read()?,
            Self::File(path) => private_file::read(path)?.map(|contents| contents.text),
        };
        Ok(text.and_then(|text| Token::parse(text.trim())))
    }

    pub(super) fn write<K: TokenKind>(&self, token: &Token<K>) -> Result<(), StoreError> {
        match self {
            Self::Keyring(entry) => entry.write(token.expose()),
            Self::File(path) => private_file::write(path, token.expose()),
        }
    }

    pub(super) fn delete(&self) -> Result<(), StoreError> {
        match self {
            Self::Keyring(entry) => entry.delete(),
            Self::File(path) => private_file::remove(path),
        }
    }

    /// The lock file of a keyring entry. The entry belongs to the user, whatever `SERVICE_CONFIG_DIR` is, so its lock file does
    /// too. A file is locked with the records.
    pub(super) fn lock(&self) -> Result<Option<PathBuf>, StoreError> {
        let Self::Keyring(entry) = self else { return Ok(None) };
        let directory = Environment::state_dir().map_err(|failure| StoreError::other(failure.message))?;
        Ok(Some(directory.join(entry.lock_name())))
    }
}

/// Whether a file name stays in its own directory.
fn is_safe_file_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
