//! Checks verified domains again, each once a week.

use std::time::Duration;

use crate::{app::App, flows::sso::domain_checks, tasks::supervisor::Progress};

/// How often a node looks for domains that are due.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Checks the domains that are due, until the node stops.
pub async fn run(app: App, progress: Progress) {
    loop {
        match domain_checks::check_due(&app).await {
            Ok(()) => progress.succeeded(),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "Could not check the domains that are due"),
        }
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}
