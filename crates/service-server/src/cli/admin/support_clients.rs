//! `serviced admin support-client`: tools of the operator that may call the support listener.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use service_api::ids::SupportClientId;

use super::{read_json, with_reason};
use crate::{
    app::App,
    cli::output::say,
    flows::{
        operator::Operator,
        support::{SupportError, clients},
    },
};

#[derive(Subcommand)]
pub(crate) enum SupportClientCommand {
    /// Create a client for a support tool, which authenticates with signed assertions
    Create {
        /// Name that operators see
        #[arg(long)]
        name: String,
        /// File with the public keys (JWKS) of the tool: P-256 or Ed25519
        #[arg(long, value_name = "FILE")]
        jwks_file: PathBuf,
    },
    /// List all clients of the support listener, also revoked ones
    List,
    /// Revoke a client: its next call is refused
    Revoke { id: String },
}

pub(super) async fn run(app: &App, operator: Operator, command: &SupportClientCommand) -> anyhow::Result<()> {
    match command {
        SupportClientCommand::Create { name, jwks_file } => create(app, operator, name, jwks_file).await,
        SupportClientCommand::List => list(app).await,
        SupportClientCommand::Revoke { id } => {
            let parsed: SupportClientId =
                id.parse().map_err(|_| anyhow::anyhow!("{id} is not the ID of a support client, supc_…"))?;
            clients::revoke(app, &with_reason(operator)?, parsed).await.map_err(|error| match error {
                SupportError::NotFound => anyhow::anyhow!("support client not found, or already revoked"),
                error => error.into(),
            })?;
            say(&format!("Revoked {id}. Its next call is refused."));
            Ok(())
        }
    }
}

async fn create(app: &App, operator: Operator, name: &str, jwks_file: &Path) -> anyhow::Result<()> {
    let jwks = read_json(jwks_file)?;
    let id = clients::create(app, &with_reason(operator)?, name, &jwks).await?;
    say(&format!("client_id: {id}"));
    Ok(())
}

async fn list(app: &App) -> anyhow::Result<()> {
    for client in clients::list(app).await? {
        let state = match client.revoked_at {
            Some(at) => format!("revoked {at:.0}"),
            None => "valid".to_owned(),
        };
        say(&format!("{}  {state}  since {:.0}  {}", client.id, client.created_at, client.name));
    }
    Ok(())
}
