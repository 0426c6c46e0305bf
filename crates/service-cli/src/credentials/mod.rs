//! The sign-ins and the MCP tokens that are stored on this machine: one of each for every profile and every origin of a
//! service.
//!
//! `credentials.json` has the record of each, with its access token. The record says where the refresh token is: in the system
//! keyring, or in a file of its own. The command reads it only to refresh and to revoke the tokens, and never looks in the
//! other store.

mod device_secrets;
mod keyring;
mod mcp_tokens;
mod record;
mod refresh_token_place;

use std::path::{Path, PathBuf};

use service_api::token::RefreshToken;
use service_client::{Access, StoreError, TokenStore, private_file};

pub(crate) use self::{
    device_secrets::DeviceSecrets,
    keyring::KeyringEntry,
    mcp_tokens::SavedMcpTokens,
    record::{McpRecord, SavedWorkspace, SignInRecord, SignedInUser},
};
use self::{
    record::{CredentialsFile, Profile},
    refresh_token_place::RefreshTokenPlace,
};
use crate::{
    commands::login::pkce, completion_cache::CompletionCache, environment::Environment, failure::Failure,
    origin::Origin,
};

/// Where a refresh token is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoreKind {
    /// System keyring
    Keyring,
    /// File that only you can read
    File,
}

impl StoreKind {
    /// Its name for the user. `file` is the file with the records.
    pub(crate) fn display_name(self, file: &Path) -> String {
        match self {
            Self::Keyring => "system keyring".to_owned(),
            Self::File => display_path(file),
        }
    }
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

    /// The MCP tokens of a profile at an origin. Like a sign-in, they are never sent to another origin.
    pub(crate) fn mcp_tokens(&self, profile: &str, origin: &Origin) -> SavedMcpTokens {
        SavedMcpTokens { credentials: self.clone(), profile: profile.to_owned(), origin: origin.clone() }
    }

    /// The MCP tokens of every profile.
    pub(crate) fn list_mcp_tokens(&self) -> Result<Vec<SavedMcpTokens>, StoreError> {
        let file = self.read()?;
        let tokens = file.profiles.iter().flat_map(|(name, profile)| {
            let origins = profile.mcp_tokens.keys().filter_map(|origin| Origin::parse(origin).ok());
            origins.map(|origin| self.mcp_tokens(name, &origin)).collect::<Vec<_>>()
        });
        Ok(tokens.collect())
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

    /// Changes the record of a profile. The caller holds the lock.
    fn change(&self, profile: &str, change: impl FnOnce(&mut Profile)) -> Result<(), StoreError> {
        let mut file = self.read()?;
        change(file.profiles.entry(profile.to_owned()).or_default());
        private_file::write(&self.path(), &file.to_text())
    }

    /// The place of a refresh token. `entry` is the name that the record has for it.
    fn place(&self, origin: &Origin, store: StoreKind, entry: Option<&str>) -> Result<RefreshTokenPlace, StoreError> {
        RefreshTokenPlace::new(&self.directory, origin, store, entry)
            .ok_or_else(|| StoreError::new(&self.path(), "doesn't name the refresh token. Sign in again."))
    }

    /// The files to lock before tokens change: that of the keyring entry, if they have one, and that of the file.
    fn locks(&self, place: Option<RefreshTokenPlace>) -> Result<Vec<PathBuf>, StoreError> {
        let own = self.directory.join("credentials.lock");
        let of_entry = place.map(|place| place.lock()).transpose()?.flatten();
        Ok(of_entry.into_iter().chain([own]).collect())
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
        self.place(&sign_in)?.write(&refresh_token)?;
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

    /// Removes what completion knows about this sign-in. A file that cannot be removed has no secret.
    pub(crate) fn forget_lists(&self) {
        if let Some(cache) = CompletionCache::find(&self.credentials.directory, &self.profile, &self.origin) {
            drop(cache.remove());
        }
    }

    /// Deletes the refresh token of a sign-in from the keyring or the directory of refresh tokens.
    pub(crate) fn delete_refresh_token(&self, sign_in: &SignInRecord) -> Result<(), StoreError> {
        match (sign_in.store, sign_in.entry.as_deref()) {
            // An older version of the command stored the token in the record.
            (StoreKind::File, None) => Ok(()),
            _ => self.place(sign_in)?.delete(),
        }
    }

    fn place(&self, sign_in: &SignInRecord) -> Result<RefreshTokenPlace, StoreError> {
        self.credentials.place(&self.origin, sign_in.store, sign_in.entry.as_deref())
    }

    fn change(&self, change: impl FnOnce(&mut Profile)) -> Result<(), StoreError> {
        self.credentials.change(&self.profile, change)
    }
}

impl TokenStore for SavedSignIn {
    fn locks(&self) -> Result<Vec<PathBuf>, StoreError> {
        let in_keyring = self.record()?.filter(|sign_in| sign_in.store == StoreKind::Keyring);
        self.credentials.locks(in_keyring.map(|sign_in| self.place(&sign_in)).transpose()?)
    }

    fn access(&self) -> Result<Option<Access>, StoreError> {
        Ok(self.record()?.map(SignInRecord::into_access))
    }

    fn refresh_token(&self) -> Result<Option<RefreshToken>, StoreError> {
        match self.record()? {
            Some(SignInRecord { store: StoreKind::File, refresh_token: Some(token), .. }) => Ok(Some(token)),
            Some(sign_in) => self.place(&sign_in)?.read(),
            None => Ok(None),
        }
    }

    fn save(&self, access: &Access, refresh_token: &RefreshToken) -> Result<(), StoreError> {
        let Some(sign_in) = self.record()? else { return Ok(()) };
        let name = match sign_in.entry.clone() {
            Some(name) => name,
            None => random_name()?,
        };
        self.credentials.place(&self.origin, sign_in.store, Some(&name))?.write(refresh_token)?;
        self.change(|profile| {
            if let Some(sign_in) = profile.sign_ins.get_mut(self.origin.as_str()) {
                sign_in.replace_tokens(access, name);
            }
        })
    }

    fn forget(&self) -> Result<(), StoreError> {
        self.forget_lists();
        let Some(sign_in) = self.record()? else { return Ok(()) };
        self.change(|profile| {
            profile.sign_ins.remove(self.origin.as_str());
        })?;
        // Last, so that the record is gone even if the keyring does not respond.
        self.delete_refresh_token(&sign_in)
    }
}

fn random_name() -> Result<String, StoreError> {
    pkce::random_text().map_err(|failure| StoreError::other(failure.message))
}

/// Formats a path for the user.
pub(crate) fn display_path(path: &Path) -> String {
    path.display().to_string()
}
