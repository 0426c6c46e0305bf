//! What the development server serves: the service at both addresses of localhost, the mailbox and the database.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio_postgres::{Config, NoTls, error::SqlState};

use crate::machine::{Data, Running};

const DEMO: &str = "demo@service.test";

fn with_server(test: impl AsyncFnOnce(&Running) -> Result<()>) -> Result<()> {
    let data = Data::new()?;
    let running = data.start(&[])?;
    tokio::runtime::Runtime::new()?.block_on(test(&running))?;
    let (code, log) = running.stop("INT")?;
    assert_eq!(code, Some(0), "{log}");
    Ok(())
}

async fn get(url: &str) -> Result<(u16, String)> {
    let response = reqwest::get(url).await?;
    Ok((response.status().as_u16(), response.text().await?))
}

/// Requests a code, and reads it in the mailbox. Returns its id and the code.
async fn request_code(running: &Running) -> Result<(String, String)> {
    let (base_url, mailbox) = (running.link("baseUrl")?, running.link("mailbox")?);
    let client = reqwest::Client::new();
    client.delete(format!("{mailbox}/mails")).send().await?;
    let requested = client.post(format!("{base_url}/v1/otp-tokens")).json(&json!({ "email": DEMO })).send().await?;
    let requested: Value = requested.error_for_status()?.json().await?;
    let code = loop {
        let mails: Value = client.get(format!("{mailbox}/mails?to={DEMO}")).send().await?.json().await?;
        if let Some(text) = mails[0]["text"].as_str() {
            let code = text.lines().map(str::trim).find(|line| line.len() == 9 && line.as_bytes()[4] == b' ');
            break code.context("the mail has no code")?.to_owned();
        }
        tokio::task::yield_now().await;
    };
    Ok((requested["otpId"].as_str().context("no id")?.to_owned(), code))
}

/// Enters a code. Returns the response.
async fn enter_code(running: &Running, id: &str, code: &str) -> Result<Value> {
    let exchange = [("grant_type", "urn:service:params:oauth:grant-type:otp"), ("otp_id", id), ("code", code)];
    let request = reqwest::Client::new().post(format!("{}/oauth/token", running.link("baseUrl")?));
    Ok(request.form(&exchange).send().await?.json().await?)
}

#[test]
fn the_service_and_the_mailbox_answer_at_both_addresses_of_localhost() -> Result<()> {
    with_server(async |running| {
        let base_url = running.link("baseUrl")?;
        assert!(base_url.starts_with("http://localhost:"), "{base_url}");
        let metadata: Value =
            serde_json::from_str(&get(&format!("{base_url}/.well-known/oauth-authorization-server")).await?.1)?;
        assert_eq!(metadata["issuer"], base_url);
        for host in ["127.0.0.1", "[::1]", "localhost"] {
            let at = |url: &str| url.replace("localhost", host);
            assert_eq!(get(&format!("{}/docs", at(base_url))).await?.0, 200, "{host}");
            assert_eq!(get(&at(running.link("mailbox")?)).await?.0, 200, "{host}");
        }
        Ok(())
    })
}

#[test]
fn the_mailbox_answers_no_other_host_name() -> Result<()> {
    with_server(async |running| {
        let mailbox = running.link("mailbox")?;
        for host in ["evil.test", "localhost.evil.test", "evil.test:80"] {
            let request = reqwest::Client::new().get(format!("{mailbox}/mails")).header("host", host);
            assert_eq!(request.send().await?.status().as_u16(), 421, "{host}");
        }
        Ok(())
    })
}

#[test]
fn the_demo_user_signs_in_more_often_than_in_production_fh_02() -> Result<()> {
    with_server(async |running| {
        // In production: one code a minute, five an hour and ten a day.
        for time in 1..=12 {
            let (id, code) = request_code(running).await?;
            let tokens = enter_code(running, &id, &code).await?;
            assert!(tokens["access_token"].is_string(), "sign-in {time}: {tokens}");
        }
        // And ten wrong codes an hour.
        for time in 1..=11 {
            let (id, code) = request_code(running).await?;
            let wrong = if code == "0000 0000" { "1111 1111" } else { "0000 0000" };
            let refused = enter_code(running, &id, wrong).await?;
            assert_eq!(refused["error"], "invalid_grant", "wrong code {time}: {refused}");
        }
        let (id, code) = request_code(running).await?;
        let tokens = enter_code(running, &id, &code).await?;
        assert!(tokens["access_token"].is_string(), "after wrong codes: {tokens}");
        Ok(())
    })
}

#[test]
fn postgresql_trusts_no_local_user() -> Result<()> {
    with_server(async |running| {
        let url = running.link("database")?;
        assert!(!url.contains("serviced:"), "the URL has a password");
        let passwords = std::fs::read_to_string(running.link("databasePasswordFile")?)?;
        let password = passwords.trim_end().rsplit_once(':').context("no password")?.1;
        for (user, password, accepted) in [
            ("serviced", password, true),
            ("service", password, true),
            ("serviced", "wrong", false),
            ("service", "wrong", false),
            ("postgres", "wrong", false),
        ] {
            let mut config: Config = url.parse()?;
            let connected = config.user(user).password(password).connect(NoTls).await;
            let state = connected.as_ref().err().and_then(|error| error.code().cloned());
            let expected = (!accepted).then_some(SqlState::INVALID_PASSWORD);
            assert_eq!(state, expected, "{user}");
        }
        Ok(())
    })
}

#[test]
fn the_command_is_named_and_the_json_has_what_programs_read_fh_05() -> Result<()> {
    with_server(async |running| {
        for link in ["baseUrl", "opsUrl", "mailbox", "database"] {
            running.link(link)?;
        }
        assert!(running.link("command")?.ends_with("/service"), "{}", running.links);
        let ready = format!("{}/readyz", running.link("opsUrl")?);
        let (status, _) = get(&ready).await?;
        assert_eq!(status, 200);
        Ok(())
    })
}
