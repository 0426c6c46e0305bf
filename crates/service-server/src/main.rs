//! `serviced`: runs the service, and does what an operator does to it.

mod admin;
mod scan;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use service_rules::signing::State;
use service_server::{
    app::App,
    clock::Clock,
    config::{Config, Sources, environment_name},
    flows::rotate_signing_keys::{self, NotRetired},
    migrations,
    serve::Server,
    telemetry,
};
use tokio::signal::unix::{SignalKind, signal};

/// The access and authentication service.
#[derive(Parser)]
#[command(name = "serviced", version)]
struct Arguments {
    /// The configuration file (TOML); the environment overrides what it says
    #[arg(long, global = true, env = "SERVICED_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service until it is told to stop (SIGTERM or Ctrl-C)
    Run,
    /// Bring the database's schema up to date
    Migrate,
    /// Show every setting and its source, and explain what is wrong
    CheckConfig,
    /// The keys that sign access tokens
    #[command(subcommand)]
    Keys(Keys),
    /// Look for our tokens in files, by prefix and checksum; `-` is standard input
    ScanSecrets {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Users, members, workspaces, clients and everybody
    #[command(subcommand)]
    Admin(admin::Admin),
}

#[derive(Subcommand)]
enum Keys {
    /// List all keys, youngest first
    List,
    /// Make a new key; it signs once it has been published for the configured lead
    Rotate,
    /// Refuse from now on everything that a key signed
    Retire {
        /// The key's id, as `keys list` shows it
        kid: String,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let sources = Sources::gather(arguments.config.as_deref(), std::env::vars_os());
    match execute(&arguments.command, &sources).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_error(&format!("serviced: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn execute(command: &Command, sources: &Sources) -> anyhow::Result<()> {
    if let Command::ScanSecrets { files } = command {
        // Needs no configuration: it runs where nothing of the service is.
        let found = scan::run(files)?;
        anyhow::ensure!(
            found == 0,
            "found {found} of our tokens; end each where it works, or report it at /v1/token-leaks"
        );
        return Ok(());
    }
    if let Command::CheckConfig = command {
        for (key, value, source) in sources.shown() {
            say(&format!("{key} = {value}  ({source})"));
        }
    }
    let config =
        Config::read(sources).map_err(|problems| anyhow::anyhow!("the configuration cannot be used:\n{problems}"))?;
    match command {
        Command::ScanSecrets { .. } => {}
        Command::CheckConfig => say("The configuration is complete."),
        Command::Run => run(config).await?,
        Command::Migrate => {
            let applied = migrations::migrate(&config.database).await?;
            for name in &applied {
                say(&format!("applied {name}"));
            }
            say("The schema is up to date.");
        }
        Command::Keys(command) => keys(command, &App::new(config, Clock::System)?).await?,
        Command::Admin(command) => admin::run(command, &App::new(config, Clock::System)?).await?,
    }
    Ok(())
}

async fn run(config: Config) -> anyhow::Result<()> {
    telemetry::start_log(&config.log)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let server = Server::start(config, Clock::System).await?;
    tracing::info!(address = %server.address, ops_address = %server.ops_address, "Ready");
    tokio::select! {
        _ = terminate.recv() => {}
        result = tokio::signal::ctrl_c() => result?,
    }
    tracing::info!("Stopping");
    server.stop().await;
    Ok(())
}

async fn keys(command: &Keys, app: &App) -> anyhow::Result<()> {
    migrations::check(&app.config.database).await?;
    match command {
        Keys::List => {
            for (key, state) in rotate_signing_keys::list(app).await? {
                let state = match state {
                    State::Pending => "pending",
                    State::Active => "active",
                    State::Retiring => "retiring",
                    State::Retired => "retired",
                };
                say(&format!("{}  {state:8}  signs from {:.0}", key.kid, key.schedule.active_at));
            }
        }
        Keys::Rotate => {
            let kid = rotate_signing_keys::rotate(app).await?;
            say(&format!("Made {kid}. It signs in {} seconds.", app.config.keys.publish_lead.as_secs()));
        }
        Keys::Retire { kid } => match rotate_signing_keys::retire(app, kid).await? {
            Ok(()) => say(&format!("Retired {kid}. Nodes refuse what it signed within a second.")),
            Err(NotRetired::Unknown) => {
                anyhow::bail!("there is no key {kid} that is not retired yet; see `serviced keys list`")
            }
            Err(NotRetired::StillNeeded) => {
                let lead = environment_name("keys.publish_lead_seconds");
                anyhow::bail!(
                    "{kid} is the only key that can sign: run `{lead}=1 serviced keys rotate` first, then retire it"
                )
            }
        },
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what an operator asked for")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "what an operator must know")]
fn say_error(text: &str) {
    eprintln!("{text}");
}
