//! The MCP tokens that `service mcp login` creates, as they are stored on this machine.

use std::path::PathBuf;

use service_api::token::{McpRefresh, Token};
use service_client::{Access, StoreError, TokenStore};

use super::{Credentials, record::McpRecord, refresh_token_place::RefreshTokenPlace};
use crate::origin::Origin;

/// The MCP tokens of a profile at an origin. They are stored and locked like its sign-in, so that processes share them.
#[derive(Clone, Debug)]
pub(crate) struct SavedMcpTokens {
    pub(super) credentials: Credentials,
    pub(crate) profile: String,
    pub(crate) origin: Origin,
}

impl SavedMcpTokens {
    pub(crate) fn record(&self) -> Result<Option<McpRecord>, StoreError> {
        let mut file = self.credentials.read()?;
        Ok(file.profiles.get_mut(&self.profile).and_then(|profile| profile.mcp_tokens.remove(self.origin.as_str())))
    }

    /// Stores new tokens, and replaces the previous record. The caller holds the locks.
    pub(crate) fn store(&self, record: McpRecord, refresh_token: &Token<McpRefresh>) -> Result<(), StoreError> {
        self.place(&record)?.write(refresh_token)?;
        self.credentials.change(&self.profile, |profile| {
            profile.mcp_tokens.insert(self.origin.as_str().to_owned(), record);
        })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.credentials.path()
    }

    /// Deletes the refresh token of a record from the keyring or the directory of refresh tokens.
    pub(crate) fn delete_refresh_token(&self, record: &McpRecord) -> Result<(), StoreError> {
        self.place(record)?.delete()
    }

    fn place(&self, record: &McpRecord) -> Result<RefreshTokenPlace, StoreError> {
        self.credentials.place(&self.origin, record.store, Some(&record.entry))
    }
}

impl TokenStore<McpRefresh> for SavedMcpTokens {
    fn locks(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.credentials.locks(self.record()?.map(|record| self.place(&record)).transpose()?)
    }

    fn access(&self) -> Result<Option<Access>, StoreError> {
        Ok(self.record()?.map(McpRecord::into_access))
    }

    fn refresh_token(&self) -> Result<Option<Token<McpRefresh>>, StoreError> {
        match self.record()? {
            Some(record) => self.place(&record)?.read(),
            None => Ok(None),
        }
    }

    fn save(&self, access: &Access, refresh_token: &Token<McpRefresh>) -> Result<(), StoreError> {
        let Some(record) = self.record()? else { return Ok(()) };
        self.place(&record)?.write(refresh_token)?;
        self.credentials.change(&self.profile, |profile| {
            if let Some(record) = profile.mcp_tokens.get_mut(self.origin.as_str()) {
                record.replace_access(access);
            }
        })
    }

    fn forget(&self) -> Result<(), StoreError> {
        let Some(record) = self.record()? else { return Ok(()) };
        self.credentials.change(&self.profile, |profile| {
            profile.mcp_tokens.remove(self.origin.as_str());
        })?;
        // Last, so that the record is gone even if the keyring does not respond.
        self.delete_refresh_token(&record)
    }
}
