//! What the development server prints: its links for a person, one line of JSON for a program, and mailed codes.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use service_testkit::mailbox::{Mail, Mailbox};

use crate::{addresses::Addresses, demo::DEMO_USER};

/// Where everything is.
pub(crate) struct Links<'a> {
    pub(crate) addresses: &'a Addresses,
    /// The file with the password of the database, which `psql` reads.
    pub(crate) password_file: PathBuf,
    /// The command `service`.
    pub(crate) command: PathBuf,
}

impl Links<'_> {
    /// Prints the links for a person.
    pub(crate) fn show(&self) {
        let base_url = self.addresses.base_url();
        let mailbox = self.addresses.mailbox_url();
        let database =
            format!("{}?passfile={}", self.addresses.database_url(), shown_path(&self.password_file).display());
        let command = shown_path(&self.command);
        let command = command.display();
        say(&format!(
            "
Service is running at {base_url}

  Sign in     {base_url}/account
              as {DEMO_USER}; the code appears here and in the mailbox
  Mailbox     {mailbox}
  API docs    {base_url}/docs
  Database    psql '{database}'
  Command     export SERVICE_API_URL={base_url}
              {command} login --email {DEMO_USER} --method code

Press Ctrl-C to stop. The data is kept; `cargo xtask dev --fresh` starts with an empty database.
"
        ));
    }

    /// Prints one line of JSON for a program.
    pub(crate) fn print_json(&self) {
        say(&serde_json::json!({
            "baseUrl": self.addresses.base_url(),
            "opsUrl": self.addresses.ops_url(),
            "mailbox": self.addresses.mailbox_url(),
            "database": self.addresses.database_url(),
            "databasePasswordFile": self.password_file,
            "command": self.command,
            "demoUser": DEMO_USER,
        })
        .to_string());
        let mailbox = self.addresses.mailbox_url();
        say_error(&format!("Ready. Sign in as {DEMO_USER}; codes arrive at {mailbox}. Press Ctrl-C to stop."));
    }
}

/// Prints every mail that arrives: its code, or its subject. Runs until it is cancelled.
pub(crate) async fn show_mails(mailbox: &Mailbox) {
    let mut arrivals = mailbox.arrivals();
    let mut shown = 0;
    while arrivals.changed().await.is_ok() {
        let mails = mailbox.mails();
        // The mailbox may have been emptied.
        let new = mails.get(shown..).unwrap_or(&mails);
        for mail in new {
            say(&summary(mail));
        }
        shown = mails.len();
    }
}

fn summary(mail: &Mail) -> String {
    let to = mail.to.join(", ");
    let line = match mail.code() {
        Some(code) => {
            let (first, second) = code.split_at(code.len() / 2);
            format!("Code for {to}: {first} {second}")
        }
        None => format!("Mail to {to}: {}", mail.subject),
    };
    // Every account of the machine can send mails, and the terminal must not obey them.
    line.replace(char::is_control, " ")
}

/// Returns the path of the command `service`, which is built together with this program.
pub(crate) fn command_path() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    Ok(here.parent().context("this program has no directory")?.join("service"))
}

/// Returns a path as a person would type it: from the current directory if it is below it.
fn shown_path(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).to_owned()
}

#[expect(clippy::print_stdout, reason = "what was asked for")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "what happens meanwhile")]
pub(crate) fn say_error(text: &str) {
    eprintln!("{text}");
}
