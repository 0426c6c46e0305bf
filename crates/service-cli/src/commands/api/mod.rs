//! `service api`: sends any request with the user's credential, and prints the response unchanged.

mod fields;
mod paginate;

use std::process::ExitCode;

use serde_json::Value;
use service_api::{
    endpoints::{self, Body, Endpoint},
    errors::ErrorBody,
};
use service_client::Raw;

use crate::{
    arguments::ApiArgs,
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    input::read_bytes,
    output,
};

pub(super) async fn run(context: &Context, arguments: &ApiArgs) -> Result<ExitCode, Failure> {
    let method = arguments.method.to_ascii_uppercase();
    if !["GET", "POST", "PATCH", "DELETE"].contains(&method.as_str()) {
        return Err(Failure::new(FailureCode::Usage, "The method must be GET, POST, PATCH or DELETE."));
    }
    // Only a path: the credential must not be sent to another host.
    if !arguments.path.starts_with('/') || arguments.path.starts_with("//") {
        return Err(Failure::new(FailureCode::Usage, "The path must start with /, for example /v1/projects."));
    }
    let endpoint = find_endpoint(&method, &arguments.path);
    if arguments.fields.paginate {
        paginate::check(&method, endpoint.map(|endpoint| endpoint.query.contains(&"cursor")))?;
    }
    let (query, body) = read_fields(arguments, &method)?;
    if body.is_none() && endpoint.is_some_and(|endpoint| endpoint.body != Body::None) {
        let text = format!("{method} needs a body. Pass it with --input FILE (or - for stdin).");
        return Err(Failure::new(FailureCode::Usage, text).hint("Or pass its fields: -f name=value"));
    }
    let connection = Connection::open(context)?;
    let takes_workspace = endpoint.is_some_and(|endpoint| endpoint.query.contains(&"workspaceId"));
    let path = query.map_or_else(|| arguments.path.clone(), |query| add_to_query(&arguments.path, &query));
    let path = with_workspace(&path, connection.workspace_id().filter(|_| takes_workspace));
    if arguments.fields.paginate {
        return paginate::run(context, &connection, &path).await;
    }
    let response =
        connection.call(context, async |client, token| client.raw(&method, &path, token, body.clone()).await);
    let response = response.await?;
    print_response(context, &response)?;
    Ok(ExitCode::from(status_exit_code(response.status)))
}

/// The query and the body that the fields and `--input` make up. Without a body, as in GET, fields belong to the query.
fn read_fields(arguments: &ApiArgs, method: &str) -> Result<(Option<String>, Option<Vec<u8>>), Failure> {
    if let Some(input) = &arguments.input {
        return Ok((None, Some(read_bytes(input)?)));
    }
    match fields::build(&arguments.fields)? {
        None => Ok((None, None)),
        Some(fields) if matches!(method, "GET" | "DELETE") => Ok((Some(fields::to_query(&fields)?), None)),
        Some(fields) => Ok((None, Some(Value::Object(fields).to_string().into_bytes()))),
    }
}

/// Prints a response: the filtered object with `--jq`, otherwise the body as it is. An error is also explained.
fn print_response(context: &Context, response: &Raw) -> Result<(), Failure> {
    match serde_json::from_slice::<Value>(&response.body) {
        Ok(object) if context.output.json => context.output.result(&object, "")?,
        _ => {
            output::print_bytes(&response.body)?;
            if !response.body.is_empty() {
                output::print_bytes(b"\n")?;
            }
        }
    }
    let failed = serde_json::from_slice::<ErrorBody>(&response.body).ok().filter(|_| response.status >= 400);
    if let Some(error) = failed.filter(|_| !context.output.json) {
        context.output.error(&error.error_description);
    }
    Ok(())
}

/// Finds the endpoint that serves a path.
fn find_endpoint(method: &str, path: &str) -> Option<&'static Endpoint> {
    let path = path.split('?').next().unwrap_or_default();
    let matches = |template: &str| {
        let mut segments = template.split('/').zip(path.split('/'));
        segments.all(|(expected, given)| expected.starts_with('{') || expected == given)
            && template.split('/').count() == path.split('/').count()
    };
    endpoints::ALL.iter().copied().find(|endpoint| endpoint.method.as_str() == method && matches(endpoint.path))
}

/// Adds the current workspace to a path that does not name one.
fn with_workspace(path: &str, workspace: Option<&str>) -> String {
    match workspace {
        Some(id) if !has_parameter(path, "workspaceId") => add_to_query(path, &format!("workspaceId={id}")),
        _ => path.to_owned(),
    }
}

/// Whether the query of a path has a parameter.
fn has_parameter(path: &str, name: &str) -> bool {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|pair| pair.split('=').next() == Some(name))
}

fn add_to_query(path: &str, query: &str) -> String {
    format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' })
}

/// The exit code for a response status, as in every other command.
const fn status_exit_code(status: u16) -> u8 {
    match status {
        200..300 => 0,
        401 => 4,
        403 => 5,
        404 => 6,
        429 => 8,
        500.. => 7,
        _ => 1,
    }
}
