//! `service doctor`: checks the setup of this machine, or with `--mcp` an MCP endpoint. It prints no secret and changes
//! nothing.

mod check;
mod mcp;
mod mcp_cors;
mod mcp_documents;

use std::process::ExitCode;

use serde_json::json;

use self::check::{Check, report};
use crate::{
    arguments::DoctorArgs,
    connection::Connection,
    context::{Context, store_failed},
    credentials::{KeyringEntry, StoreKind, display_path},
    explain,
    failure::{Failure, FailureCode},
    token_variable::check_token,
};

pub(super) async fn run(context: &Context, arguments: &DoctorArgs) -> Result<ExitCode, Failure> {
    if let Some(url) = &arguments.mcp {
        return mcp::run(context, url.as_deref()).await;
    }
    let mut checks = vec![
        check_origin(context),
        check_token_variable(context),
        check_sign_in(context),
        check_keyring(context),
        check_browser(context),
    ];
    checks.push(check_service(context).await);
    checks.push(check_credential(context).await);
    report(context, &checks, json!({}))
}

/// Checks that the URL of the service is set and valid.
fn check_origin(context: &Context) -> Check {
    let origin = context.origin().map_err(|failure| failure.message);
    Check::required("address", origin.map(|origin| format!("Server {origin} (profile {})", context.profile)))
}

/// Checks the form of the token in `SERVICE_TOKEN`.
fn check_token_variable(context: &Context) -> Check {
    let result = match &context.environment.token {
        None => Ok("SERVICE_TOKEN is not set".to_owned()),
        Some(token) => check_token(token.text())
            .map(|_| "SERVICE_TOKEN is set, and is used instead of your session".to_owned())
            .map_err(|failure| failure.message),
    };
    Check::required("token", result)
}

/// Checks that the saved session can be read.
fn check_sign_in(context: &Context) -> Check {
    let read_sign_in = || {
        let origin = context.origin()?;
        let saved = context.saved_sign_in(&origin)?;
        Ok::<_, Failure>(match saved.record().map_err(store_failed)? {
            None => format!("No saved session (it would be stored in {})", display_path(&saved.path())),
            Some(sign_in) if sign_in.store == StoreKind::Keyring => {
                format!("Signed in as {} (stored in the system keyring)", sign_in.user.email)
            }
            Some(sign_in) => {
                let path = display_path(&saved.path());
                format!("Signed in as {} (stored in {path}, not encrypted)", sign_in.user.email)
            }
        })
    };
    Check::required("sign-in", read_sign_in().map_err(|failure| failure.message))
}

fn check_keyring(context: &Context) -> Check {
    let result = KeyringEntry::check_keyring(&context.environment);
    let result = result.map(|()| "System keyring available".to_owned());
    Check::optional(
        "keyring",
        result.map_err(|error| format!("No system keyring: {error} (credentials are stored in a file)")),
    )
}

fn check_browser(context: &Context) -> Check {
    let environment = &context.environment;
    let result = match (&environment.browser, environment.ssh, environment.display) {
        (Some(_), ..) => Ok("Browser set by SERVICE_BROWSER or BROWSER".to_owned()),
        (None, true, _) => Err("No browser: SSH session (sign in with an email code)".to_owned()),
        (None, false, true) => Ok("Browser available".to_owned()),
        (None, false, false) => Err("No browser: no display (sign in with an email code)".to_owned()),
    };
    Check::optional("browser", result)
}

/// Checks that the service answers, and that it has the URL by which it was reached.
async fn check_service(context: &Context) -> Check {
    let request = async {
        let origin = context.origin()?;
        let client = context.client(&origin)?;
        let metadata = context.spin_while(client.server_metadata()).await;
        let metadata = metadata.map_err(|error| explain::explain_error(&origin, &error))?;
        Ok::<_, Failure>((origin, metadata))
    };
    let result = match request.await {
        Err(failure) => Err(failure.message),
        Ok((origin, metadata)) => match metadata["issuer"].as_str().unwrap_or_default() {
            issuer if issuer == origin.as_str() => Ok(format!("{origin} is reachable")),
            issuer => Err(format!("{origin} identifies itself as {issuer}. Check SERVICE_API_URL")),
        },
    };
    Check::required("service", result)
}

/// Checks that the service accepts the credential.
async fn check_credential(context: &Context) -> Check {
    let request = async {
        let connection = Connection::open(context)?;
        connection.call(context, async |client, token| client.whoami(token, None).await).await
    };
    match request.await {
        Err(failure) if failure.code == FailureCode::NotSignedIn => {
            Check::optional("accepted", Err("Not signed in. Sign in with: service login".to_owned()))
        }
        Err(failure) => Check::required("accepted", Err(failure.message)),
        Ok(whoami) => Check::required("accepted", Ok(format!("Token accepted for {}", whoami.user.email))),
    }
}
