//! `service token revoke`: revokes CLI tokens by their IDs.

use std::process::ExitCode;

use serde_json::json;
use service_api::{
    cli_tokens::{ListedCliToken, Status, StatusFilter},
    ids::CliTokenId,
    leaks,
};

use super::list;
use crate::{
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    prompt,
    table::{format_date, strip_control},
};

pub(super) async fn run(context: &Context, ids: &[String]) -> Result<ExitCode, Failure> {
    reject_tokens(ids)?;
    let connection = Connection::open(context)?;
    let (mut revoked, mut failed) = (Vec::new(), Vec::new());
    let mut last = None;
    for id in ids {
        match revoke(context, &connection, id).await {
            Ok(()) => revoked.push(json!({ "id": id })),
            // The user did not confirm, so the remaining tokens are not revoked either.
            Err(failure) if failure.code.exit_code() == 2 => return Err(failure),
            Err(failure) if ids.len() == 1 => return Err(failure),
            Err(failure) => {
                failed.push(json!({ "id": id, "code": failure.code.as_str() }));
                if !context.output.json {
                    context.output.error(&failure.message);
                }
                last = Some(failure);
            }
        }
    }
    context.output.result(&json!({ "revoked": revoked, "failed": failed }), "")?;
    Ok(ExitCode::from(u8::from(last.is_some())))
}

/// Rejects a token where its ID is expected, without repeating it.
pub(super) fn reject_tokens(ids: &[String]) -> Result<(), Failure> {
    if ids.iter().any(|id| !leaks::recognise(id).is_empty() || id.starts_with("svc_")) {
        let text = "That's a token, not a token ID. It may now be in your shell history, so revoke it by its ID.";
        return Err(Failure::new(FailureCode::Usage, text).hint("service token list"));
    }
    Ok(())
}

pub(super) fn not_found(id: &str) -> Failure {
    Failure::new(FailureCode::NotFound, format!("Token {} not found.", strip_control(id))).hint("service token list")
}

async fn revoke(context: &Context, connection: &Connection, text: &str) -> Result<(), Failure> {
    let not_found = || not_found(text);
    let id: CliTokenId = text.parse().map_err(|_| not_found())?;
    if !context.global.yes && context.terminal().can_prompt() {
        let listed = list::list_tokens(context, connection, StatusFilter::All).await?;
        let token = listed.iter().find(|token| token.id == id).ok_or_else(not_found)?;
        if token.status == Status::Revoked {
            context.output.info(&format!("{id} is already revoked."));
            return Ok(());
        }
        confirm(context, &revoke_question(token)).await?;
    } else {
        confirm(context, "").await?;
    }
    if list::current_token_id(context) == Some(id) {
        context.output.warn(&format!("{id} is the token in SERVICE_TOKEN. Later commands that use it will fail."));
    }
    let revoked = connection.call(context, async |client, token| client.revoke_cli_token(token, id).await).await;
    revoked.map_err(|failure| if failure.code == FailureCode::NotFound { not_found() } else { failure })?;
    context.output.success(&format!("Revoked {id}. It no longer works."));
    Ok(())
}

fn revoke_question(token: &ListedCliToken) -> String {
    let place = token.workspace_id.map_or_else(|| "Personal".to_owned(), |id| id.to_string());
    let used =
        token.last_used_at.map_or_else(|| "never used".to_owned(), |at| format!("last used {}", format_date(at)));
    format!("Revoke {} ({place}, created {}, {used})?", token.id, format_date(token.created_at))
}

async fn confirm(context: &Context, question: &str) -> Result<(), Failure> {
    if prompt::confirm_action(context.terminal(), context.global.yes, "revoke", question).await? {
        return Ok(());
    }
    Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was revoked."))
}
