//! One-time codes, one caller at a time: who gets one, what it opens, and when it is dead.

use crate::support::otp::{ROOMY, assert_refused, count, wrong};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_rules::lifetimes;
use service_server::{
    crypto::root_keys::{Purpose, ROOT_KEY_LENGTH, RootKey, RootKeys},
    tasks::housekeeping,
};
use service_testkit::server::{Setup, TestServer, with_server};

async fn tries(server: &TestServer, email: &str) -> Result<String> {
    let row = format!("select attempts || ' ' || (consumed_at is not null) from otps where address = '{email}'");
    server.sql(&row).await?.context("the address has no code")
}

#[test]
fn the_right_code_opens_once_ot_05() -> Result<()> {
    with_server(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let first = server.exchange(&otp_id, &code, "read write").await?;
        assert_eq!(first.status, 200);
        assert_eq!((first.header("cache-control"), first.header("pragma")), (Some("no-store"), Some("no-cache")));
        assert_eq!((&first.body["token_type"], &first.body["expires_in"]), (&json!("Bearer"), &json!(900)));
        let whoami = server.http.get("/v1/whoami", Some(first.field("access_token"))).await?;
        assert_eq!(whoami.body["user"]["email"], "ann@acme.test");

        for _ in 0..2 {
            assert_refused(&server.exchange(&otp_id, &code, "read write").await?, 400, "invalid_grant");
        }
        assert_eq!(tries(server, "ann@acme.test").await?, "1 true");
        assert_eq!(count(server, "grants").await?, 1);
        Ok(())
    })
}

#[test]
fn five_wrong_tries_kill_a_code_and_every_try_stays_counted_ot_06() -> Result<()> {
    with_server(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        for step in 1..=5 {
            let response = server.exchange(&otp_id, &wrong(&code, step)?, "read").await?;
            assert_refused(&response, 400, "invalid_grant");
            assert_eq!(tries(server, "ann@acme.test").await?, format!("{step} false"));
        }
        for tried in [&code, &wrong(&code, 6)?] {
            assert_refused(&server.exchange(&otp_id, tried, "read").await?, 400, "invalid_grant");
            assert_eq!(tries(server, "ann@acme.test").await?, "5 false");
        }
        assert_eq!(count(server, "audit_events where event = 'otp.failed'").await?, 5);
        assert_eq!(count(server, "grants").await? + count(server, "users").await?, 0);
        Ok(())
    })
}

#[test]
fn four_wrong_tries_leave_the_fifth_to_the_right_code_ot_06() -> Result<()> {
    with_server(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        for step in 1..=4 {
            let response = server.exchange(&otp_id, &wrong(&code, step)?, "read").await?;
            assert_refused(&response, 400, "invalid_grant");
        }
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_code_dies_with_its_ten_minutes_ot_10() -> Result<()> {
    with_server(async |server| {
        let (early, late) = (server.request_code("ann@acme.test").await?, server.request_code("bob@acme.test").await?);
        server.advance(lifetimes::OTP - 1);
        assert_eq!(server.exchange(&early.0, &early.1, "read").await?.status, 200);
        server.advance(2);
        assert_refused(&server.exchange(&late.0, &late.1, "read").await?, 400, "invalid_grant");
        assert_eq!(tries(server, "bob@acme.test").await?, "0 false");

        housekeeping::clean_once(&server.app).await?;
        assert_eq!(count(server, "otps").await?, 0);
        assert_refused(&server.exchange(&late.0, &late.1, "read").await?, 400, "invalid_grant");
        Ok(())
    })
}

#[test]
fn a_code_is_digits_as_people_type_them_ot_14() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_address", ROOMY).run(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let exchange = async |code: Value| {
            let body = json!({ "grant_type": service_api::oauth::OTP_GRANT, "otp_id": otp_id, "code": code });
            server.http.post("/oauth/token", &body).await
        };
        for not_text in [json!(code.parse::<u32>()?), json!([code]), json!({ "code": code }), json!(true)] {
            assert_refused(&exchange(not_text).await?, 400, "invalid_request");
        }
        let wide: String = code.bytes().filter_map(|byte| char::from_u32(0xff10 + u32::from(byte - b'0'))).collect();
        let mangled = [wide, format!("{code}0"), code[1..].to_owned(), format!("{code}\u{a0}"), format!("+{code}")];
        for typed in mangled {
            assert_refused(&exchange(json!(typed)).await?, 400, "invalid_grant");
        }
        assert_eq!(tries(server, "ann@acme.test").await?, "0 false");

        for form in [|c: &str| format!("{} {}", &c[..4], &c[4..]), |c: &str| format!(" {}-{} ", &c[..4], &c[4..])] {
            let (otp_id, code) = server.request_code("ann@acme.test").await?;
            assert_eq!(server.exchange(&otp_id, &form(&code), "read").await?.status, 200);
        }
        Ok(())
    })
}

#[test]
fn the_table_of_codes_is_worth_nothing_without_the_key_ot_17() -> Result<()> {
    with_server(async |server| {
        let (ann_id, ann_code) = server.request_code("ann@acme.test").await?;
        let (bob_id, bob_code) = server.request_code("bob@acme.test").await?;
        let dump = server.sql("select string_agg(otps::text, ' ') from otps").await?.unwrap_or_default();
        assert!(dump.contains("ann@acme.test") && !dump.contains(&ann_code) && !dump.contains(&bob_code));

        let parts = |id: &str, code: &str| [id, "ann@acme.test", "", code].map(|part| part.as_bytes().to_vec());
        let mac = |root_keys: &RootKeys, parts: [Vec<u8>; 4]| {
            let bytes = root_keys.mac(Purpose::OtpCode, &parts.each_ref().map(Vec::as_slice)).bytes;
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
        };
        let foreign = RootKeys::new(&[RootKey { id: 1, bytes: [7; ROOT_KEY_LENGTH].into() }])?;
        let ours = &server.app.root_keys;
        assert!(dump.contains(&mac(ours, parts(&ann_id, &ann_code))));
        assert!(!dump.contains(&mac(&foreign, parts(&ann_id, &ann_code))));
        assert_ne!(mac(ours, parts(&ann_id, &ann_code)), mac(ours, parts(&bob_id, &ann_code)));

        // An attacker who can write to the table cannot move a code to another address either.
        let lent = "update otps set mac = (select mac from otps where address = 'ann@acme.test')";
        server.sql(lent).await?;
        assert_refused(&server.exchange(&bob_id, &ann_code, "read").await?, 400, "invalid_grant");
        assert_refused(&server.exchange(&bob_id, &bob_code, "read").await?, 400, "invalid_grant");
        assert_eq!(server.exchange(&ann_id, &ann_code, "read").await?.status, 200);
        Ok(())
    })
}
