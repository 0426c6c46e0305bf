//! `service session list` and `service session revoke`: the sessions of a user, and revoking them.

use serde_json::json;
use service_api::{ids::GrantId, sessions::MadeTreatment};

use crate::{
    arguments::SessionCommand,
    connection::Connection,
    context::Context,
    duration::format_count,
    failure::{Failure, FailureCode},
    prompt,
    table::{Cell, Table, strip_control},
};

pub(super) async fn run(context: &Context, command: SessionCommand) -> Result<(), Failure> {
    match command {
        SessionCommand::List => list(context).await,
        SessionCommand::Revoke { others: true, made, .. } => revoke_others(context, made.into()).await,
        SessionCommand::Revoke { ids, made, .. } => revoke(context, &ids, made.into()).await,
    }
}

async fn list(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let sessions =
        connection.list_all(context, async |client, token, cursor| client.list_sessions(token, cursor).await).await?;
    let mut table = Table::new(&["ID", "CLIENT", "SIGNED IN", "LAST USED", "FROM", ""]);
    for session in &sessions {
        table.add_row([
            Cell::text(session.id.to_string()),
            Cell::pair(&session.client.name, &session.client.id),
            Cell::time(Some(session.created_at)),
            Cell::time(Some(session.last_used_at)),
            Cell::text(&session.last_used_from),
            Cell::pair(if session.current { "← current" } else { "" }, if session.current { "current" } else { "" }),
        ]);
    }
    context.output.result(&json!({ "sessions": sessions }), &table.render(&context.output))
}

/// What happens to the tokens and invitations that were created in the session, as part of the prompt.
const fn describe_treatment(made: MadeTreatment) -> &'static str {
    match made {
        MadeTreatment::Recommended => {
            " This also revokes MCP tokens, invitations, and CLI tokens unused for 7 days that were created there."
        }
        MadeTreatment::Keep => " Tokens and invitations created there are kept.",
        MadeTreatment::Revoke => " This also revokes all tokens and invitations created there.",
    }
}

async fn revoke(context: &Context, ids: &[String], made: MadeTreatment) -> Result<(), Failure> {
    let parse = |id: &String| id.parse::<GrantId>().map_err(|_| session_not_found(id));
    let ids = ids.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let connection = Connection::open(context)?;
    let which = if ids.len() == 1 { ids[0].to_string() } else { format!("{} sessions", ids.len()) };
    let question = format!("Revoke {which}?{}", describe_treatment(made));
    if !prompt::confirm_action(context.terminal(), context.global.yes, "revoke", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was revoked."));
    }
    for id in &ids {
        let revoked = connection.call(context, async |client, token| client.end_session(token, *id, made).await).await;
        revoked.map_err(|failure| {
            if failure.code == FailureCode::NotFound { session_not_found(&id.to_string()) } else { failure }
        })?;
        context.output.success(&format!("Revoked {id}."));
    }
    let revoked: Vec<_> = ids.iter().map(|id| json!({ "id": id })).collect();
    context.output.result(&json!({ "revoked": revoked }), "")
}

async fn revoke_others(context: &Context, made: MadeTreatment) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let question = format!("Revoke all your other sessions?{}", describe_treatment(made));
    if !prompt::confirm_action(context.terminal(), context.global.yes, "revoke", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was revoked."));
    }
    let done = connection.call(context, async |client, token| client.end_other_sessions(token, made).await).await?;
    let count = format_count(done.ended, "other session");
    context.output.success(&format!("Revoked {count}."));
    context.output.result(&json!({ "ended": done.ended }), "")
}

fn session_not_found(id: &str) -> Failure {
    Failure::new(FailureCode::NotFound, format!("Session {} not found.", strip_control(id)))
        .hint("service session list")
}
