//! `service token create`: the secret alone goes to standard output, so that it can go into a variable or a file.

use serde_json::{Value, json};
use service_api::{
    cli_tokens::{CreateCliToken, CreatedCliToken},
    instant,
    workspaces::PERSONAL,
};

use super::super::workspace::{self, Named};
use crate::{
    arguments::{CreateToken, Format},
    chosen::Chooser,
    connection::Connection,
    context::Context,
    failure::{Code, Failure},
    output,
    prompt::Lines,
    table::{clean, date},
};

pub(super) async fn run(context: &Context, arguments: CreateToken) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let space = choose(context, &connection, &arguments).await?;
    let wanted = CreateCliToken {
        name: arguments.name,
        workspace_id: Some(space.id.clone()),
        scopes: (!arguments.scopes.is_empty()).then_some(arguments.scopes),
        expires_in_days: arguments.expires_in,
    };
    let made = connection.call(context, async |client, token| client.create_cli_token(token, &wanted).await).await;
    let made = made.map_err(|failure| match failure.code {
        Code::NotFound => workspace::not_found(&space.id),
        _ => failure,
    })?;
    context.output.good(&format!("Created token {} for {}.", made.id, space.shown()));
    let (may, until) = (made.scope.replace(' ', ", "), date(made.expires_at));
    context.output.note(&format!("  It may {may}, works only there, and ends on {until}. It is shown once."));
    context.output.note(&format!("  Put it in SERVICE_TOKEN, and {} in SERVICE_API_URL.", connection.origin));
    // Whoever did not get it can at least end it.
    print(context, &made, &space, arguments.format)
        .map_err(|failure| failure.next(format!("service token revoke {}", made.id)))
}

/// Automation says where it works: nothing is guessed for it.
async fn choose(context: &Context, connection: &Connection, arguments: &CreateToken) -> Result<Named, Failure> {
    if arguments.personal {
        return Ok(Named::personal());
    }
    match (connection.workspace_id(), connection.workspace.by) {
        (Some(PERSONAL), _) => Ok(Named::personal()),
        (Some(id), Chooser::Saved) => Ok(Named { id: id.to_owned(), name: connection.workspace.name.clone() }),
        (Some(id), _) => Ok(workspace::named(context, connection, id).await?),
        (None, _) if context.terminal().may_prompt() => pick(context, connection).await,
        (None, _) => Err(Failure::new(Code::Usage, "Say which workspace.").next("--workspace-id <id> or --personal")),
    }
}

async fn pick(context: &Context, connection: &Connection) -> Result<Named, Failure> {
    let mut all = vec![Named::personal()];
    all.extend(workspace::all(context, connection).await?.into_iter().map(Named::from));
    for (number, space) in all.iter().enumerate() {
        output::instruct(&format!("  {}. {}", number + 1, space.shown()));
    }
    let mut lines = Lines::read();
    loop {
        let answer = lines.ask("For which workspace? ").await?;
        let place = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if place.is_some_and(|place| place < all.len()) {
            return Ok(all.swap_remove(place.unwrap_or_default()));
        }
    }
}

fn print(context: &Context, made: &CreatedCliToken, space: &Named, format: Format) -> Result<(), Failure> {
    if context.output.is_for_programs() {
        let workspace = made.workspace_id.map(|id| json!({ "id": id, "name": space.name }));
        let object = json!({
            "id": made.id,
            "token": made.access_token.expose(),
            "name": made.name,
            "workspace": workspace,
            "scopes": made.scope.split(' ').collect::<Vec<_>>(),
            "createdAt": instant::to_text(made.created_at),
            "expiresAt": instant::to_text(made.expires_at),
        });
        return context.output.result(&object, "");
    }
    if context.terminal().stdout {
        output::out("")?;
    }
    let secret = made.access_token.expose();
    match format {
        Format::Raw => context.output.result(&Value::Null, secret),
        Format::Env => context.output.result(&Value::Null, &format!("SERVICE_TOKEN={}", clean(secret))),
    }
}
