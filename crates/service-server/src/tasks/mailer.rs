//! Outgoing mail: mails are sealed in the outbox, and a worker on every node sends them.
//!
//! A mail is claimed, sent and deleted. If a node dies in between, another node sends the mail. So a mail may arrive
//! twice, but is never lost. A failed mail is retried with growing intervals until it is too old.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures_util::future::join_all;
use lettre::{
    AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor,
    transport::smtp::{
        authentication::Credentials,
        client::{Certificate, CertificateStore, Tls, TlsParameters},
    },
};
use service_rules::signing::later;

use crate::{
    app::App,
    config::{self, MailConfig, MailServer, MailTls},
    database::restore_fence::Fence,
    mail::Email,
    store::{self, Batch},
    tasks::supervisor::Progress,
};

const MAILS_PER_CLAIM: i64 = 10;
/// How long other nodes do not claim a claimed mail. Sending must take less time.
const CLAIM_SECONDS: i64 = 30;
pub const SMTP_SEND_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_EVERY: Duration = Duration::from_secs(1);
/// How long a stopping node waits for mails that are being sent. Other nodes send the rest, as after a crash.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection pool to a mail server. Clones share it.
pub type Transport = AsyncSmtpTransport<Tokio1Executor>;

/// The mail servers. Attempts to send a mail take turns.
#[derive(Clone)]
pub struct Relays {
    first: Relay,
    second: Option<Relay>,
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
        Ok(Self { first: relay(&mail.first)?, second: mail.second.as_ref().map(relay).transpose()? })
    }

    /// The server for this attempt; the first attempt is number 1.
    fn at_attempt(&self, attempt: i16) -> &Relay {
        match &self.second {
            Some(second) if attempt % 2 == 0 => second,
            _ => &self.first,
        }
    }

    /// Whether the next attempt goes to the second server, and need not wait.
    const fn has_another(&self, attempt: i16) -> bool {
        self.second.is_some() && attempt % 2 == 1
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

async fn hand_over(app: &App, relays: &Relays, mail: &store::outbox::ClaimedMail) -> anyhow::Result<()> {
    let relay = relays.at_attempt(mail.attempts);
    let sent = send(app, &relay.transport, mail).await;
    let db = app.background_database.connect().await?;
    let Err(SendError { error, for_good }) = sent else {
        app.metrics.mails_sent.inc();
        return Ok(store::outbox::delete(&db, mail.id).await?);
    };
    let error = format!("{error:#}");
    tracing::warn!(mail.id = %mail.id, mail.attempts, for_good, server = relay.host, error, "Could not send a mail");
    app.metrics.mails_failed.inc();
    if relays.has_another(mail.attempts) {
        // The first server may refuse for good what the second one takes, as when its account is suspended.
        store::outbox::mark_next_attempt(&db, mail.id, app.clock.now()).await?;
    } else if for_good {
        store::outbox::delete(&db, mail.id).await?;
    } else {
        let wait = 1_i64 << mail.attempts.clamp(0, 6);
        store::outbox::mark_next_attempt(&db, mail.id, later(app.clock.now(), wait)).await?;
    }
    Ok(())
}

/// Why a mail was not sent, and whether a retry is useless.
struct SendError {
    error: anyhow::Error,
    for_good: bool,
}

impl From<anyhow::Error> for SendError {
    fn from(error: anyhow::Error) -> Self {
        Self { error, for_good: false }
    }
}

async fn send(app: &App, transport: &Transport, claimed: &store::outbox::ClaimedMail) -> Result<(), SendError> {
    let email = Email::open(&app.root_keys, claimed.id, &claimed.sealed)?;
    let message = email.message(claimed.id, &app.config, &app.locales)?;
    let sent = tokio::time::timeout(SMTP_SEND_TIMEOUT, transport.send(message))
        .await
        .context("the mail server did not respond in time")?;
    // The server's reply may quote the mail, so only its code is used.
    sent.map(drop).map_err(|error| SendError {
        for_good: error.is_permanent(),
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
