//! The workspace of a command, and which setting selected it.

use service_api::{ids::WorkspaceId, workspaces::PERSONAL};

use crate::{credentials::SavedWorkspace, environment::Environment, explain, failure::Failure};

/// The workspace that requests name, and which setting selected it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkspaceSelection {
    /// A workspace ID or `personal`. None means the workspace of the credential.
    pub(crate) id: Option<String>,
    /// The name of the workspace, if it is known.
    pub(crate) name: Option<String>,
    pub(crate) source: SelectionSource,
}

/// The setting that selected a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectionSource {
    /// `--workspace-id`.
    Flag,
    /// `SERVICE_WORKSPACE_ID`.
    Environment,
    /// The token in `SERVICE_TOKEN`.
    Token,
    /// `service workspace use`.
    Saved,
    /// The session, because nothing else selected one.
    Default,
}

impl SelectionSource {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::Token => "token",
            Self::Saved => "saved",
            Self::Default => "default",
        }
    }

    /// What follows the name of a workspace to say where it was set.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Flag => ", set by --workspace-id",
            Self::Environment => ", set by SERVICE_WORKSPACE_ID",
            Self::Token => ", set by SERVICE_TOKEN",
            Self::Saved => ", set by: service workspace use",
            Self::Default => " (default)",
        }
    }
}

impl WorkspaceSelection {
    /// Selects the workspace of the token in `SERVICE_TOKEN`.
    pub(crate) const fn from_token() -> Self {
        Self { id: None, name: None, source: SelectionSource::Token }
    }

    /// Selects the workspace that was saved with a session, if there is one.
    pub(crate) fn from_saved(saved: Option<&SavedWorkspace>) -> Self {
        match saved {
            Some(saved) => {
                Self { id: Some(saved.id.clone()), name: Some(saved.name.clone()), source: SelectionSource::Saved }
            }
            None => Self { id: None, name: None, source: SelectionSource::Default },
        }
    }

    /// Replaces the selection with `--workspace-id` or, without it, with `SERVICE_WORKSPACE_ID`.
    pub(crate) fn with_overrides(self, flag: Option<&str>, environment: &Environment) -> Result<Self, Failure> {
        let (id, source) = match (flag, &environment.workspace_id) {
            (Some(id), _) => (id, SelectionSource::Flag),
            (None, Some(id)) => (id.as_str(), SelectionSource::Environment),
            (None, None) => return Ok(self),
        };
        if id != PERSONAL && id.parse::<WorkspaceId>().is_err() {
            return Err(explain::workspace_not_found(id));
        }
        let name = (id == PERSONAL).then(|| "Personal".to_owned());
        Ok(Self { id: Some(id.to_owned()), name, source })
    }
}
