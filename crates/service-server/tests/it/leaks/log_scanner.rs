//! The test of the tests: a secret planted in each place that is searched must fail the test that planted it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use service_testkit::server::{TestServer, with_server};

/// Runs a test that plants a leak, and returns what it failed with.
fn failure_of(plant: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<String> {
    let failed = catch_unwind(AssertUnwindSafe(|| with_server(plant))).err().context("the leak went unnoticed")?;
    failed.downcast::<String>().map(|text| *text).map_err(|_| anyhow::anyhow!("it failed without words"))
}

fn check(failure: &str, channel: &str, kind: &str) {
    assert!(failure.contains(channel) && failure.contains(kind), "{failure}");
    assert!(!failure.contains("eyJ") && !failure.contains("svc_rt_"), "the report repeats the secret");
}

#[test]
fn a_token_in_the_log_is_found_lg_01() -> Result<()> {
    let failure = failure_of(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        tracing::trace!("refreshing with {}", ann.refresh_token);
        Ok(())
    })?;
    check(&failure, "log", "refresh_token");
    Ok(())
}

#[test]
fn a_code_in_the_log_is_found_as_people_write_it_lg_01() -> Result<()> {
    let failure = failure_of(async |server| {
        let (_, code) = server.request_code("ann@acme.test").await?;
        tracing::debug!(code = format!("{} {}", &code[..4], &code[4..]), "mailing");
        Ok(())
    })?;
    check(&failure, "log", "otp code");
    Ok(())
}

#[test]
fn a_token_in_a_statement_is_found_in_the_log_of_postgresql_lg_01() -> Result<()> {
    let failure = failure_of(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        server.sql(&format!("select '{}'", ann.refresh_token)).await.map(drop)
    })?;
    check(&failure, "PostgreSQL's log", "refresh_token");
    Ok(())
}

#[test]
fn a_token_in_a_table_is_found_also_in_disguise_lg_01() -> Result<()> {
    for disguise in [|token: &str| token.to_owned(), |token: &str| BASE64_STANDARD.encode(format!("x{token}"))] {
        let failure = failure_of(async |server| {
            let ann = server.sign_in("ann@acme.test", "read").await?;
            // Through the service's own connection and as bytes, so that only the table shows it in clear.
            let hidden = disguise(&ann.refresh_token).into_bytes();
            let db = server.app.database.connect().await?;
            db.execute("update grants set salt = $1", &[&hidden]).await?;
            Ok(())
        })?;
        assert!(failure.contains("refresh_token"), "{failure}");
    }
    Ok(())
}

#[test]
fn a_secret_that_a_refusal_repeats_is_found_lg_01() -> Result<()> {
    let failure = failure_of(async |server| {
        // Words of the refusal itself play the secret: nothing else holds them.
        server.leaks.register("planted", "No access token was sent");
        server.http.get("/v1/whoami", None).await.map(drop)
    })?;
    check(&failure, "refusals", "planted");
    Ok(())
}

#[test]
fn a_device_secret_in_the_log_is_found_rv_08() -> Result<()> {
    let failure = failure_of(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let signed_in = server.exchange(&otp_id, &code, "read").await?;
        tracing::trace!("asking as {}", signed_in.field("device"));
        Ok(())
    })?;
    check(&failure, "log", "device");
    Ok(())
}
