//! `serviced keys`: lists, rotates and retires the keys that sign access tokens.

use clap::Subcommand;
use service_rules::signing::KeyState;

use crate::{
    app::App,
    cli::output,
    config::environment_name,
    database::migrations,
    flows::rotate_signing_keys::{self, RetireKeyError},
};

#[derive(Subcommand)]
pub(super) enum KeysCommand {
    /// List all keys, newest first
    List,
    /// Create a key, which signs after `keys.publish_lead_seconds`
    Rotate,
    /// Reject everything that a key signed, from now on
    Retire {
        /// Key ID, as shown by `keys list`
        kid: String,
    },
}

pub(super) async fn run(command: &KeysCommand, app: &App) -> anyhow::Result<()> {
    migrations::check(&app.config.database).await?;
    match command {
        KeysCommand::List => {
            for (key, state) in rotate_signing_keys::list(app).await? {
                let state = match state {
                    KeyState::Pending => "pending",
                    KeyState::Active => "active",
                    KeyState::Retiring => "retiring",
                    KeyState::Retired => "retired",
                };
                output::say(&format!("{}  {state:8}  signs from {:.0}", key.kid, key.schedule.active_at));
            }
        }
        KeysCommand::Rotate => {
            let kid = rotate_signing_keys::rotate(app).await?;
            output::say(&format!("Created {kid}. It signs in {} seconds.", app.config.keys.publish_lead.as_secs()));
        }
        KeysCommand::Retire { kid } => match rotate_signing_keys::retire(app, kid).await {
            Ok(()) => output::say(&format!("Retired {kid}. Nodes reject tokens that it signed within a second.")),
            Err(RetireKeyError::Unknown) => {
                anyhow::bail!("key {kid} not found, or already retired; see `serviced keys list`")
            }
            Err(RetireKeyError::StillNeeded) => {
                let lead = environment_name("keys.publish_lead_seconds");
                anyhow::bail!(
                    "{kid} is the only key that can sign: run `{lead}=1 serviced keys rotate` first, then retire it"
                )
            }
            Err(error) => return Err(error.into()),
        },
    }
    Ok(())
}
