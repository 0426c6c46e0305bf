//! `service whoami`: shows the signed-in user, the credential and the workspace, as the service confirms them.
//!
//! With `--json` the object is printed on standard output also if the service rejects the credential.

use std::process::ExitCode;

use serde_json::{Value, json};
use service_api::{
    instant,
    whoami::{CredentialId, CredentialKind, Whoami},
    workspaces::{ContentScope, PERSONAL},
};

use crate::{
    connection::{Connection, Credential},
    context::{Context, store_failed},
    credentials::{StoreKind, display_path},
    failure::{Failure, FailureCode},
    table::strip_control,
    token_variable::TOKEN_VARIABLE,
    workspace_selection::SelectionSource,
};

pub(super) async fn run(context: &Context) -> Result<ExitCode, Failure> {
    match read_identity(context).await {
        Ok(identity) => {
            let object = identity_json(context, &identity)?;
            context.output.result(&object, &format_identity(context, &identity)?)?;
            warn_about_ignored_workspace(context, &identity)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) if context.output.json && failure.code.exit_code() != 2 => {
            context.output.result(&failure_json(&failure), "")?;
            Ok(ExitCode::from(failure.code.exit_code()))
        }
        Err(failure) => Err(failure),
    }
}

/// Who the service says the user is, and what it was asked with.
struct Identity {
    connection: Connection,
    whoami: Whoami,
    workspace_name: Option<String>,
}

async fn read_identity(context: &Context) -> Result<Identity, Failure> {
    let connection = Connection::open(context)?;
    let whoami = connection.call(context, async |client, token| client.whoami(token, connection.workspace_id()).await);
    let whoami = whoami.await.map_err(|failure| not_checked(&connection, failure))?;
    let workspace_name = match (&connection.workspace.name, whoami.space.workspace_id) {
        (Some(name), _) => Some(name.clone()),
        // A credential that cannot read the workspace is shown its ID instead of its name.
        (None, Some(id)) if context.terminal().stdout => {
            let read = connection.call(context, async |client, token| client.read_workspace(token, id).await).await;
            read.ok().map(|workspace| workspace.name)
        }
        _ => None,
    };
    Ok(Identity { connection, whoami, workspace_name })
}

/// Says that the credential was not checked, if the service did not answer.
fn not_checked(connection: &Connection, failure: Failure) -> Failure {
    if failure.code.exit_code() != 7 || failure.code == FailureCode::RefreshBusy {
        return failure;
    }
    let message = format!("{} Your credentials were not checked.", failure.message);
    let not_checked = Failure::new(failure.code, message).with("source", connection.source());
    failure.hints.into_iter().fold(not_checked, Failure::hint)
}

/// The object for a credential that does not work.
fn failure_json(failure: &Failure) -> Value {
    let status = match failure.code {
        FailureCode::TokenExpired => "expired",
        FailureCode::TokenRevoked => "revoked",
        FailureCode::TokenInvalid => "invalid",
        code if code.exit_code() == 7 => "unverified",
        code => code.as_str(),
    };
    let authenticated = if failure.code.exit_code() == 7 { Value::Null } else { json!(failure.code.exit_code() == 5) };
    let mut object = json!({ "authenticated": authenticated, "status": status });
    if let (Value::Object(members), Value::Object(mut error)) = (&mut object, failure.to_json()) {
        if failure.code.exit_code() == 7 {
            members.insert("reason".to_owned(), failure.code.as_str().into());
        }
        members.extend(error.remove_entry("error"));
    }
    object
}

fn identity_json(context: &Context, identity: &Identity) -> Result<Value, Failure> {
    let Identity { connection, whoami, workspace_name } = identity;
    let (kind, source, path) = match &connection.credential {
        Credential::Environment(_) => (kind_name(whoami), TOKEN_VARIABLE, None),
        Credential::Saved(saved) => match saved.record.store {
            StoreKind::Keyring => ("session", "keyring", None),
            StoreKind::File => ("session", "file", Some(display_path(&context.credentials()?.path()))),
        },
    };
    let token_id = match whoami.credential.id {
        CredentialId::CliToken(id) => Some(id),
        CredentialId::Session(_) => None,
    };
    Ok(json!({
        "authenticated": true,
        "status": "valid",
        "user": whoami.user,
        "credential": {
            "kind": kind, "source": source, "path": path, "tokenId": token_id,
            "expiresAt": instant::to_text(whoami.credential.expires_at), "scopes": whoami.credential.scopes,
        },
        "workspace": {
            "id": whoami.space.workspace_id, "name": workspace_name, "source": connection.workspace.source.as_str(),
            "personal": whoami.space.scope == ContentScope::Personal,
        },
        "apiUrl": connection.origin.as_str(),
    }))
}

fn kind_name(whoami: &Whoami) -> &'static str {
    match whoami.credential.kind {
        CredentialKind::CliToken => "cli_token",
        CredentialKind::AccessToken => "access_token",
    }
}

fn format_identity(context: &Context, identity: &Identity) -> Result<String, Failure> {
    let Identity { connection, whoami, workspace_name } = identity;
    let scopes = whoami.credential.scopes.words().collect::<Vec<_>>().join(", ");
    let workspace = match (whoami.space.workspace_id, workspace_name) {
        (None, _) => "Personal".to_owned(),
        (Some(id), Some(name)) if name != PERSONAL => format!("{} ({id})", strip_control(name)),
        (Some(id), _) => id.to_string(),
    };
    let setting = connection.workspace.source.suffix();
    let (credential, stored) = match (&connection.credential, whoami.credential.id) {
        (Credential::Environment(_), CredentialId::CliToken(id)) => {
            (format!("CLI token {id} from SERVICE_TOKEN"), None)
        }
        (Credential::Environment(_), CredentialId::Session(_)) => ("access token from SERVICE_TOKEN".to_owned(), None),
        (Credential::Saved(saved), _) => {
            let stored = match saved.record.store {
                StoreKind::Keyring => "system keyring".to_owned(),
                StoreKind::File => format!("{} (not encrypted)", display_path(&context.credentials()?.path())),
            };
            ("session".to_owned(), Some(stored))
        }
    };
    let mut lines = vec![
        whoami.user.email.clone(),
        format!("Workspace    {workspace}{setting}"),
        format!("Credential   {credential}, scopes: {scopes}"),
    ];
    lines.extend(stored.map(|stored| format!("Stored in    {stored}")));
    lines.push(format!("Server       {}", connection.origin));
    Ok(lines.join("\n"))
}

/// Warns that the saved workspace has no effect, because a token has its own.
fn warn_about_ignored_workspace(context: &Context, identity: &Identity) -> Result<(), Failure> {
    let Identity { connection, whoami, .. } = identity;
    if !connection.is_from_environment() || connection.workspace.source != SelectionSource::Token {
        return Ok(());
    }
    let record = context.saved_sign_in(&connection.origin)?.record().map_err(store_failed)?;
    let current = whoami.space.workspace_id.map_or_else(|| PERSONAL.to_owned(), |id| id.to_string());
    if let Some(saved) = record.and_then(|sign_in| sign_in.workspace).filter(|saved| saved.id != current) {
        let (name, id) = (strip_control(&saved.name), saved.id);
        context.output.warn(&format!("The saved workspace {name} ({id}) is ignored while SERVICE_TOKEN is set."));
    }
    Ok(())
}
