//! The mail that carries a code: what it says, to whom, and how it waits when it cannot be sent.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::json;
use service_api::oauth::SERVICE_WEB;
use service_server::tasks::housekeeping;
use service_testkit::{
    mailbox::Mail,
    server::{Setup, TestServer, with_server},
};

use crate::support::mail::until;
use crate::support::otp::{ask, count};

const OUTBOX_IS_EMPTY: &str = "select count(*) = 0 from outbox";

/// The first try has failed, and the second is two seconds off.
const TRIED_ONCE: &str = "select attempts = 1 and next_attempt_at < drop_at - interval '597 s' from outbox";

/// The mail, its code known as a secret.
async fn next_mail(server: &TestServer, email: &str) -> Result<Mail> {
    let mail = server.mailbox.next_mail_to(email).await?;
    server.leaks.register("otp code", &mail.code().context("the mail holds no code")?);
    Ok(mail)
}

/// The code as people read it.
fn shown(mail: &Mail) -> Result<String> {
    let code = mail.code().context("the mail holds no code")?;
    Ok(format!("{} {}", &code[..4], &code[4..]))
}

fn headers<'a>(mail: &'a Mail, name: &str) -> Vec<&'a str> {
    mail.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).collect()
}

/// The words of an HTML body, without its markup.
fn words_of(html: &str) -> Option<String> {
    let mut words = String::new();
    for piece in html.split_once("<body")?.1.split('<') {
        words.push_str(piece.split_once('>').map_or("", |(_, text)| text));
        words.push(' ');
    }
    Some(words)
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn both_forms_of_the_mail_say_the_same_and_warn_ml_01_ml_02() -> Result<()> {
    Setup::default().set("http.trusted_proxies", "127.0.0.1/32").run(async |server| {
        server.advance(3_725);
        let request = server.http.request(Method::POST, "/v1/otp-tokens").header("X-Forwarded-For", "2001:db8::7");
        let asked = server.http.send(request.json(&json!({ "email": "ann@acme.test" }))).await?;
        let mail = next_mail(server, "ann@acme.test").await?;

        let text = squeezed(&mail.text);
        assert!(words_of(&mail.html).is_some_and(|words| squeezed(&words) == text), "text and HTML differ");
        for said in [
            "15 January 2027, 09:02 UTC",
            "2001:db8::7",
            "10 minutes",
            "https://service.test",
            "If this wasn’t you",
            "Never share this code. We’ll never ask you for it.",
        ] {
            assert!(text.contains(said), "the mail does not say: {said}");
        }
        // No link in it signs a user in, and nothing is fetched when it is read.
        for forbidden in ["href", "src=", "<a ", "<img", "<form", "<script", "url(", asked.field("otpId"), "?"] {
            assert!(!mail.html.contains(forbidden) && !mail.text.contains(forbidden), "the mail has: {forbidden}");
        }
        assert_eq!(mail.subject, format!("Service code: {}", shown(&mail)?));
        Ok(())
    })
}

#[test]
fn no_text_of_a_stranger_is_in_the_mail_ml_01() -> Result<()> {
    with_server(async |server| {
        let name = "<b>Prize</b>\\r\\nBcc: eve@evil.test";
        server.sql(&format!("update clients set name = E'{name}' where id = 'service-web'")).await?;
        let odd = "o'neil+{{7*7}}&x=y|`~!#$%^*?/_-@acme.test";
        let longest = format!("{}@{}.{}.{}.test", "a".repeat(64), "b".repeat(63), "c".repeat(63), "d".repeat(56));
        assert_eq!(longest.len(), 254);
        for email in ["ann@acme.test", odd, &longest] {
            let body = json!({ "email": email, "clientId": SERVICE_WEB });
            assert_eq!(server.http.post("/v1/otp-tokens", &body).await?.status, 201);
            let mail = next_mail(server, email).await?;
            assert_eq!(mail.to, [email]);
            assert_eq!(headers(&mail, "to"), [email]);
            let whole = format!("{}{}{}", mail.subject, mail.text, mail.html);
            for chosen in ["Prize", "eve@evil.test", email, "o'neil", "o&#39;neil"] {
                assert!(!whole.contains(chosen), "the mail has: {chosen}");
            }
            assert_eq!(headers(&mail, "bcc").len() + headers(&mail, "cc").len(), 0);
        }
        Ok(())
    })
}

#[test]
fn the_mail_has_one_recipient_and_plain_headers_ml_03() -> Result<()> {
    with_server(async |server| {
        ask(server, "ann@acme.test").await?;
        let mail = next_mail(server, "ann@acme.test").await?;
        assert_eq!(
            (mail.from.as_str(), mail.to.as_slice()),
            ("no-reply@service.test", ["ann@acme.test".to_owned()].as_slice())
        );
        let subject = format!("Service code: {}", shown(&mail)?);
        let expected = [
            ("to", "ann@acme.test"),
            ("subject", &*subject),
            ("auto-submitted", "auto-generated"),
            ("mime-version", "1.0"),
        ];
        for (name, value) in expected {
            assert_eq!(headers(&mail, name), [value], "{name}");
        }
        for once in ["from", "date", "message-id", "content-type"] {
            assert_eq!(headers(&mail, once).len(), 1, "{once}");
        }
        for never in ["bcc", "cc", "reply-to", "return-path", "x-mailer", "user-agent"] {
            assert_eq!(headers(&mail, never).len(), 0, "{never}");
        }
        assert!(headers(&mail, "from")[0].contains("<no-reply@service.test>"));
        assert!(headers(&mail, "message-id")[0].ends_with("@service.test>"), "names no machine of ours");
        assert!(
            mail.headers
                .iter()
                .all(|(name, value)| format!("{name}{value}").bytes().all(|byte| (32..127).contains(&byte)))
        );
        Ok(())
    })
}

#[test]
fn a_mail_that_cannot_be_sent_waits_sealed_and_is_gone_once_sent_ml_05() -> Result<()> {
    with_server(async |server| {
        server.mailbox.refuse(Some("451 try later"));
        assert_eq!(ask(server, "ann@acme.test").await?.status, 201);
        until(server, TRIED_ONCE).await?;
        let waiting = server.cluster.dump(&server.database).await?;
        let outbox = server.sql("select string_agg(outbox::text || encode(sealed, 'escape'), ' ') from outbox").await?;

        server.mailbox.refuse(None);
        server.advance(2);
        server.app.mail_waiting.notify_one();
        let mail = next_mail(server, "ann@acme.test").await?;
        assert!(mail.text.contains("15 January 2027, 08:00 UTC"), "it tells when the code was asked for");
        server.leaks.assert_clean("the tables while the mail waited", waiting.as_bytes());
        for readable in ["ann@acme.test", "SignInCode", "127.0.0.1"] {
            assert!(outbox.as_ref().is_some_and(|rows| !rows.contains(readable)), "the outbox shows {readable}");
        }
        until(server, OUTBOX_IS_EMPTY).await?;
        assert_eq!(server.mailbox.mails().len(), 1);
        Ok(())
    })
}

#[test]
fn a_mail_is_tried_ever_more_slowly_ml_05() -> Result<()> {
    with_server(async |server| {
        server.mailbox.refuse(Some("451 try later"));
        ask(server, "ann@acme.test").await?;
        let mut tried_at = server.now();
        for (attempts, wait) in [(1, 2), (2, 4), (3, 8), (4, 16)] {
            let next = tried_at + jiff::SignedDuration::from_secs(wait);
            until(server, &format!("select attempts = {attempts} and next_attempt_at = '{next}' from outbox")).await?;
            server.advance(wait);
            server.app.mail_waiting.notify_one();
            tried_at = next;
        }
        Ok(())
    })
}

#[test]
fn a_mail_that_is_refused_for_good_is_wiped_ml_05() -> Result<()> {
    with_server(async |server| {
        server.mailbox.refuse(Some("550 no such person"));
        ask(server, "ann@acme.test").await?;
        until(server, "select count(*) = 0 from outbox").await?;
        assert!(server.mailbox.mails().is_empty());
        Ok(())
    })
}

#[test]
fn a_mail_is_not_sent_once_its_code_is_dead_ml_05() -> Result<()> {
    with_server(async |server| {
        server.mailbox.refuse(Some("451 try later"));
        ask(server, "late@acme.test").await?;
        until(server, TRIED_ONCE).await?;
        server.advance(601);
        server.mailbox.refuse(None);
        // When the second has come, the first, which is older, was passed over.
        ask(server, "ann@acme.test").await?;
        next_mail(server, "ann@acme.test").await?;
        // The node may have cleaned up already.
        until(server, "select count(*) <= 1 from outbox").await?;
        assert_eq!(server.mailbox.mails().len(), 1);

        housekeeping::clean_once(&server.app).await?;
        assert_eq!((count(server, "outbox").await?, count(server, "otps").await?), (0, 1));
        Ok(())
    })
}

#[test]
fn a_mail_server_that_is_down_or_stalls_delays_no_request_ot_01_ml_05() -> Result<()> {
    let closed_port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    Setup::default().set("mail.port", &closed_port).run(async |server| {
        assert_eq!(ask(server, "ann@acme.test").await?.status, 201);
        until(server, TRIED_ONCE).await
    })?;
    with_server(async |server| {
        server.mailbox.stall(true);
        let began = Instant::now();
        for number in 0..20 {
            assert_eq!(ask(server, &format!("person{number}@acme.test")).await?.status, 201);
        }
        assert!(began.elapsed() < Duration::from_secs(5), "asking waits for the mail server");
        assert_eq!(count(server, "outbox").await?, 20);
        assert!(server.mailbox.mails().is_empty());

        server.mailbox.stall(false);
        for number in 0..20 {
            next_mail(server, &format!("person{number}@acme.test")).await?;
        }
        until(server, OUTBOX_IS_EMPTY).await
    })
}

#[test]
fn the_mail_names_the_client_that_asked_ml_02() -> Result<()> {
    with_server(async |server| {
        let body = serde_json::json!({ "email": "ann@acme.test", "clientId": "service-web" });
        assert_eq!(server.http.post("/v1/otp-tokens", &body).await?.status, 201);
        let mail = next_mail(server, "ann@acme.test").await?;
        for part in [&mail.text, &mail.html] {
            assert!(part.contains("(The web app)"), "the client is not named");
        }
        Ok(())
    })
}

#[test]
fn the_code_in_the_subject_is_in_no_log_and_no_table_fh_12() -> Result<()> {
    with_server(async |server| {
        server.mailbox.refuse(Some("451 try later"));
        assert_eq!(ask(server, "ann@acme.test").await?.status, 201);
        until(server, TRIED_ONCE).await?;
        let waiting = server.cluster.dump(&server.database).await?;
        server.mailbox.refuse(None);
        server.advance(2);
        server.app.mail_waiting.notify_one();
        let mail = next_mail(server, "ann@acme.test").await?;
        let code = shown(&mail)?;
        assert_eq!(mail.subject, format!("Service code: {code}"));
        // As the subject has it, it is looked for in all logs, errors, metrics and tables when the test ends.
        server.leaks.register("otp code as shown", &code);
        server.leaks.assert_clean("the tables while the mail waited", waiting.as_bytes());
        let metrics = server.ops.get("/metrics", None).await?.text;
        server.leaks.assert_clean("metrics", metrics.as_bytes());
        Ok(())
    })
}

#[test]
fn an_operator_keeps_the_code_out_of_the_subject_fh_12() -> Result<()> {
    let setup = Setup::default().set("mail.code_in_subject", "no").set("brand.name", "Größe");
    setup.run(async |server| {
        ask(server, "ann@acme.test").await?;
        let mail = next_mail(server, "ann@acme.test").await?;
        assert_eq!(mail.subject, "Your sign-in code for Größe");
        let code = mail.code().context("no code")?;
        assert!(mail.headers.iter().all(|(_, value)| !value.contains(&code[..4])), "{:?}", mail.headers);
        assert!(headers(&mail, "subject")[0].is_ascii());
        Ok(())
    })
}
