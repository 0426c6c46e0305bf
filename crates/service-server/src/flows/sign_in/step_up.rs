//! Actions that need a recent sign-in: creating credentials and owners, deleting a workspace.
//!
//! Only this module constructs a [`RecentSignIn`], and flows that create credentials take one, so that a forgotten check
//! does not compile. The time of a sign-in never changes, so it may be read before the transaction that uses it.

use service_rules::{bearer::BearerError, step_up};

use crate::{
    app::App,
    flows::{actor::Basis, authenticate::AuthenticateError},
    store,
};

/// Proof that the user of a request signed in within the last 15 minutes.
#[derive(Clone, Copy, Debug)]
pub struct RecentSignIn(());

/// Checks that the user signed in recently, in the session or browser that they act by.
pub async fn require_recent_sign_in(app: &App, basis: Basis) -> Result<RecentSignIn, AuthenticateError> {
    let auth_time = match basis {
        Basis::Session(id) => {
            let found = store::grants::find_auth_time(&app.database.connect().await?, id).await?;
            found.ok_or(BearerError::Invalid)?
        }
        Basis::Browser { auth_time, .. } => auth_time,
        Basis::CliToken(_) => None,
    };
    if step_up::is_recent(auth_time, app.clock.now()) {
        Ok(RecentSignIn(()))
    } else {
        Err(BearerError::SignInTooOld.into())
    }
}
