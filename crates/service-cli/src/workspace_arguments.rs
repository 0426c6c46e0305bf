//! The arguments of `service workspace create`.

use clap::Args;

#[derive(Args)]
#[command(after_help = "Examples:
  service workspace create Acme
  service workspace use $(service workspace create Acme --jq .workspace.id)")]
pub(crate) struct CreateWorkspaceArgs {
    /// Name of the workspace
    pub(crate) name: String,
}
