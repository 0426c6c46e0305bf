//! What can be typed: the commands, their flags, and their help.

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{credentials::Place, terminal::Wanted};

/// Work with Service from the command line
#[derive(Parser)]
#[command(name = "service", version, disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Args)]
#[command(next_help_heading = "Everywhere")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Everywhere {
    /// Print one JSON object, and errors as one too
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print what this filter of jq picks from the JSON object
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) jq: Option<String>,
    /// The workspace to work in: an id, or `personal`
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) workspace_id: Option<String>,
    /// Whose sign-in to use
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Answer yes to every question
    #[arg(long, short = 'y', global = true)]
    pub(crate) yes: bool,
    /// Never ask anything
    #[arg(long, global = true)]
    pub(crate) no_input: bool,
    /// Say only what was asked for, and what went wrong
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Tell of every request
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    pub(crate) color: Colour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Sign in
    Login(Login),
    /// Sign out, here and on the server
    Logout(Logout),
    /// Show who you are, with what, and where; the exit code says whether it works
    Whoami,
    /// Tokens for automation
    #[command(subcommand)]
    Token(Token),
    /// The workspace that commands work in
    #[command(subcommand, visible_alias = "ws")]
    Workspace(Workspace),
    /// Projects
    #[command(subcommand)]
    Project(Project),
    /// Packs
    #[command(subcommand)]
    Pack(Pack),
    /// Where you are signed in
    #[command(subcommand)]
    Session(Session),
    /// Send any request, with your sign-in
    Api(Api),
    /// Look for what could be wrong on this machine
    Doctor,
    /// Print a completion script for a shell
    Completion { shell: clap_complete::Shell },
    /// Print help on a command, or on: environment, exit-codes, json
    Help {
        #[arg(value_name = "COMMAND|TOPIC")]
        topic: Vec<String>,
    },
}

#[derive(Args)]
pub(crate) struct Login {
    /// The e-mail address to sign in with
    #[arg(long)]
    pub(crate) email: Option<String>,
    /// How to sign in
    #[arg(long, default_value = "auto")]
    pub(crate) method: Wanted,
    /// Open no browser here
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Where to keep the sign-in
    #[arg(long)]
    pub(crate) store: Option<Place>,
    /// Sign in again without asking
    #[arg(long)]
    pub(crate) force: bool,
    /// How long to wait for the browser
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) timeout: u64,
}

#[derive(Args)]
pub(crate) struct Logout {
    /// Every sign-in that is kept here, of every profile
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Subcommand)]
pub(crate) enum Token {
    /// Make a token; it is printed once
    Create(CreateToken),
    /// List your tokens; never their secrets
    #[command(visible_alias = "ls")]
    List {
        /// Which tokens
        #[arg(long, default_value = "active", value_parser = ["active", "expired", "revoked", "all"])]
        status: String,
    },
    /// End tokens
    Revoke {
        #[arg(required = true, value_name = "TOKEN-ID")]
        ids: Vec<String>,
    },
}

#[derive(Args)]
pub(crate) struct CreateToken {
    /// Bind it to your personal space
    #[arg(long, conflicts_with = "workspace_id")]
    pub(crate) personal: bool,
    /// What to call it
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// What it may do: read, write, or one resource as in projects:read; may be given several times [default: read]
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// After how many days it ends, 366 at most [default: 90]
    #[arg(long, value_name = "DAYS")]
    pub(crate) expires_in: Option<i64>,
    /// How to print it
    #[arg(long, default_value = "raw")]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The token alone
    Raw,
    /// `SERVICE_TOKEN=…`
    Env,
}

#[derive(Subcommand)]
pub(crate) enum Workspace {
    /// List the workspaces you are in
    #[command(visible_alias = "ls")]
    List,
    /// Choose the workspace that commands work in from now on
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Use {
        #[arg(group = "which")]
        id: Option<String>,
        /// Your personal space
        #[arg(long, group = "which")]
        personal: bool,
    },
    /// Show the workspace that commands work in, and why
    Show,
}

#[derive(Subcommand)]
pub(crate) enum Project {
    /// List projects
    #[command(visible_alias = "ls")]
    List,
}

#[derive(Subcommand)]
pub(crate) enum Pack {
    /// Find packs by their words
    Search {
        query: String,
        /// The type of packs
        #[arg(long = "type", default_value = "context", value_name = "TYPE")]
        pack_type: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum Session {
    /// List where you are signed in
    #[command(visible_alias = "ls")]
    List,
    /// End sessions
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Revoke {
        #[arg(group = "which", value_name = "SESSION-ID")]
        ids: Vec<String>,
        /// Every session but this one
        #[arg(long, group = "which")]
        others: bool,
    },
}

#[derive(Args)]
pub(crate) struct Api {
    /// GET, POST, PATCH or DELETE
    pub(crate) method: String,
    /// The path, for example /v1/projects
    pub(crate) path: String,
    /// A file with the JSON to send; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<String>,
}
