//! The arguments of `service passkey`.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum PasskeyCommand {
    /// List your passkeys
    #[command(visible_alias = "ls")]
    List,
    /// Rename a passkey
    Rename {
        /// Passkey to rename
        #[arg(value_name = "PASSKEY-ID")]
        id: String,
        /// New name, up to 60 characters
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove passkeys
    Remove {
        /// Passkeys to remove
        #[arg(required = true, value_name = "PASSKEY-ID")]
        ids: Vec<String>,
    },
}
