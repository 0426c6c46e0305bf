//! `/v1/account`: the account of the user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, ids::UserId, instant};

/// The most characters of a user's name.
pub const MAX_NAME: usize = 80;

/// The account of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// The ID of the user.
    pub id: UserId,
    /// The email address of the user.
    pub email: String,
    /// The name that members of the user's workspaces see. Absent: the user has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// Whether only a passkey or a recovery code signs the user in.
    pub requires_passkey: bool,
    /// When the account was created.
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
}

/// `PATCH /v1/account`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameAccount {
    /// The new name, on one line. Blank: the user has no name any more.
    #[schemars(length(max = MAX_NAME))]
    pub name: String,
}
