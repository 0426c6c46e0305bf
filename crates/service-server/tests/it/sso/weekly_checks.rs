//! Verified domains are checked again every week.

use anyhow::{Result, ensure};
use service_server::flows::sso::domain_checks::check_due;
use service_testkit::{dns_server::DnsServer, mailbox::Mail, server::TestServer};

use crate::support::connections::{Company, count_events, route, txt, with_dns};

const WEEK: i64 = 7 * 86_400;

/// A company with a verified domain; the value of its record.
async fn verified(server: &TestServer, dns: &DnsServer) -> Result<(Company, String)> {
    let acme = Company::found(server, "ann@acme.test").await?;
    let connection = acme.connect(server).await?;
    let value = acme.claim_for(server, "acme.test", &connection).await?;
    dns.serve(&[txt("acme.test", &value)])?;
    ensure!(acme.verify(server, "acme.test").await?.field("status") == "verified");
    Ok((acme, value))
}

/// The next mail to Ann that is not about a sign-in of hers.
async fn next_mail(server: &TestServer) -> Result<Mail> {
    loop {
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        if mail.subject != "New sign-in to your account" {
            return Ok(mail);
        }
    }
}

#[test]
fn three_weekly_checks_without_the_record_lose_a_domain() -> Result<()> {
    with_dns(async |server, dns| {
        let (mut acme, value) = verified(server, dns).await?;
        dns.serve(&[txt("acme.test", "v=spf1 -all")])?;
        server.advance(WEEK - 1);
        check_due(&server.app).await?;
        acme.sign_in_again(server).await?;
        assert_eq!(acme.domain(server, "acme.test").await?["status"], "verified", "it is not due yet");
        for (failure, status) in [(1, "failing"), (2, "failing"), (3, "lost")] {
            server.advance(if failure == 1 { 1 } else { WEEK });
            check_due(&server.app).await?;
            // The same check again changes nothing: it is not due.
            check_due(&server.app).await?;
            acme.sign_in_again(server).await?;
            let domain = acme.domain(server, "acme.test").await?;
            assert_eq!(domain["status"], status, "{failure}");
            assert_eq!(route(server, "acme.test").await?.is_some(), status == "failing", "{failure}");
            ensure!(domain["lastError"].as_str().is_some_and(|error| error.contains("not found")), "{domain}");
        }
        let first = next_mail(server).await?;
        assert_eq!(first.subject, "Add the DNS record of your domain again");
        ensure!(first.text.contains(&value) && first.text.contains("acme.test"), "{}", first.text);
        let second = next_mail(server).await?;
        assert_eq!(
            second.subject, "Your domain is no longer verified",
            "there is a mail at the first failure and at the end"
        );
        assert_eq!(count_events(server, "domain.lost").await?, "1");
        // A lost domain is not checked any more. Its owner adds the record and asks for a check.
        dns.serve(&[txt("acme.test", &value)])?;
        server.advance(WEEK);
        check_due(&server.app).await?;
        acme.sign_in_again(server).await?;
        assert_eq!(acme.domain(server, "acme.test").await?["status"], "lost");
        assert_eq!(acme.verify(server, "acme.test").await?.field("status"), "verified");
        assert!(route(server, "acme.test").await?.is_some());
        Ok(())
    })
}

#[test]
fn a_record_that_comes_back_ends_the_failures() -> Result<()> {
    with_dns(async |server, dns| {
        let (mut acme, value) = verified(server, dns).await?;
        for round in 0..3 {
            // The domain does not exist at all, as after its registration expired.
            dns.serve(&[])?;
            for _ in 0..2 {
                server.advance(WEEK);
                check_due(&server.app).await?;
            }
            acme.sign_in_again(server).await?;
            assert_eq!(acme.domain(server, "acme.test").await?["status"], "failing", "{round}");
            dns.serve(&[txt("acme.test", &value)])?;
            server.advance(WEEK);
            check_due(&server.app).await?;
            acme.sign_in_again(server).await?;
            assert_eq!(acme.domain(server, "acme.test").await?["status"], "verified", "{round}");
        }
        assert_eq!(count_events(server, "domain.lost").await?, "0");
        Ok(())
    })
}

#[test]
fn checking_by_hand_never_loses_a_domain() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, _) = verified(server, dns).await?;
        dns.serve(&[])?;
        for _ in 0..5 {
            assert_eq!(acme.verify(server, "acme.test").await?.field("status"), "failing");
        }
        assert!(route(server, "acme.test").await?.is_some());
        Ok(())
    })
}

#[test]
fn dns_that_does_not_answer_is_no_failure_for_four_weeks() -> Result<()> {
    with_dns(async |server, dns| {
        let (mut acme, value) = verified(server, dns).await?;
        dns.refuse()?;
        server.advance(WEEK);
        for day in 7..28 {
            check_due(&server.app).await?;
            assert_eq!(failures(server).await?, "0", "{day}");
            server.advance(86_400);
        }
        assert!(route(server, "acme.test").await?.is_some());
        check_due(&server.app).await?;
        assert_eq!(failures(server).await?, "1");
        acme.sign_in_again(server).await?;
        let domain = acme.domain(server, "acme.test").await?;
        ensure!(domain["lastError"].as_str().is_some_and(|error| error.contains("did not answer")), "{domain}");
        dns.serve(&[txt("acme.test", &value)])?;
        server.advance(WEEK);
        check_due(&server.app).await?;
        assert_eq!(failures(server).await?, "0");
        Ok(())
    })
}

async fn failures(server: &TestServer) -> Result<String> {
    Ok(server.sql("select failures from workspace_domains").await?.unwrap_or_default())
}

#[test]
fn a_failing_domain_that_was_removed_is_not_checked() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, _) = verified(server, dns).await?;
        assert_eq!(acme.send(server, "DELETE", "domains/acme.test", None).await?.status, 204);
        dns.serve(&[])?;
        server.advance(4 * WEEK);
        check_due(&server.app).await?;
        assert!(server.mailbox.mails().iter().all(|mail| !mail.subject.contains("domain")));
        assert_eq!(count_events(server, "domain.lost").await?, "0");
        Ok(())
    })
}
