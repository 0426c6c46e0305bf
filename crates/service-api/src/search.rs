//! `POST /v1/packs/search`: packs by their words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    contents::{Content, PACK_TYPES},
    forms::NOT_BLANK,
    page::MAX_LIMIT,
    workspaces::ContentScope,
};

pub const MAX_QUERY: usize = 500;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchPacks {
    /// Of which type.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = PACK_TYPES))]
    pub pack_type: String,
    #[schemars(length(min = 1, max = MAX_QUERY), regex(pattern = NOT_BLANK))]
    pub query: String,
    /// Where to look; left out, in personal space and in the workspace that the request runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<ContentScope>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    pub limit: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A pack that was found, the best first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Found {
    #[serde(flatten)]
    pub content: Content,
    pub score: f32,
    /// Where in it the words are: its own text, never markup.
    pub snippet: Vec<Segment>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    pub text: String,
    #[serde(rename = "match")]
    pub is_match: bool,
}
