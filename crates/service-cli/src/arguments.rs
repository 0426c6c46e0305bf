//! The command line: commands, options and their help.

use clap::{Args, Parser, Subcommand, ValueEnum};
use service_api::{sessions::MadeTreatment, workspaces::Role};

use crate::{
    account_arguments::AccountCommand,
    api_arguments::RequestFields,
    audit_arguments::AuditArgs,
    config_arguments::ConfigCommand,
    content_arguments::{PackContentCommand, ProjectContentCommand},
    credentials::StoreKind,
    mcp_arguments::McpCommand,
    open_arguments::OpenArgs,
    passkey_arguments::PasskeyCommand,
    sso_arguments::{ConnectionCommand, DomainCommand},
    terminal::RequestedMethod,
    token_arguments::RotateTokenArgs,
    workspace_arguments::CreateWorkspaceArgs,
};

/// Work with Service from the command line
#[derive(Parser)]
#[command(name = "service", version, disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Args)]
#[command(next_help_heading = "Global options")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct GlobalOptions {
    /// Output JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Filter JSON output with a jq expression
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) jq: Option<String>,
    /// Workspace to use: an ID, or `personal`
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) workspace_id: Option<String>,
    /// Use a named profile
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Answer yes to every prompt
    #[arg(long, short = 'y', global = true)]
    pub(crate) yes: bool,
    /// Never prompt
    #[arg(long, global = true)]
    pub(crate) no_input: bool,
    /// Only print results and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Log HTTP requests
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    /// When to use colors
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    pub(crate) color: ColorMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorMode {
    Auto,
    Always,
    Never,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Sign in
    Login(LoginArgs),
    /// Sign out here and on the server
    Logout(LogoutArgs),
    /// Show the signed-in user, credential and workspace
    Whoami,
    /// Create, list, rotate and revoke CLI tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Choose a workspace and manage its members
    #[command(subcommand, visible_alias = "ws")]
    Workspace(WorkspaceCommand),
    /// Answer invitations that you received
    #[command(subcommand)]
    Invitation(InvitationCommand),
    /// Create, view, edit, delete and restore projects
    #[command(subcommand)]
    Project(ProjectCommand),
    /// Search, create, view, edit, delete and restore packs
    #[command(subcommand)]
    Pack(PackCommand),
    /// List and revoke your sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// Secure, export or delete your account
    #[command(subcommand)]
    Account(AccountCommand),
    /// List, rename and remove your passkeys
    #[command(subcommand)]
    Passkey(PasskeyCommand),
    /// List and remove apps connected to your account
    #[command(subcommand)]
    App(AppCommand),
    /// Connect AI assistants and other MCP clients
    #[command(subcommand)]
    Mcp(McpCommand),
    /// List audit events of your account or a workspace
    Audit(AuditArgs),
    /// Send an API request with your credentials
    Api(ApiArgs),
    /// Open a page of the service in your browser
    Open(OpenArgs),
    /// View and change settings of this command
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check your setup for problems
    Doctor(DoctorArgs),
    /// Print a shell completion script
    Completion {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Show help for a command, or for: options, environment, exit-codes, json
    Help {
        #[arg(value_name = "COMMAND|TOPIC")]
        topic: Vec<String>,
    },
}

#[derive(Args, Default)]
pub(crate) struct LoginArgs {
    /// Email address to sign in with
    #[arg(long)]
    pub(crate) email: Option<String>,
    /// How to sign in
    #[arg(long, default_value = "auto")]
    pub(crate) method: RequestedMethod,
    /// Don't open a browser
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Where to store your credentials
    #[arg(long)]
    pub(crate) store: Option<StoreKind>,
    /// Scope to request: read, write, or one resource such as projects:read (repeatable) [default: the scopes of your
    /// last sign-in, or read and write]
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// Replace the current session
    #[arg(long)]
    pub(crate) force: bool,
    /// Seconds to wait for the browser
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) timeout: u64,
}

#[derive(Args)]
pub(crate) struct LogoutArgs {
    /// Sign out of every profile and server
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token (shown once)
    Create(CreateTokenArgs),
    /// List your tokens
    #[command(visible_alias = "ls")]
    List {
        /// Only list tokens with this status
        #[arg(long, default_value = "active", value_parser = ["active", "expired", "revoked", "all"])]
        status: String,
    },
    /// Replace a token with a new one (shown once)
    Rotate(RotateTokenArgs),
    /// Revoke tokens
    Revoke {
        /// Tokens to revoke
        #[arg(required = true, value_name = "TOKEN-ID")]
        ids: Vec<String>,
    },
}

#[derive(Args)]
pub(crate) struct CreateTokenArgs {
    /// Create it for your personal space
    #[arg(long, conflicts_with = "workspace_id")]
    pub(crate) personal: bool,
    /// What the token is for, such as "Build server"
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Scope to grant: read, write, or one resource such as projects:read (repeatable) [default: read]
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// Days until it expires (max 366) [default: 90]
    #[arg(long, value_name = "DAYS")]
    pub(crate) expires_in: Option<i64>,
    /// How to print it
    #[arg(long, default_value = "raw")]
    pub(crate) format: TokenFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenFormat {
    /// Only the token
    Raw,
    /// `SERVICE_API_URL=…` and `SERVICE_TOKEN=…`, a line each
    Env,
}

#[derive(Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// List your workspaces
    #[command(visible_alias = "ls")]
    List,
    /// Create a workspace
    Create(CreateWorkspaceArgs),
    /// Set the workspace for later commands
    Use {
        /// Name or ID of a workspace, or `personal` [default: choose from a list]
        #[arg(value_name = "NAME|ID", conflicts_with = "personal")]
        workspace: Option<String>,
        /// Use your personal space
        #[arg(long)]
        personal: bool,
    },
    /// Show the current workspace and where it is set
    Show,
    /// List members
    Members,
    /// Invite a member by email (owners only)
    Invite {
        /// Email address to invite
        email: String,
        /// Role of the new member
        #[arg(long, default_value = "member")]
        role: RoleArg,
    },
    /// Remove a member (owners only)
    Remove {
        /// Member to remove
        #[arg(value_name = "USER-ID|EMAIL")]
        member: String,
    },
    /// Require a passkey from the members: others lose access until they require one (owners only)
    RequirePasskey {
        /// Stop requiring a passkey
        #[arg(long)]
        stop: bool,
    },
    /// Leave the workspace
    Leave,
    /// Manage connections to identity providers (owners only)
    #[command(subcommand)]
    Connection(ConnectionCommand),
    /// Manage the domains whose users sign in there (owners only)
    #[command(subcommand)]
    Domain(DomainCommand),
}

/// The role of a member, as an option names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Read, write and manage members
    Owner,
    /// Read and write
    Member,
    /// Read only
    Viewer,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Owner => Self::Owner,
            RoleArg::Member => Self::Member,
            RoleArg::Viewer => Self::Viewer,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum InvitationCommand {
    /// List pending invitations
    #[command(visible_alias = "ls")]
    List,
    /// Accept an invitation and join the workspace
    Accept {
        /// ID of the invitation
        #[arg(value_name = "INVITATION-ID")]
        id: String,
    },
    /// Decline an invitation (the workspace is not notified)
    Decline {
        /// ID of the invitation
        #[arg(value_name = "INVITATION-ID")]
        id: String,
    },
    /// Block the workspace of an invitation (the workspace is not notified)
    Block {
        /// ID of the invitation
        #[arg(value_name = "INVITATION-ID")]
        id: String,
    },
    /// List blocked workspaces
    Blocked,
    /// Allow invitations from a workspace again
    Unblock {
        /// ID of the workspace
        #[arg(value_name = "WORKSPACE-ID")]
        workspace: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum ProjectCommand {
    /// List projects
    #[command(visible_alias = "ls")]
    List,
    #[command(flatten)]
    Content(ProjectContentCommand),
    /// List deleted projects (in a workspace: owners only)
    Deleted,
    /// Restore projects deleted in the last 30 days (in a workspace: owners only)
    Restore {
        /// Projects to restore
        #[arg(required = true, value_name = "PROJECT-ID")]
        ids: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum PackCommand {
    #[command(flatten)]
    Content(PackContentCommand),
    /// Search packs
    Search {
        /// Words to search for
        query: String,
        /// Type of the packs
        #[arg(long = "type", default_value = "context", value_name = "TYPE")]
        pack_type: String,
    },
    /// List deleted packs (in a workspace: owners only)
    Deleted,
    /// Restore packs deleted in the last 30 days (in a workspace: owners only)
    Restore {
        /// Packs to restore
        #[arg(required = true, value_name = "PACK-ID")]
        ids: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum SessionCommand {
    /// List your active sessions
    #[command(visible_alias = "ls")]
    List,
    /// Revoke sessions
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Revoke {
        /// Sessions to revoke
        #[arg(group = "which", value_name = "SESSION-ID")]
        ids: Vec<String>,
        /// Revoke every session except the current one
        #[arg(long, group = "which")]
        others: bool,
        /// What to do with tokens and invitations created in these sessions
        #[arg(long, default_value = "recommended", value_name = "TREATMENT")]
        made: MadeTreatmentArg,
    },
}

/// What to do with the tokens and invitations that were created in a revoked session, as an option names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MadeTreatmentArg {
    /// Revoke MCP tokens, invitations, and CLI tokens unused for 7 days
    Recommended,
    /// Keep all of them
    Keep,
    /// Revoke all of them
    Revoke,
}

impl From<MadeTreatmentArg> for MadeTreatment {
    fn from(made: MadeTreatmentArg) -> Self {
        match made {
            MadeTreatmentArg::Recommended => Self::Recommended,
            MadeTreatmentArg::Keep => Self::Keep,
            MadeTreatmentArg::Revoke => Self::Revoke,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum AppCommand {
    /// List apps connected to your account
    #[command(visible_alias = "ls")]
    List,
    /// Remove apps' access to your account
    Remove {
        /// IDs from `service app list`
        #[arg(required = true, value_name = "CONSENT-ID")]
        ids: Vec<String>,
    },
}

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Check the MCP endpoint of a server as clients see it [default: /mcp on your server]
    #[arg(long, value_name = "URL")]
    #[expect(clippy::option_option, reason = "an option whose value is optional")]
    pub(crate) mcp: Option<Option<String>>,
}

#[derive(Args)]
pub(crate) struct ApiArgs {
    /// GET, POST, PATCH or DELETE
    pub(crate) method: String,
    /// Path, for example /v1/projects
    pub(crate) path: String,
    /// File with the JSON body (- for stdin)
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<String>,
    #[command(flatten)]
    pub(crate) fields: RequestFields,
}
