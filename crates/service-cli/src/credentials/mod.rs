//! The sign-ins that are stored on this machine: one for each profile and each origin of a service.
//!
//! `credentials.json` has the record of each sign-in, with its access token. The record says where the refresh token is: in
//! the system keyring, or in a file of its own. The command reads it only to refresh the session and to sign out, and never
//! looks in the other store.

mod device_secrets;
mod keyring;
mod record;

use std::path::{Path, PathBuf};

use service_api::token::RefreshToken;
use service_client::{Access, StoreError, TokenStore, private_file};

use self::record::{CredentialsFile, Profile};
pub(crate) use self::{
    device_secrets::DeviceSecrets,
    keyring::KeyringEntry,
    record::{SavedWorkspace, SignInRecord, SignedInUser},
};
use crate::{commands::login::pkce, environment::Environment, failure::Failure, origin::Origin};

/// Where a refresh token is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoreKind {
    /// System keyring
    Keyring,
    /// File that only you can read
    File,
}

/// The file with the records of all sign-ins.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    directory: PathBuf,
}

impl Credentials {
    pub(crate) fn open(environment: &Environment) -> Result<Self, Failure> {
        Ok(Self { directory: environment.config_dir()? })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join("credentials.json")
    }

    /// The sign-in of a profile at an origin. Because it is found by origin, its tokens are never sent to another one.
    pub(crate) fn sign_in(&self, profile: &str, origin: &Origin) -> SavedSignIn {
        SavedSignIn { credentials: self.clone(), profile: profile.to_owned(), origin: origin.clone() }
    }

    /// Every sign-in of every profile.
    pub(crate) fn list_sign_ins(&self) -> Result<Vec<SavedSignIn>, StoreError> {
        let file = self.read()?;
        let sign_ins = file.profiles.iter().flat_map(|(name, profile)| {
            let origins = profile.sign_ins.keys().filter_map(|origin| Origin::parse(origin).ok());
            origins.map(|origin| self.sign_in(name, &origin)).collect::<Vec<_>>()
        });
        Ok(sign_ins.collect())
    }

    /// The origin that a profile last signed in to.
    pub(crate) fn last_origin(&self, profile: &str) -> Result<Option<String>, StoreError> {
        Ok(self.read()?.profiles.remove(profile).and_then(|profile| profile.api_url))
    }

    /// Makes the file private. Returns the mode that it had, if other users could read it.
    pub(crate) fn repair_mode(&self) -> Result<Option<u32>, StoreError> {
        Ok(private_file::read(&self.path())?.and_then(|contents| contents.repaired))
    }

    fn read(&self) -> Result<CredentialsFile, StoreError> {
        let Some(contents) = private_file::read(&self.path())? else { return Ok(CredentialsFile::default()) };
        CredentialsFile::parse(&contents.text).map_err(|why| StoreError::new(&self.path(), &why))
    }

    fn write(&self, file: &CredentialsFile) -> Result<(), StoreError> {
        private_file::write(&self.path(), &file.to_text())
    }
}

/// The sign-in of a profile at an origin, as it is stored on this machine.
#[derive(Clone, Debug)]
pub(crate) struct SavedSignIn {
    credentials: Credentials,
    pub(crate) profile: String,
    pub(crate) origin: Origin,
}

impl SavedSignIn {
    pub(crate) fn record(&self) -> Result<Option<SignInRecord>, StoreError> {
        let mut file = self.credentials.read()?;
        Ok(file.profiles.get_mut(&self.profile).and_then(|profile| profile.sign_ins.remove(self.origin.as_str())))
    }

    /// Stores a new sign-in, and replaces the previous one. The caller holds the locks.
    pub(crate) fn store(&self, mut sign_in: SignInRecord) -> Result<(), StoreError> {
        let refresh_token = sign_in.refresh_token.take();
        let refresh_token =
            refresh_token.ok_or_else(|| StoreError::other("The service sent no refresh token.".to_owned()))?;
        match sign_in.store {
            StoreKind::Keyring => self.keyring_entry(&sign_in)?.write(refresh_token.expose())?,
            StoreKind::File => {
                private_file::write(&self.token_file(self.entry_name(&sign_in)?), refresh_token.expose())?;
            }
        }
        self.change(|profile| {
            profile.api_url = Some(self.origin.as_str().to_owned());
            profile.sign_ins.insert(self.origin.as_str().to_owned(), sign_in);
        })
    }

    /// Saves the workspace for later commands.
    pub(crate) fn save_workspace(&self, workspace: SavedWorkspace) -> Result<(), StoreError> {
        self.change(|profile| {
            if let Some(sign_in) = profile.sign_ins.get_mut(self.origin.as_str()) {
                sign_in.workspace = Some(workspace);
            }
        })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.credentials.path()
    }

    /// Deletes the refresh token of a sign-in from the keyring or the directory of refresh tokens.
    pub(crate) fn delete_refresh_token(&self, sign_in: &SignInRecord) -> Result<(), StoreError> {
        match (sign_in.store, sign_in.entry.as_deref()) {
            (StoreKind::Keyring, _) => self.keyring_entry(sign_in)?.delete(),
            (StoreKind::File, Some(name)) => private_file::remove(&self.token_file(name)),
            (StoreKind::File, None) => Ok(()),
        }
    }

    fn keyring_entry(&self, sign_in: &SignInRecord) -> Result<KeyringEntry, StoreError> {
        Ok(KeyringEntry::new(&self.origin, self.entry_name(sign_in)?))
    }

    fn entry_name<'s>(&self, sign_in: &'s SignInRecord) -> Result<&'s str, StoreError> {
        let name = sign_in.entry.as_deref().filter(|name| is_safe_file_name(name));
        name.ok_or_else(|| StoreError::new(&self.path(), "doesn't name the refresh token. Sign in again."))
    }

    /// The path of the file with a refresh token.
    fn token_file(&self, name: &str) -> PathBuf {
        self.credentials.directory.join("refresh-tokens").join(name)
    }

    fn change(&self, change: impl FnOnce(&mut Profile)) -> Result<(), StoreError> {
        let mut file = self.credentials.read()?;
        change(file.profiles.entry(self.profile.clone()).or_default());
        self.credentials.write(&file)
    }
}

impl TokenStore for SavedSignIn {
    fn locks(&self) -> Result<Vec<PathBuf>, StoreError> {
        let own = self.credentials.directory.join("credentials.lock");
        let Some(sign_in) = self.record()?.filter(|sign_in| sign_in.store == StoreKind::Keyring) else {
            return Ok(vec![own]);
        };
        // A keyring entry belongs to the user, whatever `SERVICE_CONFIG_DIR` is, so its lock file does too.
        let directory = Environment::state_dir().map_err(|failure| StoreError::other(failure.message))?;
        Ok(vec![directory.join(self.keyring_entry(&sign_in)?.lock_name()), own])
    }

    fn access(&self) -> Result<Option<Access>, StoreError> {
        Ok(self.record()?.map(SignInRecord::into_access))
    }

    fn refresh_token(&self) -> Result<Option<RefreshToken>, StoreError> {
        match self.record()? {
            Some(sign_in) if sign_in.store == StoreKind::Keyring => {
                Ok(self.keyring_entry(&sign_in)?.read()?.and_then(|text| RefreshToken::parse(&text)))
            }
            Some(SignInRecord { refresh_token: Some(token), .. }) => Ok(Some(token)),
            Some(sign_in) => {
                let contents = private_file::read(&self.token_file(self.entry_name(&sign_in)?))?;
                Ok(contents.and_then(|contents| RefreshToken::parse(contents.text.trim())))
            }
            None => Ok(None),
        }
    }

    fn save(&self, access: &Access, refresh_token: &RefreshToken) -> Result<(), StoreError> {
        let Some(sign_in) = self.record()? else { return Ok(()) };
        let name = match sign_in.entry.clone() {
            Some(name) => name,
            None => random_name()?,
        };
        match sign_in.store {
            StoreKind::Keyring => self.keyring_entry(&sign_in)?.write(refresh_token.expose())?,
            StoreKind::File => private_file::write(&self.token_file(&name), refresh_token.expose())?,
        }
        self.change(|profile| {
            if let Some(sign_in) = profile.sign_ins.get_mut(self.origin.as_str()) {
                sign_in.replace_tokens(access, name);
            }
        })
    }

    fn forget(&self) -> Result<(), StoreError> {
        let Some(sign_in) = self.record()? else { return Ok(()) };
        self.change(|profile| {
            profile.sign_ins.remove(self.origin.as_str());
        })?;
        // Last, so that the record is gone even if the keyring does not respond.
        self.delete_refresh_token(&sign_in)
    }
}

/// Whether a file name stays in its own directory.
fn is_safe_file_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn random_name() -> Result<String, StoreError> {
    pkce::random_text().map_err(|failure| StoreError::other(failure.message))
}

/// Formats a path for the user.
pub(crate) fn display_path(path: &Path) -> String {
    path.display().to_string()
}
