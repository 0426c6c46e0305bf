//! The sign-ins that are kept on this machine: one for each profile and each address of a service.
//!
//! `credentials.json` holds all of them. For each it says where the refresh token is: in the file itself or in the
//! system's keyring. That record decides; the other place is never tried.

mod keyring;
mod record;

use std::path::{Path, PathBuf};

use service_api::token::RefreshToken;
use service_client::{Access, StoreError, TokenStore, private_file};

use self::record::{Book, Profile};
pub(crate) use self::{
    keyring::Keyring,
    record::{SavedWorkspace, SignIn, Signer},
};
use crate::{environment::Environment, failure::Failure, origin::Origin};

/// Where refresh tokens are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    /// The system's keyring
    Keyring,
    /// A file that only you can read
    File,
}

/// The file with all sign-ins.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    folder: PathBuf,
}

impl Credentials {
    pub(crate) fn of(environment: &Environment) -> Result<Self, Failure> {
        Ok(Self { folder: environment.folder()? })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join("credentials.json")
    }

    /// The sign-in of a profile at an address. It is found by the address, so that no other is ever sent it.
    pub(crate) fn sign_in(&self, profile: &str, origin: &Origin) -> Kept {
        Kept { credentials: self.clone(), profile: profile.to_owned(), origin: origin.clone() }
    }

    /// Every sign-in there is.
    pub(crate) fn all(&self) -> Result<Vec<Kept>, StoreError> {
        let book = self.read()?;
        let each = book.profiles.iter().flat_map(|(name, profile)| {
            let origins = profile.sign_ins.keys().filter_map(|origin| Origin::parse(origin).ok());
            origins.map(|origin| self.sign_in(name, &origin)).collect::<Vec<_>>()
        });
        Ok(each.collect())
    }

    /// The address that a profile last signed in to.
    pub(crate) fn last_origin(&self, profile: &str) -> Result<Option<String>, StoreError> {
        Ok(self.read()?.profiles.remove(profile).and_then(|profile| profile.api_url))
    }

    /// The mode that the file had, if others could read it until this very call.
    pub(crate) fn repair(&self) -> Result<Option<u32>, StoreError> {
        Ok(private_file::read(&self.path())?.and_then(|contents| contents.repaired))
    }

    fn read(&self) -> Result<Book, StoreError> {
        let Some(contents) = private_file::read(&self.path())? else { return Ok(Book::default()) };
        Book::parse(&contents.text).map_err(|why| StoreError::new(&self.path(), &why))
    }

    fn write(&self, book: &Book) -> Result<(), StoreError> {
        private_file::write(&self.path(), &book.to_text())
    }
}

/// One sign-in, and where it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    credentials: Credentials,
    pub(crate) profile: String,
    pub(crate) origin: Origin,
}

impl Kept {
    pub(crate) fn record(&self) -> Result<Option<SignIn>, StoreError> {
        let mut book = self.credentials.read()?;
        Ok(book.profiles.get_mut(&self.profile).and_then(|profile| profile.sign_ins.remove(self.origin.as_str())))
    }

    /// Keeps a new sign-in in the place of the one before. The caller holds the locks.
    pub(crate) fn put(&self, mut sign_in: SignIn) -> Result<(), StoreError> {
        if sign_in.place == Place::Keyring {
            let refresh_token = sign_in.refresh_token.take();
            let refresh_token =
                refresh_token.ok_or_else(|| StoreError::other("there is no refresh token".to_owned()))?;
            self.entry(&sign_in)?.set(refresh_token.expose())?;
        }
        self.change(|profile| {
            profile.api_url = Some(self.origin.as_str().to_owned());
            profile.sign_ins.insert(self.origin.as_str().to_owned(), sign_in);
        })
    }

    /// Chooses the workspace that commands work in.
    pub(crate) fn choose(&self, workspace: SavedWorkspace) -> Result<(), StoreError> {
        self.change(|profile| {
            if let Some(sign_in) = profile.sign_ins.get_mut(self.origin.as_str()) {
                sign_in.workspace = Some(workspace);
            }
        })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.credentials.path()
    }

    /// Removes what the keyring has of a sign-in.
    pub(crate) fn forget_entry(&self, sign_in: &SignIn) -> Result<(), StoreError> {
        if sign_in.place == Place::Keyring { self.entry(sign_in)?.delete() } else { Ok(()) }
    }

    fn entry(&self, sign_in: &SignIn) -> Result<Keyring, StoreError> {
        let name = sign_in.entry.as_deref();
        let name =
            name.ok_or_else(|| StoreError::new(&self.path(), "does not name the keyring's entry; sign in again"))?;
        Ok(Keyring::entry(&self.origin, name))
    }

    fn change(&self, change: impl FnOnce(&mut Profile)) -> Result<(), StoreError> {
        let mut book = self.credentials.read()?;
        change(book.profiles.entry(self.profile.clone()).or_default());
        self.credentials.write(&book)
    }
}

impl TokenStore for Kept {
    fn locks(&self) -> Result<Vec<PathBuf>, StoreError> {
        let own = self.credentials.folder.join("credentials.lock");
        let Some(sign_in) = self.record()?.filter(|sign_in| sign_in.place == Place::Keyring) else {
            return Ok(vec![own]);
        };
        // A keyring's entry is its user's, whatever folder the command was given, and so is its lock.
        let folder = Environment::user_folder().map_err(|failure| StoreError::other(failure.message))?;
        Ok(vec![folder.join(self.entry(&sign_in)?.lock_name()), own])
    }

    fn access(&self) -> Result<Option<Access>, StoreError> {
        Ok(self.record()?.map(SignIn::access))
    }

    fn refresh_token(&self) -> Result<Option<RefreshToken>, StoreError> {
        match self.record()? {
            Some(sign_in) if sign_in.place == Place::Keyring => {
                Ok(self.entry(&sign_in)?.get()?.and_then(|text| RefreshToken::parse(&text)))
            }
            Some(sign_in) => Ok(sign_in.refresh_token),
            None => Ok(None),
        }
    }

    fn save(&self, access: &Access, refresh_token: &RefreshToken) -> Result<(), StoreError> {
        let kept = self.record()?.filter(|sign_in| sign_in.place == Place::Keyring);
        let in_keyring = kept.is_some();
        if let Some(sign_in) = kept {
            self.entry(&sign_in)?.set(refresh_token.expose())?;
        }
        self.change(|profile| {
            if let Some(sign_in) = profile.sign_ins.get_mut(self.origin.as_str()) {
                sign_in.renew(access, (!in_keyring).then(|| refresh_token.clone()));
            }
        })
    }

    fn forget(&self) -> Result<(), StoreError> {
        let Some(sign_in) = self.record()? else { return Ok(()) };
        self.change(|profile| {
            profile.sign_ins.remove(self.origin.as_str());
        })?;
        // Last: should the keyring not answer, at least nothing here points to it any more.
        self.forget_entry(&sign_in)
    }
}

/// A path as people write it.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}
