//! The device secrets of this machine: one for each service and each email address that signed in there with a code.
//!
//! A device secret grants no access. It gives this machine rate limits of its own when it requests a code, so that requests
//! from other machines do not use them up. That is why it is kept when the user signs out.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use service_api::token::DeviceSecret;
use service_client::{StoreError, lock_all, private_file};

use crate::{environment::Environment, failure::Failure, origin::Origin};

/// The device secrets for one service.
#[derive(Clone, Debug)]
pub(crate) struct DeviceSecrets {
    directory: PathBuf,
    origin: String,
}

/// The contents of `devices.json`: secrets by origin, then by email address.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct DevicesFile {
    devices: BTreeMap<String, BTreeMap<String, DeviceSecret>>,
}

impl DeviceSecrets {
    pub(crate) fn open(environment: &Environment, origin: &Origin) -> Result<Self, Failure> {
        Ok(Self { directory: environment.config_dir()?, origin: origin.as_str().to_owned() })
    }

    /// Finds the secret for an email address. An unreadable file counts as empty, because signing in works without it.
    pub(crate) fn find(&self, email: &str) -> Option<DeviceSecret> {
        self.read().devices.get_mut(&self.origin)?.remove(&normalize_email(email))
    }

    /// Saves the secret for an email address, and replaces an earlier one.
    pub(crate) async fn save(&self, email: &str, secret: DeviceSecret) -> Result<(), StoreError> {
        let _lock = lock_all(vec![self.directory.join("devices.lock")]).await;
        let mut file = self.read();
        file.devices.entry(self.origin.clone()).or_default().insert(normalize_email(email), secret);
        private_file::write(&self.path(), &serde_json::to_string_pretty(&file).unwrap_or_default())
    }

    fn read(&self) -> DevicesFile {
        let contents = private_file::read(&self.path()).ok().flatten();
        contents.and_then(|contents| serde_json::from_str(&contents.text).ok()).unwrap_or_default()
    }

    fn path(&self) -> PathBuf {
        self.directory.join("devices.json")
    }
}

/// Maps the spellings of an email address to one key.
fn normalize_email(email: &str) -> String {
    email.trim().to_lowercase()
}
