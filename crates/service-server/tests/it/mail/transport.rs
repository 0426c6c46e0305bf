//! How mail travels: encrypted, to a server that proves its name, or not at all; and never in the way of a stop.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use service_testkit::{
    mailbox::Mailbox,
    server::{Setup, TestServer},
};
use tempfile::NamedTempFile;
use tokio::runtime::{Builder, Runtime};

use crate::support::{
    mail::until,
    otp::{ask, count},
};

/// A mail server with TLS, which must be there before the service is; so it runs on a thread of its own.
struct TlsMailServer {
    mailbox: Mailbox,
    ca_file: NamedTempFile,
    _runtime: Runtime,
}

impl TlsMailServer {
    fn start(certified_for: &str) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let mailbox = runtime.block_on(Mailbox::start_with_tls(certified_for))?;
        let mut ca_file = NamedTempFile::new()?;
        ca_file.write_all(mailbox.ca_pem().context("it has no authority")?.as_bytes())?;
        Ok(Self { mailbox, ca_file, _runtime: runtime })
    }

    /// A service that sends its mail here, and knows the server by `host`.
    fn setup(&self, host: &str) -> Setup {
        let port = self.mailbox.smtp_address().port().to_string();
        Setup::default().set("mail.host", host).set("mail.port", &port).set("mail.tls", "starttls")
    }

    fn ca_file(&self) -> Result<&str> {
        self.ca_file.path().to_str().context("the path is not text")
    }
}

/// Asks for a code and sees its mail stay in the outbox.
async fn assert_kept(server: &TestServer, mailbox: &Mailbox) -> Result<()> {
    assert_eq!(ask(server, "ann@acme.test").await?.status, 201);
    until(server, "select attempts = 1 and next_attempt_at < drop_at - interval '597 s' from outbox").await?;
    server.advance(2);
    server.app.mail_waiting.notify_one();
    until(server, "select attempts = 2 from outbox").await?;
    assert!(mailbox.mails().is_empty(), "the mail was sent");
    Ok(())
}

#[test]
fn mail_goes_to_a_server_that_proves_its_name_ml_04() -> Result<()> {
    let there = TlsMailServer::start("localhost")?;
    there.setup("localhost").set("mail.ca_file", there.ca_file()?).run(async |server| {
        ask(server, "ann@acme.test").await?;
        let code = there.mailbox.next_mail_to("ann@acme.test").await?.code().context("the mail holds no code")?;
        server.leaks.register("otp code", &code);
        until(server, "select count(*) = 0 from outbox").await
    })
}

#[test]
fn mail_does_not_go_to_a_server_with_another_name_ml_04() -> Result<()> {
    for (certified_for, host) in [("other.test", "localhost"), ("localhost", "127.0.0.1")] {
        let there = TlsMailServer::start(certified_for)?;
        let setup = there.setup(host).set("mail.ca_file", there.ca_file()?);
        setup.run(async |server| assert_kept(server, &there.mailbox).await)?;
    }
    Ok(())
}

#[test]
fn mail_is_not_sent_to_a_server_with_an_untrusted_certificate_ml_04() -> Result<()> {
    let (there, stranger) = (TlsMailServer::start("localhost")?, TlsMailServer::start("localhost")?);
    let by_the_web = there.setup("localhost");
    by_the_web.run(async |server| assert_kept(server, &there.mailbox).await)?;
    let by_another = there.setup("localhost").set("mail.ca_file", stranger.ca_file()?);
    by_another.run(async |server| assert_kept(server, &there.mailbox).await)
}

#[test]
fn mail_is_not_sent_in_clear_to_a_server_without_tls_ml_04() -> Result<()> {
    for tls in ["starttls", "implicit"] {
        Setup::default().set("mail.tls", tls).run(async |server| assert_kept(server, &server.mailbox).await)?;
    }
    Ok(())
}

#[test]
fn a_node_stops_although_its_mail_server_stalls() -> Result<()> {
    let mut ended = None;
    Setup::default().run(async |server| {
        server.mailbox.stall(true);
        for email in ["ann@acme.test", "bob@acme.test"] {
            assert_eq!(ask(server, email).await?.status, 201);
        }
        until(server, "select max(attempts) = 1 from outbox").await?;
        assert_eq!(count(server, "outbox").await?, 2);
        ended = Some(Instant::now());
        Ok(())
    })?;
    assert!(ended.is_some_and(|ended| ended.elapsed() < Duration::from_secs(8)), "stopping waits for the mail server");
    Ok(())
}

/// A second mail server, which must be there before the service is; so it runs on a thread of its own.
fn second_server() -> Result<(Mailbox, Runtime, Setup)> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mailbox = runtime.block_on(Mailbox::start())?;
    let (host, port) = (mailbox.smtp_address().ip().to_string(), mailbox.smtp_address().port().to_string());
    let setup = Setup::default().on_system_clock();
    let setup = setup.set("mail.second_host", &host).set("mail.second_port", &port).set("mail.second_tls", "none");
    Ok((mailbox, runtime, setup))
}

#[test]
fn a_code_arrives_by_the_second_server_if_the_first_refuses() -> Result<()> {
    let (second, _runtime, setup) = second_server()?;
    setup.run(async |server| {
        // A server refuses for good when it no longer knows the account that sends.
        for reply in ["451 4.3.0 later", "550 5.7.1 not for you"] {
            server.mailbox.refuse(Some(reply));
            let began = Instant::now();
            assert_eq!(ask(server, "ann@acme.test").await?.status, 201);
            let code = second.next_mail_to("ann@acme.test").await?.code().context("the mail holds no code")?;
            server.leaks.register("otp code", &code);
            assert!(began.elapsed() < Duration::from_secs(5), "{reply}: {:?}", began.elapsed());
            until(server, "select count(*) = 0 from outbox").await?;
        }
        assert!(server.mailbox.mails().is_empty(), "the first server took a mail");

        server.mailbox.refuse(None);
        assert_eq!(ask(server, "ann@acme.test").await?.status, 201);
        let code = server.mailbox.next_mail_to("ann@acme.test").await?.code().context("the mail holds no code")?;
        server.leaks.register("otp code", &code);
        assert_eq!(second.mails().len(), 2, "the second server got a mail that the first one took");
        Ok(())
    })
}

#[test]
fn mail_is_given_up_only_if_both_servers_refuse_it_for_good() -> Result<()> {
    let (second, _runtime, setup) = second_server()?;
    setup.run(async |server| {
        // The password for the second server is wrong, and the first one is busy: the mail is kept.
        server.mailbox.refuse(Some("451 4.3.0 later"));
        second.refuse(Some("550 5.7.1 not for you"));
        assert_eq!(ask(server, "ann@acme.test").await?.status, 201);
        until(server, "select attempts > 1 from outbox").await?;
        server.mailbox.refuse(Some("550 5.1.1 no such user"));
        until(server, "select count(*) = 0 from outbox").await?;
        assert!(server.mailbox.mails().is_empty() && second.mails().is_empty());
        Ok(())
    })
}

#[test]
fn a_first_server_that_stalls_delays_one_code_and_not_the_next() -> Result<()> {
    let (second, _runtime, setup) = second_server()?;
    setup.run(async |server| {
        server.mailbox.stall(true);
        for (address, within) in [("ann@acme.test", 40), ("bob@acme.test", 5)] {
            let mut arrivals = second.arrivals();
            assert_eq!(ask(server, address).await?.status, 201);
            let arrived = tokio::time::timeout(Duration::from_secs(within), arrivals.changed()).await;
            arrived.with_context(|| format!("no mail to {address} in {within} s"))??;
            let code = second.next_mail_to(address).await?.code().context("the mail holds no code")?;
            server.leaks.register("otp code", &code);
        }
        Ok(())
    })
}
