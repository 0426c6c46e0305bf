//! Actions that need a recent sign-in: creating credentials and owners, deleting a workspace, changing passkeys.
//!
//! Only this module constructs a [`RecentSignIn`], and flows that create credentials take one, so that a forgotten check
//! does not compile. The time of a sign-in never changes, so it may be read before the transaction that uses it.
//!
//! A sign-in by code of a user who has a passkey that counts has no `auth_time`: `auth_time_of_code` decides that when it is stored.

use service_api::ids::{UserId, WorkspaceId};
use service_rules::{
    Timestamp,
    bearer::BearerError,
    space::PasskeyRule,
    step_up::{self, StepUp},
};

use crate::{
    app::App,
    database::{Connection, Error},
    flows::{
        actor::{Actor, Basis},
        authenticate::AuthenticateError,
        sso::required,
    },
    store,
};

/// Proof that the user of a request signed in within the last 15 minutes.
#[derive(Clone, Copy, Debug)]
pub struct RecentSignIn(());

/// Checks that the user signed in recently, in the session or browser that they act by.
pub async fn require_recent_sign_in(app: &App, actor: &Actor<'_>) -> Result<RecentSignIn, AuthenticateError> {
    let auth_time = match actor.basis {
        Basis::Session(id) => {
            let found = store::grants::find_auth_time(&app.database.connect().await?, id).await?;
            found.ok_or(BearerError::Invalid)?
        }
        Basis::Browser { auth_time, .. } => auth_time,
        Basis::CliToken(_) | Basis::Operator => None,
    };
    if step_up::is_recent(auth_time, app.clock.now()) {
        return Ok(RecentSignIn(()));
    }
    let db = app.database.connect().await?;
    Err(BearerError::SignInTooOld(of_user(app, &db, actor.user_id, app.clock.now()).await?).into())
}

/// How a user has to sign in before an action that needs a recent sign-in. Where single sign-on is required, passkeys do not sign
/// in: the code of a break-glass owner, which is all that is left in an emergency, stays enough.
pub(crate) async fn of_user(app: &App, db: &Connection, user_id: UserId, now: Timestamp) -> Result<StepUp, Error> {
    let has_passkey = store::passkeys::count_now(db, user_id, now).await?;
    Ok(StepUp::of(has_passkey && !required::applies_to(app, db, user_id).await?))
}

/// Whether a user requires a passkey to sign in. Where single sign-on is required, the company decides instead. If another device has
/// a copy of every passkey, the user gets in by code, to remove them.
pub(crate) async fn requires_passkey(app: &App, db: &Connection, user_id: UserId) -> Result<bool, Error> {
    Ok(store::users::requires_passkey(db, user_id).await?
        && !store::passkeys::are_copied(db, user_id).await?
        && !required::applies_to(app, db, user_id).await?)
}

/// The passkey requirement of a workspace, and whether a user meets it: the account requires a passkey, or the user's company requires
/// single sign-on. A break-glass owner meets it, although a code signs that owner in.
pub(crate) async fn passkey_rule(
    app: &App,
    db: &Connection,
    user_id: UserId,
    workspace_id: WorkspaceId,
) -> Result<PasskeyRule, Error> {
    let required = store::workspaces::requires_passkey(db, workspace_id).await?;
    let closed_to_codes =
        required && (keeps_codes_out(app, db, user_id).await? || required::applies_to(app, db, user_id).await?);
    Ok(PasskeyRule { required, closed_to_codes })
}

/// Whether the account of a user requires a passkey, for a workspace. While another device has a copy of a passkey, one without a copy
/// has to count.
pub(crate) async fn keeps_codes_out(app: &App, db: &Connection, user_id: UserId) -> Result<bool, Error> {
    Ok(requires_passkey(app, db, user_id).await?
        && (!store::passkeys::has_copied(db, user_id).await?
            || store::passkeys::count_now(db, user_id, app.clock.now()).await?))
}

/// When a user who has just entered a code authenticated, as it is stored with the session.
pub(crate) async fn auth_time_of_code(
    app: &App,
    db: &Connection,
    user_id: UserId,
    now: Timestamp,
) -> Result<Option<Timestamp>, Error> {
    Ok(of_user(app, db, user_id, now).await?.auth_time_of_code(now))
}
