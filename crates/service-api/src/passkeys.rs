//! `/v1/account/passkeys`: the passkeys of a user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, forms::ONE_LINE, ids::PasskeyId, instant};

/// Characters of the longest name of a passkey.
pub const MAX_NAME: usize = 60;

/// A passkey of a user.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Passkey {
    /// The ID of the passkey.
    pub id: PasskeyId,
    /// The name that the user gave it.
    pub name: String,
    /// Whether a password manager keeps a copy of it. Otherwise it is on one device only.
    pub backed_up: bool,
    /// When it was added.
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// When it last signed the user in. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub last_used_at: Option<Timestamp>,
}

/// `PATCH /v1/account/passkeys/{passkeyId}`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenamePasskey {
    /// The new name.
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = ONE_LINE))]
    pub name: String,
}
