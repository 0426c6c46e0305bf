//! `service whoami`: asks the service, and says what it answered. The exit code is the answer; so is the object, which is
//! printed also when it is no good news.

use std::process::ExitCode;

use serde_json::{Value, json};
use service_api::{
    instant,
    whoami::{CredentialId, CredentialKind, Whoami},
    workspaces::{ContentScope, PERSONAL},
};

use crate::{
    chosen::Chooser,
    connection::{Connection, Credential},
    context::{Context, store_failed},
    credentials::{Place, shown},
    failure::{Code, Failure},
    table::clean,
    token_variable::TOKEN_VARIABLE,
};

pub(super) async fn run(context: &Context) -> Result<ExitCode, Failure> {
    match ask(context).await {
        Ok((connection, whoami, name)) => {
            let object = object(context, &connection, &whoami, name.as_deref())?;
            context.output.result(&object, &lines(context, &connection, &whoami, name.as_deref())?)?;
            warn_of_ignored(context, &connection, &whoami)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) if context.output.is_for_programs() && failure.code.exit() != 2 => {
            context.output.result(&bad_news(&failure), "")?;
            Ok(ExitCode::from(failure.code.exit()))
        }
        Err(failure) => Err(failure),
    }
}

async fn ask(context: &Context) -> Result<(Connection, Whoami, Option<String>), Failure> {
    let connection = Connection::open(context)?;
    let whoami = connection.call(context, async |client, token| client.whoami(token, connection.workspace_id()).await);
    let whoami = whoami.await.map_err(|failure| unverified(&connection, failure))?;
    let name = match (&connection.workspace.name, whoami.space.workspace_id) {
        (Some(name), _) => Some(name.clone()),
        // Only to be friendly: a token that may not look is told the id.
        (None, Some(id)) if context.terminal().stdout => {
            let read = connection.call(context, async |client, token| client.read_workspace(token, id).await).await;
            read.ok().map(|workspace| workspace.name)
        }
        _ => None,
    };
    Ok((connection, whoami, name))
}

/// Silence is not a verdict on the token.
fn unverified(connection: &Connection, failure: Failure) -> Failure {
    if failure.code.exit() != 7 || failure.code == Code::RefreshBusy {
        return failure;
    }
    let message = format!("Could not check the token: {} It may still be fine.", failure.message);
    let silent = Failure::new(failure.code, message).with("source", connection.source());
    failure.next.into_iter().fold(silent, Failure::next)
}

fn bad_news(failure: &Failure) -> Value {
    let status = match failure.code {
        Code::TokenExpired => "expired",
        Code::TokenRevoked => "revoked",
        Code::TokenInvalid => "invalid",
        code if code.exit() == 7 => "unverified",
        code => code.as_str(),
    };
    let authenticated = if failure.code.exit() == 7 { Value::Null } else { json!(failure.code.exit() == 5) };
    let mut object = json!({ "authenticated": authenticated, "status": status });
    if let (Value::Object(members), Value::Object(mut error)) = (&mut object, failure.to_json()) {
        if failure.code.exit() == 7 {
            members.insert("reason".to_owned(), failure.code.as_str().into());
        }
        members.extend(error.remove_entry("error"));
    }
    object
}

fn object(context: &Context, connection: &Connection, whoami: &Whoami, name: Option<&str>) -> Result<Value, Failure> {
    let (kind, source, path) = match &connection.credential {
        Credential::Environment(_) => (kind(whoami), TOKEN_VARIABLE, None),
        Credential::Saved(saved) => match saved.1.place {
            Place::Keyring => ("session", "keyring", None),
            Place::File => ("session", "file", Some(shown(&context.credentials()?.path()))),
        },
    };
    let token_id = match whoami.credential.id {
        CredentialId::CliToken(id) => Some(id),
        CredentialId::Session(_) => None,
    };
    let by = connection.workspace.by;
    let source_of_workspace = if by == Chooser::Nobody { "default" } else { by.as_str() };
    Ok(json!({
        "authenticated": true,
        "status": "valid",
        "user": whoami.user,
        "credential": {
            "kind": kind, "source": source, "path": path, "tokenId": token_id,
            "expiresAt": instant::to_text(whoami.credential.expires_at), "scopes": whoami.credential.scopes,
        },
        "workspace": {
            "id": whoami.space.workspace_id, "name": name, "source": source_of_workspace,
            "personal": whoami.space.scope == ContentScope::Personal,
        },
        "apiUrl": connection.origin.as_str(),
    }))
}

fn kind(whoami: &Whoami) -> &'static str {
    match whoami.credential.kind {
        CredentialKind::CliToken => "cli_token",
        CredentialKind::AccessToken => "access_token",
    }
}

fn lines(context: &Context, connection: &Connection, whoami: &Whoami, name: Option<&str>) -> Result<String, Failure> {
    let scopes = whoami.credential.scopes.words().collect::<Vec<_>>().join(", ");
    let place = match (whoami.space.workspace_id, name) {
        (None, _) => "your personal space".to_owned(),
        (Some(id), Some(name)) if name != PERSONAL => format!("{} ({id})", clean(name)),
        (Some(id), _) => id.to_string(),
    };
    let chosen = match connection.workspace.by {
        Chooser::Flag => ", chosen with --workspace-id",
        Chooser::Environment => ", chosen by SERVICE_WORKSPACE_ID",
        Chooser::Saved => ", chosen with: service workspace use",
        Chooser::Token => ", set by the token",
        Chooser::Nobody => "",
    };
    let (with, kept) = match (&connection.credential, whoami.credential.id) {
        (Credential::Environment(_), CredentialId::CliToken(id)) => {
            (format!("CLI token {id} from SERVICE_TOKEN"), None)
        }
        (Credential::Environment(_), CredentialId::Session(_)) => ("access token from SERVICE_TOKEN".to_owned(), None),
        (Credential::Saved(saved), _) => {
            let kept = match saved.1.place {
                Place::Keyring => "system keyring".to_owned(),
                Place::File => format!("{} (not encrypted)", shown(&context.credentials()?.path())),
            };
            ("session".to_owned(), Some(kept))
        }
    };
    let mut lines = vec![
        whoami.user.email.clone(),
        format!("Workspace   {place}{chosen}"),
        format!("Signed in   {with}, scopes {scopes}"),
    ];
    lines.extend(kept.map(|kept| format!("Kept in     {kept}")));
    lines.push(format!("Server      {}", connection.origin));
    Ok(lines.join("\n"))
}

/// A workspace that was chosen has no say over a token that brings its own.
fn warn_of_ignored(context: &Context, connection: &Connection, whoami: &Whoami) -> Result<(), Failure> {
    if !connection.is_from_environment() || connection.workspace.by != Chooser::Token {
        return Ok(());
    }
    let record = context.kept(&connection.origin)?.record().map_err(store_failed)?;
    let here = whoami.space.workspace_id.map_or_else(|| PERSONAL.to_owned(), |id| id.to_string());
    if let Some(saved) = record.and_then(|sign_in| sign_in.workspace).filter(|saved| saved.id != here) {
        let (name, id) = (clean(&saved.name), saved.id);
        context.output.warn(&format!("The saved workspace {name} ({id}) is ignored while SERVICE_TOKEN is set."));
    }
    Ok(())
}
