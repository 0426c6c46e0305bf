//! `service mcp logout`: deletes the MCP tokens on this machine, and revokes them on the server if it can be reached.

use serde_json::{Value, json};
use service_api::oauth::SERVICE_MCP;
use service_client::{TokenStore as _, lock_all};

use crate::{
    context::{Context, session_failed, store_failed},
    credentials::SavedMcpTokens,
    explain,
    failure::Failure,
};

pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    let saved = context.saved_mcp_tokens(&context.origin()?)?;
    let removed = remove(context, &saved).await?;
    if removed.is_none() {
        context.output.info("There are no MCP tokens on this computer. Nothing to do.");
    }
    let object = removed.unwrap_or_else(|| json!({ "removed": false }));
    context.output.result(&object, "")
}

/// Deletes MCP tokens and revokes them. Returns what was done, or `None` if there were none.
pub(in crate::commands) async fn remove(context: &Context, saved: &SavedMcpTokens) -> Result<Option<Value>, Failure> {
    // Waits for a process that is refreshing the tokens, so that the newest one is revoked.
    let locks = lock_all(saved.locks().map_err(store_failed)?).await.map_err(session_failed)?;
    let Some(record) = saved.record().map_err(store_failed)? else { return Ok(None) };
    let refresh_token = saved.refresh_token();
    let deleted = saved.forget();
    drop(locks);

    let client = context.client(&saved.origin)?;
    // Either token revokes both, whatever happened to the local files.
    let revoked = match refresh_token {
        Ok(Some(token)) => context.spin_while(client.revoke(SERVICE_MCP, &token)).await,
        _ => context.spin_while(client.revoke_access(SERVICE_MCP, &record.access_token)).await,
    };
    let revoked = revoked.map_err(|error| explain::explain_error(&saved.origin, &error).code.as_str());
    if let Err(error) = deleted {
        if saved.record().map_err(store_failed)?.is_some() {
            return Err(store_failed(error));
        }
        context.output.warn(&format!("{error} The leftover token stops working when it is revoked."));
    }
    match revoked {
        Ok(()) => context.output.success("Revoked the MCP tokens and removed them from this computer."),
        Err(why) => {
            context.output.success("Removed the MCP tokens from this computer.");
            let text = format!(
                "Couldn't revoke the MCP tokens on the server ({why}). They expire there after 30 days without use."
            );
            context.output.warn(&text);
        }
    }
    let mut object = json!({
        "removed": true, "revokedOnServer": revoked.is_ok(), "user": record.user, "profile": saved.profile,
        "apiUrl": saved.origin.as_str(),
    });
    if let (Err(why), Value::Object(members)) = (revoked, &mut object) {
        members.insert("warning".to_owned(), why.into());
    }
    Ok(Some(object))
}
