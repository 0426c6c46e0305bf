//! `service api`: any request, with the same credential and the same errors. The answer is printed as it came.

use std::{fs, io::Read as _, process::ExitCode};

use serde_json::Value;

use crate::{
    arguments::Api,
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
    let body = arguments.input.as_deref().map(read).transpose()?;
    let connection = context.connect()?;
    let answer =
        connection.call(context, async |client, token| client.raw(&method, &arguments.path, token, body.clone()).await);
    let answer = answer.await?;
    match serde_json::from_slice::<Value>(&answer.body) {
        Ok(object) if context.output.is_for_programs() => context.output.result(&object, "")?,
        _ => {
            output::bytes(&answer.body);
            if !answer.body.is_empty() {
                output::bytes(b"\n");
            }
        }
    }
    Ok(ExitCode::from(exit(answer.status)))
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
