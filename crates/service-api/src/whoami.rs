//! `GET /v1/whoami`: who the token speaks for, what it may do, and where.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    ids::{CliTokenId, GrantId, UserId},
    instant,
    scope::Scopes,
    workspaces::SpaceView,
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Whoami {
    pub user: User,
    pub credential: Credential,
    pub space: SpaceView,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct User {
    pub id: UserId,
    pub email: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    pub kind: CredentialKind,
    /// What to name when revoking it: for an access token, the session it is part of.
    pub id: CredentialId,
    pub client: String,
    pub scopes: Scopes,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CredentialKind {
    AccessToken,
    CliToken,
}

/// What to name when ending a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CredentialId {
    Session(GrantId),
    CliToken(CliTokenId),
}
