//! `service session list` and `service session revoke`: where one is signed in, and ending it.

use serde_json::json;
use service_api::{ids::GrantId, sessions};

use crate::{
    arguments::Session,
    connection::Connection,
    context::Context,
    failure::{Code, Failure},
    prompt,
    table::{Cell, Table},
};

pub(super) async fn run(context: &Context, command: Session) -> Result<(), Failure> {
    match command {
        Session::List => list(context).await,
        Session::Revoke { others: true, .. } => revoke_others(context).await,
        Session::Revoke { ids, .. } => revoke(context, &ids).await,
    }
}

async fn list(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let sessions = all(context, &connection).await?;
    let mut table = Table::new(&["ID", "CLIENT", "SIGNED IN", "LAST USED", "FROM", ""]);
    for session in &sessions {
        table.row([
            Cell::same(session.id.to_string()),
            Cell::of(&session.client.name, &session.client.id),
            Cell::moment(Some(session.created_at)),
            Cell::moment(Some(session.last_used_at)),
            Cell::same(&session.last_used_from),
            Cell::of(if session.current { "← this one" } else { "" }, if session.current { "current" } else { "" }),
        ]);
    }
    context.output.result(&json!({ "sessions": sessions }), &table.render(&context.output))
}

async fn all(context: &Context, connection: &Connection) -> Result<Vec<sessions::Session>, Failure> {
    let mut sessions = Vec::new();
    let mut cursor = None;
    loop {
        let page = connection
            .call(context, async |client, token| client.list_sessions(token, cursor.as_deref()).await)
            .await?;
        sessions.extend(page.data);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(sessions);
        }
    }
}

async fn revoke(context: &Context, ids: &[String]) -> Result<(), Failure> {
    let parse = |id: &String| id.parse::<GrantId>().map_err(|_| not_found());
    let ids = ids.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let connection = Connection::open(context)?;
    let question =
        format!("End {}?", if ids.len() == 1 { ids[0].to_string() } else { format!("{} sessions", ids.len()) });
    if !prompt::confirm(context.terminal(), context.everywhere.yes, "Ending a session", &question).await? {
        return Err(Failure::new(Code::ConfirmationRequired, "Nothing was ended."));
    }
    for id in &ids {
        let ended = connection.call(context, async |client, token| client.end_session(token, *id).await).await;
        ended.map_err(|failure| if failure.code == Code::NotFound { not_found() } else { failure })?;
        context.output.good(&format!("Ended {id}."));
    }
    let revoked: Vec<_> = ids.iter().map(|id| json!({ "id": id })).collect();
    context.output.result(&json!({ "revoked": revoked }), "")
}

async fn revoke_others(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let question = "End every session but this one?";
    if !prompt::confirm(context.terminal(), context.everywhere.yes, "Ending sessions", question).await? {
        return Err(Failure::new(Code::ConfirmationRequired, "Nothing was ended."));
    }
    let done = connection.call(context, async |client, token| client.end_other_sessions(token).await).await?;
    let plural = if done.ended == 1 { "" } else { "s" };
    context.output.good(&format!("Ended {} other session{plural}.", done.ended));
    context.output.result(&json!({ "ended": done.ended }), "")
}

fn not_found() -> Failure {
    Failure::new(Code::NotFound, "There is no such session.").next("service session list")
}
