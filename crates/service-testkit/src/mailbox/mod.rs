//! A mailbox for tests and development. It receives mail over real SMTP on a free loopback port, and provides it to
//! tests, as JSON and on a web page.
//!
//! Its tasks run as long as the runtime on which they were started.

mod mail;
mod smtp;
mod web;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

pub use self::mail::Mail;

/// A handle to a mailbox. Clones share the same mails.
#[derive(Clone)]
pub struct Mailbox {
    state: Arc<State>,
}

impl Mailbox {
    /// Starts a mailbox without TLS.
    pub async fn start() -> Result<Self> {
        Self::listen(None, vec![listen_locally().await?]).await
    }

    /// Starts a mailbox without TLS, whose web page is at these addresses.
    pub async fn start_at(web_addresses: &[SocketAddr]) -> Result<Self> {
        let mut web = Vec::new();
        for address in web_addresses {
            web.push(TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?);
        }
        Self::listen(None, web).await
    }

    /// Starts a mailbox that requires STARTTLS, with a certificate for `host_name`.
    pub async fn start_with_tls(host_name: &str) -> Result<Self> {
        Self::listen(Some(certified(host_name)?), vec![listen_locally().await?]).await
    }

    #[must_use]
    pub fn smtp_address(&self) -> SocketAddr {
        self.state.smtp_address
    }

    #[must_use]
    pub fn web_url(&self) -> String {
        format!("http://{}", self.state.web_address)
    }

    /// Returns the certificate authority of a mailbox with TLS, which the sender has to trust.
    #[must_use]
    pub fn ca_pem(&self) -> Option<&str> {
        self.state.ca_pem.as_deref()
    }

    /// Returns all mails in the order of their arrival.
    #[must_use]
    pub fn mails(&self) -> Vec<Mail> {
        self.entries().iter().map(|entry| entry.mail.clone()).collect()
    }

    /// Returns a receiver that is notified of every mail that arrives.
    #[must_use]
    pub fn arrivals(&self) -> watch::Receiver<()> {
        self.state.arrivals.subscribe()
    }

    /// Deletes all mails.
    pub fn clear(&self) {
        self.entries().clear();
    }

    /// Waits for the oldest mail to `address` that this function has not returned for it before.
    pub async fn next_mail_to(&self, address: &str) -> Result<Mail> {
        self.next(address, |_| true).await
    }

    /// Waits for the oldest mail to `address` that contains a code, and returns the code. Other mails are left.
    pub async fn next_code_to(&self, address: &str) -> Result<String> {
        self.next(address, |mail| mail.code().is_some()).await?.code().context("the mail holds no code")
    }

    async fn next(&self, address: &str, wanted: impl Fn(&Mail) -> bool) -> Result<Mail> {
        let mut arrivals = self.state.arrivals.subscribe();
        let arrived = async {
            loop {
                if let Some(mail) = self.take(address, &wanted) {
                    return Ok(mail);
                }
                arrivals.changed().await?;
            }
        };
        timeout(MAIL_TIMEOUT, arrived).await.unwrap_or_else(|_| {
            let mails = self.mails();
            // The last ones say enough about why the wanted one is missing.
            let last = mails.iter().rev().take(SHOWN_MAILS);
            let present: Vec<_> = last.map(|mail| format!("{:?} to {}", mail.subject, mail.to.join(", "))).collect();
            let seconds = MAIL_TIMEOUT.as_secs();
            Err(anyhow::anyhow!(
                "no new mail to {address} in {seconds} s; the mailbox has {}, the last of them [{}]",
                mails.len(),
                present.join("; ")
            ))
        })
    }

    /// Rejects every recipient with this reply, for example `451 try later`, until it is called with `None`.
    pub fn refuse(&self, reply: Option<&'static str>) {
        *self.state.refusal.lock().unwrap_or_else(PoisonError::into_inner) = reply;
    }

    /// While on, connections are accepted and commands are read, but get no reply.
    pub fn stall(&self, on: bool) {
        self.state.stalled.send_replace(on);
    }

    async fn listen(tls: Option<(TlsAcceptor, String)>, web: Vec<TcpListener>) -> Result<Self> {
        let smtp = listen_locally().await?;
        let (acceptor, ca_pem) = tls.unzip();
        let state = State {
            smtp_address: smtp.local_addr()?,
            web_address: web.first().context("the web page has no address")?.local_addr()?,
            ca_pem,
            entries: Mutex::default(),
            arrivals: watch::Sender::new(()),
            refusal: Mutex::default(),
            stalled: watch::Sender::new(false),
        };
        let mailbox = Self { state: Arc::new(state) };
        tokio::spawn(smtp::serve(smtp, mailbox.clone(), acceptor));
        let router = web::router(mailbox.clone());
        for listener in web {
            let router = router.clone();
            tokio::spawn(async move { axum::serve(listener, router).await });
        }
        Ok(mailbox)
    }

    fn receive(&self, mail: Mail) {
        self.entries().push(Entry { mail, taken_for: Vec::new() });
        self.state.arrivals.send_replace(());
    }

    fn take(&self, address: &str, wanted: impl Fn(&Mail) -> bool) -> Option<Mail> {
        let mut entries = self.entries();
        let taken_before = |entry: &Entry| entry.taken_for.iter().any(|taken| taken.eq_ignore_ascii_case(address));
        let fits = |entry: &Entry| entry.mail.is_to(address) && !taken_before(entry) && wanted(&entry.mail);
        let entry = entries.iter_mut().find(|entry| fits(entry))?;
        entry.taken_for.push(address.to_owned());
        Some(entry.mail.clone())
    }

    fn refusal(&self) -> Option<&'static str> {
        *self.state.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn until_not_stalled(&self) {
        // Fails only when the sender is dropped, and `self` holds it.
        drop(self.state.stalled.subscribe().wait_for(|stalled| !stalled).await);
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.state.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const MAIL_TIMEOUT: Duration = Duration::from_secs(30);
/// Mails that a failure lists.
const SHOWN_MAILS: usize = 20;

struct State {
    smtp_address: SocketAddr,
    web_address: SocketAddr,
    ca_pem: Option<String>,
    entries: Mutex<Vec<Entry>>,
    arrivals: watch::Sender<()>,
    refusal: Mutex<Option<&'static str>>,
    stalled: watch::Sender<bool>,
}

struct Entry {
    mail: Mail,
    /// The addresses for which [`Mailbox::next_mail_to`] has returned it.
    taken_for: Vec<String>,
}

async fn listen_locally() -> Result<TcpListener> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?)
}

/// Returns a server certificate for `host_name` and the temporary certificate authority that issued it.
fn certified(host_name: &str) -> Result<(TlsAcceptor, String)> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new([host_name.to_owned()])?.signed_by(&key, &authority)?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .with_context(|| format!("no certificate for {host_name}"))?;
    Ok((TlsAcceptor::from(Arc::new(config)), authority.pem()))
}
