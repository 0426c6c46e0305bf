//! `GET /v1/whoami`: the current user, credential and space.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    ids::{CliTokenId, GrantId, Id as _, UserId, pattern},
    instant,
    scope::Scopes,
    workspaces::SpaceView,
};

/// The user, credential and space of a request.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Whoami {
    /// The user of the credential.
    pub user: User,
    /// The credential of the request.
    pub credential: Credential,
    /// The space that the request runs in.
    pub space: SpaceView,
}

/// The user of a credential.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct User {
    /// The ID of the user.
    pub id: UserId,
    /// The email address of the user.
    pub email: String,
}

/// The credential of a request.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    /// The kind of the credential.
    pub kind: CredentialKind,
    /// The id to revoke it by: for an access token that of its session.
    pub id: CredentialId,
    /// The client that the credential was issued to.
    pub client: String,
    /// The scopes of the credential.
    pub scopes: Scopes,
    /// When the credential was created.
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// When the credential expires.
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
}

/// The kind of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CredentialKind {
    /// An access token of a session.
    AccessToken,
    /// A CLI token.
    CliToken,
}

/// The id to revoke a credential by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CredentialId {
    Session(GrantId),
    CliToken(CliTokenId),
}

impl JsonSchema for CredentialId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CredentialId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let kinds = format!("({}|{})", GrantId::KIND, CliTokenId::KIND);
        json_schema!({ "type": "string", "pattern": pattern(&kinds) })
    }
}
