//! The arguments of `service account`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum AccountCommand {
    /// Show your address, your name and since when you have the account
    Show,
    /// Change the name that members of your workspaces see
    Rename {
        /// The new name; an empty one removes it
        name: String,
    },
    /// Change your email address: both addresses confirm it, and it changes 24 hours later
    ChangeAddress {
        /// The new address
        #[arg(required_unless_present = "stop")]
        email: Option<String>,
        /// Stop the change that is requested
        #[arg(long, conflicts_with = "email")]
        stop: bool,
    },
    /// Require a passkey to sign in, so that codes no longer do; signs you out everywhere else
    RequirePasskey {
        /// Allow codes again
        #[arg(long)]
        stop: bool,
    },
    /// Revoke everything but this session, after someone else got into your account
    Secure {
        /// Keep these passkeys, and remove all others. Default: remove those added in the last 7 days
        #[arg(long = "keep-passkey", value_name = "PASSKEY-ID")]
        keep_passkeys: Vec<String>,
    },
    /// Close your account, which is erased after 14 days
    Delete,
    /// Download everything that the service stores about you, as a ZIP file
    Export {
        /// The file to create. Default: account-data-DATE.zip in this directory
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}
