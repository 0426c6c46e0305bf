//! `service passkey list`, `service passkey rename` and `service passkey remove`: the passkeys of a user. They are created in a
//! browser, on the account page.

use serde_json::json;
use service_api::ids::PasskeyId;

use crate::{
    completion_cache::{ListedKind, remember},
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    passkey_arguments::PasskeyCommand,
    prompt,
    table::{Cell, Table, strip_control},
};

pub(super) async fn run(context: &Context, command: PasskeyCommand) -> Result<(), Failure> {
    match command {
        PasskeyCommand::List => list(context).await,
        PasskeyCommand::Rename { id, name } => rename(context, &id, &name).await,
        PasskeyCommand::Remove { ids } => remove(context, &ids).await,
    }
}

async fn list(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let passkeys = connection.call(context, async |client, token| client.list_passkeys(token).await).await?.data;
    let entries = passkeys.iter().map(|passkey| (passkey.id.to_string(), passkey.name.as_str()));
    remember(context, &connection, ListedKind::Passkey, entries);
    if passkeys.is_empty() {
        context.output.info("No passkeys. Add one in your browser: service open security");
    }
    let mut table = Table::new(&["ID", "NAME", "SAVED", "CREATED", "LAST USED"]).shown(&[
        "NAME",
        "LAST USED",
        "SAVED",
        "CREATED",
        "ID",
    ]);
    for passkey in &passkeys {
        let (shown, plain) =
            if passkey.backed_up { ("password manager", "backed-up") } else { ("one device", "one-device") };
        table.add_row([
            Cell::whole(passkey.id.to_string()),
            Cell::text(&passkey.name),
            Cell::pair(shown, plain),
            Cell::time(Some(passkey.created_at)),
            Cell::time(passkey.last_used_at),
        ]);
    }
    let lines = if passkeys.is_empty() { String::new() } else { table.render(&context.output) };
    context.output.result(&json!({ "passkeys": passkeys }), &lines)
}

async fn rename(context: &Context, id: &str, name: &str) -> Result<(), Failure> {
    let id = parse_id(id)?;
    let connection = Connection::open(context)?;
    let call = connection.call(context, async |client, token| client.rename_passkey(token, id, name).await);
    let renamed = call.await.map_err(|failure| explain(failure, id))?;
    context.output.success(&format!("Renamed {id} to {}.", strip_control(&renamed.name)));
    context.output.result(&json!({ "passkey": renamed }), "")
}

async fn remove(context: &Context, ids: &[String]) -> Result<(), Failure> {
    let ids = ids.iter().map(|id| parse_id(id)).collect::<Result<Vec<_>, _>>()?;
    let connection = Connection::open(context)?;
    let question = match ids.as_slice() {
        [id] => format!("Remove passkey {id}? You can no longer sign in with it."),
        several => format!("Remove {} passkeys? You can no longer sign in with them.", several.len()),
    };
    if !prompt::confirm_action(context.terminal(), context.global.yes, "remove a passkey", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was removed."));
    }
    for id in &ids {
        let removed = connection.call(context, async |client, token| client.remove_passkey(token, *id).await).await;
        removed.map_err(|failure| explain(failure, *id))?;
        context.output.success(&format!("Removed {id}."));
    }
    let removed: Vec<_> = ids.iter().map(|id| json!({ "id": id })).collect();
    context.output.result(&json!({ "removed": removed }), "")
}

fn parse_id(text: &str) -> Result<PasskeyId, Failure> {
    text.parse().map_err(|_| passkey_not_found(text))
}

/// Names the passkey if that is what was not found.
fn explain(failure: Failure, id: PasskeyId) -> Failure {
    if failure.code == FailureCode::NotFound { passkey_not_found(&id.to_string()) } else { failure }
}

fn passkey_not_found(id: &str) -> Failure {
    Failure::new(FailureCode::NotFound, format!("Passkey {} not found.", strip_control(id)))
        .hint("service passkey list")
}
