//! `DELETE /v1/account`: closes an account, which is erased later.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, instant};

/// An account that is closed, and that will be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountDeletion {
    /// When everything that belongs to the account is erased. Until then, the link in the mail about it keeps the account.
    #[serde(with = "instant::Written")]
    pub erased_on: Timestamp,
}
