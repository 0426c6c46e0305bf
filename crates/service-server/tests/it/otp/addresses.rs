//! Which addresses get a code: one spelling for each mailbox, and nothing that could reach a second one.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_api::ids::UserId;
use service_testkit::{
    server::{Setup, TestServer, signed_in, with_server},
    tab::Tab,
};

use crate::support::otp::{ROOMY, ask, assert_refused, count};

/// No code, no mail, and nothing is counted.
async fn assert_untouched(server: &TestServer) -> Result<()> {
    for table in ["otps", "outbox", "recent_hits", "rates", "users", "grants"] {
        assert_eq!(count(server, table).await?, 0, "{table}");
    }
    assert!(server.mailbox.mails().is_empty());
    Ok(())
}

#[test]
fn what_is_no_address_gets_no_code_and_leaves_no_trace_ot_02() -> Result<()> {
    with_server(async |server| {
        let mut bodies = Vec::new();
        let long = format!("a@{}acme.test", "b.".repeat(125));
        let long_local = format!("{}@acme.test", "a".repeat(65));
        for email in [
            json!(null),
            json!(12),
            json!(true),
            json!(["ann@acme.test"]),
            json!({ "address": "ann@acme.test" }),
            json!(""),
            json!(" "),
            json!("ann"),
            json!("@"),
            json!("ann@"),
            json!("@acme.test"),
            json!("ann@@acme.test"),
            json!("ann@acme.test@acme.test"),
            json!("ann\u{0}@acme.test"),
            json!("ann@acme.test\u{0}"),
            json!("ann\u{7}@acme.test"),
            json!("ann\u{85}@acme.test"),
            json!("ann@acme.test\t"),
            json!(long),
            json!(long_local),
        ] {
            bodies.push(json!({ "email": email }));
        }
        for body in bodies {
            let response = server.http.post("/v1/otp-tokens", &body).await?;
            assert_refused(&response, 400, "invalid_request");
        }
        let missing = server.http.post("/v1/otp-tokens", &json!({})).await?;
        assert_eq!((missing.status.as_u16(), missing.error()), (422, "validation_failed"));
        assert_untouched(server).await
    })
}

#[test]
fn nothing_in_an_address_reaches_a_second_mailbox_ot_03() -> Result<()> {
    with_server(async |server| {
        for email in [
            "ann@acme.test\r\nBcc: eve@evil.test",
            "ann@acme.test\nBcc: eve@evil.test",
            "ann\r\nBcc: eve@evil.test\r\n@acme.test",
            "ann@acme.test%0d%0aBcc:eve@evil.test",
            "\"eve@evil.test,ann\"@acme.test",
            "\"ann\"@acme.test",
            "ann@acme.test;eve@evil.test",
            "ann@acme.test,eve@evil.test",
            "ann@acme.test eve@evil.test",
            "<ann@acme.test>",
            "Ann <ann@acme.test>",
            "ann@acme.test> RCPT TO:<eve@evil.test",
            "ann(comment)@acme.test",
            "@evil.test:ann@acme.test",
            "ann@[127.0.0.1]",
        ] {
            assert_refused(&ask(server, email).await?, 400, "invalid_request");
        }
        assert_untouched(server).await
    })
}

async fn sign_in_as(server: &TestServer, typed: &str, mailbox: &str) -> Result<UserId> {
    let asked = ask(server, typed).await?;
    anyhow::ensure!(asked.status == 201, "{typed:?} gets no code");
    let code = server.mailbox.next_mail_to(mailbox).await?.code().context("the mail holds no code")?;
    server.leaks.register("otp code", &code);
    Ok(signed_in(&server.exchange(asked.field("otpId"), &code, "read").await?)?.user_id)
}

#[test]
fn every_spelling_of_a_mailbox_is_one_account_ot_04() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_address", ROOMY).run(async |server| {
        let spellings: [(&str, &[&str]); 3] = [
            (
                "ann@acme.test",
                &[
                    "Ann@ACME.Test",
                    " ann@acme.test ",
                    "ann@ａcme.test",
                    "ann@acme。test",
                    "ANN@acme．test",
                    "ann@ac\u{ad}me.test\u{200b}",
                ],
            ),
            (
                "ann@xn--bcher-kva.test",
                &["ann@bücher.test", "ann@bu\u{308}cher.test", "ANN@BÜCHER.test", "ann@XN--BCHER-KVA.test"],
            ),
            ("ann@ack.test", &["ann@ac\u{212a}.test", "ann@ACK.test"]),
        ];
        for (accounts, (mailbox, others)) in (1..).zip(spellings) {
            let owner = sign_in_as(server, mailbox, mailbox).await?;
            for other in others {
                assert_eq!(sign_in_as(server, other, mailbox).await?, owner, "{other:?}");
            }
            assert_eq!(count(server, "users").await?, accounts, "{mailbox}");
            assert_eq!(count(server, "emails").await?, accounts, "{mailbox}");
        }
        Ok(())
    })
}

#[test]
fn a_page_shows_and_stores_the_one_spelling_of_an_address() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_address", ROOMY).run(async |server| {
        let tab = Tab::open(server)?;
        let path = tab.get("/sign-in").await?.next()?.to_owned();
        tab.get(&path).await?;
        let sent = tab.submit(&path, &[("email", " Ann@ACME.Test ")]).await?;
        let code_path = sent.next()?.to_owned();
        let stored = server.sql("select email from sign_in_flows where email is not null").await?;
        assert_eq!(stored.as_deref(), Some("ann@acme.test"));
        assert!(tab.get(&code_path).await?.text.contains("ann@acme.test"));
        // A flow that an older version stored as it was typed is still understood.
        server.sql("update sign_in_flows set email = 'Ann@ACME.Test'").await?;
        let shown = tab.get(&code_path).await?;
        assert!(shown.text.contains("ann@acme.test") && !shown.text.contains("ACME"), "{}", shown.text);
        let code = server.mailbox.next_mail_to("ann@acme.test").await?.code().context("the mail holds no code")?;
        server.leaks.register("otp code", &code);
        let entered = tab.submit(&code_path, &[("code", &code)]).await?;
        assert_eq!(entered.status, 303, "{}", entered.text);
        Ok(())
    })
}

#[test]
fn a_look_alike_address_is_refused_or_another_account_ot_04() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        for look_alike in [
            "ａnn@acme.test",
            "ann＠acme.test",
            "аnn@acme.test",
            "ınn@acme.test",
            "an\u{303}n@acme.test",
            "añn@acme.test",
            "a\u{200d}nn@acme.test",
            "ann\u{200b}@acme.test",
            "\u{feff}ann@acme.test",
            "\u{a0}ann@acme.test",
            "ann@ac\u{200d}me.test",
            "ann@acme.test\u{202e}",
            "ann@acme.test.",
        ] {
            assert_refused(&ask(server, look_alike).await?, 400, "invalid_request");
        }
        // Another domain that looks the same is another domain, in the spelling that shows it.
        let stranger = sign_in_as(server, "ann@аcme.test", "ann@xn--cme-5cd.test").await?;
        assert_ne!(stranger, ann.user_id);
        assert_eq!(count(server, "users").await?, 2);
        let recipients: Vec<String> = server.mailbox.mails().into_iter().flat_map(|mail| mail.to).collect();
        assert_eq!(recipients, ["ann@acme.test", "ann@xn--cme-5cd.test"]);
        Ok(())
    })
}
