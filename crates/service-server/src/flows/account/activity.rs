//! The events of a user's account, page by page.

use std::collections::BTreeMap;

use service_api::{
    audit_events::AuditEvent,
    ids::{CliTokenId, UserId, WorkspaceId},
    page::Page,
    workspaces::Role,
};
use service_rules::space::Space;

use crate::{
    app::App,
    database::Connection,
    flows::{
        account::{AccountError, signed_in},
        audit::events,
        sign_in::browser_session::Browser,
    },
    pagination::PageRequest,
    store,
};

const EVENTS_PER_PAGE: u16 = 25;

/// An event, and the name of what it was about.
pub struct NamedEvent {
    pub event: AuditEvent,
    /// The name of the client, CLI token or workspace, if it is known.
    pub name: Option<String>,
    /// The role that a member was given.
    pub role: Option<Role>,
}

pub async fn list(app: &App, browser: &Browser, cursor: Option<&str>) -> Result<Page<NamedEvent>, AccountError> {
    page_of(app, signed_in(browser)?.user_id, PageRequest { limit: EVENTS_PER_PAGE, cursor }).await
}

/// One page of the events of this user's account.
pub(super) async fn page_of(
    app: &App,
    user_id: UserId,
    page: PageRequest<'_>,
) -> Result<Page<NamedEvent>, AccountError> {
    let query = events::EventQuery { event: None, about: None, since: None, until: None, page };
    let page = events::list(app, user_id, Space::Personal, &query).await?;
    let db = app.database.connect().await?;
    let workspaces = store::members::list_workspaces(&db, user_id).await?;
    let workspaces = workspaces.into_iter().map(|workspace| (workspace.id, workspace.name)).collect();
    let mut names = Names { db: &db, user_id, workspaces, looked_up: BTreeMap::new() };
    let mut data = Vec::with_capacity(page.data.len());
    for event in page.data {
        let name = names.name_of(&event).await?;
        let role = event.details.get("role").and_then(|role| serde_json::from_value(role.clone()).ok());
        data.push(NamedEvent { event, name, role });
    }
    Ok(Page { data, next_cursor: page.next_cursor })
}

/// Looks up the names of what events were about, each once.
struct Names<'a> {
    db: &'a Connection,
    user_id: UserId,
    workspaces: BTreeMap<WorkspaceId, String>,
    /// The names of clients and CLI tokens, by their ids.
    looked_up: BTreeMap<String, Option<String>>,
}

impl Names<'_> {
    async fn name_of(&mut self, event: &AuditEvent) -> anyhow::Result<Option<String>> {
        let (area, _) = event.event.split_once('.').unwrap_or_default();
        let id = match area {
            "session" | "consent" => event.client_id.as_ref(),
            "cli_token" | "token" => event.subject.as_ref(),
            "workspace" | "member" => {
                return Ok(event.workspace_id.and_then(|id| self.workspaces.get(&id).cloned()));
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
                token.filter(|token| token.user_id == self.user_id).map(|token| token.name.as_str().to_owned())
            }
            Err(_) => store::clients::find(self.db, id).await?.map(|client| client.name.as_str().to_owned()),
        };
        self.looked_up.insert(id.clone(), name.clone());
        Ok(name)
    }
}
