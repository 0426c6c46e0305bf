//! `serviced`: runs the service, and administers it.

mod cli;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use service_rules::signing::KeyState;
use service_server::{
    app::App,
    clock::Clock,
    config::{Config, Sources, environment_name},
    database::migrations,
    flows::rotate_signing_keys::{self, RetireKeyError},
    server::Server,
    telemetry,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::output;

/// The access and authentication service.
#[derive(Parser)]
#[command(name = "serviced", version)]
struct Arguments {
    /// The configuration file (TOML); environment variables override it
    #[arg(long, global = true, env = "SERVICED_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The operator's name for the audit log; by default the name of the system account
    #[arg(long, global = true, value_name = "NAME")]
    operator: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service until SIGTERM or Ctrl-C
    Run,
    /// Migrate the database schema
    Migrate,
    /// Show every setting and its source, and report problems
    CheckConfig,
    /// List, rotate and retire the keys that sign access tokens
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Find tokens of this service in files, by prefix and checksum (- for stdin)
    ScanSecrets {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Administer users, workspaces, clients, the audit log and restores
    #[command(subcommand)]
    Admin(cli::admin::AdminCommand),
}

#[derive(Subcommand)]
enum KeysCommand {
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

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let sources = Sources::gather(arguments.config.as_deref(), std::env::vars_os());
    match execute(&arguments, &sources).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::say_error(&format!("serviced: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn execute(arguments: &Arguments, sources: &Sources) -> anyhow::Result<()> {
    let command = &arguments.command;
    if let Command::ScanSecrets { files } = command {
        // This needs no configuration: it runs on machines without the service.
        let found = cli::scan_secrets::run(files)?;
        anyhow::ensure!(
            found == 0,
            "found {found} tokens of this service: revoke each of them, or report them at /v1/token-leaks"
        );
        return Ok(());
    }
    if let Command::CheckConfig = command {
        for (key, value, source) in sources.shown() {
            output::say(&format!("{key} = {value}  ({source})"));
        }
        for warning in sources.warnings() {
            output::say(&format!("Warning: {warning}"));
        }
    }
    let config =
        Config::read(sources).map_err(|problems| anyhow::anyhow!("the configuration is invalid:\n{problems}"))?;
    match command {
        Command::ScanSecrets { .. } => {}
        Command::CheckConfig => output::say("The configuration is valid."),
        Command::Run => run(config, sources.warnings()).await?,
        Command::Migrate => {
            let applied = migrations::migrate(&config.database).await?;
            for name in &applied {
                output::say(&format!("applied {name}"));
            }
            output::say("The schema is up to date.");
        }
        Command::Keys(command) => keys(command, &App::new(config, Clock::System)?).await?,
        Command::Admin(command) => {
            cli::admin::run(command, &App::new(config, Clock::System)?, arguments.operator.as_deref()).await?;
        }
    }
    Ok(())
}

async fn run(config: Config, warnings: &[String]) -> anyhow::Result<()> {
    telemetry::start_log(&config.log)?;
    for warning in warnings {
        tracing::warn!(warning, "The configuration has a problem");
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let server = Server::start(config, Clock::System).await?;
    tracing::info!(address = %server.address, ops_address = %server.ops_address, "Ready");
    let mut interrupt = signal(SignalKind::interrupt())?;
    let told_to_stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(server.run_until(told_to_stop).await?)
}

async fn keys(command: &KeysCommand, app: &App) -> anyhow::Result<()> {
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
