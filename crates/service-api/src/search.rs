//! `POST /v1/packs/search`: full-text search of packs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    contents::{Content, PACK_TYPES},
    forms::NOT_BLANK,
    page::MAX_LIMIT,
    workspaces::ContentScope,
};

/// The maximum length of a query, in characters.
pub const MAX_QUERY: usize = 500;

/// `POST /v1/packs/search`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchPacks {
    /// The type of the packs.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = PACK_TYPES))]
    pub pack_type: String,
    /// The words to search for.
    #[schemars(length(min = 1, max = MAX_QUERY), regex(pattern = NOT_BLANK))]
    pub query: String,
    /// The spaces to search. Default: personal space and the workspace that the request runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub scopes: Option<Vec<ContentScope>>,
    /// The maximum number of results on a page. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    pub limit: Option<u16>,
    /// `nextCursor` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A search result.
#[derive(Debug, Serialize, Deserialize)]
pub struct Found {
    #[serde(flatten)]
    pub content: Content,
    pub score: f32,
    /// The part of its text that matches, as plain text.
    pub snippet: Vec<Segment>,
}

/// A part of a snippet, which matches or does not.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// The text of the segment.
    pub text: String,
    /// Whether the segment matches the query.
    #[serde(rename = "match")]
    pub is_match: bool,
}
