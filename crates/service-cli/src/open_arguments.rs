//! The arguments of `service open`.

use clap::{Args, ValueEnum};

#[derive(Args)]
#[command(after_help = "Examples:
  service open
  service open tokens
  service open workspace --no-browser")]
pub(crate) struct OpenArgs {
    /// Page to open
    #[arg(default_value = "account")]
    pub(crate) page: PageArg,
    /// Print the URL instead of opening it
    #[arg(long)]
    pub(crate) no_browser: bool,
}

/// A page of the service, as an argument names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageArg {
    /// Your account
    Account,
    /// Your passkeys
    Security,
    /// Devices and apps that are signed in
    Sessions,
    /// Apps with access to your account
    Apps,
    /// Your CLI tokens
    Tokens,
    /// Your workspaces
    Workspaces,
    /// Recent activity of your account
    Activity,
    /// The current workspace and its members
    Workspace,
    /// CLI tokens and apps that members use for the current workspace
    WorkspaceCredentials,
    /// Recent activity of the current workspace
    WorkspaceActivity,
    /// Single sign-on of the current workspace
    WorkspaceConnections,
    /// The API reference
    Docs,
}
