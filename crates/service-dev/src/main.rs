//! `cargo xtask dev`: the whole service on this machine, with one command and no containers.
//!
//! PostgreSQL keeps its data between runs; the mailbox does not. On a terminal, the addresses are printed as a list of
//! links, and every code that is mailed. Otherwise one line of JSON on standard output contains the addresses, and the
//! log goes to standard error.

mod addresses;
mod announce;
mod demo;
mod directory;
mod instance;
mod settings;

use std::{
    io::{IsTerminal as _, stdout},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::Parser;
use service_server::{
    clock::Clock,
    database::migrations,
    server::Server,
    telemetry::{self, Log},
};
use service_testkit::{mailbox::Mailbox, postgres::Cluster, server};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    addresses::Addresses,
    announce::{Links, say_error},
    directory::Directory,
    instance::{AlreadyRunning, Instance},
};

/// What is logged on a terminal, where the links should stay in sight. The checks of the database warn operators of what is
/// intended here: one role for everything.
const TERMINAL_LOG_FILTER: &str = "warn,service_server::database::migrations=error";

/// Run PostgreSQL, a mailbox and the server, with a demo user and workspace
#[derive(Parser)]
#[command(name = "cargo xtask dev", version, args_override_self = true)]
pub(crate) struct Options {
    /// Port of the service; 0 for a free one, as for the other ports
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Port of the mailbox
    #[arg(long, default_value_t = 8025)]
    mailbox_port: u16,
    /// Port of health, readiness and metrics
    #[arg(long, default_value_t = 8081)]
    ops_port: u16,
    /// Port of PostgreSQL
    #[arg(long, default_value_t = 8432)]
    database_port: u16,
    /// Start with an empty database
    #[arg(long)]
    fresh: bool,
    /// Print one line of JSON instead of the list of links, as without a terminal
    #[arg(long)]
    json: bool,
    /// What to log, such as info or debug; by default warn on a terminal, and info otherwise
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Where to keep the data; by default target/dev
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let prefix = if error.is::<AlreadyRunning>() { "" } else { "cargo xtask dev: " };
            say_error(&format!("{prefix}{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let directory = Directory::open(options.directory.as_deref())?;
    let addresses = Addresses::choose(options)?;
    // Until the end, also of PostgreSQL.
    let _instance = Instance::start(&directory, &addresses.base_url(), options.fresh)?;
    addresses.check_free()?;
    if options.fresh {
        directory.clear()?;
    }
    say_error(if directory.has_data() { "Starting PostgreSQL …" } else { "Creating a PostgreSQL cluster …" });
    let cluster = Cluster::start_in(&directory.cluster(), addresses.database_port())?;
    let root_key = directory.root_key()?;
    let development = Development { options, addresses, directory, cluster, root_key };
    tokio::runtime::Runtime::new()?.block_on(development.serve())
}

/// Everything that the server needs on this machine.
struct Development<'a> {
    options: &'a Options,
    addresses: Addresses,
    directory: Directory,
    cluster: Cluster,
    root_key: String,
}

impl Development<'_> {
    async fn serve(&self) -> Result<()> {
        let mailbox = Mailbox::start_at(&self.addresses.mailbox()).await?;
        let (server, _log) = self.start_server(&mailbox).await?;
        // A signal that comes earlier ends the process at once. One that comes after the links have been printed stops it
        // in order.
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let links = Links {
            addresses: &self.addresses,
            password_file: self.directory.write_password_file(&self.cluster)?,
            command: announce::command_path()?,
        };
        if self.has_terminal() {
            links.show();
            tokio::spawn(async move { announce::show_mails(&mailbox).await });
        } else {
            links.print_json();
        }

        let told_to_stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            say_error("Stopping …");
            // A second Ctrl-C does not wait for requests. PostgreSQL stops by itself when this process is gone.
            tokio::spawn(async move {
                interrupt.recv().await;
                std::process::exit(130);
            });
        };
        Ok(server.run_until(told_to_stop).await?)
    }

    async fn start_server(&self, mailbox: &Mailbox) -> Result<(Server, Log)> {
        let database = self.cluster.ensure_database("serviced").await?;
        let mut settings = settings::development(&database, mailbox, &self.addresses)?;
        settings.set("secrets.root_keys", &format!("1:{}", self.root_key));
        let filter = if self.has_terminal() { TERMINAL_LOG_FILTER } else { "info" };
        settings.set("log.filter", self.options.log.as_deref().unwrap_or(filter));
        let config = server::config(&settings)?;

        let log = telemetry::start_log(&config.log)?;
        migrations::migrate(&config.database).await.context(
            "the database was made by another version: run `cargo xtask dev --fresh` to start with an empty one",
        )?;
        let mut server = Server::start(config, Clock::System).await?;
        for address in self.addresses.service().into_iter().skip(1) {
            server.listen_also_on(address)?;
        }
        demo::create(&server.app).await?;
        Ok((server, log))
    }

    /// Whether the links are for a person, and not for a program.
    fn has_terminal(&self) -> bool {
        !self.options.json && stdout().is_terminal()
    }
}
