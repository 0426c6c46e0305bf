//! `service token create`: prints only the token on standard output, so that a script can store it.

use serde_json::{Value, json};
use service_api::{
    cli_tokens::{CreateCliToken, CreatedCliToken},
    instant,
    workspaces::PERSONAL,
};

use super::super::workspace::{self, NamedSpace};
use crate::{
    arguments::{CreateTokenArgs, TokenFormat},
    connection::Connection,
    context::Context,
    explain,
    failure::{Failure, FailureCode},
    output,
    prompt::InputLines,
    table::{format_date, strip_control},
    workspace_selection::SelectionSource,
};

pub(super) async fn run(context: &Context, arguments: CreateTokenArgs) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let space = choose_space(context, &connection, &arguments).await?;
    let request = CreateCliToken {
        name: arguments.name,
        workspace_id: Some(space.id.clone()),
        scopes: (!arguments.scopes.is_empty()).then_some(arguments.scopes),
        expires_in_days: arguments.expires_in,
        scope: None,
    };
    let created = connection.call(context, async |client, token| client.create_cli_token(token, &request).await).await;
    let created = created.map_err(|failure| match failure.code {
        FailureCode::NotFound => explain::workspace_not_found(&space.id),
        _ => failure,
    })?;
    context.output.success(&format!("Created token {} for {}.", created.id, space.in_sentence()));
    let (scopes, expiry) = (created.scope.replace(' ', ", "), format_date(created.expires_at));
    context.output.info(&format!("  Scopes: {scopes}. Works only there. Expires on {expiry}. Shown only once."));
    context.output.info(&format!("  Set SERVICE_TOKEN to it, and SERVICE_API_URL to {}", connection.origin));
    // A user who did not get the token can at least revoke it.
    print_token(context, &created, &space, arguments.format)
        .map_err(|failure| failure.hint(format!("service token revoke {}", created.id)))
}

/// Chooses the workspace of the token. Without a terminal the user has to name it: it is never guessed.
async fn choose_space(
    context: &Context,
    connection: &Connection,
    arguments: &CreateTokenArgs,
) -> Result<NamedSpace, Failure> {
    if arguments.personal {
        return Ok(NamedSpace::personal());
    }
    match (connection.workspace_id(), connection.workspace.source) {
        (Some(PERSONAL), _) => Ok(NamedSpace::personal()),
        (Some(id), SelectionSource::Saved) => {
            Ok(NamedSpace { id: id.to_owned(), name: connection.workspace.name.clone() })
        }
        (Some(id), _) => Ok(workspace::read_named(context, connection, id).await?),
        (None, _) if context.terminal().can_prompt() => prompt_for_space(context, connection).await,
        (None, _) => {
            Err(Failure::new(FailureCode::Usage, "A workspace is required.")
                .hint("Use --workspace-id <id> or --personal"))
        }
    }
}

async fn prompt_for_space(context: &Context, connection: &Connection) -> Result<NamedSpace, Failure> {
    let mut spaces = vec![NamedSpace::personal()];
    spaces.extend(workspace::list_workspaces(context, connection).await?.into_iter().map(NamedSpace::from));
    for (number, space) in spaces.iter().enumerate() {
        output::print_instruction(&format!("  {}. {}", number + 1, space.label()));
    }
    let mut lines = InputLines::read();
    loop {
        let answer = lines.ask("Workspace for the token (number): ").await?;
        let index = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if index.is_some_and(|index| index < spaces.len()) {
            return Ok(spaces.swap_remove(index.unwrap_or_default()));
        }
    }
}

fn print_token(
    context: &Context,
    created: &CreatedCliToken,
    space: &NamedSpace,
    format: TokenFormat,
) -> Result<(), Failure> {
    if context.output.json {
        let workspace = created.workspace_id.map(|id| json!({ "id": id, "name": space.name }));
        let object = json!({
            "id": created.id,
            "token": created.access_token.expose(),
            "name": created.name,
            "workspace": workspace,
            "scopes": created.scope.split(' ').collect::<Vec<_>>(),
            "createdAt": instant::to_text(created.created_at),
            "expiresAt": instant::to_text(created.expires_at),
        });
        return context.output.result(&object, "");
    }
    if context.terminal().stdout {
        output::print_line("")?;
    }
    let secret = created.access_token.expose();
    match format {
        TokenFormat::Raw => context.output.result(&Value::Null, secret),
        TokenFormat::Env => context.output.result(&Value::Null, &format!("SERVICE_TOKEN={}", strip_control(secret))),
    }
}
