//! `serviced mail`: tries the configured mail server.

use anyhow::Context as _;
use clap::Subcommand;
use lettre::{
    AsyncTransport as _, Message,
    message::{Mailbox, header::ContentType},
};

use crate::{cli::output::say, config::Config, tasks::mailer};

#[derive(Subcommand)]
pub(crate) enum MailCommand {
    /// Send a test mail and show what the mail server answers
    Test {
        /// Where to send it
        address: Mailbox,
    },
}

pub(crate) async fn run(command: &MailCommand, config: &Config) -> anyhow::Result<()> {
    let MailCommand::Test { address } = command;
    let mail = &config.mail;
    let message = Message::builder()
        .from(mail.from.parse().context("mail.from is not a mailbox")?)
        .to(address.clone())
        .subject(format!("Test mail of {}", config.brand.name))
        .header(ContentType::TEXT_PLAIN)
        .body(format!("An operator of {} sent this mail with `serviced mail test`.\n", config.base_url))?;
    let transport = mailer::transport(mail)?;
    let sent = tokio::time::timeout(mailer::SMTP_SEND_TIMEOUT, transport.send(message)).await;
    let server = format!("{}:{}", mail.host, mail.port);
    let response = sent
        .with_context(|| format!("{server} did not answer in time: check mail.host, mail.port and firewalls"))?
        .with_context(|| format!("{server} did not accept the mail"))?;
    let text: Vec<_> = response.message().collect();
    say(&format!("{server} accepted the mail: {} {}", response.code(), text.join(" ")));
    Ok(())
}
