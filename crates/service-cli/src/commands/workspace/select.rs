//! `service workspace use`: saves the workspace for later commands, and warns if that has no effect.

use serde_json::json;
use service_client::{TokenStore as _, lock_all};

use super::{NamedSpace, read_named, space_of_token};
use crate::{
    connection::Connection,
    context::{Context, session_failed, store_failed},
    credentials::SavedWorkspace,
    failure::{Failure, FailureCode},
    token_variable::TOKEN_VARIABLE,
};

pub(super) async fn run(context: &Context, id: Option<&str>) -> Result<(), Failure> {
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
    let space = match id {
        Some(id) => read_named(context, &connection, id).await?,
        None => NamedSpace::personal(),
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
