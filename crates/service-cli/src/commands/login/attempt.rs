//! A sign-in attempt, and saving the session after it succeeded.

use std::time::Duration;

use serde_json::{Value, json};
use service_api::{
    oauth::{SERVICE_CLI, TokenResponse},
    scope::Scopes,
    token::RefreshToken,
    whoami::Whoami,
};
use service_client::{Access, Client, TokenStore as _, lock_all};

use super::pkce;
use crate::{
    clock,
    context::{Context, session_failed, store_failed},
    credentials::{SavedSignIn, SavedWorkspace, SignInRecord, SignedInUser, StoreKind},
    failure::Failure,
    origin::Origin,
    prompt::InputLines,
};

/// What every sign-in method needs.
pub(super) struct SignInAttempt<'a> {
    pub(super) context: &'a Context,
    pub(super) client: &'a Client,
    pub(super) origin: &'a Origin,
    pub(super) lines: InputLines,
    /// How long the user can take in the browser.
    pub(super) timeout: Duration,
    /// The authorization endpoint; single sign-on can have its own.
    pub(super) authorize_url: String,
    /// The scopes to request.
    pub(super) scope: String,
    /// The email address that the user wants to sign in with, if it is known.
    pub(super) login_hint: Option<String>,
    /// Whether the user has to sign in again, even if the browser has a session, and with the same address.
    pub(super) reauthenticate: bool,
}

/// A session that is about to be saved.
pub(super) struct NewSignIn<'a> {
    pub(super) store: StoreKind,
    pub(super) tokens: TokenResponse,
    pub(super) whoami: &'a Whoami,
    pub(super) scope: &'a str,
    pub(super) workspace: Option<SavedWorkspace>,
}

impl SignInAttempt<'_> {
    /// The workspace of the tokens, with its name if it can be read.
    pub(super) async fn workspace_of(&self, tokens: &TokenResponse) -> Option<Value> {
        let id = tokens.workspace_id?;
        let read = self.client.read_workspace(&tokens.access_token, id);
        let read = self.context.wait_for("Reading your workspace", read).await.ok();
        Some(json!({ "id": id, "name": read.map(|workspace| workspace.name) }))
    }
}

/// Saves the new session, and then revokes the previous one.
pub(super) async fn save_sign_in(
    context: &Context,
    client: &Client,
    saved: &SavedSignIn,
    NewSignIn { store, tokens, whoami, scope, workspace }: NewSignIn<'_>,
) -> Result<(), Failure> {
    let access = Access::of(&tokens, clock::now());
    let sign_in = SignInRecord {
        user: SignedInUser { id: whoami.user.id, email: whoami.user.email.clone() },
        store,
        entry: Some(pkce::random_text()?),
        workspace,
        requested_scope: Some(scope.to_owned()),
        scopes: Scopes::parse(&tokens.scope),
        access_token: access.token,
        access_expires_at: access.expires_at,
        refresh_token: Some(tokens.refresh_token),
    };
    let locks = lock_all(saved.locks().map_err(store_failed)?);
    let locks = context.wait_for("Waiting for another service command", locks).await.map_err(session_failed)?;
    let previous = saved.record().map_err(store_failed)?;
    if previous.as_ref().is_none_or(|previous| previous.user.id != whoami.user.id) {
        saved.forget_lists();
    }
    let previous_token: Option<RefreshToken> = saved.refresh_token().ok().flatten();
    saved.store(sign_in).map_err(store_failed)?;
    context.mark_saved();
    let deleted = previous.as_ref().map_or(Ok(()), |previous| saved.delete_refresh_token(previous));
    drop(locks);
    if deleted.is_err() {
        context.output.warn("Couldn't remove the refresh token of the previous session from this computer.");
    }
    // Either token of the pair will do: the keyring may not have returned the refresh token.
    let revoke = async {
        match (previous_token, previous) {
            (Some(token), _) => client.revoke(SERVICE_CLI, &token).await,
            (None, Some(previous)) => client.revoke_access(SERVICE_CLI, &previous.access_token).await,
            (None, None) => Ok(()),
        }
    };
    let revoked = context.wait_for("Signing out the previous session", revoke).await;
    if revoked.is_err() {
        context.output.warn("Couldn't sign out the previous session. Review your sessions with: service session list");
    }
    Ok(())
}
