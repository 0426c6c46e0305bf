//! The workspace that requests name, and who chose it.

use service_api::{ids::WorkspaceId, workspaces::PERSONAL};

use crate::{
    credentials::SavedWorkspace,
    environment::Environment,
    failure::{Code, Failure},
    table::clean,
};

/// The workspace that requests name, and who chose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// None: the token's own.
    pub(crate) id: Option<String>,
    /// What it is called, where that is known.
    pub(crate) name: Option<String>,
    pub(crate) by: Chooser,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chooser {
    Flag,
    Environment,
    Token,
    Saved,
    Nobody,
}

impl Chooser {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::Token => "token",
            Self::Saved => "saved",
            Self::Nobody => "default",
        }
    }
}

impl Chosen {
    /// The token's own.
    pub(crate) const fn by_token() -> Self {
        Self { id: None, name: None, by: Chooser::Token }
    }

    /// What was saved with a sign-in, if anything was.
    pub(crate) fn saved(saved: Option<&SavedWorkspace>) -> Self {
        match saved {
            Some(saved) => Self { id: Some(saved.id.clone()), name: Some(saved.name.clone()), by: Chooser::Saved },
            None => Self { id: None, name: None, by: Chooser::Nobody },
        }
    }

    /// First match wins: the flag, the environment, and then this.
    pub(crate) fn unless_named(self, flag: Option<&str>, environment: &Environment) -> Result<Self, Failure> {
        let (id, by) = match (flag, &environment.workspace_id) {
            (Some(id), _) => (id, Chooser::Flag),
            (None, Some(id)) => (id.as_str(), Chooser::Environment),
            (None, None) => return Ok(self),
        };
        if id != PERSONAL && id.parse::<WorkspaceId>().is_err() {
            let text = format!("No workspace {} that you can use.", clean(id));
            return Err(Failure::new(Code::NotFound, text).next("service workspace list"));
        }
        let name = (id == PERSONAL).then(|| "Personal".to_owned());
        Ok(Self { id: Some(id.to_owned()), name, by })
    }
}
