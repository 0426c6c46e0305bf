//! `service invitation`: the invitations that a user received, and the user's answers to them.

use serde_json::json;
use service_api::{
    ids::{InvitationId, WorkspaceId},
    workspaces::ReceivedInvitation,
};

use crate::{
    arguments::InvitationCommand,
    commands::workspace::{NamedSpace, role_name},
    completion_cache::{ListedKind, remember},
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    prompt,
    table::{Cell, Table, strip_control},
};

pub(super) async fn run(context: &Context, command: InvitationCommand) -> Result<(), Failure> {
    match command {
        InvitationCommand::List => list(context).await,
        InvitationCommand::Accept { id } => accept(context, &id).await,
        InvitationCommand::Decline { id } => decline(context, &id).await,
        InvitationCommand::Block { id } => block(context, &id).await,
        InvitationCommand::Blocked => blocked(context).await,
        InvitationCommand::Unblock { workspace } => unblock(context, &workspace).await,
    }
}

async fn list_received(context: &Context, connection: &Connection) -> Result<Vec<ReceivedInvitation>, Failure> {
    connection
        .list_all(context, async |client, token, cursor| client.list_received_invitations(token, cursor).await)
        .await
}

async fn list(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let invitations = list_received(context, &connection).await?;
    let entries = invitations.iter().map(|invitation| (invitation.id.to_string(), invitation.workspace_name.as_str()));
    remember(context, &connection, ListedKind::Invitation, entries);
    let mut table = Table::new(&["ID", "WORKSPACE", "ROLE", "FROM", "EXPIRES"]);
    for invitation in &invitations {
        table.add_row([
            Cell::whole(invitation.id.to_string()),
            Cell::text(&invitation.workspace_name),
            Cell::text(role_name(invitation.role)),
            Cell::text(&invitation.invited_by),
            Cell::expiry(Some(invitation.expires_at)),
        ]);
    }
    if invitations.is_empty() {
        context.output.info("No pending invitations.");
    }
    let lines = if invitations.is_empty() { String::new() } else { table.render(&context.output) };
    context.output.result(&json!({ "invitations": invitations }), &lines)
}

fn parse_id(id: &str) -> Result<InvitationId, Failure> {
    id.parse().map_err(|_| invitation_not_found(id))
}

fn invitation_not_found(id: &str) -> Failure {
    let text = format!("Invitation {} not found.", strip_control(id));
    Failure::new(FailureCode::NotFound, text).hint("service invitation list")
}

/// Names the invitation in a failure that says that something was not found.
fn name_invitation(id: InvitationId) -> impl Fn(Failure) -> Failure {
    move |failure| if failure.code == FailureCode::NotFound { invitation_not_found(&id.to_string()) } else { failure }
}

async fn accept(context: &Context, id: &str) -> Result<(), Failure> {
    let id = parse_id(id)?;
    let connection = Connection::open(context)?;
    // The user sees who invites them, and to which workspace, before they accept.
    let invitations = list_received(context, &connection).await?;
    if let Some(invitation) = invitations.iter().find(|invitation| invitation.id == id) {
        let question = format!(
            "Join {} as {}, invited by {}? Its members will see your name and email address.",
            strip_control(&invitation.workspace_name),
            role_name(invitation.role),
            strip_control(&invitation.invited_by)
        );
        if !prompt::confirm_action(context.terminal(), context.global.yes, "accept an invitation", &question).await? {
            return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was accepted."));
        }
    }
    let joined = connection.call(context, async |client, token| client.accept_invitation(token, id).await).await;
    let joined = joined.map_err(name_invitation(id))?;
    let object = json!({ "workspace": { "id": joined.id, "name": joined.name, "role": joined.role } });
    let space = NamedSpace::from(joined);
    context.output.success(&format!("You joined {}.", space.in_sentence()));
    context.output.info(&format!("  To use it: service workspace use {}", space.id));
    context.output.result(&object, "")
}

async fn decline(context: &Context, id: &str) -> Result<(), Failure> {
    let id = parse_id(id)?;
    let connection = Connection::open(context)?;
    let declined = connection.call(context, async |client, token| client.decline_invitation(token, id).await).await;
    declined.map_err(name_invitation(id))?;
    context.output.success(&format!("Declined {id}. The workspace is not notified."));
    context.output.result(&json!({ "declined": { "id": id } }), "")
}

async fn block(context: &Context, id: &str) -> Result<(), Failure> {
    let id = parse_id(id)?;
    let connection = Connection::open(context)?;
    let blocked = connection.call(context, async |client, token| client.block_invitation(token, id).await).await;
    let blocked = blocked.map_err(name_invitation(id))?;
    let workspace = blocked.workspace_id;
    context
        .output
        .success(&format!("Blocked {} ({workspace}). The workspace is not notified.", strip_control(&blocked.name)));
    context.output.info(&format!("  To unblock it: service invitation unblock {workspace}"));
    context.output.result(&json!({ "blocked": blocked }), "")
}

async fn blocked(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let blocked = connection
        .list_all(context, async |client, token, cursor| client.list_blocked_workspaces(token, cursor).await)
        .await?;
    let entries = blocked.iter().map(|workspace| (workspace.workspace_id.to_string(), workspace.name.as_str()));
    remember(context, &connection, ListedKind::BlockedWorkspace, entries);
    let mut table = Table::new(&["ID", "NAME", "BLOCKED"]);
    for workspace in &blocked {
        table.add_row([
            Cell::whole(workspace.workspace_id.to_string()),
            Cell::text(&workspace.name),
            Cell::time(Some(workspace.blocked_at)),
        ]);
    }
    if blocked.is_empty() {
        context.output.info("No blocked workspaces.");
    }
    let lines = if blocked.is_empty() { String::new() } else { table.render(&context.output) };
    context.output.result(&json!({ "blocked": blocked }), &lines)
}

async fn unblock(context: &Context, id: &str) -> Result<(), Failure> {
    let not_blocked = || {
        let text = format!("Workspace {} is not blocked.", strip_control(id));
        Failure::new(FailureCode::NotFound, text).hint("service invitation blocked")
    };
    let workspace: WorkspaceId = id.parse().map_err(|_| not_blocked())?;
    let connection = Connection::open(context)?;
    let unblocked =
        connection.call(context, async |client, token| client.unblock_workspace(token, workspace).await).await;
    unblocked.map_err(|failure| if failure.code == FailureCode::NotFound { not_blocked() } else { failure })?;
    context.output.success(&format!("Unblocked {workspace}. You can receive its invitations again."));
    context.output.result(&json!({ "unblocked": { "workspaceId": workspace } }), "")
}
