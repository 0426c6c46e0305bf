//! Outgoing mail: mails are sealed in the outbox, and a worker on every node sends them.
//!
//! A mail is claimed, sent and deleted. If a node dies in between, another node sends the mail. So a mail may arrive
//! twice, but is never lost. A failed mail is retried with growing intervals until it is too old.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::anyhow;
use futures_util::future::join_all;
use lettre::{
    AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor,
    transport::smtp::{
        authentication::Credentials,
        client::{Certificate, CertificateStore, Tls, TlsParameters},
    },
};
use service_rules::{Timestamp, signing::later};

use crate::{
    app::App,
    config::{self, MailConfig, MailServer, MailTls},
    database::restore_fence::Fence,
    flows::bounces,
    mail::{
        Email,
        return_path::{self, ReturnPath},
    },
    store::{self, Batch, outbox::ClaimedMail},
    tasks::supervisor::Progress,
};

const MAILS_PER_CLAIM: i64 = 10;
/// How long other nodes do not claim a claimed mail. Sending by both servers must take less time.
const CLAIM_SECONDS: i64 = 45;
pub const SMTP_SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a server that did not respond is asked after the other one.
const AVOIDED: Duration = Duration::from_secs(60);
const POLL_EVERY: Duration = Duration::from_secs(1);
/// How long a stopping node waits for mails that are being sent. Other nodes send the rest, as after a crash.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection pool to a mail server. Clones share it.
pub type Transport = AsyncSmtpTransport<Tokio1Executor>;

/// The mail servers. Clones share what is known of the first one.
#[derive(Clone)]
pub struct Relays {
    first: Relay,
    second: Option<Relay>,
    /// When the first server last did not respond.
    first_was_away: Arc<Mutex<Option<Instant>>>,
}

/// A mail server, and the connection pool to it.
#[derive(Clone)]
struct Relay {
    host: String,
    transport: Transport,
}

impl Relays {
    pub fn new(mail: &MailConfig) -> anyhow::Result<Self> {
        let relay =
            |server: &MailServer| anyhow::Ok(Relay { host: server.host.clone(), transport: transport(server)? });
        let second = mail.second.as_ref().map(relay).transpose()?;
        Ok(Self { first: relay(&mail.first)?, second, first_was_away: Arc::default() })
    }

    /// Sends a mail by the first server, or by the second if the first does not take it. For a while after the first did not
    /// respond, the second is asked before it, so that not every mail waits for a server that is away.
    async fn send(&self, app: &App, mail: &ClaimedMail) -> Result<(), SendError> {
        let Some(second) = &self.second else { return self.first.send(app, mail).await };
        if self.is_first_away() {
            let Err(error) = second.send(app, mail).await else { return Ok(()) };
            return self.send_by_first(app, mail).await.map_err(|other| error.and(other));
        }
        let Err(error) = self.send_by_first(app, mail).await else { return Ok(()) };
        second.send(app, mail).await.map_err(|other| error.and(other))
    }

    async fn send_by_first(&self, app: &App, mail: &ClaimedMail) -> Result<(), SendError> {
        let sent = self.first.send(app, mail).await;
        let is_away = sent.as_ref().is_err_and(|error| error.is_away);
        *self.first_was_away.lock().unwrap_or_else(PoisonError::into_inner) = is_away.then(Instant::now);
        sent
    }

    fn is_first_away(&self) -> bool {
        let since = *self.first_was_away.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() < AVOIDED)
    }
}

/// Sends waiting mails: at once when this node queues one, and every second for mails of other nodes.
pub async fn run(app: App, progress: Progress) {
    let stopped = async {
        app.stop.cancelled().await;
        tokio::time::sleep(STOP_TIMEOUT).await;
    };
    tokio::pin!(stopped);
    loop {
        let relays = app.mail_relays();
        tokio::select! {
            () = &mut stopped => return,
            sent = send_waiting(&app, &relays) => match sent {
                Ok(()) => progress.succeeded(),
                Err(error) => tracing::warn!(error = format!("{error:#}"), "Could not read the outbox"),
            },
        }
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = app.mail_waiting.notified() => {}
            () = tokio::time::sleep(POLL_EVERY) => {}
        }
    }
}

async fn send_waiting(app: &App, relays: &Relays) -> anyhow::Result<()> {
    // Mails in a restored backup were sent long ago.
    while !app.stop.is_cancelled() && app.fence() == Fence::Open {
        let now = app.clock.now();
        let batch = Batch { now, size: MAILS_PER_CLAIM };
        let claimed =
            store::outbox::claim(&app.background_database.connect().await?, batch, later(now, CLAIM_SECONDS)).await?;
        if claimed.is_empty() {
            break;
        }
        // All are sent at once, so that none waits for a slow one until its claim expires.
        let sending = claimed.iter().map(|mail| hand_over(app, relays, mail));
        for handed_over in join_all(sending).await {
            handed_over?;
        }
    }
    Ok(())
}

async fn hand_over(app: &App, relays: &Relays, mail: &ClaimedMail) -> anyhow::Result<()> {
    if let Some(until) = suppressed_until(app, mail).await? {
        app.metrics.mails_suppressed.inc();
        tracing::info!(mail.id = %mail.id, "A mail is put off, because mail to its address bounced");
        let db = app.background_database.connect().await?;
        return Ok(store::outbox::mark_next_attempt(&db, mail, until).await?);
    }
    let sent = relays.send(app, mail).await;
    let db = app.background_database.connect().await?;
    match sent {
        Ok(()) => {
            app.metrics.mails_sent.inc();
            store::outbox::delete(&db, mail.id).await?;
        }
        Err(error) if error.for_good => store::outbox::delete(&db, mail.id).await?,
        Err(_) => {
            let wait = 1_i64 << mail.attempts.clamp(0, 6);
            store::outbox::mark_next_attempt(&db, mail, later(app.clock.now(), wait)).await?;
        }
    }
    Ok(())
}

/// Until when the mail is not sent, because mail to its address bounced; `None`: it is sent.
async fn suppressed_until(app: &App, mail: &ClaimedMail) -> anyhow::Result<Option<Timestamp>> {
    if app.config.mail.bounce_to.is_none() {
        return Ok(None);
    }
    // A mail that cannot be opened is not sent either, and that is said where it is to be sent.
    let Ok(email) = Email::open(&app.root_keys, mail.id, &mail.sealed) else { return Ok(None) };
    let db = app.background_database.connect().await?;
    Ok(bounces::suppressed_until(app, &db, email.to()).await?)
}

/// Why a mail was not sent.
struct SendError {
    error: anyhow::Error,
    /// Whether a retry is useless.
    for_good: bool,
    /// Whether the server did not respond.
    is_away: bool,
}

impl SendError {
    /// What is true after both servers failed. An account that one server no longer knows looks like a refusal for good, so a
    /// mail is given up only if both refuse it.
    fn and(self, other: Self) -> Self {
        Self { for_good: self.for_good && other.for_good, ..other }
    }
}

impl From<anyhow::Error> for SendError {
    fn from(error: anyhow::Error) -> Self {
        Self { error, for_good: false, is_away: false }
    }
}

impl Relay {
    /// Sends a mail, and says in the log if that fails.
    async fn send(&self, app: &App, mail: &ClaimedMail) -> Result<(), SendError> {
        let sent = send(app, &self.transport, mail).await;
        if let Err(SendError { error, for_good, .. }) = &sent {
            let error = format!("{error:#}");
            tracing::warn!(mail.id = %mail.id, mail.attempts, for_good, server = self.host, error, "Could not send a mail");
            app.metrics.mails_failed.inc();
        }
        sent
    }
}

async fn send(app: &App, transport: &Transport, claimed: &ClaimedMail) -> Result<(), SendError> {
    let email = Email::open(&app.root_keys, claimed.id, &claimed.sealed)?;
    let return_path = app.config.mail.bounce_to.as_ref().map(|bounce_to| {
        let name = return_path::name_of(&app.root_keys, email.to());
        ReturnPath { name, sent_at: app.clock.now() }.write(&app.root_keys, bounce_to)
    });
    let message = email.message(claimed.id, &app.config, &app.locales, return_path.transpose()?)?;
    let sent = tokio::time::timeout(SMTP_SEND_TIMEOUT, transport.send(message)).await;
    let sent = sent.map_err(|_| SendError {
        error: anyhow!("the mail server did not respond in time"),
        for_good: false,
        is_away: true,
    })?;
    // The server's reply may quote the mail, so only its code is used.
    sent.map(drop).map_err(|error| SendError {
        for_good: error.is_permanent(),
        is_away: error.status().is_none(),
        error: match error.status() {
            Some(code) => anyhow!("the mail server replied {code}"),
            None if error.is_tls() => anyhow!("the mail server's certificate is not accepted"),
            None => anyhow!("the mail server cannot be reached"),
        },
    })
}

/// Returns a connection pool to a mail server.
pub fn transport(mail: &MailServer) -> anyhow::Result<Transport> {
    let mut parameters = TlsParameters::builder(mail.host.clone());
    if let Some(path) = &mail.ca_file {
        parameters = parameters.certificate_store(CertificateStore::None);
        for der in config::certificates(path)? {
            parameters = parameters.add_root_certificate(Certificate::from_der(der.to_vec())?);
        }
    }
    let tls = match mail.tls {
        MailTls::StartTls => Tls::Required(parameters.build()?),
        MailTls::Implicit => Tls::Wrapper(parameters.build()?),
        MailTls::None => Tls::None,
    };
    let mut builder =
        Transport::builder_dangerous(&mail.host).port(mail.port).tls(tls).timeout(Some(Duration::from_secs(10)));
    if let (Some(user), Some(password)) = (&mail.user, &mail.password) {
        builder = builder.credentials(Credentials::new(user.clone(), password.to_string()));
    }
    Ok(builder.build())
}
