//! `service workspace use`: saved with the sign-in, and said plainly if it has no effect.

use serde_json::json;
use service_client::{TokenStore as _, lock_all};

use super::{Named, named, of_token};
use crate::{
    connection::Connection,
    context::{Context, kept_failed, store_failed},
    credentials::SavedWorkspace,
    failure::{Code, Failure},
    token_variable::TOKEN_VARIABLE,
};

pub(super) async fn run(context: &Context, id: Option<&str>) -> Result<(), Failure> {
    let shadowed = context.environment.token.is_some();
    let its_own = match of_token(context).await {
        Some(space) => format!("its own workspace, {}", space.shown()),
        None => "its own workspace".to_owned(),
    };
    let connection = Connection::saved(context).map_err(|failure| match failure.code {
        Code::NotSignedIn if shadowed => {
            let text = format!("Nothing to save: you are not signed in, and SERVICE_TOKEN carries {its_own}.");
            Failure::new(Code::NotSignedIn, text).next("for one command: --workspace-id <id>")
        }
        _ => failure,
    })?;
    let space = match id {
        Some(id) => named(context, &connection, id).await?,
        None => Named::personal(),
    };
    let kept = context.kept(&connection.origin)?;
    let locks = lock_all(kept.locks().map_err(store_failed)?).await.map_err(kept_failed)?;
    let name = space.name.clone().unwrap_or_else(|| "Personal".to_owned());
    kept.choose(SavedWorkspace { id: space.id.clone(), name }).map_err(store_failed)?;
    drop(locks);

    let shown = space.shown();
    if shadowed {
        context.output.good(&format!("Saved {shown} for your own sign-in."));
        context.output.warn(&format!("It has no effect now: SERVICE_TOKEN is set and carries {its_own}."));
        context.output.note(&format!(
            "  For one command: --workspace-id {}     To drop the token: unset SERVICE_TOKEN",
            space.id
        ));
    } else {
        let more = if id.is_some() { " Change for one command with --workspace-id." } else { "" };
        context.output.good(&format!("Commands now use {shown}.{more}"));
    }
    let object = json!({
        "workspace": { "id": space.id, "name": space.name },
        "effective": !shadowed,
        "overriddenBy": shadowed.then_some(TOKEN_VARIABLE),
    });
    context.output.result(&object, "")
}
