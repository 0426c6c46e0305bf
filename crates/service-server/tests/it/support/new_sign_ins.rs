//! Mails about new sign-ins, and the links in them.

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    server::{SignedIn, TestServer},
    tab::{Shown, Tab},
};

pub(crate) const ANN: &str = "ann@acme.test";
pub(crate) const HOUR: i64 = 3_600;
const DEVICE_SUBJECT: &str = "New sign-in to your account";
const APP_SUBJECT: &str = "A new app has access to your account";

/// A mail about a new sign-in.
pub(crate) struct Report {
    pub(crate) text: String,
    /// The secret of its link.
    pub(crate) token: String,
}

impl Report {
    /// Opens the page behind the link.
    pub(crate) async fn open(&self, tab: &Tab) -> Result<Shown> {
        tab.get(&format!("/sign-in-report?token={}", self.token)).await
    }

    /// Sends the form of the page, in any browser.
    pub(crate) async fn send(&self, tab: &Tab) -> Result<Shown> {
        tab.submit("/sign-in-report", &[("token", &self.token)]).await
    }
}

/// Signs Ann in, an hour before anything else.
pub(crate) async fn settled(server: &TestServer) -> Result<SignedIn> {
    let session = server.sign_in(ANN, "read write").await?;
    server.advance(HOUR);
    Ok(session)
}

/// The next mail to Ann about a sign-in on a new device.
pub(crate) async fn next_report(server: &TestServer) -> Result<Report> {
    report(server, DEVICE_SUBJECT).await
}

/// The next mail to Ann about a new app.
pub(crate) async fn next_app_report(server: &TestServer) -> Result<Report> {
    report(server, APP_SUBJECT).await
}

async fn report(server: &TestServer, subject: &str) -> Result<Report> {
    let text = loop {
        let mail = server.mailbox.next_mail_to(ANN).await?;
        if mail.subject == subject {
            break mail.text;
        }
    };
    let (_, rest) = text.split_once("/sign-in-report?token=").with_context(|| format!("no link: {text}"))?;
    let token = rest.split_whitespace().next().unwrap_or_default().to_owned();
    ensure!(token.starts_with("svc_sir_"), "{text}");
    server.leaks.register("sign-in report", &token);
    Ok(Report { text, token })
}

/// The number of mails to Ann about new sign-ins that were sent so far, once nothing waits in the outbox.
pub(crate) async fn count_reports(server: &TestServer) -> Result<String> {
    Ok(server.sql("select count(*) from sign_in_reports").await?.unwrap_or_default())
}
