//! `service token revoke`.

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
    failure::{Code, Failure},
    prompt,
    table::date,
};

pub(super) async fn run(context: &Context, ids: &[String]) -> Result<ExitCode, Failure> {
    if ids.iter().any(|id| !leaks::recognise(id).is_empty() || id.starts_with("svc_")) {
        let text = "That is a token, not a token's id. It may now be in your shell's history: revoke it by its id.";
        return Err(Failure::new(Code::Usage, text).next("service token list"));
    }
    let connection = Connection::open(context)?;
    let (mut revoked, mut failed) = (Vec::new(), Vec::new());
    let mut last = None;
    for id in ids {
        match revoke(context, &connection, id).await {
            Ok(()) => revoked.push(json!({ "id": id })),
            // Nobody agreed to anything: stop.
            Err(failure) if failure.code.exit() == 2 => return Err(failure),
            Err(failure) if ids.len() == 1 => return Err(failure),
            Err(failure) => {
                failed.push(json!({ "id": id, "code": failure.code.as_str() }));
                if !context.output.json {
                    context.output.wrong(&failure.message);
                }
                last = Some(failure);
            }
        }
    }
    context.output.result(&json!({ "revoked": revoked, "failed": failed }), "")?;
    Ok(ExitCode::from(u8::from(last.is_some())))
}

async fn revoke(context: &Context, connection: &Connection, id: &str) -> Result<(), Failure> {
    let not_found = || Failure::new(Code::NotFound, format!("No token {id}.")).next("service token list");
    let id: CliTokenId = id.parse().map_err(|_| not_found())?;
    if !context.everywhere.yes && context.terminal().may_prompt() {
        let listed = list::all(context, connection, StatusFilter::All).await?;
        let token = listed.iter().find(|token| token.id == id).ok_or_else(not_found)?;
        if token.status == Status::Revoked {
            context.output.note(&format!("{id} was already revoked."));
            return Ok(());
        }
        agree(context, &question(token)).await?;
    } else {
        agree(context, "").await?;
    }
    if list::current(context) == Some(id) {
        context.output.warn(&format!("{id} is the token in SERVICE_TOKEN; later commands here will fail."));
    }
    let done = connection.call(context, async |client, token| client.revoke_cli_token(token, id).await).await;
    done.map_err(|failure| if failure.code == Code::NotFound { not_found() } else { failure })?;
    context.output.good(&format!("Revoked {id}. Anything using it stops working now."));
    Ok(())
}

fn question(token: &ListedCliToken) -> String {
    let place = token.workspace_id.map_or_else(|| "Personal".to_owned(), |id| id.to_string());
    let used = token.last_used_at.map_or_else(|| "never used".to_owned(), |at| format!("last used {}", date(at)));
    format!("Revoke {} ({place}, made {}, {used})?", token.id, date(token.created_at))
}

async fn agree(context: &Context, question: &str) -> Result<(), Failure> {
    if prompt::confirm(context.terminal(), context.everywhere.yes, "Revoking", question).await? {
        return Ok(());
    }
    Err(Failure::new(Code::ConfirmationRequired, "Nothing was revoked."))
}
