//! Mail that bounces: which reports count, for how long no mail is sent, and what ends that.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use reqwest::Method;
use serde_json::{Value, json};
use service_api::ids::Id as _;
use service_server::tasks::measurements;
use service_testkit::{
    mailbox::Mail,
    response::TestResponse,
    server::{Setup, TestServer},
};
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::support::{
    admin::run,
    cli_tokens,
    mail::until,
    otp::{ROOMY, ask, count},
};

const ANN: &str = "ann@acme.test";
const HOUR: i64 = 3_600;
/// The report that Postfix writes if the mailbox of Ann does not exist.
const REPORT: &str = include_str!("bounce.eml");

/// A service whose bounces come back, and that sends as many codes as a test wants.
fn setup() -> Setup {
    Setup::default()
        .set("mail.bounce_to", "bounces@mail.service.example")
        .set("limits.otp_sends_per_context", "1000/60")
        .set("limits.otp_sends_per_address_and_network", ROOMY)
        .set("limits.otp_sends_per_address", ROOMY)
}

/// Requests a code, and returns its mail.
async fn mail(server: &TestServer) -> Result<Mail> {
    ensure!(ask(server, ANN).await?.status == 201, "no code is requested");
    let mail = server.mailbox.next_mail_to(ANN).await?;
    server.leaks.register("otp code", &mail.code().context("the mail holds no code")?);
    until(server, "select count(*) = 0 from outbox").await?;
    Ok(mail)
}

/// Requests a code whose mail is put off for longer than the code is valid.
async fn no_mail(server: &TestServer) -> Result<()> {
    let (sent, suppressed) = (server.mailbox.mails().len(), server.app.metrics.mails_suppressed.get());
    ensure!(ask(server, ANN).await?.status == 201, "no code is requested");
    until(server, "select bool_and(next_attempt_at > drop_at) from outbox").await?;
    server.sql("delete from outbox").await?;
    ensure!(server.mailbox.mails().len() == sent, "a mail was sent");
    ensure!(server.app.metrics.mails_suppressed.get() == suppressed + 1, "the mail is not counted");
    Ok(())
}

/// Passes a report to the service, as the operator's mail system does.
async fn pass(server: &TestServer, recipient: &str, report: impl Into<String>) -> Result<TestResponse> {
    let request = server.ops.request(Method::POST, &format!("/mail/bounces/{recipient}"));
    server.ops.send(request.header("content-type", "message/rfc822").body(report.into())).await
}

/// Reports that a mail bounced; fails if that does not suppress the address.
async fn bounce(server: &TestServer, mail: &Mail) -> Result<()> {
    let response = pass(server, &mail.from, REPORT).await?;
    ensure!(response.status == 200 && response.text.starts_with("no mail is sent"), "{}", response.text);
    Ok(())
}

#[test]
fn an_address_that_bounces_gets_no_mail_for_longer_each_time() -> Result<()> {
    setup().run(async |server| {
        for hours in [1, 12, 72, 72] {
            let bounced = mail(server).await?;
            ensure!(bounced.from.starts_with("bounces+") && bounced.from.ends_with("@mail.service.example"));
            ensure!(bounced.raw.contains("From: Service <"), "the sender that users see has changed");
            bounce(server, &bounced).await?;
            no_mail(server).await?;
            // Return paths have whole seconds. A code lives for ten minutes.
            server.advance(hours * HOUR - 660);
            no_mail(server).await?;
            server.advance(660);
        }
        Ok(())
    })
}

#[test]
fn sign_in_does_not_tell_that_an_address_bounces() -> Result<()> {
    setup().run(async |server| {
        let bounced = mail(server).await?;
        bounce(server, &bounced).await?;
        let (suppressed, other) = (ask(server, ANN).await?, ask(server, "bob@acme.test").await?);
        let shape = |response: &TestResponse| {
            let fields = response.body.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>());
            let mut headers: Vec<_> = response.headers.keys().map(ToString::to_string).collect();
            headers.sort();
            (response.status, fields, headers)
        };
        assert_eq!(shape(&suppressed), shape(&other));
        let code = server.mailbox.next_code_to("bob@acme.test").await?;
        server.leaks.register("otp code", &code);
        Ok(())
    })
}

#[test]
fn only_a_report_that_the_address_of_the_mail_is_wrong_counts() -> Result<()> {
    setup().run(async |server| {
        let bounced = mail(server).await?;
        for (from, to) in [
            ("Status: 5.1.1", "Status: 5.2.2"),
            ("Status: 5.1.1", "Status: 5.7.1"),
            ("Status: 5.1.1", "Status: 5.1.8"),
            ("Status: 5.1.1", "Status: 4.1.1"),
            ("Action: failed", "Action: delayed"),
            ("ann@acme.test", "bob@acme.test"),
            ("Final-Recipient: rfc822; ann@acme.test", "Final-Recipient: rfc822; ann@archive.test"),
            ("multipart/report", "text/plain"),
        ] {
            let response = pass(server, &bounced.from, REPORT.replace(from, to)).await?;
            ensure!(response.status == 200 && response.text.starts_with("ignored: it does not"), "{}", response.text);
        }
        for recipient in
            ["bounces@mail.service.example", "bounces+aaaa@mail.service.example", &other_token(&bounced.from)]
        {
            let response = pass(server, recipient, REPORT).await?;
            ensure!(response.status == 400, "{recipient}: {}", response.text);
        }
        ensure!(pass(server, &bounced.from, "x".repeat(256 * 1_024 + 1)).await?.status == 413);
        server.advance(72 * HOUR);
        let response = pass(server, &bounced.from, REPORT).await?;
        ensure!(response.text.starts_with("ignored: the mail was sent more than"), "{}", response.text);
        ensure!(count(server, "suppressed_addresses").await? == 0);
        mail(server).await.map(drop)
    })
}

/// Changes one character of the token of a return path.
fn other_token(path: &str) -> String {
    let (token, domain) = path.split_once('@').unwrap_or_default();
    let last = if token.ends_with('a') { 'b' } else { 'a' };
    format!("{}{last}@{domain}", &token[..token.len() - 1])
}

#[test]
fn a_report_that_comes_many_times_counts_once() -> Result<()> {
    setup().run(async |server| {
        let ann = server.sign_in(ANN, "read").await?;
        let earlier = server.mailbox.mails().pop().context("there is no mail")?;
        server.advance(2);
        let bounced = mail(server).await?;
        let reports = try_join_all((0..16).map(|_| pass(server, &bounced.from, REPORT))).await?;
        let counted = reports.iter().filter(|response| response.text.starts_with("no mail is sent")).count();
        assert_eq!(counted, 1, "{:?}", reports.iter().map(|response| &response.text).collect::<Vec<_>>());
        let again = pass(server, &earlier.from, REPORT).await?;
        ensure!(again.text.starts_with("ignored: the address was suppressed"), "{}", again.text);
        let events = format!("audit_events where event = 'mail.bounced' and user_id = '{}'", ann.user_id.uuid());
        assert_eq!(count(server, &events).await?, 1);
        assert_eq!(server.sql("select max(bounces) from suppressed_addresses").await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn a_code_that_is_entered_proves_that_mail_arrives() -> Result<()> {
    setup().run(async |server| {
        let (otp_id, code) = server.request_code(ANN).await?;
        let mistaken = server.mailbox.mails().pop().context("there is no mail")?;
        bounce(server, &mistaken).await?;
        server.advance(2);
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200);
        let late = pass(server, &mistaken.from, REPORT).await?;
        ensure!(late.text.starts_with("ignored: the address was suppressed"), "{}", late.text);
        server.advance(60);
        let bounced = mail(server).await?;
        bounce(server, &bounced).await?;
        assert_eq!(server.sql("select bounces from suppressed_addresses").await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn a_bounce_of_a_mail_before_the_last_code_comes_too_late() -> Result<()> {
    setup().run(async |server| {
        server.sign_in(ANN, "read").await?;
        let used = server.mailbox.mails().pop().context("there is no mail")?;
        server.advance(2);
        let forged = pass(server, &used.from, REPORT).await?;
        ensure!(forged.text.starts_with("ignored: the address was suppressed"), "{}", forged.text);
        ensure!(count(server, "suppressed_addresses where bounces > 0").await? == 0);
        mail(server).await.map(drop)
    })
}

#[test]
fn a_bounce_beside_the_code_that_disproves_it_never_wins() -> Result<()> {
    setup().run(async |server| {
        for _ in 0..10 {
            let (otp_id, code) = server.request_code(ANN).await?;
            let mistaken = server.mailbox.mails().pop().context("there is no mail")?;
            server.advance(2);
            let (_, signed_in) =
                tokio::try_join!(pass(server, &mistaken.from, REPORT), server.exchange(&otp_id, &code, "read"))?;
            assert_eq!(signed_in.status, 200);
            ensure!(count(server, "suppressed_addresses where bounces > 0").await? == 0);
            server.advance(60);
        }
        Ok(())
    })
}

#[test]
fn a_warning_is_put_off_and_not_lost_and_the_status_is_all_that_is_recorded() -> Result<()> {
    setup().run(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        server.advance(60);
        let bounced = mail(server).await?;
        let wordy = REPORT.replace("Status: 5.1.1", "Status: 5.1.1 (ann@acme.test is unknown)");
        ensure!(pass(server, &bounced.from, wordy).await?.text.starts_with("no mail is sent"));
        let details = "select details ->> 'status' from audit_events where event = 'mail.bounced'";
        assert_eq!(server.sql(details).await?.as_deref(), Some("5.1.1"));
        let token = cli_tokens::make(server, &ann, &json!({ "name": "Build server", "scope": "read" })).await?.1;
        server.leaks.register("CLI token", &token);
        until(
            server,
            "select bool_and(next_attempt_at < drop_at and next_attempt_at > created) from
            (select *, '2027-01-15 08:10Z'::timestamptz as created from outbox) o",
        )
        .await?;
        measurements::measure(&server.app).await?;
        assert_eq!(server.app.metrics.mails_waiting.get(), 0, "it would raise an alarm");
        server.advance(HOUR);
        server.app.mail_waiting.notify_one();
        let warning = server.mailbox.next_mail_to(ANN).await?;
        ensure!(warning.text.contains("Build server"), "{}", warning.text);
        Ok(())
    })
}

/// Runs the program that Postfix calls, as it does; returns its exit code.
async fn call_program(node: &str, recipient: &str) -> Result<Option<i32>> {
    let mut program = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/mail/serviced-bounce"));
    let mut child = program.args([node, recipient]).stdin(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut input = child.stdin.take().context("the program has no input")?;
    // It may end before it has read all.
    drop(input.write_all(REPORT.as_bytes()).await);
    drop(input);
    Ok(child.wait().await?.code())
}

#[test]
fn the_program_for_postfix_passes_bounces_and_nothing_that_a_stranger_invents() -> Result<()> {
    setup().on_system_clock().run(async |server| {
        let bounced = mail(server).await?;
        let node = server.ops.url.as_str();
        for recipient in
            ["bounces+[1-500]@mail.service.example", "\"bounces+{a,b}\"@mail.service.example", "a b@acme.test"]
        {
            assert_eq!(call_program(node, recipient).await?, Some(0), "{recipient}");
        }
        let refused = "service_mail_bounces_total{outcome=\"refused\"} 0";
        ensure!(server.app.metrics.render_prometheus().contains(refused), "a node got what a stranger invented");
        assert_eq!(call_program(node, "bounces+abc@mail.service.example").await?, Some(0), "it is not kept");
        assert_eq!(call_program(&format!("{node}/elsewhere"), &bounced.from).await?, Some(75), "it stays in the queue");
        assert_eq!(call_program(node, &bounced.from).await?, Some(0));
        assert_eq!(count(server, "suppressed_addresses").await?, 1);
        Ok(())
    })
}

#[test]
fn operators_see_that_an_address_bounces_and_can_send_to_it_again() -> Result<()> {
    setup().on_system_clock().run(async |server| {
        let bounced = mail(server).await?;
        bounce(server, &bounced).await?;
        let arguments = |command| ["limit", command, ANN, "--operator", "olga", "--reason", "ticket 4711", "--json"];
        let limits: Value = serde_json::from_str(&run(server, &arguments("show"))?)?;
        ensure!(limits[0]["limit"] == "mail-bounced" && limits[0]["used"] == 1.0, "{limits}");
        let seconds = limits[0]["retryAfter"].as_i64().context("no time")?;
        ensure!((HOUR - 60..=HOUR).contains(&seconds), "{seconds}");
        run(server, &arguments("reset"))?;
        let limits: Value = serde_json::from_str(&run(server, &arguments("show"))?)?;
        ensure!(!limits.to_string().contains("mail-bounced"), "{limits}");
        mail(server).await.map(drop)
    })
}

#[test]
fn without_the_setting_bounces_go_to_the_sender() -> Result<()> {
    Setup::default().run(async |server| {
        let sent = mail(server).await?;
        ensure!(!sent.from.contains('+'), "{}", sent.from);
        ensure!(pass(server, "bounces@mail.service.example", REPORT).await?.status == 404);
        Ok(())
    })
}
