//! Audit events with the names of what they are about, for pages.

use std::collections::BTreeMap;

use service_api::{
    audit_events::AuditEvent,
    ids::{CliTokenId, UserId, WorkspaceId},
    workspaces::Role,
};

use crate::{
    database::{self, Connection},
    store::{self, cli_tokens::StoredCliToken},
};

/// An event, and the name of what it was about.
pub struct NamedEvent {
    pub event: AuditEvent,
    /// The name of the client, CLI token or workspace, if it is known.
    pub name: Option<String>,
    /// The role that a member was given.
    pub role: Option<Role>,
}

/// Whose events are listed. A CLI token is named only in the list of its user and of its workspace.
#[derive(Clone, Copy, Debug)]
pub enum EventsOf {
    User(UserId),
    Workspace(WorkspaceId),
}

impl EventsOf {
    fn may_name(self, token: &StoredCliToken) -> bool {
        match self {
            Self::User(user_id) => token.user_id == user_id,
            Self::Workspace(id) => token.found.workspace_id == Some(id),
        }
    }
}

/// Looks up the names of what events were about, each once.
pub struct EventNames<'a> {
    db: &'a Connection,
    of: EventsOf,
    workspaces: BTreeMap<WorkspaceId, String>,
    /// The names of clients and CLI tokens, by their ids.
    looked_up: BTreeMap<String, Option<String>>,
}

impl<'a> EventNames<'a> {
    /// Names events. `workspaces` has the names of the workspaces that the reader is in.
    #[must_use]
    pub const fn new(db: &'a Connection, of: EventsOf, workspaces: BTreeMap<WorkspaceId, String>) -> Self {
        Self { db, of, workspaces, looked_up: BTreeMap::new() }
    }

    pub async fn name(&mut self, event: AuditEvent) -> Result<NamedEvent, database::Error> {
        let name = self.name_of(&event).await?;
        let role = event.details.get("role").and_then(|role| serde_json::from_value(role.clone()).ok());
        Ok(NamedEvent { event, name, role })
    }

    async fn name_of(&mut self, event: &AuditEvent) -> Result<Option<String>, database::Error> {
        let (area, _) = event.event.split_once('.').unwrap_or_default();
        let id = match area {
            "session" | "consent" => event.client_id.as_ref(),
            "cli_token" | "token" => event.subject.as_ref(),
            "workspace" | "member" => {
                return Ok(event.workspace_id.and_then(|id| self.workspaces.get(&id).cloned()));
            }
            // The user who accepts an invitation is not in its workspace yet, so the details name it.
            "invitation" => {
                let named = event.details.get("workspace").and_then(|id| id.as_str()?.parse().ok());
                return Ok(event.workspace_id.or(named).and_then(|id| self.workspaces.get(&id).cloned()));
            }
            _ => None,
        };
        let Some(id) = id else { return Ok(None) };
        if let Some(known) = self.looked_up.get(id) {
            return Ok(known.clone());
        }
        let name = match id.parse::<CliTokenId>() {
            Ok(token) => {
                let token = store::cli_tokens::find(self.db, token).await?;
                token.filter(|token| self.of.may_name(token)).map(|token| token.name.as_str().to_owned())
            }
            Err(_) => store::clients::find(self.db, id).await?.map(|client| client.name.as_str().to_owned()),
        };
        self.looked_up.insert(id.clone(), name.clone());
        Ok(name)
    }
}
