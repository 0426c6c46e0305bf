//! Outgoing mail: letters wait in the outbox, sealed, and a worker on every node hands them over.
//!
//! A mail is claimed, sent and deleted; a node that dies in between leaves it to the others, so a mail may come twice
//! and is never lost. What cannot be sent is tried again, ever more slowly, until it is no longer worth sending.

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
use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    config,
    letters::Letter,
    store::{self, Batch},
};

const AT_ONCE: i64 = 10;
/// Other nodes leave a claimed mail alone for so long; a send that takes longer has failed.
const CLAIM_SECONDS: i64 = 30;
const SEND_LIMIT: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A stopping node gives the mails under way so long; after that they are left to the others, as after a crash.
const STOP_LIMIT: Duration = Duration::from_secs(2);

type Transport = AsyncSmtpTransport<Tokio1Executor>;

/// Sends what waits, whenever this node puts something into the outbox and once a second for what others left.
pub async fn run(app: App, transport: Transport, stop: CancellationToken) {
    let stopped = async {
        stop.cancelled().await;
        tokio::time::sleep(STOP_LIMIT).await;
    };
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            () = &mut stopped => return,
            sent = send_waiting(&app, &transport) => if let Err(error) = sent {
                tracing::warn!(error = format!("{error:#}"), "Could not look for mail");
            },
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = app.mail_waiting.notified() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

async fn send_waiting(app: &App, transport: &Transport) -> anyhow::Result<()> {
    while !app.stop.is_cancelled() {
        let now = app.clock.now();
        let batch = Batch { now, size: AT_ONCE };
        let claimed = store::outbox::claim(&app.database.connect().await?, batch, later(now, CLAIM_SECONDS)).await?;
        if claimed.is_empty() {
            break;
        }
        // All at once, so that none waits behind a slow one until its claim has run out.
        let sending = claimed.iter().map(|mail| hand_over(app, transport, mail));
        for handed_over in join_all(sending).await {
            handed_over?;
        }
    }
    Ok(())
}

async fn hand_over(app: &App, transport: &Transport, mail: &store::outbox::Claimed) -> anyhow::Result<()> {
    let sent = send(app, transport, mail).await;
    let db = app.database.connect().await?;
    let Err(NotSent { error, for_good }) = sent else {
        app.metrics.mails_sent.inc();
        return Ok(store::outbox::delete(&db, mail.id).await?);
    };
    tracing::warn!(mail.id = %mail.id, mail.attempts, for_good, error = format!("{error:#}"), "Could not send a mail");
    app.metrics.mails_failed.inc();
    if for_good {
        store::outbox::delete(&db, mail.id).await?;
    } else {
        let wait = 1_i64 << mail.attempts.clamp(0, 6);
        store::outbox::mark_next_attempt(&db, mail.id, later(app.clock.now(), wait)).await?;
    }
    Ok(())
}

/// Why a mail was not handed over, and whether trying again is of no use.
struct NotSent {
    error: anyhow::Error,
    for_good: bool,
}

impl From<anyhow::Error> for NotSent {
    fn from(error: anyhow::Error) -> Self {
        Self { error, for_good: false }
    }
}

async fn send(app: &App, transport: &Transport, mail: &store::outbox::Claimed) -> Result<(), NotSent> {
    let letter = Letter::open(&app.vault, mail.id, &mail.sealed)?;
    let message = letter.message(mail.id, &app.config.mail.from, &app.config.base_url)?;
    let sent =
        tokio::time::timeout(SEND_LIMIT, transport.send(message)).await.context("the mail server did not answer")?;
    // The server's own words may quote what it was sent: only its code is kept.
    sent.map(drop).map_err(|error| NotSent {
        for_good: error.is_permanent(),
        error: match error.status() {
            Some(code) => anyhow!("the mail server answered {code}"),
            None if error.is_tls() => anyhow!("the mail server's certificate is not accepted"),
            None => anyhow!("the mail server cannot be reached"),
        },
    })
}

/// A connection pool to the configured mail server.
pub fn transport(mail: &config::Mail) -> anyhow::Result<Transport> {
    let mut parameters = TlsParameters::builder(mail.host.clone());
    if let Some(path) = &mail.ca_file {
        parameters = parameters.certificate_store(CertificateStore::None);
        for der in config::certificates(path)? {
            parameters = parameters.add_root_certificate(Certificate::from_der(der.to_vec())?);
        }
    }
    let tls = match mail.tls {
        config::MailTls::StartTls => Tls::Required(parameters.build()?),
        config::MailTls::Implicit => Tls::Wrapper(parameters.build()?),
        config::MailTls::None => Tls::None,
    };
    let mut builder =
        Transport::builder_dangerous(&mail.host).port(mail.port).tls(tls).timeout(Some(Duration::from_secs(10)));
    if let (Some(user), Some(password)) = (&mail.user, &mail.password) {
        builder = builder.credentials(Credentials::new(user.clone(), password.to_string()));
    }
    Ok(builder.build())
}
