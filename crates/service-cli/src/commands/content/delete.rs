//! `service project delete` and `service pack delete`.

use std::process::ExitCode;

use serde_json::{Value, json};
use service_api::contents::Kind;
use service_client::ContentAddress;

use super::{name_content, noun, view::read, workspace_json};
use crate::{
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    prompt,
    table::strip_control,
};

/// Deletes contents after the user confirmed it. One that cannot be deleted does not keep the others.
pub(in crate::commands) async fn delete(context: &Context, kind: Kind, ids: &[String]) -> Result<ExitCode, Failure> {
    let connection = Connection::open(context)?;
    confirm(context, &connection, kind, ids).await?;
    let (mut deleted, mut failed) = (Vec::new(), Vec::new());
    for id in ids {
        let call = connection.call(context, async |client, token| {
            client.delete_content(token, ContentAddress { kind, workspace: connection.workspace_id(), id }).await
        });
        match call.await.map_err(name_content(&connection, kind, id)) {
            Ok(()) => {
                context.output.success(&format!("Deleted {} {}.", noun(kind), strip_control(id)));
                deleted.push(json!({ "id": id }));
            }
            Err(failure) if ids.len() == 1 => return Err(failure),
            Err(failure) => {
                if !context.output.json {
                    context.output.error(&failure.message);
                }
                failed.push(json!({ "id": id, "code": failure.code.as_str() }));
            }
        }
    }
    if !deleted.is_empty() {
        let shown: Vec<_> = deleted.iter().filter_map(|one: &Value| one["id"].as_str()).map(strip_control).collect();
        context.output.info(&format!(
            "  To restore within 30 days: service {} restore {}",
            noun(kind),
            shown.join(" ")
        ));
    }
    let code = ExitCode::from(u8::from(!failed.is_empty()));
    let object = json!({ "deleted": deleted, "failed": failed, "workspace": workspace_json(&connection) });
    context.output.result(&object, "")?;
    Ok(code)
}

/// Asks the user to confirm, with the names of what is deleted. Without a terminal, only `--yes` confirms.
async fn confirm(context: &Context, connection: &Connection, kind: Kind, ids: &[String]) -> Result<(), Failure> {
    let mut names = Vec::new();
    if !context.global.yes && context.terminal().can_prompt() && !context.terminal().silent {
        for id in ids {
            let content = read(context, connection, kind, id).await?.content;
            names.push(format!("{} ({})", strip_control(content.name()), strip_control(&content.id)));
        }
    }
    let noun = noun(kind);
    let what = if ids.len() == 1 { format!("{noun} ") } else { format!("{} {noun}s: ", ids.len()) };
    let question = format!("Delete {what}{}?", names.join(", "));
    let action = format!("delete a {noun}");
    if prompt::confirm_action(context.terminal(), context.global.yes, &action, &question).await? {
        return Ok(());
    }
    Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was deleted."))
}
