//! Signs the user in again in the middle of a command, for an action that needs a recent sign-in.

use std::time::Duration;

use service_api::oauth::{SERVICE_CLI, TokenResponse};

use super::{
    attempt::{NewSignIn, SignInAttempt, save_sign_in},
    method,
};
use crate::{
    arguments::LoginArgs,
    context::{Context, store_failed},
    credentials::{SavedSignIn, SignInRecord},
    explain,
    failure::{Failure, FailureCode},
    origin::Origin,
    output,
    prompt::InputLines,
    terminal::RequestedMethod,
};

/// How long the user can take to sign in again.
const REAUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(600);

/// Signs the same user in again, saves the new session and revokes the previous one. Fails without a terminal.
/// `needs_passkey`: a code is not enough, so the user signs in with a browser.
pub(crate) async fn reauthenticate(context: &Context, origin: &Origin, needs_passkey: bool) -> Result<(), Failure> {
    if !context.terminal().can_prompt() {
        return Err(explain::reauthentication_required(needs_passkey));
    }
    let saved = context.saved_sign_in(origin)?;
    let previous =
        saved.record().map_err(store_failed)?.ok_or_else(|| explain::not_signed_in(&context.profile, origin))?;
    let email = previous.user.email.clone();
    let how = if needs_passkey { " with your passkey" } else { "" };
    output::print_instruction(&format!(
        "This needs a sign-in from the last 15 minutes. Sign in again{how} as {email} to continue."
    ));
    let method = if needs_passkey { RequestedMethod::Browser } else { RequestedMethod::Auto };
    let arguments = LoginArgs { email: Some(email), method, ..LoginArgs::default() };
    let client = context.client(origin)?;
    let mut attempt = SignInAttempt {
        context,
        client: &client,
        origin,
        lines: InputLines::read(),
        timeout: REAUTHENTICATION_TIMEOUT,
        authorize_url: format!("{origin}{}", service_api::endpoints::AUTHORIZE.path),
        scope: previous.requested_scope().to_owned(),
        login_hint: None,
        reauthenticate: true,
    };
    let tokens = method::sign_in(&mut attempt, &arguments).await?;
    let refresh_token = tokens.refresh_token.clone();
    let saved_again = save_same_user(&attempt, &saved, previous, tokens).await;
    if saved_again.is_err() && !context.is_saved() {
        drop(client.revoke(SERVICE_CLI, &refresh_token).await);
    }
    saved_again
}

/// Saves the new session if the same user signed in.
async fn save_same_user(
    attempt: &SignInAttempt<'_>,
    saved: &SavedSignIn,
    previous: SignInRecord,
    tokens: TokenResponse,
) -> Result<(), Failure> {
    let (context, client) = (attempt.context, attempt.client);
    let whoami = context.wait_for("Reading your account", client.whoami(&tokens.access_token, None)).await;
    let whoami = whoami.map_err(|error| explain::explain_error(attempt.origin, &error))?;
    if whoami.user.id != previous.user.id {
        let text = format!("You signed in as {}, not {}. Nothing was changed.", whoami.user.email, previous.user.email);
        return Err(Failure::new(FailureCode::Denied, text).hint("service login --force"));
    }
    let new = NewSignIn {
        store: previous.store,
        tokens,
        whoami: &whoami,
        scope: &attempt.scope,
        workspace: previous.workspace,
    };
    save_sign_in(context, client, saved, new).await
}
