//! The contents of `credentials.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use service_api::{
    Timestamp,
    ids::UserId,
    instant,
    scope::Scopes,
    token::{AccessToken, RefreshToken},
};
use service_client::Access;

use super::StoreKind;

/// The version of the format that this command reads and writes.
const FORMAT_VERSION: u32 = 1;

/// The whole file: sign-ins and MCP tokens by profile.
#[derive(Serialize, Deserialize)]
pub(super) struct CredentialsFile {
    version: u32,
    pub(super) profiles: BTreeMap<String, Profile>,
}

/// The sign-ins and the MCP tokens of a profile.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Profile {
    /// The origin that the profile last signed in to.
    pub(super) api_url: Option<String>,
    /// Sign-ins by origin.
    pub(super) sign_ins: BTreeMap<String, SignInRecord>,
    /// MCP tokens by origin.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) mcp_tokens: BTreeMap<String, McpRecord>,
}

/// MCP tokens of a user at a service.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpRecord {
    pub(crate) user: SignedInUser,
    pub(crate) store: StoreKind,
    /// The name of the refresh token in the keyring or in the directory of refresh tokens.
    pub(crate) entry: String,
    /// The default workspace of the tokens. None means the personal space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<SavedWorkspace>,
    pub(crate) scopes: Scopes,
    pub(crate) access_token: AccessToken,
    #[serde(with = "instant::Written")]
    pub(crate) access_expires_at: Timestamp,
}

/// A sign-in of a user at a service.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignInRecord {
    pub(crate) user: SignedInUser,
    pub(crate) store: StoreKind,
    /// The name of the refresh token in the keyring or in the directory of refresh tokens. It is random, so that no two
    /// sign-ins share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) entry: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<SavedWorkspace>,
    /// The scopes that were requested, which can be more than were granted. The next sign-in requests them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) requested_scope: Option<String>,
    pub(crate) scopes: Scopes,
    pub(crate) access_token: AccessToken,
    #[serde(with = "instant::Written")]
    pub(crate) access_expires_at: Timestamp,
    /// The refresh token, where an older version of the command stored it. The next refresh moves it to its own file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<RefreshToken>,
}

/// The user who signed in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SignedInUser {
    pub(crate) id: UserId,
    pub(crate) email: String,
}

/// The workspace that the user saved with `service workspace use`. Its ID can be `personal`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedWorkspace {
    pub(crate) id: String,
    pub(crate) name: String,
}

impl Default for CredentialsFile {
    fn default() -> Self {
        Self { version: FORMAT_VERSION, profiles: BTreeMap::new() }
    }
}

impl CredentialsFile {
    /// Parses the file. Errors continue a sentence that begins with its path, and never quote it, because it has tokens.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let file: Self = serde_json::from_str(text).map_err(|error| {
            format!("is invalid (line {}, column {}). Delete it and sign in again.", error.line(), error.column())
        })?;
        match file.version {
            FORMAT_VERSION => Ok(file),
            other => Err(format!("has version {other}, which this command doesn't support. Update the command.")),
        }
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl McpRecord {
    pub(super) fn into_access(self) -> Access {
        Access { token: self.access_token, expires_at: self.access_expires_at }
    }

    pub(super) fn replace_access(&mut self, access: &Access) {
        self.access_token = access.token.clone();
        self.access_expires_at = access.expires_at;
    }
}

impl SignInRecord {
    pub(super) fn into_access(self) -> Access {
        Access { token: self.access_token, expires_at: self.access_expires_at }
    }

    /// Replaces the access token, and the name of the refresh token.
    pub(super) fn replace_tokens(&mut self, access: &Access, entry: String) {
        self.access_token = access.token.clone();
        self.access_expires_at = access.expires_at;
        self.entry = Some(entry);
        self.refresh_token = None;
    }

    /// The scopes that the sign-in requested.
    pub(crate) fn requested_scope(&self) -> &str {
        self.requested_scope.as_deref().unwrap_or("read write")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_do_not_quote_the_file() {
        let why = CredentialsFile::parse(
            r#"{"version":1,"profiles":{"default":{"signIns":{"https://a.example":"svc_rt_secret"}}}}"#,
        );
        assert!(!why.err().unwrap().contains("secret"));
        assert!(CredentialsFile::parse(r#"{"version":2,"profiles":{}}"#).is_err());
        assert!(CredentialsFile::parse(&CredentialsFile::default().to_text()).is_ok());
    }
}
