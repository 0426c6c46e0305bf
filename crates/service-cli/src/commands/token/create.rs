//! `service token create`: prints only the token on standard output, so that a script can store it.

use serde_json::{Value, json};
use service_api::{
    cli_tokens::{CreateCliToken, CreatedCliToken},
    instant,
};

use super::super::workspace::{NamedSpace, choose::choose_space};
use crate::{
    arguments::{CreateTokenArgs, TokenFormat},
    connection::Connection,
    context::Context,
    explain,
    failure::{Failure, FailureCode},
    output,
    table::{format_date, strip_control},
};

pub(super) async fn run(context: &Context, arguments: CreateTokenArgs) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let question = "Workspace for the token (number): ";
    let space = choose_space(context, &connection, arguments.personal, question).await?;
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
    let origin = connection.origin.to_string();
    print_token(context, &created, &space, PrintAs { format: arguments.format, origin: &origin })
        .map_err(|failure| failure.hint(format!("service token revoke {}", created.id)))
}

/// How a token is printed.
#[derive(Clone, Copy)]
pub(super) struct PrintAs<'a> {
    pub(super) format: TokenFormat,
    /// The server that the token is for. A token is sent only where `SERVICE_API_URL` says.
    pub(super) origin: &'a str,
}

/// Prints a new token.
pub(super) fn print_token(
    context: &Context,
    created: &CreatedCliToken,
    space: &NamedSpace,
    print: PrintAs<'_>,
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
    match print.format {
        TokenFormat::Raw => context.output.result(&Value::Null, secret),
        TokenFormat::Env => {
            let lines = format!("SERVICE_API_URL={}\nSERVICE_TOKEN={}", print.origin, strip_control(secret));
            context.output.result(&Value::Null, &lines)
        }
    }
}
