//! `service`: the service from the command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use service_api::token::AccessToken;
use service_client::Client;

/// Work with Service from the command line.
#[derive(Parser)]
#[command(name = "service", version)]
struct Arguments {
    /// The address of the service
    #[arg(long, global = true, env = "SERVICE_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show whom the token in `SERVICE_TOKEN` speaks for
    Whoami,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Whoami => whoami(&arguments.url).await,
    };
    match result {
        Ok(text) => {
            print_line(&text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_error(&format!("service: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn whoami(url: &str) -> anyhow::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "the token comes from the environment, never from an argument")]
    let token = std::env::var("SERVICE_TOKEN").ok().filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| anyhow::anyhow!("SERVICE_TOKEN is not set; put an access token there"))?;
    let whoami = Client::new(url)?.whoami(&AccessToken::new(token)).await?;
    Ok(format!("{} ({}) with SERVICE_TOKEN, scopes {}", whoami.user.email, whoami.user.id, whoami.credential.scopes))
}

#[expect(clippy::print_stdout, reason = "the only place that prints results")]
fn print_line(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "the only place that prints errors")]
fn print_error(text: &str) {
    eprintln!("{text}");
}
