//! `service workspace connection`: manages the connections of the current workspace to identity providers.

use std::io::Read as _;

use serde_json::json;
use service_api::{
    JsonObject,
    connections::{Change, ConnectionImpact, CreateConnection, SsoConnection, UpdateConnection},
    ids::{ConnectionId, UserId},
    token::ProviderSecret,
};
use service_client::Client;

use super::{members::list_members, place::Place};
use crate::{
    completion_cache::{ListedKind, remember},
    context::Context,
    failure::{Failure, FailureCode},
    prompt,
    sso_arguments::{ConnectionCommand, ConnectionFields, CreateConnectionArgs, ExistingArg, UpdateConnectionArgs},
    table::{Cell, Table, strip_control},
};

pub(super) async fn run(context: &Context, command: ConnectionCommand) -> Result<(), Failure> {
    let place = Place::open(context, "connections").await?;
    match command {
        ConnectionCommand::List => list(&place).await,
        ConnectionCommand::Create(arguments) => create(&place, &arguments).await,
        ConnectionCommand::Show { id } => show(&place, &id).await,
        ConnectionCommand::Update(arguments) => update(&place, &arguments).await,
        ConnectionCommand::Delete { id } => delete(&place, &id).await,
    }
}

async fn list(place: &Place<'_>) -> Result<(), Failure> {
    let call = async |client: &Client, token: &_| client.list_connections(token, place.id).await;
    let connections = place.call(call).await?.data;
    let entries = connections.iter().map(|connection| (connection.id.to_string(), connection.name.as_str()));
    remember(place.context, &place.connection, ListedKind::Connection, entries);
    let mut table = Table::new(&["ID", "NAME", "STATUS", "ISSUER"]);
    for connection in &connections {
        table.add_row([
            Cell::text(connection.id.to_string()),
            Cell::text(&connection.name),
            Cell::text(status(connection)),
            Cell::text(&connection.issuer),
        ]);
    }
    if connections.is_empty() {
        place.context.output.info("No connections.");
    }
    let lines = if connections.is_empty() { String::new() } else { table.render(&place.context.output) };
    place.print("connections", &connections, &lines)
}

async fn create(place: &Place<'_>, arguments: &CreateConnectionArgs) -> Result<(), Failure> {
    let fields = &arguments.fields;
    let new = CreateConnection {
        name: arguments.name.clone(),
        issuer: arguments.issuer.clone(),
        client_id: fields.client_id.clone(),
        client_secret: read_secret(place.context, fields).await?,
        auth_method: fields.auth_method.map(Into::into),
        algorithms: None,
        jwks: read_jwks(fields)?,
        default_role: fields.default_role.map(Into::into),
        session_hours: fields.session_hours,
        token_days: fields.token_days,
        break_glass: find_owners(place, &fields.break_glass).await?,
    };
    let call = async |client: &Client, token: &_| client.create_connection(token, place.id, &new).await;
    let created = place.call(call).await?;
    place.context.output.success(&format!("Created {} ({}).", strip_control(&created.name), created.id));
    place.context.output.info("  Register these at the provider:");
    place.context.output.info(&format!("    Redirect URI: {}", created.redirect_uri));
    place.context.output.info(&format!("    Back-channel logout URI: {}", created.backchannel_logout_uri));
    if created.public_key.is_some() {
        place.context.output.info(&format!("    {}", credential_line(&created)));
    }
    place.print("connection", &created, "")
}

async fn show(place: &Place<'_>, id: &str) -> Result<(), Failure> {
    let connection = read(place, parse_id(id)?).await?;
    let mut lines = vec![
        format!("{} ({}), {}", strip_control(&connection.name), connection.id, status(&connection)),
        format!("Issuer: {}", strip_control(&connection.issuer)),
        format!("Client ID: {}", strip_control(connection.client_id.as_deref().unwrap_or("not set"))),
        format!("Authentication: {}", connection.auth_method.as_str()),
        credential_line(&connection),
        format!("Redirect URI: {}", connection.redirect_uri),
        format!("Back-channel logout URI: {}", connection.backchannel_logout_uri),
        format!("Sign in again after: {} hours", connection.session_hours),
        format!("Tokens work without a sign-in for: {} days", connection.token_days),
    ];
    if let Some(error) = &connection.health.last_error {
        lines.push(format!("Last error: {}", strip_control(error)));
    }
    place.print("connection", &connection, &lines.join("\n"))
}

/// The public key that the provider has to know, or whether there is a secret.
fn credential_line(connection: &SsoConnection) -> String {
    match &connection.public_key {
        Some(key) => format!("Public key: {}", strip_control(&json!(key).to_string())),
        None => format!("Client secret: {}", if connection.has_client_secret { "stored" } else { "not set" }),
    }
}

async fn read(place: &Place<'_>, id: ConnectionId) -> Result<SsoConnection, Failure> {
    let call = async |client: &Client, token: &_| client.read_connection(token, place.id, id).await;
    place.call(call).await.map_err(named(id))
}

async fn update(place: &Place<'_>, arguments: &UpdateConnectionArgs) -> Result<(), Failure> {
    let id = parse_id(&arguments.id)?;
    let fields = &arguments.fields;
    let chosen = |yes: bool, no: bool| if yes || no { Some(yes) } else { None };
    let jwks = read_jwks(fields)?.map_or(if arguments.no_jwks { Change::Remove } else { Change::Keep }, Change::Set);
    let update = UpdateConnection {
        name: arguments.name.clone(),
        client_id: fields.client_id.clone(),
        client_secret: read_secret(place.context, fields).await?,
        auth_method: fields.auth_method.map(Into::into),
        algorithms: None,
        jwks,
        default_role: fields.default_role.map(Into::into),
        session_hours: fields.session_hours,
        token_days: fields.token_days,
        break_glass: find_owners(place, &fields.break_glass).await?,
        enabled: chosen(arguments.enable, arguments.disable),
        required: chosen(arguments.require, arguments.optional),
        existing: arguments.existing.map(Into::into),
    };
    if let Some(existing) = arguments.existing {
        confirm_requirement(place, id, existing).await?;
    }
    let call = async |client: &Client, token: &_| client.update_connection(token, place.id, id, &update).await;
    let updated = place.call(call).await.map_err(named(id))?;
    let text = format!("{} ({}) is {} now.", strip_control(&updated.name), updated.id, status(&updated));
    place.context.output.success(&text);
    place.print("connection", &updated, "")
}

/// Shows what requiring a connection does, and asks.
async fn confirm_requirement(place: &Place<'_>, id: ConnectionId, existing: ExistingArg) -> Result<(), Failure> {
    let call = async |client: &Client, token: &_| client.connection_impact(token, place.id, id).await;
    let impact = place.call(call).await.map_err(named(id))?;
    let question = requirement(&impact, existing);
    if place.confirm("require single sign-on", &question).await? {
        return Ok(());
    }
    Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was changed."))
}

fn requirement(impact: &ConnectionImpact, existing: ExistingArg) -> String {
    let ConnectionImpact { users, sessions, cli_tokens, mcp_tokens, app_grants, .. } = impact;
    let has = format!(
        "{users} users have {sessions} sessions, {cli_tokens} CLI tokens, {mcp_tokens} pairs of MCP tokens and {app_grants} \
         connected apps."
    );
    let domains = strip_control(&impact.domains.join(", "));
    let treated = match existing {
        ExistingArg::Revoke => "They are revoked, except what began at the provider.",
        ExistingArg::Keep => "They stay valid until they expire.",
    };
    format!("Require single sign-on for {domains}? {has} {treated}")
}

async fn delete(place: &Place<'_>, id: &str) -> Result<(), Failure> {
    let connection = read(place, parse_id(id)?).await?;
    let question = format!("Delete {}? Its users sign in by email code again.", strip_control(&connection.name));
    if !place.confirm("delete a connection", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was changed."));
    }
    let id = connection.id;
    let call = async |client: &Client, token: &_| client.delete_connection(token, place.id, id).await;
    place.call(call).await.map_err(named(id))?;
    place.context.output.success(&format!("Deleted {} ({id}).", strip_control(&connection.name)));
    place.print("deleted", &json!({ "id": id, "name": connection.name }), "")
}

/// Reads the secret from standard input, because every user of a machine can read the arguments of its processes.
async fn read_secret(context: &Context, fields: &ConnectionFields) -> Result<Option<ProviderSecret>, Failure> {
    if !fields.client_secret_stdin {
        return Ok(None);
    }
    if context.terminal().stdin {
        let secret = prompt::InputLines::read().ask("Client secret: ").await?;
        return Ok(Some(ProviderSecret::new(secret)));
    }
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    let secret = ProviderSecret::new(text.trim().to_owned());
    read.map_err(|error| Failure::new(FailureCode::Usage, format!("Can't read the client secret: {error}.")))?;
    Ok(Some(secret))
}

fn read_jwks(fields: &ConnectionFields) -> Result<Option<JsonObject>, Failure> {
    let Some(path) = &fields.jwks else { return Ok(None) };
    let wrong = |what: &str| Failure::new(FailureCode::Usage, format!("{} {what}.", path.display()));
    let text = std::fs::read(path).map_err(|_| wrong("can't be read"))?;
    serde_json::from_slice(&text).map(Some).map_err(|_| wrong("has no JSON object"))
}

/// Finds owners by their user IDs or email addresses.
async fn find_owners(place: &Place<'_>, named: &[String]) -> Result<Option<Vec<UserId>>, Failure> {
    if named.is_empty() {
        return Ok(None);
    }
    let members = list_members(place.context, &place.connection, place.id).await?;
    let find = |text: &String| {
        let is_named = |user_id: UserId, email: &str| user_id.to_string() == *text || email.eq_ignore_ascii_case(text);
        let found = members.iter().find(|member| is_named(member.user_id, &member.email));
        found.map(|member| member.user_id).ok_or_else(|| {
            let text = format!("{} isn't a member of {}.", strip_control(text), place.space.in_sentence());
            Failure::new(FailureCode::NotFound, text).hint("service workspace members")
        })
    };
    named.iter().map(find).collect::<Result<Vec<_>, _>>().map(Some)
}

fn parse_id(id: &str) -> Result<ConnectionId, Failure> {
    id.parse().map_err(|_| not_found(id))
}

fn not_found(id: &str) -> Failure {
    let text = format!("Connection {} not found.", strip_control(id));
    Failure::new(FailureCode::NotFound, text).hint("service workspace connection list")
}

/// Names the connection in a failure that says that something was not found.
fn named(id: ConnectionId) -> impl Fn(Failure) -> Failure {
    move |failure| if failure.code == FailureCode::NotFound { not_found(&id.to_string()) } else { failure }
}

const fn status(connection: &SsoConnection) -> &'static str {
    match (connection.enabled, connection.required, connection.tried_at.is_some()) {
        (_, true, _) => "required",
        (true, false, _) => "enabled",
        (false, false, true) => "tried",
        (false, false, false) => "draft",
    }
}
