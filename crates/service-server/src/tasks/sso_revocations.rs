//! Revokes the sessions of users whose company has begun to require single sign-on, and limits the tokens that are kept.

use std::time::Duration;

use crate::{app::App, flows::sso::required, tasks::supervisor::Progress};

/// How often a node looks for users who have to be signed out.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Signs users out until the node stops. Every node does it; revoking a session twice changes nothing.
pub async fn run(app: App, progress: Progress) {
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        match required::revoke_existing(&app).await {
            Ok(_) => progress.succeeded(),
            Err(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "Could not sign out users for whom single sign-on is required"
                );
            }
        }
    }
}
