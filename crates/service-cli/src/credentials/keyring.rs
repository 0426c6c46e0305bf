//! The system's keyring. It belongs to others and may never answer, so every call has a limit.

use std::{
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use keyring_core::{CredentialStore, Entry, Error};
use service_client::StoreError;

use crate::{environment::Environment, origin::Origin};

/// How long the keyring may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Keyring {
    service: String,
    user: String,
}

impl Keyring {
    pub(crate) fn entry(origin: &Origin, name: &str) -> Self {
        Self { service: format!("service:{origin}"), user: name.to_owned() }
    }

    /// Whether secrets can be kept here: keeps one, reads it and removes it. Says why not.
    pub(crate) fn probe(environment: &Environment) -> Result<(), String> {
        if cfg!(target_os = "linux") {
            if !environment.bus && !has_bus() {
                return Err("no D-Bus session".to_owned());
            }
            if environment.wsl {
                return Err("there is none on WSL".to_owned());
            }
        }
        let probe = Self { service: "service:probe".to_owned(), user: std::process::id().to_string() };
        probe
            .call(|entry| {
                entry.set_secret(b"probe")?;
                let read = entry.get_secret();
                entry.delete_credential()?;
                read.map(drop)
            })
            .map_err(|trouble| trouble.why)
    }

    pub(super) fn get(&self) -> Result<Option<String>, StoreError> {
        match self.call(Entry::get_secret) {
            Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
            Err(trouble) if trouble.no_entry => Ok(None),
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// As bytes, not as text, which would be twice as long on Windows, where there is room for 2,560.
    pub(super) fn set(&self, secret: &str) -> Result<(), StoreError> {
        let secret = secret.as_bytes().to_vec();
        self.call(move |entry| entry.set_secret(&secret)).map_err(StoreError::from)
    }

    pub(super) fn delete(&self) -> Result<(), StoreError> {
        match self.call(Entry::delete_credential) {
            Err(trouble) if !trouble.no_entry => Err(trouble.into()),
            _ => Ok(()),
        }
    }

    /// A file name of its own for each entry.
    pub(super) fn lock_name(&self) -> String {
        let plain =
            |text: &str| text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>();
        format!("{}.{}.lock", plain(&self.service), plain(&self.user))
    }

    /// Runs `work` on a thread of its own, which is left alone if it takes too long.
    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Entry) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, KeyringTrouble> {
        let (give, got) = mpsc::channel();
        let this = self.clone();
        thread::spawn(move || {
            let result = store().and_then(|store| work(&store.build(&this.service, &this.user, None)?));
            drop(give.send(result.map_err(|error| KeyringTrouble::of(&error))));
        });
        got.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            let why = format!("D-Bus did not reply within {} s", PATIENCE.as_secs());
            Err(KeyringTrouble {
                why: if cfg!(target_os = "linux") { why } else { "it did not answer".to_owned() },
                no_entry: false,
            })
        })
    }
}

struct KeyringTrouble {
    why: String,
    no_entry: bool,
}

impl KeyringTrouble {
    /// Only what kind of trouble: some kinds carry the secret.
    fn of(error: &Error) -> Self {
        let why = match error {
            Error::NoStorageAccess(_) => "it is locked",
            Error::NoEntry => "the entry is gone",
            Error::Ambiguous(_) => "there are several such entries",
            _ => "it refused",
        };
        Self { why: why.to_owned(), no_entry: matches!(error, Error::NoEntry) }
    }
}

impl From<KeyringTrouble> for StoreError {
    fn from(trouble: KeyringTrouble) -> Self {
        Self::other(format!("The system keyring could not be used: {}.", trouble.why))
    }
}

#[cfg(target_os = "linux")]
fn store() -> Result<Arc<CredentialStore>, Error> {
    Ok(zbus_secret_service_keyring_store::Store::new()?)
}

#[cfg(target_os = "macos")]
fn store() -> Result<Arc<CredentialStore>, Error> {
    Ok(apple_native_keyring_store::keychain::Store::new()?)
}

#[cfg(windows)]
fn store() -> Result<Arc<CredentialStore>, Error> {
    Ok(windows_native_keyring_store::Store::new()?)
}

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
fn store() -> Result<Arc<CredentialStore>, Error> {
    Err(Error::NoDefaultStore)
}

/// Whether there is a session's bus where systemd puts it.
fn has_bus() -> bool {
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
