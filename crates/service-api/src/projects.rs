//! Projects.

use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    ids::{ProjectId, WorkspaceId},
    instant,
    workspaces::ContentScope,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
    /// Where it lives.
    pub scope: ContentScope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    #[serde(with = "instant::Written")]
    pub updated_at: Timestamp,
}
