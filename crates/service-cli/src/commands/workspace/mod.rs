//! `service workspace`: the workspaces somebody is in, and the one that commands work in.

mod list;
mod show;
mod use_;

use service_api::workspaces::{self, PERSONAL};

use crate::{
    arguments::Workspace,
    connection::Connection,
    context::Context,
    failure::{Code, Failure},
    table::clean,
};

pub(super) async fn run(context: &Context, command: Workspace) -> Result<(), Failure> {
    match command {
        Workspace::List => list::run(context).await,
        Workspace::Use { id, .. } => use_::run(context, id.as_deref()).await,
        Workspace::Show => show::run(context).await,
    }
}

/// A space and its name.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) id: String,
    pub(super) name: Option<String>,
}

impl Named {
    pub(super) fn personal() -> Self {
        Self { id: PERSONAL.to_owned(), name: None }
    }

    pub(super) fn shown(&self) -> String {
        match &self.name {
            _ if self.id == PERSONAL => "your personal space".to_owned(),
            Some(name) => format!("{} ({})", clean(name), self.id),
            None => self.id.clone(),
        }
    }
}

impl From<workspaces::Workspace> for Named {
    fn from(workspace: workspaces::Workspace) -> Self {
        Self { id: workspace.id.to_string(), name: Some(workspace.name) }
    }
}

/// Every workspace of the caller.
pub(super) async fn all(context: &Context, connection: &Connection) -> Result<Vec<workspaces::Workspace>, Failure> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let page =
            connection.call(context, async |client, token| client.list_workspaces(token, cursor.as_deref()).await);
        let page = page.await?;
        all.extend(page.data);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(all);
        }
    }
}

/// A workspace by its id, if the caller is in it.
pub(super) async fn named(context: &Context, connection: &Connection, id: &str) -> Result<Named, Failure> {
    let parsed = id.parse().map_err(|_| not_found(id))?;
    let read = connection.call(context, async |client, token| client.read_workspace(token, parsed).await).await;
    read.map(Named::from).map_err(|failure| if failure.code == Code::NotFound { not_found(id) } else { failure })
}

/// Where the token in `SERVICE_TOKEN` works, to be named in what is said of it; nothing if nobody answers.
pub(super) async fn of_token(context: &Context) -> Option<Named> {
    let connection = Connection::open(context).ok().filter(Connection::is_from_environment)?;
    let whoami = connection.call(context, async |client, token| client.whoami(token, None).await).await.ok()?;
    let Some(id) = whoami.space.workspace_id else { return Some(Named::personal()) };
    let id = id.to_string();
    Some(named(context, &connection, &id).await.unwrap_or(Named { id, name: None }))
}

pub(super) fn not_found(id: &str) -> Failure {
    Failure::new(Code::NotFound, format!("No workspace {} that you can use.", clean(id))).next("service workspace list")
}
