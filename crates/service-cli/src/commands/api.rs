//! `service api`: sends any request with the user's credential, and prints the response unchanged.

use std::{fs, io::Read as _, process::ExitCode};

use serde_json::Value;
use service_api::{
    endpoints::{self, Body, Endpoint},
    errors::ErrorBody,
};

use crate::{
    arguments::ApiArgs,
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
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
    if arguments.input.is_none() && endpoint.is_some_and(|endpoint| endpoint.body != Body::None) {
        let text = format!("{method} needs a body. Pass it with --input FILE (or - for stdin).");
        return Err(Failure::new(FailureCode::Usage, text));
    }
    let body = arguments.input.as_deref().map(read_input).transpose()?;
    let connection = Connection::open(context)?;
    let takes_workspace = endpoint.is_some_and(|endpoint| endpoint.query.contains(&"workspaceId"));
    let path = with_workspace(&arguments.path, connection.workspace_id().filter(|_| takes_workspace));
    let response =
        connection.call(context, async |client, token| client.raw(&method, &path, token, body.clone()).await);
    let response = response.await?;
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
    Ok(ExitCode::from(exit_code(response.status)))
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
        Some(id) if !path.contains("workspaceId=") => {
            format!("{path}{}workspaceId={id}", if path.contains('?') { '&' } else { '?' })
        }
        _ => path.to_owned(),
    }
}

fn read_input(input: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = match input {
        "-" => std::io::stdin().read_to_end(&mut bytes).map(|_| bytes),
        path => fs::read(path),
    };
    read.map_err(|error| Failure::new(FailureCode::Usage, format!("Can't read the input: {error}.")))
}

/// The exit code for a response status, as in every other command.
const fn exit_code(status: u16) -> u8 {
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
