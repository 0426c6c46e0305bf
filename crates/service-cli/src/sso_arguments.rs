//! The arguments of `service workspace connection` and `service workspace domain`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use service_api::connections::{AuthMethod, DefaultRole, ExistingCredentials};

#[derive(Subcommand)]
pub(crate) enum ConnectionCommand {
    /// List connections
    #[command(visible_alias = "ls")]
    List,
    /// Create a connection (not enabled yet)
    Create(CreateConnectionArgs),
    /// Show a connection
    Show {
        #[arg(value_name = "CONNECTION-ID")]
        id: String,
    },
    /// Change, enable or require a connection
    Update(UpdateConnectionArgs),
    /// Delete a connection: its users sign in by email code again
    Delete {
        #[arg(value_name = "CONNECTION-ID")]
        id: String,
    },
}

#[derive(Args)]
pub(crate) struct CreateConnectionArgs {
    /// Name that users see: "Sign in with <name>"
    #[arg(long)]
    pub(crate) name: String,
    /// Issuer, exactly as the provider spells it
    #[arg(long, value_name = "URL")]
    pub(crate) issuer: String,
    #[command(flatten)]
    pub(crate) fields: ConnectionFields,
}

#[derive(Args)]
#[command(group = ArgGroup::new("enabling").args(["enable", "disable"]))]
#[command(group = ArgGroup::new("requiring").args(["require", "optional"]))]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct UpdateConnectionArgs {
    #[arg(value_name = "CONNECTION-ID")]
    pub(crate) id: String,
    /// Name that users see
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) fields: ConnectionFields,
    /// Read the provider's keys from its discovery document again
    #[arg(long, conflicts_with = "jwks")]
    pub(crate) no_jwks: bool,
    /// Send users of its domains to the provider. You have to try the connection first
    #[arg(long)]
    pub(crate) enable: bool,
    /// Send no user to the provider
    #[arg(long)]
    pub(crate) disable: bool,
    /// Let users of its domains sign in only at the provider
    #[arg(long, requires = "existing")]
    pub(crate) require: bool,
    /// Let users of its domains also sign in by email code
    #[arg(long)]
    pub(crate) optional: bool,
    /// What to do with the sessions and tokens that users have, with --require
    #[arg(long, value_name = "WHAT", requires = "require")]
    pub(crate) existing: Option<ExistingArg>,
}

#[derive(Args)]
pub(crate) struct ConnectionFields {
    /// Client ID that the provider shows
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Read the client secret from standard input
    #[arg(long)]
    pub(crate) client_secret_stdin: bool,
    /// How to authenticate at the provider
    #[arg(long, value_name = "METHOD")]
    pub(crate) auth_method: Option<AuthMethodArg>,
    /// File with the provider's public keys (JWKS), instead of its discovery document
    #[arg(long, value_name = "FILE")]
    pub(crate) jwks: Option<PathBuf>,
    /// Role of new users
    #[arg(long, value_name = "ROLE")]
    pub(crate) default_role: Option<DefaultRoleArg>,
    /// Hours after which users sign in at the provider again (max 720)
    #[arg(long, value_name = "HOURS")]
    pub(crate) session_hours: Option<u16>,
    /// Days after which tokens of a user who did not sign in at the provider stop working (max 366)
    #[arg(long, value_name = "DAYS")]
    pub(crate) token_days: Option<u16>,
    /// Owner who can still sign in by email code (repeatable; replaces the list)
    #[arg(long = "break-glass", value_name = "USER-ID|EMAIL")]
    pub(crate) break_glass: Vec<String>,
}

/// How the service authenticates at a provider, as an option names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum AuthMethodArg {
    /// Client secret in a header
    ClientSecretBasic,
    /// Client secret in the body
    ClientSecretPost,
    /// Signed by the service, without a secret
    PrivateKeyJwt,
}

impl From<AuthMethodArg> for AuthMethod {
    fn from(method: AuthMethodArg) -> Self {
        match method {
            AuthMethodArg::ClientSecretBasic => Self::ClientSecretBasic,
            AuthMethodArg::ClientSecretPost => Self::ClientSecretPost,
            AuthMethodArg::PrivateKeyJwt => Self::PrivateKeyJwt,
        }
    }
}

/// The role of new users, as an option names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DefaultRoleArg {
    /// Read and write
    Member,
    /// Read only
    Viewer,
}

impl From<DefaultRoleArg> for DefaultRole {
    fn from(role: DefaultRoleArg) -> Self {
        match role {
            DefaultRoleArg::Member => Self::Member,
            DefaultRoleArg::Viewer => Self::Viewer,
        }
    }
}

/// What to do with existing sessions and tokens, as an option names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExistingArg {
    /// Revoke what did not begin at the provider
    Revoke,
    /// Keep them until they expire
    Keep,
}

impl From<ExistingArg> for ExistingCredentials {
    fn from(existing: ExistingArg) -> Self {
        match existing {
            ExistingArg::Revoke => Self::Revoke,
            ExistingArg::Keep => Self::Keep,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum DomainCommand {
    /// List domains
    #[command(visible_alias = "ls")]
    List,
    /// Add a domain, and show the DNS record that proves it
    Add {
        /// Domain of your email addresses, such as acme.example
        domain: String,
        /// Connection that users of the domain sign in with
        #[arg(long, value_name = "CONNECTION-ID")]
        connection: Option<String>,
    },
    /// Look for the DNS record of a domain now
    Verify { domain: String },
    /// Choose the connection that users of a domain sign in with
    #[command(group = ArgGroup::new("which").required(true))]
    Update {
        domain: String,
        #[arg(long, group = "which", value_name = "CONNECTION-ID")]
        connection: Option<String>,
        /// Let users of the domain sign in by email code
        #[arg(long, group = "which")]
        no_connection: bool,
    },
    /// Remove a domain: its users sign in by email code again
    Remove { domain: String },
}
