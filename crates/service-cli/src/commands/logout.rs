//! `service logout`: deletes the session and the MCP tokens on this machine, and revokes them on the server if the server can
//! be reached.

use serde_json::{Value, json};
use service_api::{oauth::SERVICE_CLI, token::CliToken};
use service_client::{TokenStore as _, lock_all};

use super::mcp;
use crate::{
    arguments::LogoutArgs,
    context::{Context, session_failed, store_failed},
    credentials::{SavedSignIn, StoreKind},
    explain,
    failure::Failure,
};

pub(super) async fn run(context: &Context, arguments: &LogoutArgs) -> Result<(), Failure> {
    let (sign_ins, mcp_tokens) = if arguments.all {
        let credentials = context.credentials()?;
        (credentials.list_sign_ins().map_err(store_failed)?, credentials.list_mcp_tokens().map_err(store_failed)?)
    } else {
        let origin = context.origin()?;
        (vec![context.saved_sign_in(&origin)?], vec![context.saved_mcp_tokens(&origin)?])
    };
    let (mut objects, mut failed) = (Vec::new(), None);
    for saved in sign_ins {
        match sign_out(context, &saved).await {
            Ok(object) => objects.extend(object),
            // The other sessions are signed out anyway.
            Err(failure) => failed = Some(failure),
        }
    }
    // A user who signs out leaves no token on this machine that acts for them.
    let mut removed = Vec::new();
    for saved in mcp_tokens {
        match mcp::logout::remove(context, &saved).await {
            Ok(object) => removed.extend(object),
            Err(failure) => failed = Some(failure),
        }
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    if objects.is_empty() && removed.is_empty() {
        let place = if arguments.all {
            String::new()
        } else {
            format!(" to {} (profile {})", context.origin()?, context.profile)
        };
        context.output.info(&format!("Not signed in{place}. Nothing to do."));
    }
    warn_about_token(context);
    let mut object = match objects.len() {
        _ if arguments.all => json!({ "signedOut": !objects.is_empty(), "signIns": objects }),
        0 => json!({ "signedOut": false }),
        _ => objects.swap_remove(0),
    };
    if let (Value::Object(members), false) = (&mut object, removed.is_empty()) {
        members.insert("mcpTokens".to_owned(), removed.into());
    }
    context.output.result(&object, "")
}

async fn sign_out(context: &Context, saved: &SavedSignIn) -> Result<Option<Value>, Failure> {
    // Waits for a command that is refreshing the session, so that the newest token is revoked.
    let locks = lock_all(saved.locks().map_err(store_failed)?).await.map_err(session_failed)?;
    saved.forget_lists();
    let Some(sign_in) = saved.record().map_err(store_failed)? else { return Ok(None) };
    let refresh_token = saved.refresh_token();
    let deleted = saved.forget();
    drop(locks);

    let client = context.client(&saved.origin)?;
    // The server revokes the session for either token of the pair, whatever happened to the local files.
    let revoked = match refresh_token {
        Ok(Some(token)) => context.wait_for("Signing out", client.revoke(SERVICE_CLI, &token)).await,
        _ => context.wait_for("Signing out", client.revoke_access(SERVICE_CLI, &sign_in.access_token)).await,
    };
    let revoked = revoked.map_err(|error| explain::explain_error(&saved.origin, &error).code.as_str());
    if let Err(error) = deleted {
        // The record is still there, so the user is not signed out on this machine.
        if saved.record().map_err(store_failed)?.is_some() {
            return Err(store_failed(error));
        }
        context.output.warn(&format!("{error} The leftover token stops working when the session is revoked."));
    }
    let (email, store) = (&sign_in.user.email, sign_in.store);
    match revoked {
        Ok(()) => {
            let place = if store == StoreKind::Keyring { "the system keyring" } else { "this computer" };
            let text = format!("Signed out {email}. The session was revoked on the server and removed from {place}.");
            context.output.success(&text);
        }
        Err(why) => {
            context.output.success(&format!("Signed out {email} on this computer."));
            let text = format!(
                "Couldn't revoke the session on the server ({why}). It expires there after 30 days without use."
            );
            context.output.warn(&text);
        }
    }
    let mut object = json!({
        "signedOut": true, "user": sign_in.user, "revokedOnServer": revoked.is_ok(), "store": store,
        "profile": saved.profile, "apiUrl": saved.origin.as_str(),
    });
    if let (Err(why), Value::Object(members)) = (revoked, &mut object) {
        members.insert("warning".to_owned(), why.into());
    }
    Ok(Some(object))
}

fn warn_about_token(context: &Context) {
    let Some(token) = &context.environment.token else { return };
    let text = "SERVICE_TOKEN is still set and still works.";
    match CliToken::parse(token.text()).and_then(|token| token.id()) {
        Some(id) => context.output.warn(&format!("{text} Revoke it with: service token revoke {id}")),
        None => context.output.warn(text),
    }
}
