//! `/v1/account/address-change`: changing the email address of the account.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, instant};

/// `POST /v1/account/address-change`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeAddress {
    /// The new email address.
    pub email: String,
}

/// A change of the email address that the user has requested. Both addresses confirm it by a link that is sent to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddressChange {
    /// The new email address.
    pub email: String,
    /// When the change was requested.
    #[serde(with = "instant::Written")]
    pub requested_at: Timestamp,
    /// Until when it can be confirmed.
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
    /// Whether the current address has confirmed it.
    pub confirmed_by_current_address: bool,
    /// Whether the new address has confirmed it.
    pub confirmed_by_new_address: bool,
    /// When the address is changed. Absent: a confirmation is missing.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    #[schemars(with = "instant::Written")]
    pub changed_on: Option<Timestamp>,
}
