//! `service workspace use`: saves the workspace for later commands, and warns if that has no effect.

use serde_json::json;
use service_api::{ids::WorkspaceId, workspaces::PERSONAL};
use service_client::{TokenStore as _, lock_all};

use super::{NamedSpace, choose, list_workspaces, read_named, role_name, space_of_token};
use crate::{
    connection::Connection,
    context::{Context, session_failed, store_failed},
    credentials::SavedWorkspace,
    explain,
    failure::{Failure, FailureCode},
    table::strip_control,
    token_variable::TOKEN_VARIABLE,
};

/// Saves the workspace that the user names. Without a name the user chooses from a list.
pub(super) async fn run(context: &Context, wanted: Option<&str>) -> Result<(), Failure> {
    let shadowed = context.environment.token.is_some();
    let token_space = match space_of_token(context).await {
        Some(space) => format!("its own workspace ({})", space.label()),
        None => "its own workspace".to_owned(),
    };
    let connection = Connection::open_saved(context).map_err(|failure| match failure.code {
        FailureCode::NotSignedIn if shadowed => {
            let text = format!("Nothing to save: you're not signed in, and SERVICE_TOKEN has {token_space}.");
            Failure::new(FailureCode::NotSignedIn, text).hint("For one command: --workspace-id <id>")
        }
        _ => failure,
    })?;
    let space = match wanted {
        Some(wanted) => find(context, &connection, wanted).await?,
        None if context.terminal().can_prompt() => {
            choose::prompt_for_space(context, &connection, "Workspace (number): ").await?
        }
        None => {
            return Err(Failure::new(FailureCode::Usage, "A workspace is required.")
                .hint("service workspace use <name or id>, or: service workspace use personal"));
        }
    };
    let saved = context.saved_sign_in(&connection.origin)?;
    let locks = lock_all(saved.locks().map_err(store_failed)?).await.map_err(session_failed)?;
    let name = space.name.clone().unwrap_or_else(|| "Personal".to_owned());
    saved.save_workspace(SavedWorkspace { id: space.id.clone(), name }).map_err(store_failed)?;
    drop(locks);

    let shown = space.in_sentence();
    if shadowed {
        context.output.success(&format!("Saved {shown} for your own session."));
        context.output.warn(&format!("This has no effect now: SERVICE_TOKEN is set and has {token_space}."));
        context.output.info(&format!(
            "  For one command: --workspace-id {}     To stop using the token: unset SERVICE_TOKEN",
            space.id
        ));
    } else {
        context.output.success(&format!("Commands now use {shown}. Override it with --workspace-id."));
    }
    let object = json!({
        "workspace": { "id": space.id, "name": space.name },
        "effective": !shadowed,
        "overriddenBy": shadowed.then_some(TOKEN_VARIABLE),
    });
    context.output.result(&object, "")
}

/// Finds a workspace by its ID or by its name, in upper or lower case. Fails if several have the name.
async fn find(context: &Context, connection: &Connection, wanted: &str) -> Result<NamedSpace, Failure> {
    if wanted.eq_ignore_ascii_case(PERSONAL) {
        return Ok(NamedSpace::personal());
    }
    if wanted.parse::<WorkspaceId>().is_ok() {
        return read_named(context, connection, wanted).await;
    }
    let name = wanted.trim().to_lowercase();
    let mut found = list_workspaces(context, connection).await?;
    found.retain(|workspace| workspace.name.trim().to_lowercase() == name);
    if found.len() > 1 {
        let listed: Vec<_> =
            found.iter().map(|workspace| format!("{} ({})", workspace.id, role_name(workspace.role))).collect();
        let text = format!("{} workspaces are called {}: {}.", found.len(), strip_control(wanted), listed.join(", "));
        let candidates: Vec<_> = found.iter().map(|found| json!({ "id": found.id, "name": found.name })).collect();
        let failure = Failure::new(FailureCode::Usage, text).with("candidates", candidates);
        return Err(found
            .iter()
            .fold(failure, |failure, found| failure.hint(format!("service workspace use {}", found.id))));
    }
    found.pop().map(NamedSpace::from).ok_or_else(|| explain::workspace_not_found(wanted))
}
