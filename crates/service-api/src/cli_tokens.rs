//! `/v1/cli/tokens`: CLI tokens, which users create for scripts and CI.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    forms::ONE_LINE,
    ids::{CliTokenId, WorkspaceId},
    instant,
    oauth::TokenType,
    scope::Scopes,
    token::CliToken,
    workspaces::named_space_or_null,
};

/// The maximum number of active tokens of a user.
pub const MOST_LIVE: i64 = 100;
/// The maximum length of a name, in characters.
pub const MAX_NAME: usize = 100;

/// `POST /v1/cli/tokens`
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateCliToken {
    /// What the token is for, such as `Build server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = ONE_LINE))]
    pub name: Option<String>,
    /// The space that the token is bound to: a workspace's id or `personal`. Default: that of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "named_space_or_null")]
    pub workspace_id: Option<String>,
    /// Scopes, as a list. Default: `read`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// Scopes, separated by spaces. Send this or `scopes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Days until the token expires. Default: 90, or the lifetime of the session if that is shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 366))]
    pub expires_in_days: Option<i64>,
}

/// `POST /v1/cli/tokens/{tokenId}/rotate`
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateCliToken {
    /// Hours for which the old token stays valid. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 72))]
    pub overlap_hours: Option<i64>,
}

/// A new token. This is the only response that contains its secret.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CreatedCliToken {
    /// The ID of the token, by which it is revoked.
    pub id: CliTokenId,
    /// The token. It is shown only here.
    pub access_token: CliToken,
    /// How to send it: `Authorization: Bearer <access_token>`.
    pub token_type: TokenType,
    /// Seconds until it expires.
    pub expires_in: i64,
    /// The granted scopes, separated by spaces.
    pub scope: String,
    /// What the token is for.
    pub name: String,
    /// The workspace that it is bound to. Absent: personal space.
    #[serde(rename = "workspaceId", default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// When it was created.
    #[serde(rename = "createdAt", with = "instant::Written")]
    pub created_at: Timestamp,
    /// When it expires.
    #[serde(rename = "expiresAt", with = "instant::Written")]
    pub expires_at: Timestamp,
    /// The last characters of the token, to recognize it by.
    pub hint: String,
}

/// A token in a list, without its secret.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedCliToken {
    /// The ID of the token, by which it is revoked.
    pub id: CliTokenId,
    /// What the token is for.
    pub name: String,
    /// The workspace that it is bound to. Absent: personal space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// The scopes of the token.
    pub scopes: Scopes,
    /// The last characters of the token, to recognize it by.
    pub hint: String,
    /// When it was created.
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// When it expires.
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
    /// When it was last used. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub last_used_at: Option<Timestamp>,
    /// The network address that it was last used from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_from: Option<String>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub revoked_at: Option<Timestamp>,
    /// The session that created it, `grant_…`, or the browser, `sess_…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    /// When the session that created it was found to be compromised, more than 31 days after it had created this token.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub suspected_at: Option<Timestamp>,
    /// Whether it is active, expired or revoked.
    pub status: Status,
}

/// The state of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Active,
    Expired,
    Revoked,
}

/// Which tokens to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFilter {
    Only(Status),
    All,
}

impl StatusFilter {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Only(Status::Active) => "active",
            Self::Only(Status::Expired) => "expired",
            Self::Only(Status::Revoked) => "revoked",
        }
    }

    /// Parses `status`; active tokens if it is absent, `None` if its value is unknown.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Option<Self> {
        Some(match text {
            None | Some("active") => Self::Only(Status::Active),
            Some("expired") => Self::Only(Status::Expired),
            Some("revoked") => Self::Only(Status::Revoked),
            Some("all") => Self::All,
            Some(_) => return None,
        })
    }
}
