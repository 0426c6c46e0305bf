//! `service token rotate`: replaces a CLI token with a new one of the same name, scopes, workspace and lifetime.

use service_api::{
    cli_tokens::{CreatedCliToken, RotateCliToken},
    ids::CliTokenId,
};

use super::{
    super::workspace::{NamedSpace, list_workspaces},
    create::{PrintAs, print_token},
    revoke,
};
use crate::{
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    prompt,
    table::format_date,
    token_arguments::RotateTokenArgs,
};

pub(super) async fn run(context: &Context, arguments: &RotateTokenArgs) -> Result<(), Failure> {
    revoke::reject_tokens(std::slice::from_ref(&arguments.id))?;
    let id: CliTokenId = arguments.id.parse().map_err(|_| revoke::not_found(&arguments.id))?;
    let overlap_hours = arguments.overlap_hours.unwrap_or_default();
    let connection = Connection::open(context)?;
    confirm(context, id, overlap_hours).await?;
    let request = RotateCliToken { overlap_hours: Some(overlap_hours) };
    let rotated = connection.call(context, async |client, token| client.rotate_cli_token(token, id, &request).await);
    let created = rotated.await.map_err(|failure| match failure.code {
        FailureCode::NotFound => revoke::not_found(&arguments.id),
        FailureCode::Conflict => failure.hint("service token list --status all"),
        _ => failure,
    })?;
    let space = find_space(context, &connection, &created).await;
    let old = match overlap_hours {
        0 => "The old one no longer works".to_owned(),
        1 => "The old one works for another hour".to_owned(),
        hours => format!("The old one works for another {hours} hours"),
    };
    context.output.success(&format!("Replaced {id} with token {} for {}. {old}.", created.id, space.in_sentence()));
    let (scopes, expiry) = (created.scope.replace(' ', ", "), format_date(created.expires_at));
    context.output.info(&format!("  Scopes: {scopes}. Works only there. Expires on {expiry}. Shown only once."));
    // A user who did not get the token can at least revoke it.
    let origin = connection.origin.to_string();
    print_token(context, &created, &space, PrintAs { format: arguments.format, origin: &origin })
        .map_err(|failure| failure.hint(format!("service token revoke {}", created.id)))
}

/// Asks the user before a token stops working at once.
async fn confirm(context: &Context, id: CliTokenId, overlap_hours: i64) -> Result<(), Failure> {
    if overlap_hours > 0 {
        return Ok(());
    }
    let question = format!("Replace {id}? What uses it stops working until it has the new one.");
    if prompt::confirm_action(context.terminal(), context.global.yes, "replace a token at once", &question).await? {
        return Ok(());
    }
    Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was changed."))
}

/// The workspace of a token; without its name if that cannot be read.
async fn find_space(context: &Context, connection: &Connection, created: &CreatedCliToken) -> NamedSpace {
    let Some(id) = created.workspace_id else { return NamedSpace::personal() };
    let workspaces = list_workspaces(context, connection).await.unwrap_or_default();
    let found = workspaces.into_iter().find(|workspace| workspace.id == id);
    found.map_or_else(|| NamedSpace { id: id.to_string(), name: None }, NamedSpace::from)
}
