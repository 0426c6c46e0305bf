//! `service login`.
//!
//! 1. Check that there is a terminal, and whether the user is signed in already.
//! 2. Choose where to store the credentials, before a browser opens or a code is sent.
//! 3. Find out how the email address can sign in, and what this machine supports.
//! 4. Sign in: with a browser, with an email code, or with a pasted URL.
//! 5. Read who signed in, save the session, and revoke the previous one.

mod attempt;
mod browser;
mod code;
mod loopback;
mod method;
pub(in crate::commands) mod opener;
mod options;
mod page;
pub(crate) mod pkce;
pub(crate) mod reauthenticate;
mod store;

use std::time::Duration;

use serde_json::{Value, json};
use service_api::{
    oauth::{SERVICE_CLI, TokenResponse},
    scope::Scopes,
    whoami::Whoami,
};

use self::attempt::{NewSignIn, SignInAttempt, save_sign_in};
pub(in crate::commands) use self::method::can_open_browser;
use super::workspace;
use crate::{
    arguments::LoginArgs,
    context::{Context, store_failed},
    credentials::{SavedSignIn, SignInRecord, StoreKind},
    explain,
    failure::{Failure, FailureCode},
    output,
    prompt::InputLines,
    table::strip_control,
    token_variable::TOKEN_VARIABLE,
};

/// The scopes of a first sign-in, if the user names none.
const DEFAULT_SCOPE: &str = "read write";
const SCOPE_HINT: &str = "Use read, write, or one resource such as projects:read";

pub(super) async fn run(context: &Context, arguments: &LoginArgs) -> Result<(), Failure> {
    let origin = context.origin()?;
    let saved = context.saved_sign_in(&origin)?;
    let previous = saved.record().map_err(store_failed)?;
    require_terminal(context, arguments, previous.as_ref())?;
    let mut lines = InputLines::read();
    if let Some(sign_in) = previous.as_ref().filter(|_| !arguments.force) {
        let (email, store) = (&sign_in.user.email, store_name(&saved, sign_in.store));
        output::print_instruction(&format!("You're signed in as {email} ({store})."));
        let question = "Sign in again? The current session is revoked once the new one is saved.";
        if !lines.confirm(question, false).await? {
            return Ok(());
        }
    }
    if context.environment.token.is_some() {
        let text = "SERVICE_TOKEN is set, so commands keep using it. The new session is used once you unset it.";
        context.output.warn(text);
    }
    let (file, previous_store) = (saved.path(), previous.as_ref().map(|sign_in| sign_in.store));
    let store = store::choose_store(context, arguments, previous_store, &file, &mut lines).await?;

    let client = context.client(&origin)?;
    let mut attempt = SignInAttempt {
        context,
        client: &client,
        origin: &origin,
        lines,
        timeout: Duration::from_secs(arguments.timeout),
        authorize_url: format!("{origin}{}", service_api::endpoints::AUTHORIZE.path),
        scope: scope_to_request(arguments, previous.as_ref())?,
        login_hint: None,
        reauthenticate: false,
    };
    let tokens = method::sign_in(&mut attempt, arguments).await?;
    let refresh_token = tokens.refresh_token.clone();
    let finished = finish(&attempt, &saved, store, tokens).await;
    // A session that was not saved is revoked, because no client has it.
    if finished.is_err() && !context.is_saved() {
        drop(client.revoke(SERVICE_CLI, &refresh_token).await);
    }
    finished
}

/// Fails if the user cannot be prompted.
fn require_terminal(context: &Context, arguments: &LoginArgs, previous: Option<&SignInRecord>) -> Result<(), Failure> {
    if context.terminal().can_prompt() {
        return Ok(());
    }
    Err(match previous.filter(|_| !arguments.force) {
        Some(sign_in) => {
            let text = format!("Already signed in as {}.", sign_in.user.email);
            Failure::new(FailureCode::Usage, text).hint("service login --force")
        }
        None => Failure::new(FailureCode::NeedsTerminal, "Signing in needs a terminal.")
            .hint("In CI or scripts, set SERVICE_TOKEN. Create one with: service token create --workspace-id <id>"),
    })
}

/// Saves the session, and shows who signed in.
async fn finish(
    attempt: &SignInAttempt<'_>,
    saved: &SavedSignIn,
    store: StoreKind,
    tokens: TokenResponse,
) -> Result<(), Failure> {
    let (context, client) = (attempt.context, attempt.client);
    let whoami = context.wait_for("Reading your account", client.whoami(&tokens.access_token, None)).await;
    let whoami = whoami.map_err(|error| explain::explain_error(attempt.origin, &error))?;
    let workspace = attempt.workspace_of(&tokens).await;
    let new = NewSignIn { store, tokens, whoami: &whoami, scope: &attempt.scope, workspace: None };
    save_sign_in(context, client, saved, new).await?;
    print_result(context, &whoami, workspace.as_ref(), saved, store).await
}

/// The scopes to request: those of the arguments, or those that the previous sign-in requested.
fn scope_to_request(arguments: &LoginArgs, previous: Option<&SignInRecord>) -> Result<String, Failure> {
    if arguments.scopes.is_empty() {
        return Ok(previous.map_or(DEFAULT_SCOPE, SignInRecord::requested_scope).to_owned());
    }
    join_scopes(&arguments.scopes)
}

/// Joins the scopes of a repeatable option, each of which can have several words. Fails for an unknown scope.
pub(super) fn join_scopes(scopes: &[String]) -> Result<String, Failure> {
    let words: Vec<_> =
        scopes.iter().flat_map(|scope| scope.split([' ', ','])).filter(|word| !word.is_empty()).collect();
    match words.iter().find(|word| Scopes::parse(word).is_empty()) {
        _ if words.is_empty() => Err(Failure::new(FailureCode::Usage, "The scope is empty.").hint(SCOPE_HINT)),
        Some(unknown) => {
            let text = format!("Unknown scope {}.", strip_control(unknown));
            Err(Failure::new(FailureCode::Usage, text).hint(SCOPE_HINT))
        }
        None => Ok(words.join(" ")),
    }
}

async fn print_result(
    context: &Context,
    whoami: &Whoami,
    workspace: Option<&Value>,
    saved: &SavedSignIn,
    store: StoreKind,
) -> Result<(), Failure> {
    context.output.success(&format!("Signed in as {}", whoami.user.email));
    let space = match workspace {
        None => "Personal".to_owned(),
        Some(workspace) => match workspace["name"].as_str() {
            Some(name) => format!("{} ({})", strip_control(name), workspace["id"].as_str().unwrap_or_default()),
            None => workspace["id"].as_str().unwrap_or_default().to_owned(),
        },
    };
    context.output.info(&format!("  Workspace: {space}   Stored in: {}", store_name(saved, store)));
    let shadowed = context.environment.token.is_some();
    if shadowed {
        let space = workspace::space_of_token(context).await;
        let space = space.map(|space| format!(" ({})", space.label())).unwrap_or_default();
        context.output.warn(&format!("Still using SERVICE_TOKEN{space}. To use this session: unset SERVICE_TOKEN"));
    }
    let object = json!({
        "status": "signed_in",
        "user": whoami.user,
        "workspace": workspace,
        "scopes": whoami.credential.scopes,
        "store": store,
        "shadowedBy": shadowed.then_some(TOKEN_VARIABLE),
    });
    context.output.result(&object, "")
}

fn store_name(saved: &SavedSignIn, store: StoreKind) -> String {
    store.display_name(&saved.path())
}
