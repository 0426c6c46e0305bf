//! A stranger cannot learn whether an address has an account: same bytes, same headers, same time.

use anyhow::Result;
use serde_json::json;
use service_testkit::server::{Setup, with_server};

use crate::support::otp::{ROOMY, assert_refused, count, wrong};
use crate::support::otp_kinds::{outline, three_kinds};

#[test]
fn asking_for_a_code_tells_nothing_about_the_address_ot_01() -> Result<()> {
    with_server(async |server| {
        let emails = three_kinds(server).await?;
        for _ in 0..2 {
            // The first time it is sent, the second time it is too early.
            let mut told = Vec::new();
            for email in emails {
                told.push(outline(&server.http.post("/v1/otp-tokens", &json!({ "email": email })).await?));
            }
            assert_eq!(told[0], told[1]);
            assert_eq!(told[0], told[2]);
        }
        for email in emails {
            let mail = server.mailbox.next_mail_to(email).await?;
            assert!(mail.subject.starts_with("Service code: ") && mail.subject.len() == 23, "{}", mail.subject);
        }
        Ok(())
    })
}

#[test]
fn a_closed_account_is_refused_like_a_wrong_code_ot_16() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_address", ROOMY).run(async |server| {
        server.sign_in("ann@acme.test", "read").await?;
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let (other_id, other_code) = server.request_code("bob@acme.test").await?;
        server.sql("update users set disabled_at = now()").await?;

        let closed = server.exchange(&otp_id, &code, "read").await?;
        assert_refused(&closed, 400, "invalid_grant");
        let wrong_code = server.exchange(&other_id, &wrong(&other_code, 1)?, "read").await?;
        assert_eq!(outline(&closed), outline(&wrong_code));
        // Counted like one, too, and still the same after that.
        for step in 1..=4 {
            let both = [
                server.exchange(&otp_id, &code, "read").await?,
                server.exchange(&other_id, &wrong(&other_code, step + 1)?, "read").await?,
            ];
            assert_eq!(outline(&both[0]), outline(&both[1]));
        }
        assert_eq!(count(server, "otps where attempts = 5 and consumed_at is null").await?, 2);
        assert_eq!(count(server, "grants").await?, 1);

        // A code that was asked for after the account was closed opens nothing either.
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        assert_refused(&server.exchange(&otp_id, &code, "read").await?, 400, "invalid_grant");
        assert_eq!(count(server, "users").await?, 1);
        Ok(())
    })
}
