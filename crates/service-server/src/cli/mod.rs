//! The subcommands of `serviced`.

mod admin;
mod doctor;
mod healthcheck;
mod keys;
mod mail;
mod migrate;
mod output;
mod progress;
mod reload;
mod scan_secrets;
mod serve;

use std::{path::PathBuf, process::ExitCode, sync::LazyLock};

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::{
    app::App,
    clock::Clock,
    config::{Config, Sources},
    net::server_tls,
};

/// The version, and the commit that it was built from. A build is told the commit, so that it does not depend on Git.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    format!("{} (commit {})", env!("CARGO_PKG_VERSION"), option_env!("SERVICE_BUILD_COMMIT").unwrap_or("unknown"))
});

/// The access and authentication service.
#[derive(Parser)]
#[command(name = "serviced", version = VERSION.as_str())]
struct Arguments {
    /// The configuration file (TOML); environment variables override it
    #[arg(long, global = true, env = "SERVICED_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The operator's name for the audit log; by default the name of the system account
    #[arg(long, global = true, value_name = "NAME")]
    operator: Option<String>,
    /// Why an operator acts, for the audit log, such as "ticket 4711"
    #[arg(long, global = true, value_name = "TEXT")]
    reason: Option<String>,
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
    /// Ask the node on this machine whether it is ready; exits with 0 or 1
    Healthcheck,
    /// Check the configuration, the database, the clock, the mail server and the public URL
    Doctor,
    /// Try the mail server
    #[command(subcommand)]
    Mail(mail::MailCommand),
    /// List, rotate and retire the keys that sign access tokens
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Find tokens of this service in files, by prefix and checksum (- for stdin)
    ScanSecrets {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Administer users, workspaces, clients, the audit log and restores
    #[command(subcommand)]
    Admin(admin::AdminCommand),
}

/// Returns the definition of the command line, from which manual pages are generated.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Executes the command line of this process.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let sources = Sources::gather(arguments.config.as_deref(), std::env::vars_os());
    let ended = tokio::runtime::Runtime::new().map_err(anyhow::Error::from).and_then(|runtime| {
        let ended = runtime.block_on(execute(&arguments, &sources));
        // A name that is being resolved does not delay the exit.
        runtime.shutdown_background();
        ended
    });
    match ended {
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
        let found = scan_secrets::run(files)?;
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
        Command::CheckConfig => {
            config.support.map(|support| server_tls::read(&support.files)).transpose()?;
            output::say("The configuration is valid.");
        }
        Command::Run => Box::pin(serve::run(config, sources, arguments.config.as_deref())).await?,
        Command::Healthcheck => healthcheck::run(config.http.ops_listen).await?,
        Command::Doctor => doctor::run(config, sources.warnings()).await?,
        Command::Mail(command) => mail::run(command, &config).await?,
        Command::Migrate => migrate::run(&config.database).await?,
        Command::Keys(command) => keys::run(command, &App::new(config, Clock::System)?).await?,
        Command::Admin(command) => {
            let operator = admin::operator(arguments.operator.as_deref(), arguments.reason.as_deref())?;
            admin::run(command, &App::new(config, Clock::System)?, operator).await?;
        }
    }
    Ok(())
}
