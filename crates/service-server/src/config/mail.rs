//! The settings of mail: the sender, the mail server, and a second one for when the first does not take mail.

use std::path::PathBuf;

use zeroize::Zeroizing;

use super::{
    is_local,
    sources::Reader,
    values::{bounce_address, host, mail_tls, mailbox, yes_or_no},
};

/// How mail is sent.
#[derive(Clone)]
pub struct MailConfig {
    pub from: String,
    pub first: MailServer,
    /// Gets mail that the first server does not take.
    pub second: Option<MailServer>,
    /// The address that return paths are made of, so that mail systems report there what they could not deliver.
    pub bounce_to: Option<lettre::Address>,
    /// Whether the subject of a mail with a sign-in code has the code.
    pub code_in_subject: bool,
}

/// A mail server.
#[derive(Clone)]
pub struct MailServer {
    pub host: String,
    pub port: u16,
    pub tls: MailTls,
    pub ca_file: Option<PathBuf>,
    pub user: Option<String>,
    pub password: Option<Zeroizing<String>>,
}

/// How the connection to the mail server is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// The connection starts in clear and must switch to TLS before anything is sent (STARTTLS).
    StartTls,
    /// TLS from the first byte.
    Implicit,
    /// No TLS: for a mail server on the same machine.
    None,
}

/// The names of the settings of a mail server.
struct ServerKeys {
    host: &'static str,
    port: &'static str,
    tls: &'static str,
    ca_file: &'static str,
    user: &'static str,
    password: &'static str,
}

const FIRST: ServerKeys = ServerKeys {
    host: "mail.host",
    port: "mail.port",
    tls: "mail.tls",
    ca_file: "mail.ca_file",
    user: "mail.user",
    password: "mail.password",
};

const SECOND: ServerKeys = ServerKeys {
    host: "mail.second_host",
    port: "mail.second_port",
    tls: "mail.second_tls",
    ca_file: "mail.second_ca_file",
    user: "mail.second_user",
    password: "mail.second_password",
};

impl MailConfig {
    /// Returns the same servers, with the passwords of another configuration.
    #[must_use]
    pub fn with_passwords_of(&self, other: &Self) -> Self {
        let mut changed = self.clone();
        changed.first.password.clone_from(&other.first.password);
        if let (Some(second), Some(other)) = (&mut changed.second, &other.second) {
            second.password.clone_from(&other.password);
        }
        changed
    }

    /// The servers, each with the name of the setting of its host.
    pub fn servers(&self) -> impl Iterator<Item = (&'static str, &MailServer)> {
        [(FIRST.host, Some(&self.first)), (SECOND.host, self.second.as_ref())]
            .into_iter()
            .filter_map(|(key, server)| Some((key, server?)))
    }
}

const BOUNCE_TO: &str =
    "an address such as bounces@mail.service.example, with at most 19 characters and no + before the @";

pub(super) fn mail(from: &mut Reader<'_>) -> MailConfig {
    let second = from.optional(SECOND.host).is_some();
    MailConfig {
        from: from.checked("mail.from", "a mailbox such as Service <no-reply@service.example>", mailbox),
        first: server(from, &FIRST),
        second: second.then(|| server(from, &SECOND)),
        bounce_to: from.optional_checked("mail.bounce_to", BOUNCE_TO, bounce_address),
        code_in_subject: from.checked("mail.code_in_subject", "yes or no", yes_or_no),
    }
}

fn server(from: &mut Reader<'_>, keys: &ServerKeys) -> MailServer {
    from.require_together(keys.user, keys.password);
    let server = MailServer {
        host: from.checked(keys.host, "a host name", host),
        port: from.checked(keys.port, "a port", |text| text.parse().ok().filter(|port| *port > 0)),
        tls: from.checked(keys.tls, "starttls, implicit or none", mail_tls),
        ca_file: from.certificates(keys.ca_file),
        user: from.optional(keys.user).map(str::to_owned),
        password: from.optional(keys.password).map(|text| Zeroizing::new(text.to_owned())),
    };
    if server.tls == MailTls::None && !is_local(&server.host) {
        let problem =
            format!("{} is none, but {} is another machine: codes would travel in clear", keys.tls, keys.host);
        from.report(&problem);
    }
    server
}
