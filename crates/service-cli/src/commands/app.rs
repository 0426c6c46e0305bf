//! `service app list` and `service app remove`: apps that the user authorized, and removing their access.

use serde_json::json;
use service_api::ids::ConsentId;

use crate::{
    arguments::AppCommand,
    completion_cache::{ListedKind, remember},
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    prompt,
    table::{Cell, Table, strip_control},
};

pub(super) async fn run(context: &Context, command: AppCommand) -> Result<(), Failure> {
    match command {
        AppCommand::List => list(context).await,
        AppCommand::Remove { ids } => remove(context, &ids).await,
    }
}

async fn list(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let consents =
        connection.list_all(context, async |client, token, cursor| client.list_consents(token, cursor).await).await?;
    let entries = consents.iter().map(|consent| (consent.id.to_string(), consent.client.name.as_str()));
    remember(context, &connection, ListedKind::App, entries);
    let mut table = Table::new(&["ID", "APP", "REDIRECTS TO", "SCOPES", "LAST USED", "EXPIRES"]).shown(&[
        "APP",
        "SCOPES",
        "EXPIRES",
        "LAST USED",
        "REDIRECTS TO",
        "ID",
    ]);
    for consent in &consents {
        let unverified = if consent.client.verified { "" } else { " (unverified)" };
        table.add_row([
            Cell::text(consent.id.to_string()),
            Cell::pair(format!("{}{unverified}", consent.client.name), &consent.client.id),
            Cell::text(&consent.redirect_host),
            Cell::text(consent.scopes.to_string()),
            Cell::time(Some(consent.last_used_at)),
            Cell::expiry(consent.expires_at),
        ]);
    }
    context.output.result(&json!({ "consents": consents }), &table.render(&context.output))
}

async fn remove(context: &Context, ids: &[String]) -> Result<(), Failure> {
    let parse = |id: &String| id.parse::<ConsentId>().map_err(|_| app_not_found(id));
    let ids = ids.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let connection = Connection::open(context)?;
    let what = if ids.len() == 1 { format!("app {}", ids[0]) } else { format!("{} apps", ids.len()) };
    let question = format!("Remove access for {what}?");
    if !prompt::confirm_action(context.terminal(), context.global.yes, "remove an app", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was removed."));
    }
    for id in &ids {
        let removed = connection.call(context, async |client, token| client.withdraw_consent(token, *id).await).await;
        removed.map_err(|failure| {
            if failure.code == FailureCode::NotFound { app_not_found(&id.to_string()) } else { failure }
        })?;
        context.output.success(&format!("Removed access for app {id}."));
    }
    let removed: Vec<_> = ids.iter().map(|id| json!({ "id": id })).collect();
    context.output.result(&json!({ "removed": removed }), "")
}

fn app_not_found(id: &str) -> Failure {
    Failure::new(FailureCode::NotFound, format!("App {} not found.", strip_control(id))).hint("service app list")
}
