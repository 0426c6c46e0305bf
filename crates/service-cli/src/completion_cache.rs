//! What shell completion offers: the IDs and names of the last lists, for each profile and server. Completion reads them from a
//! file that only the user can read, so that it makes no request and never prompts.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use aws_lc_rs::digest;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use service_client::{StoreError, private_file};

use crate::{
    connection::Connection,
    context::Context,
    environment::Environment,
    origin::Origin,
    text::{shorten, strip_control},
};

/// The most entries that are kept of a list.
const MAX_ENTRIES: usize = 200;
/// The width of the longest name that is kept.
const MAX_NAME_COLUMNS: usize = 60;

/// What a list contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ListedKind {
    Workspace,
    BlockedWorkspace,
    Member,
    Connection,
    Domain,
    Invitation,
    Project,
    DeletedProject,
    Pack,
    DeletedPack,
    Token,
    Session,
    Passkey,
    App,
}

/// One entry of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedEntry {
    pub(crate) id: String,
    /// Its name, as it is shown next to the ID. Other users can have chosen it.
    pub(crate) name: String,
}

/// The contents of the file.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CachedLists {
    lists: BTreeMap<ListedKind, Vec<ListedEntry>>,
}

/// The lists of a profile at a server.
pub(crate) struct CompletionCache {
    path: PathBuf,
}

impl CompletionCache {
    /// The lists of a profile at a server; none without a home directory. `config_dir` is where the credentials are.
    pub(crate) fn find(config_dir: &Path, profile: &str, origin: &Origin) -> Option<Self> {
        let key = [config_dir.as_os_str().as_encoded_bytes(), profile.as_bytes(), origin.as_str().as_bytes()].join(&0);
        let name = BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &key));
        let directory = Environment::cache_dir().ok()?.join("completion");
        Some(Self { path: directory.join(format!("{name}.json")) })
    }

    /// The entries of the last list of this kind.
    pub(crate) fn read(&self, kind: ListedKind) -> Vec<ListedEntry> {
        self.read_lists().lists.remove(&kind).unwrap_or_default()
    }

    /// Reads the file. What cannot be read counts as empty: completion then offers nothing.
    fn read_lists(&self) -> CachedLists {
        let contents = private_file::read(&self.path).ok().flatten();
        contents.and_then(|contents| serde_json::from_str(&contents.text).ok()).unwrap_or_default()
    }

    fn write(&self, kind: ListedKind, entries: Vec<ListedEntry>) -> Result<(), StoreError> {
        let mut cached = self.read_lists();
        if cached.lists.get(&kind) == Some(&entries) {
            return Ok(());
        }
        cached.lists.insert(kind, entries);
        private_file::write(&self.path, &serde_json::to_string(&cached).unwrap_or_default())
    }

    /// Removes the lists, because the user has signed out.
    pub(crate) fn remove(&self) -> Result<(), StoreError> {
        private_file::remove(&self.path)
    }
}

/// Keeps a list for completion, if the user is signed in on this machine. It is a convenience, so a failure changes nothing.
pub(crate) fn remember<'a>(
    context: &Context,
    connection: &Connection,
    kind: ListedKind,
    entries: impl IntoIterator<Item = (String, &'a str)>,
) {
    // Signing out removes the lists, so there are none of a token that was never signed in.
    if connection.is_from_environment() {
        return;
    }
    let Ok(config_dir) = context.environment.config_dir() else { return };
    let Some(cache) = CompletionCache::find(&config_dir, &context.profile, &connection.origin) else { return };
    let entries =
        entries.into_iter().take(MAX_ENTRIES).map(|(id, name)| ListedEntry {
            id,
            name: shorten(&strip_control(name), MAX_NAME_COLUMNS, "…").into_owned(),
        });
    drop(cache.write(kind, entries.collect()));
}
