//! The system keyring. It can block forever, so every call has a timeout.

use std::{
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use keyring_core::{CredentialStore, Entry, Error};
use service_client::StoreError;

use crate::{duration::format_duration, environment::Environment, origin::Origin};

/// How long one call to the keyring can take.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(3);

/// An entry of the system keyring.
#[derive(Clone, Debug)]
pub(crate) struct KeyringEntry {
    service: String,
    user: String,
}

/// Why the system keyring cannot be used. It carries no error of the keyring itself, because some contain the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyringError {
    #[error("no D-Bus session")]
    NoDbusSession,
    #[error("not available on WSL")]
    Wsl,
    #[error("no response within {}", format_duration(KEYRING_TIMEOUT))]
    Timeout,
    #[error("it is locked")]
    Locked,
    #[error("the entry is missing")]
    NoEntry,
    #[error("there are several matching entries")]
    Ambiguous,
    #[error("it refused the request")]
    Refused,
}

impl KeyringEntry {
    /// The entry with this name for a service.
    pub(crate) fn new(origin: &Origin, name: &str) -> Self {
        Self { service: format!("service:{origin}"), user: name.to_owned() }
    }

    /// Checks that the keyring works: stores a test secret, reads it and deletes it.
    pub(crate) fn check_keyring(environment: &Environment) -> Result<(), KeyringError> {
        Self::find_keyring(environment)?;
        Self::probe()
    }

    /// Checks that the keyring works, in a thread, so that the command can say what it waits for.
    pub(crate) async fn check_in_background(environment: &Environment) -> Result<(), KeyringError> {
        Self::find_keyring(environment)?;
        tokio::task::spawn_blocking(Self::probe).await.unwrap_or(Err(KeyringError::Refused))
    }

    fn find_keyring(environment: &Environment) -> Result<(), KeyringError> {
        if cfg!(target_os = "linux") {
            if !environment.dbus_session && !has_session_bus() {
                return Err(KeyringError::NoDbusSession);
            }
            if environment.wsl {
                return Err(KeyringError::Wsl);
            }
        }
        Ok(())
    }

    fn probe() -> Result<(), KeyringError> {
        let probe = Self { service: "service:probe".to_owned(), user: std::process::id().to_string() };
        probe.call(|entry| {
            entry.set_secret(b"probe")?;
            let read = entry.get_secret();
            entry.delete_credential()?;
            read.map(drop)
        })
    }

    pub(super) fn read(&self) -> Result<Option<String>, StoreError> {
        match self.call(Entry::get_secret) {
            Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
            Err(KeyringError::NoEntry) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores a secret as bytes. As text it would take twice the space on Windows, where an entry has 2,560 bytes.
    pub(super) fn write(&self, secret: &str) -> Result<(), StoreError> {
        let secret = secret.as_bytes().to_vec();
        self.call(move |entry| entry.set_secret(&secret)).map_err(StoreError::from)
    }

    pub(super) fn delete(&self) -> Result<(), StoreError> {
        match self.call(Entry::delete_credential) {
            Ok(()) | Err(KeyringError::NoEntry) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The name of the lock file of this entry.
    pub(super) fn lock_name(&self) -> String {
        let plain =
            |text: &str| text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>();
        format!("{}.{}.lock", plain(&self.service), plain(&self.user))
    }

    /// Runs `work` on a thread of its own, and abandons the thread after `KEYRING_TIMEOUT`.
    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Entry) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, KeyringError> {
        let (sender, receiver) = mpsc::channel();
        let this = self.clone();
        thread::spawn(move || {
            let result = open_store().and_then(|store| work(&store.build(&this.service, &this.user, None)?));
            drop(sender.send(result.map_err(|error| KeyringError::from(&error))));
        });
        receiver.recv_timeout(KEYRING_TIMEOUT).unwrap_or(Err(KeyringError::Timeout))
    }
}

impl From<&Error> for KeyringError {
    fn from(error: &Error) -> Self {
        match error {
            Error::NoStorageAccess(_) => Self::Locked,
            Error::NoEntry => Self::NoEntry,
            Error::Ambiguous(_) => Self::Ambiguous,
            _ => Self::Refused,
        }
    }
}

impl From<KeyringError> for StoreError {
    fn from(error: KeyringError) -> Self {
        Self::other(format!("Can't use the system keyring ({error})."))
    }
}

#[cfg(target_os = "linux")]
fn open_store() -> Result<Arc<CredentialStore>, Error> {
    Ok(zbus_secret_service_keyring_store::Store::new()?)
}

#[cfg(target_os = "macos")]
fn open_store() -> Result<Arc<CredentialStore>, Error> {
    Ok(apple_native_keyring_store::keychain::Store::new()?)
}

#[cfg(windows)]
fn open_store() -> Result<Arc<CredentialStore>, Error> {
    Ok(windows_native_keyring_store::Store::new()?)
}

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
fn open_store() -> Result<Arc<CredentialStore>, Error> {
    Err(Error::NoDefaultStore)
}

/// Whether systemd has a D-Bus session for this user.
fn has_session_bus() -> bool {
    #[cfg(unix)]
    {
        let user = rustix::process::geteuid().as_raw();
        Path::new(&format!("/run/user/{user}/bus")).exists()
    }
    #[cfg(not(unix))]
    {
        Path::new("/run/user").exists()
    }
}
