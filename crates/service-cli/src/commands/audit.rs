//! `service audit`: lists audit events of the user's account, or of a workspace for its owners.

use serde_json::json;
use service_api::{
    audit_events::{AuditEvent, EventName},
    page::MAX_LIMIT,
    workspaces::PERSONAL,
};

use crate::{
    audit_arguments::AuditArgs,
    connection::Connection,
    context::Context,
    explain,
    failure::{Failure, FailureCode},
    table::{Cell, Table},
};

pub(super) async fn run(context: &Context, arguments: &AuditArgs) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let (events, next_cursor) = list(context, &connection, arguments).await?;
    if events.is_empty() {
        context.output.info("No events.");
    } else if next_cursor.is_some() {
        context.output.info(&format!("Showing the latest {}. For more: --limit <number>", events.len()));
    }
    let lines = if events.is_empty() { String::new() } else { render_table(context, &events) };
    let object = json!({
        "events": events, "nextCursor": next_cursor,
        "workspace": { "id": connection.workspace_id(), "source": connection.workspace.source.as_str() },
    });
    context.output.result(&object, &lines)
}

/// Reads pages until there are as many events as the user wants. Returns them and the cursor of what follows.
async fn list(
    context: &Context,
    connection: &Connection,
    arguments: &AuditArgs,
) -> Result<(Vec<AuditEvent>, Option<String>), Failure> {
    let (mut events, mut cursor) = (Vec::new(), arguments.cursor.clone());
    loop {
        let missing = usize::from(arguments.limit) - events.len();
        let limit = missing.min(usize::from(MAX_LIMIT)).to_string();
        let page = connection.call(context, async |client, token| {
            let query = [
                ("workspaceId", connection.workspace_id()),
                ("event", arguments.event.as_deref()),
                ("userId", arguments.user.as_deref()),
                ("since", arguments.since.as_deref()),
                ("until", arguments.until.as_deref()),
                ("limit", Some(limit.as_str())),
                ("cursor", cursor.as_deref()),
            ];
            client.list_audit_events(token, &query).await
        });
        let page = page.await.map_err(|failure| suggest_own_events(connection, failure))?;
        events.extend(page.data.into_iter().take(missing));
        match page.next_cursor {
            Some(next) if Some(&next) == cursor.as_ref() => {
                return Err(explain::unexpected_response(&connection.origin));
            }
            Some(next) if events.len() < usize::from(arguments.limit) => cursor = Some(next),
            next => return Ok((events, next)),
        }
    }
}

/// A member who is no owner can still list the events of their own account.
fn suggest_own_events(connection: &Connection, failure: Failure) -> Failure {
    let is_workspace = connection.workspace_id() != Some(PERSONAL);
    if failure.code == FailureCode::Forbidden && is_workspace && !connection.is_from_environment() {
        return failure.hint(format!("Your own events: service audit --workspace-id {PERSONAL}"));
    }
    failure
}

fn render_table(context: &Context, events: &[AuditEvent]) -> String {
    let mut table = Table::new(&["WHEN", "EVENT", "ABOUT", "ADDRESS", "USER"]);
    for event in events {
        let meaning = EventName::parse(&event.event).map_or(event.event.as_str(), |name| name.meaning());
        table.add_row([
            Cell::time(Some(event.at)),
            Cell::pair(meaning, &event.event),
            Cell::text(event.subject.as_deref().unwrap_or_default()),
            Cell::text(event.address.as_deref().unwrap_or_default()),
            Cell::text(event.user_id.map(|id| id.to_string()).unwrap_or_default()),
        ]);
    }
    table.render(&context.output)
}
