//! What `credentials.json` says, and its one form.

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

use super::Place;

const VERSION: u32 = 1;

/// All of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Book {
    version: u32,
    pub(super) profiles: BTreeMap<String, Profile>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Profile {
    /// The address that was last signed in to.
    pub(super) api_url: Option<String>,
    /// By address.
    pub(super) sign_ins: BTreeMap<String, SignIn>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignIn {
    pub(crate) user: Signer,
    #[serde(rename = "store")]
    pub(crate) place: Place,
    /// What its entry in the keyring is called. Drawn for each sign-in, so that no two share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) entry: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<SavedWorkspace>,
    pub(crate) scopes: Scopes,
    pub(crate) access_token: AccessToken,
    #[serde(with = "instant::Written")]
    pub(crate) access_expires_at: Timestamp,
    /// Absent where the keyring has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<RefreshToken>,
}

/// Who signed in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Signer {
    pub(crate) id: UserId,
    pub(crate) email: String,
}

/// The workspace that was chosen; `id` may be `personal`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedWorkspace {
    pub(crate) id: String,
    pub(crate) name: String,
}

impl Default for Book {
    fn default() -> Self {
        Self { version: VERSION, profiles: BTreeMap::new() }
    }
}

impl Book {
    /// Errors never quote the text: it holds tokens.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let book: Self = serde_json::from_str(text).map_err(|error| {
            format!(
                "cannot be read (line {}, column {}); sign in again after removing it",
                error.line(),
                error.column()
            )
        })?;
        match book.version {
            VERSION => Ok(book),
            other => Err(format!("is of version {other}, which this command does not know; update it")),
        }
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl SignIn {
    pub(super) fn access(self) -> Access {
        Access { token: self.access_token, expires_at: self.access_expires_at }
    }

    pub(super) fn renew(&mut self, access: &Access, refresh_token: Option<RefreshToken>) {
        self.access_token = access.token.clone();
        self.access_expires_at = access.expires_at;
        self.refresh_token = refresh_token;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_not_quoted() {
        let why =
            Book::parse(r#"{"version":1,"profiles":{"default":{"signIns":{"https://a.example":"svc_rt_secret"}}}}"#);
        assert!(!why.err().unwrap().contains("secret"));
        assert!(Book::parse(r#"{"version":2,"profiles":{}}"#).is_err());
        assert!(Book::parse(&Book::default().to_text()).is_ok());
    }
}
