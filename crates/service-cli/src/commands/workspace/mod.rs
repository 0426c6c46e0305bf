//! `service workspace`: lists, creates and selects workspaces, and manages their members, connections and domains.

pub(super) mod choose;
mod connection;
mod create;
mod domain;
mod list;
mod members;
mod place;
mod requirement;
mod select;
mod show;

pub(super) use self::members::current_workspace;
use service_api::workspaces::{PERSONAL, Role, Workspace};

use crate::{
    arguments::WorkspaceCommand,
    completion_cache::{ListedKind, remember},
    connection::Connection,
    context::Context,
    explain,
    failure::{Failure, FailureCode},
    table::strip_control,
};

pub(super) async fn run(context: &Context, command: WorkspaceCommand) -> Result<(), Failure> {
    match command {
        WorkspaceCommand::List => list::run(context).await,
        WorkspaceCommand::Create(arguments) => create::run(context, &arguments.name).await,
        WorkspaceCommand::Use { personal: true, .. } => select::run(context, Some(PERSONAL)).await,
        WorkspaceCommand::Use { workspace, .. } => select::run(context, workspace.as_deref()).await,
        WorkspaceCommand::Show => show::run(context).await,
        WorkspaceCommand::Members => members::list(context).await,
        WorkspaceCommand::Invite { email, role } => members::invite(context, &email, role.into()).await,
        WorkspaceCommand::Remove { member } => members::remove(context, &member).await,
        WorkspaceCommand::RequirePasskey { stop: false } => requirement::require(context).await,
        WorkspaceCommand::RequirePasskey { stop: true } => requirement::stop(context).await,
        WorkspaceCommand::Leave => members::leave(context).await,
        WorkspaceCommand::Connection(command) => connection::run(context, command).await,
        WorkspaceCommand::Domain(command) => domain::run(context, command).await,
    }
}

/// A workspace or the personal space, and its name.
#[derive(Clone, Debug)]
pub(super) struct NamedSpace {
    pub(super) id: String,
    pub(super) name: Option<String>,
}

impl NamedSpace {
    pub(super) fn personal() -> Self {
        Self { id: PERSONAL.to_owned(), name: None }
    }

    /// Its name and ID, as a list shows them.
    pub(super) fn label(&self) -> String {
        if self.id == PERSONAL { "Personal".to_owned() } else { self.in_sentence() }
    }

    /// Its name and ID, as part of a sentence.
    pub(super) fn in_sentence(&self) -> String {
        match &self.name {
            _ if self.id == PERSONAL => "your personal space".to_owned(),
            Some(name) => format!("{} ({})", strip_control(name), self.id),
            None => self.id.clone(),
        }
    }
}

impl From<Workspace> for NamedSpace {
    fn from(workspace: Workspace) -> Self {
        Self { id: workspace.id.to_string(), name: Some(workspace.name) }
    }
}

/// The name of a role.
pub(super) const fn role_name(role: Role) -> &'static str {
    match role {
        Role::Owner => "owner",
        Role::Member => "member",
        Role::Viewer => "viewer",
    }
}

/// Lists the workspaces of the user.
pub(super) async fn list_workspaces(context: &Context, connection: &Connection) -> Result<Vec<Workspace>, Failure> {
    let workspaces =
        connection.list_all(context, async |client, token, cursor| client.list_workspaces(token, cursor).await).await?;
    let entries = workspaces.iter().map(|workspace| (workspace.id.to_string(), workspace.name.as_str()));
    remember(context, connection, ListedKind::Workspace, entries);
    Ok(workspaces)
}

/// Reads a workspace by its ID. Fails if the user is not a member.
pub(super) async fn read_named(context: &Context, connection: &Connection, id: &str) -> Result<NamedSpace, Failure> {
    let parsed = id.parse().map_err(|_| explain::workspace_not_found(id))?;
    let read = connection.call(context, async |client, token| client.read_workspace(token, parsed).await).await;
    read.map(NamedSpace::from).map_err(|failure| match failure.code {
        FailureCode::NotFound => explain::workspace_not_found(id),
        _ => failure,
    })
}

/// The workspace of the token in `SERVICE_TOKEN`, if the service can be asked.
pub(super) async fn space_of_token(context: &Context) -> Option<NamedSpace> {
    let connection = Connection::open(context).ok().filter(Connection::is_from_environment)?;
    let whoami = connection.call(context, async |client, token| client.whoami(token, None).await).await.ok()?;
    let Some(id) = whoami.space.workspace_id else { return Some(NamedSpace::personal()) };
    let id = id.to_string();
    Some(read_named(context, &connection, &id).await.unwrap_or(NamedSpace { id, name: None }))
}
