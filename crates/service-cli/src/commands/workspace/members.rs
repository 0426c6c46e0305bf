//! `service workspace members`, `invite`, `remove` and `leave`: manages the members of the current workspace.

use serde_json::json;
use service_api::{
    ids::{UserId, WorkspaceId},
    workspaces::{Invite, Member, Role},
};

use super::{NamedSpace, read_named, role_name};
use crate::{
    completion_cache::{ListedKind, remember},
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    prompt,
    table::{Cell, Table, format_date, strip_control},
};

/// The current workspace. Fails in the personal space, which lacks what the command is about.
pub(in crate::commands) async fn current_workspace(
    context: &Context,
    connection: &Connection,
    about: &str,
) -> Result<(WorkspaceId, NamedSpace), Failure> {
    let whoami = connection.call(context, async |client, token| client.whoami(token, connection.workspace_id()).await);
    let Some(id) = whoami.await?.space.workspace_id else {
        let text = format!("Your personal space has no {about}.");
        return Err(Failure::new(FailureCode::Usage, text).hint("Choose a workspace with --workspace-id <id>"));
    };
    Ok((id, read_named(context, connection, &id.to_string()).await?))
}

pub(super) async fn list_members(
    context: &Context,
    connection: &Connection,
    id: WorkspaceId,
) -> Result<Vec<Member>, Failure> {
    let members = connection
        .list_all(context, async |client, token, cursor| client.list_members(token, id, cursor).await)
        .await?;
    let entries = members.iter().map(|member| (member.user_id.to_string(), member.email.as_str()));
    remember(context, connection, ListedKind::Member, entries);
    Ok(members)
}

pub(super) async fn list(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let (id, space) = current_workspace(context, &connection, "members").await?;
    let members = list_members(context, &connection, id).await?;
    let mut table = Table::new(&["ID", "EMAIL", "ROLE", "JOINED"]);
    for member in &members {
        table.add_row([
            Cell::whole(member.user_id.to_string()),
            Cell::text(&member.email),
            Cell::text(role_name(member.role)),
            Cell::time(Some(member.joined_at)),
        ]);
    }
    let object = json!({ "members": members, "workspace": { "id": space.id, "name": space.name } });
    context.output.result(&object, &table.render(&context.output))
}

pub(super) async fn invite(context: &Context, email: &str, role: Role) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let (id, space) = current_workspace(context, &connection, "members").await?;
    let body = Invite { email: email.to_owned(), role: Some(role) };
    let invited = connection.call(context, async |client, token| client.invite(token, id, &body).await).await?;
    let expiry = format_date(invited.expires_at);
    context.output.success(&format!("Invited {} to {}.", strip_control(&invited.email), space.in_sentence()));
    context.output.info(&format!("  The invitation expires on {expiry}. You won't be told if they decline."));
    context.output.result(&json!({ "invitation": invited, "workspace": { "id": space.id, "name": space.name } }), "")
}

pub(super) async fn remove(context: &Context, member: &str) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let (id, space) = current_workspace(context, &connection, "members").await?;
    let not_a_member = || {
        let text = format!("{} isn't a member of {}.", strip_control(member), space.in_sentence());
        Failure::new(FailureCode::NotFound, text).hint("service workspace members")
    };
    let members = list_members(context, &connection, id).await?;
    let user: Option<UserId> = member.parse().ok();
    let is_named = |one: &&Member| Some(one.user_id) == user || one.email.eq_ignore_ascii_case(member);
    let member = members.iter().find(is_named).ok_or_else(not_a_member)?;
    let question = format!(
        "Remove {} from {}? Their tokens for it are revoked.",
        strip_control(&member.email),
        space.in_sentence()
    );
    if !prompt::confirm_action(context.terminal(), context.global.yes, "remove a member", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was changed."));
    }
    let user = member.user_id;
    let removed = connection.call(context, async |client, token| client.remove_member(token, id, user).await).await;
    removed.map_err(|failure| if failure.code == FailureCode::NotFound { not_a_member() } else { failure })?;
    context.output.success(&format!("Removed {} from {}.", strip_control(&member.email), space.in_sentence()));
    let removed = json!({ "userId": user, "email": member.email });
    context.output.result(&json!({ "removed": removed, "workspace": { "id": space.id, "name": space.name } }), "")
}

pub(super) async fn leave(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    // A member who is kept out can leave the workspace, but `whoami` in it fails.
    let (id, space) = match connection.workspace_id().and_then(|id| id.parse::<WorkspaceId>().ok()) {
        Some(id) => (id, read_named(context, &connection, &id.to_string()).await?),
        None => current_workspace(context, &connection, "members").await?,
    };
    let question =
        format!("Leave {}? Your tokens for it are revoked. To come back you need an invitation.", space.in_sentence());
    if !prompt::confirm_action(context.terminal(), context.global.yes, "leave a workspace", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "You're still a member."));
    }
    let whoami = connection.call(context, async |client, token| client.whoami(token, None).await).await?;
    let user = whoami.user.id;
    connection.call(context, async |client, token| client.remove_member(token, id, user).await).await?;
    context.output.success(&format!("You left {}.", space.in_sentence()));
    context.output.result(&json!({ "left": { "id": space.id, "name": space.name } }), "")
}
