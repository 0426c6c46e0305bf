//! Tests of `service login` with a browser, whose requests the test sends itself.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use reqwest::{Client, StatusCode, redirect::Policy};
use service_testkit::{server::TestServer, tab::Tab};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::{
    machine::{EMAIL, Machine, run},
    pty::Pty,
};

/// Starts a sign-in with a browser program that does nothing. Returns the URL that it was given.
async fn start_login(machine: &Machine, arguments: &str, browser: &str) -> Result<(Pty, String)> {
    let mut pty = Pty::start(machine, &format!("login --store file {arguments}"), &[("SERVICE_BROWSER", browser)])?;
    pty.expect("/oauth/authorize?").await?;
    let rest = pty.expect("\r\n").await?;
    Ok((pty, format!("{}/oauth/authorize?{}", machine.url, rest.trim())))
}

/// Signs in and consents in a browser. Returns the URL to which the service redirects.
async fn consent(server: &TestServer, url: &str) -> Result<String> {
    Tab::open(server)?.agree_to(&server.mailbox, url, EMAIL).await
}

fn browser() -> Result<Client> {
    Ok(Client::builder().redirect(Policy::none()).no_proxy().build()?)
}

#[test]
fn a_browser_returns_and_sees_the_result_after_the_exchange() -> Result<()> {
    run(async |server, machine| {
        let (mut pty, url) = start_login(machine, "", "true").await?;
        pty.expect("Waiting for you to finish in the browser (10 minutes, Ctrl-C to stop).").await?;
        pty.expect("Never paste the URL your browser ends on anywhere else").await?;
        let back = consent(server, &url).await?;
        let redirect = browser()?.get(&back).send().await?;
        assert_eq!(redirect.status(), StatusCode::SEE_OTHER);
        assert_eq!(redirect.headers()["location"], "/done");
        assert_eq!(redirect.headers()["cache-control"], "no-store");
        let loopback = back.split("/callback").next().context("no loopback URL")?.to_owned();
        let done = browser()?.get(format!("{loopback}/done")).send().await?;
        let policy = done.headers()["content-security-policy"].to_str()?.to_owned();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        let page = done.text().await?;
        ensure!(page.contains("<h1>Signed in</h1>") && !page.contains("http") && !page.contains("svc_"), "{page}");
        pty.expect("Signed in as ana@acme.test").await?;
        let (_, exit) = pty.end().await?;
        machine.register_secrets();
        assert_eq!(exit, Some(0));
        ensure!(browser()?.get(format!("{loopback}/done")).send().await.is_err(), "the loopback server still runs");
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        Ok(())
    })
}

#[test]
fn foreign_requests_are_refused_and_do_not_end_the_wait_ci_02() -> Result<()> {
    run(async |server, machine| {
        let (pty, url) = start_login(machine, "", "true").await?;
        let back = consent(server, &url).await?;
        let loopback = back.split("/callback").next().context("no loopback URL")?.to_owned();
        let address = loopback.trim_start_matches("http://").to_owned();
        // Stays open, and sends nothing.
        let _idle = TcpStream::connect(&address).await?;
        let client = browser()?;
        let status = async |request: reqwest::RequestBuilder| anyhow::Ok(request.send().await?.status().as_u16());
        let state = back.split("state=").nth(1).and_then(|rest| rest.split('&').next()).context("no state")?;
        let foreign = back.replace(state, "c29tZWJvZHkgZWxzZQ");
        assert_eq!(status(client.get(&foreign)).await?, 400);
        assert_eq!(status(client.get(format!("{loopback}/callback"))).await?, 400);
        assert_eq!(status(client.get(format!("{loopback}/callback?state={state}"))).await?, 400);
        assert_eq!(
            status(client.get(format!("{back}&iss=https%3A%2F%2Fother.example").replace("iss=http%3A", "was=http%3A")))
                .await?,
            400
        );
        assert_eq!(status(client.get(&back).header("host", "rebound.example")).await?, 400);
        assert_eq!(status(client.post(&back)).await?, 405);
        assert_eq!(status(client.get(format!("{loopback}/favicon.ico"))).await?, 404);
        let mut large = TcpStream::connect(&address).await?;
        let line = format!("GET /callback?{} HTTP/1.1\r\n", "a".repeat(10_000_000));
        drop(tokio::time::timeout(Duration::from_secs(5), large.write_all(line.as_bytes())).await);
        assert_eq!(status(client.get(&back)).await?, 303);
        assert_eq!(status(client.get(format!("{loopback}/done"))).await?, 200);
        let (screen, exit) = pty.end().await?;
        machine.register_secrets();
        assert_eq!(exit, Some(0), "{screen}");
        Ok(())
    })
}

#[test]
fn a_pasted_url_signs_in_and_the_user_is_warned_rv_04() -> Result<()> {
    run(async |server, machine| {
        let (mut pty, url) = start_login(machine, "--method browser --no-browser", "true").await?;
        pty.expect("2. The last page fails to load (http://127.0.0.1:").await?;
        pty.expect("Never paste the URL your browser ends on anywhere else").await?;
        pty.expect("Paste the URL here: ").await?;
        pty.line("http://127.0.0.1:1/callback?code=svc_ac_x&state=of-another").await?;
        pty.expect("That URL is from a different sign-in.").await?;
        pty.expect("Paste the URL here: ").await?;
        let back = consent(server, &url).await?;
        pty.line(&back).await?;
        pty.expect("Signed in as ana@acme.test").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        Ok(())
    })
}

#[test]
fn cancelling_in_the_browser_saves_nothing() -> Result<()> {
    run(async |_, machine| {
        let (mut pty, url) = start_login(machine, "", "true").await?;
        let asked = reqwest::Url::parse(&url)?;
        let find =
            |name: &str| asked.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
        let (redirect_uri, state) = (find("redirect_uri").context("no uri")?, find("state").context("no state")?);
        let client = browser()?;
        client.get(format!("{redirect_uri}?error=access_denied&state={state}&iss={}", machine.url)).send().await?;
        let page = client.get(redirect_uri.replace("/callback", "/done")).send().await?.text().await?;
        ensure!(page.contains("<h1>Sign-in failed</h1>"), "{page}");
        pty.expect("Sign-in was cancelled in the browser. Nothing was saved.").await?;
        assert_eq!(pty.end().await?.1, Some(4));
        ensure!(!machine.credentials_path().exists());
        Ok(())
    })
}

#[test]
fn the_browser_gets_the_url_and_not_the_token_ci_01() -> Result<()> {
    run(async |server, machine| {
        let script = machine.home.path().join("browser.sh");
        std::fs::write(&script, "#!/bin/sh\nenv > seen.txt\necho \"$1\" >> seen.txt\nmv seen.txt saw.txt\n")?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode)?;
        let (token, _) = crate::whoami::create_token(server, "bot@acme.test", &serde_json::json!({})).await?;
        let variables = [("SERVICE_BROWSER", script.to_str().context("a name")?), ("SERVICE_TOKEN", token.as_str())];
        let mut pty = Pty::start(machine, "login --store file", &variables)?;
        // The last output before the command waits, also for Ctrl-C.
        pty.expect("Browser didn't return? Paste the URL it ended on: ").await?;
        let saw = machine.home.path().join("saw.txt");
        while !saw.exists() {
            tokio::task::yield_now().await;
        }
        let seen = std::fs::read_to_string(saw)?;
        ensure!(seen.contains("/oauth/authorize?") && seen.contains("code_challenge_method=S256"), "no address");
        ensure!(!seen.contains("SERVICE_TOKEN") && !seen.contains(&token), "the browser has the token");
        pty.press(crate::pty::CTRL_C).await?;
        assert_eq!(pty.end().await?.1, Some(130));
        Ok(())
    })
}

#[test]
fn the_browser_gets_the_address_that_was_named_fh_17() -> Result<()> {
    run(async |server, machine| {
        let (mut pty, url) = start_login(machine, &format!("--email {EMAIL}"), "true").await?;
        let hint = reqwest::Url::parse(&url)?
            .query_pairs()
            .find(|(name, _)| name == "login_hint")
            .map(|pair| pair.1.into_owned());
        assert_eq!(hint.as_deref(), Some(EMAIL));
        let path = url.strip_prefix(&machine.url).context("another server")?;
        let tab = Tab::open(server)?;
        let begun = tab.get(path).await?;
        let page = tab.get(begun.next()?).await?;
        ensure!(page.text.contains(&format!("value=\"{EMAIL}\"")), "the page does not know the address: {}", page.text);
        pty.press(crate::pty::CTRL_C).await?;
        assert_eq!(pty.end().await?.1, Some(130));
        Ok(())
    })
}
