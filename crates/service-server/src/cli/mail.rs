//! `serviced mail`: tries the configured mail servers.

use anyhow::Context as _;
use clap::Subcommand;
use lettre::{
    AsyncTransport as _, Message,
    message::{Mailbox, header::ContentType},
};

use crate::{cli::output::say, config::Config, tasks::mailer};

#[derive(Subcommand)]
pub(crate) enum MailCommand {
    /// Send a test mail through each mail server, and show what it answers
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
    let mut failed = 0;
    for (setting, server) in mail.servers() {
        let name = format!("{}:{}", server.host, server.port);
        let transport = mailer::transport(server)?;
        match tokio::time::timeout(mailer::SMTP_SEND_TIMEOUT, transport.send(message.clone())).await {
            Ok(Ok(response)) => {
                let text: Vec<_> = response.message().collect();
                say(&format!("{name} accepted the mail: {} {}", response.code(), text.join(" ")));
                continue;
            }
            Ok(Err(error)) => say(&format!("{name} did not accept the mail: {:#}", anyhow::Error::from(error))),
            Err(_) => say(&format!("{name} did not answer in time: check {setting}, its port and firewalls")),
        }
        failed += 1;
    }
    anyhow::ensure!(failed == 0, "{failed} of the mail servers did not take the mail");
    Ok(())
}
