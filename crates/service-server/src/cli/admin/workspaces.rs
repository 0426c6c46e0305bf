//! `serviced admin workspace`: deletes workspaces, and stops their passkey requirement.

use clap::Subcommand;

use super::{or_nothing, parse_workspace};
use crate::{
    app::App,
    cli::output::say,
    flows::{operator::Operator, revocation, workspaces::passkey_requirement},
};

#[derive(Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Delete a workspace for all its members
    Delete { workspace: String },
    /// Stop requiring a passkey from the members, when no owner gets in any more
    AllowCodes { workspace: String },
}

pub(super) async fn run(command: &WorkspaceCommand, app: &App, operator: &Operator) -> anyhow::Result<()> {
    match command {
        WorkspaceCommand::Delete { workspace } => {
            let workspace = parse_workspace(workspace)?;
            let deleted = revocation::delete_workspace(app, operator, workspace).await;
            deleted.map_err(|error| or_nothing(error, "workspace not found"))?;
            say(&format!("Deleted {workspace}. Nodes reject tokens for it within a second."));
        }
        WorkspaceCommand::AllowCodes { workspace } => {
            let workspace = parse_workspace(workspace)?;
            let lifted = passkey_requirement::lift(app, operator, workspace).await?;
            anyhow::ensure!(lifted, "{workspace} was not found, or requires no passkey");
            say(&format!("{workspace} no longer requires a passkey from its members."));
        }
    }
    Ok(())
}
