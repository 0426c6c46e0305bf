//! `service api`: any request, with the same credential and the same errors. The answer is printed as it came.

use std::{fs, io::Read as _, process::ExitCode};

use serde_json::Value;
use service_api::{
    endpoints::{self, Body, Endpoint},
    errors::ErrorBody,
};

use crate::{
    arguments::Api,
    connection::Connection,
    context::Context,
    failure::{Code, Failure},
    output,
};

pub(super) async fn run(context: &Context, arguments: &Api) -> Result<ExitCode, Failure> {
    let method = arguments.method.to_ascii_uppercase();
    if !["GET", "POST", "PATCH", "DELETE"].contains(&method.as_str()) {
        return Err(Failure::new(Code::Usage, "The method is GET, POST, PATCH or DELETE."));
    }
    // A path, not an address: the credential stays where it belongs.
    if !arguments.path.starts_with('/') || arguments.path.starts_with("//") {
        return Err(Failure::new(Code::Usage, "The path begins with one slash, as in /v1/projects."));
    }
    let endpoint = find(&method, &arguments.path);
    if arguments.input.is_none() && endpoint.is_some_and(|endpoint| endpoint.body != Body::None) {
        return Err(Failure::new(Code::Usage, "This request has a body.").next("--input FILE, or --input - to type it"));
    }
    let body = arguments.input.as_deref().map(read).transpose()?;
    let connection = Connection::open(context)?;
    let takes_workspace = endpoint.is_some_and(|endpoint| endpoint.query.contains(&"workspaceId"));
    let path = in_workspace(&arguments.path, connection.workspace_id().filter(|_| takes_workspace));
    let answer = connection.call(context, async |client, token| client.raw(&method, &path, token, body.clone()).await);
    let answer = answer.await?;
    match serde_json::from_slice::<Value>(&answer.body) {
        Ok(object) if context.output.is_for_programs() => context.output.result(&object, "")?,
        _ => {
            output::bytes(&answer.body)?;
            if !answer.body.is_empty() {
                output::bytes(b"\n")?;
            }
        }
    }
    let failed = serde_json::from_slice::<ErrorBody>(&answer.body).ok().filter(|_| answer.status >= 400);
    if let Some(error) = failed.filter(|_| !context.output.json) {
        context.output.wrong(&error.error_description);
    }
    Ok(ExitCode::from(exit(answer.status)))
}

/// The endpoint that a path leads to.
fn find(method: &str, path: &str) -> Option<&'static Endpoint> {
    let path = path.split('?').next().unwrap_or_default();
    let fits = |template: &str| {
        let (mut wanted, mut given) = (template.split('/'), path.split('/'));
        let alike = wanted.by_ref().zip(given.by_ref()).all(|(one, other)| one.starts_with('{') || one == other);
        alike && template.split('/').count() == path.split('/').count()
    };
    endpoints::ALL.iter().copied().find(|endpoint| endpoint.method.as_str() == method && fits(endpoint.path))
}

/// The path with the workspace that commands work in, unless it names one itself.
fn in_workspace(path: &str, workspace: Option<&str>) -> String {
    match workspace {
        Some(id) if !path.contains("workspaceId=") => {
            format!("{path}{}workspaceId={id}", if path.contains('?') { '&' } else { '?' })
        }
        _ => path.to_owned(),
    }
}

fn read(input: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let done = match input {
        "-" => std::io::stdin().read_to_end(&mut bytes).map(|_| bytes),
        path => fs::read(path),
    };
    done.map_err(|error| Failure::new(Code::Usage, format!("The input cannot be read: {error}.")))
}

/// The exit code that any other command would have had.
const fn exit(status: u16) -> u8 {
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
