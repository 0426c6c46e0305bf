//! Pages of lists, with an opaque cursor to the next page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number of items on a page, unless the request names another.
pub const DEFAULT_LIMIT: u16 = 50;
/// The maximum number of items on a page.
pub const MAX_LIMIT: u16 = 100;

/// One page of a list.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PageOf{T}")]
pub struct Page<T> {
    /// The items of this page.
    pub data: Vec<T>,
    /// The cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
