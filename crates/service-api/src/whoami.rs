//! `GET /v1/whoami`: the current user, credential and space.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    ids::{CliTokenId, GrantId, UserId},
    instant,
    scope::Scopes,
    workspaces::SpaceView,
};

/// The user, credential and space of a request.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Whoami {
    pub user: User,
    pub credential: Credential,
    pub space: SpaceView,
}

/// The user of a credential.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct User {
    pub id: UserId,
    pub email: String,
}

/// The credential of a request.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    pub kind: CredentialKind,
    /// The id to revoke it by: for an access token that of its session.
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

/// The id to revoke a credential by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CredentialId {
    Session(GrantId),
    CliToken(CliTokenId),
}
