//! `serviced migrate`: migrates the schema, and names each migration before it runs.

use crate::{
    cli::output::{say, say_error},
    config::DatabaseConfig,
    database::migrations::{self, MigrationStep},
};

pub(crate) async fn run(settings: &DatabaseConfig) -> anyhow::Result<()> {
    let applied = migrations::migrate_with_progress(settings, |step| match step {
        MigrationStep::WaitingForLock => say_error("Waiting for another migration to finish …"),
        MigrationStep::Applying { name, number, total } => {
            say_error(&format!("Applying {name} ({number} of {total}) …"));
        }
    })
    .await?;
    for name in &applied {
        say(&format!("applied {name}"));
    }
    say("The schema is up to date.");
    Ok(())
}
