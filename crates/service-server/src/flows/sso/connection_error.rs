//! Why a request about the connections of a workspace is refused.

use service_rules::{cli_tokens::FieldError, display_name::DisplayNameError};

use crate::{database, flows::workspaces::WorkspaceError};

/// Why a request about connections was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error("the workspace has no such connection")]
    NotFound,
    #[error("the field {} is invalid", .0.field)]
    InvalidField(FieldError),
    #[error("the workspace has as many connections as a workspace may have")]
    TooMany,
    #[error("the connection was not tried since it was changed")]
    NotTried,
    #[error("the connection is not enabled")]
    NotEnabled,
    #[error("the connection has no break-glass owner who can sign in")]
    NoBreakGlass,
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

impl From<FieldError> for ConnectionError {
    fn from(error: FieldError) -> Self {
        Self::InvalidField(error)
    }
}

impl From<DisplayNameError> for ConnectionError {
    fn from(error: DisplayNameError) -> Self {
        WorkspaceError::from(error).into()
    }
}
