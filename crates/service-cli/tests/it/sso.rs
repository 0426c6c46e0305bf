//! Tests of the command with a company's single sign-on.

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    company::{Company, allowed_issuers},
    identity_provider::UnstartedProvider,
    server::TestServer,
    tab::Tab,
};

use crate::{
    machine::{Machine, run_with},
    pty::Pty,
};

const EMAIL: &str = "ann@acme.test";
const HOUR: i64 = 3_600;
/// What an SSH server sets.
const SSH: (&str, &str) = ("SSH_CONNECTION", "192.0.2.1 50000 192.0.2.2 22");

/// Runs a test with a company whose users have addresses in `acme.test`.
fn run_company(test: impl AsyncFnOnce(&TestServer, &Machine, &Company) -> Result<()>) -> Result<()> {
    let provider = UnstartedProvider::new()?;
    let allowed = allowed_issuers(&provider);
    run_with(&[("sso.allowed_issuers", &allowed)], async |server, machine| {
        let acme = Company::found(server, provider, "acme.test").await?;
        test(server, machine, &acme).await
    })
}

/// The start of the page at which users of a company sign in.
fn start_page(machine: &Machine, acme: &Company) -> String {
    format!("{}/sso/start?connection={}", machine.url, acme.connection_id)
}

/// Reads the URL that a sign-in prints.
async fn read_url(pty: &mut Pty, machine: &Machine, acme: &Company) -> Result<String> {
    let start = start_page(machine, acme);
    pty.expect(&format!("{start}&")).await?;
    Ok(format!("{start}&{}", pty.expect("\r\n").await?.trim()))
}

/// Signs in to the command over SSH through a company that requires it. Returns the browser.
async fn log_in(server: &TestServer, machine: &Machine, acme: &Company) -> Result<Tab> {
    acme.require(server).await?;
    let mut pty = Pty::start(machine, &format!("login --store file --email {EMAIL}"), &[SSH])?;
    pty.expect("Users of acme.test sign in with Acme ID, which needs a browser.").await?;
    pty.expect("1. Open this URL on any computer and sign in:").await?;
    let url = read_url(&mut pty, machine, acme).await?;
    pty.expect("Paste the URL here: ").await?;
    let tab = Tab::open(server)?;
    pty.line(&acme.agree_to(server, &tab, &url, EMAIL).await?).await?;
    pty.expect("Signed in as ann@acme.test").await?;
    ensure!(pty.end().await?.1 == Some(0));
    machine.register_secrets();
    Ok(tab)
}

#[test]
fn an_address_of_a_company_opens_its_sign_in_page() -> Result<()> {
    run_company(async |server, machine, acme| {
        let script = machine.home.path().join("browser.sh");
        std::fs::write(&script, "#!/bin/sh\necho \"$1\" > seen.txt\nmv seen.txt saw.txt\n")?;
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let browser = ("SERVICE_BROWSER", script.to_str().context("a name")?);
        let mut pty = Pty::start(machine, &format!("login --store file --email {EMAIL}"), &[browser])?;
        pty.expect("Users of acme.test sign in with Acme ID.").await?;
        let url = read_url(&mut pty, machine, acme).await?;
        pty.expect("Browser didn't return? Paste the URL it ended on: ").await?;
        let saw = machine.home.path().join("saw.txt");
        while !saw.exists() {
            tokio::task::yield_now().await;
        }
        assert_eq!(std::fs::read_to_string(saw)?.trim(), url);
        let back = acme.agree_to(server, &Tab::open(server)?, &url, EMAIL).await?;
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build()?;
        let done = client.get(&back).send().await?;
        assert_eq!(done.headers()["location"], "/done");
        client.get(format!("{}/done", back.split("/callback").next().unwrap_or_default())).send().await?;
        pty.expect("Signed in as ann@acme.test").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        Ok(())
    })
}

#[test]
fn over_ssh_a_company_that_requires_it_signs_in_by_a_pasted_url() -> Result<()> {
    run_company(async |server, machine, acme| {
        log_in(server, machine, acme).await?;
        let who = machine.run(&["whoami"]).await?;
        assert!(who.code == Some(0) && who.stdout.contains(EMAIL), "{who:?}");
        Ok(())
    })
}

#[test]
fn a_session_waits_after_the_hours_of_its_company_and_the_next_sign_in_brings_it_back() -> Result<()> {
    run_company(async |server, machine, acme| {
        let tab = log_in(server, machine, acme).await?;
        server.advance(12 * HOUR);
        machine.expire_access_token()?;
        let waiting = machine.run(&["whoami"]).await?;
        assert_eq!(waiting.code, Some(4), "{}", waiting.stderr);
        assert!(waiting.stderr.contains("Your company requires you to sign in again."), "{}", waiting.stderr);
        let page = start_page(machine, acme);
        assert!(waiting.stderr.contains(&format!("Open {page} in a browser")), "{}", waiting.stderr);
        acme.sign_in(server, &tab, &page, EMAIL).await?;
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0), "the session was kept");
        Ok(())
    })
}

#[test]
fn a_token_that_waits_for_the_company_says_which_page_to_open() -> Result<()> {
    run_company(async |server, machine, acme| {
        let tab = log_in(server, machine, acme).await?;
        let created = machine.run(&["token", "create", "--personal", "--name", "CI"]).await?;
        ensure!(created.code == Some(0), "{}", created.stderr);
        let token = created.stdout.trim().to_owned();
        machine.leaks.register("CLI token", &token);
        let variables = [("SERVICE_TOKEN", token.as_str())];
        server.advance(30 * 24 * HOUR);
        let page = start_page(machine, acme);
        let waiting = machine.run_with(&["whoami"], &variables).await?;
        assert_eq!(waiting.code, Some(4), "{}", waiting.stderr);
        assert!(waiting.stderr.contains("waits until you sign in with your company again"), "{}", waiting.stderr);
        assert!(waiting.stderr.contains(&format!("Open {page} in a browser and sign in.")), "{}", waiting.stderr);
        let listed = machine.run_with(&["token", "list", "--json"], &variables).await?;
        let said: serde_json::Value = serde_json::from_str(listed.stderr.trim())?;
        assert!(said.to_string().contains(&format!("\"signInUrl\":\"{page}\"")), "{said}");
        acme.sign_in(server, &tab, &page, EMAIL).await?;
        assert_eq!(machine.run_with(&["whoami"], &variables).await?.code, Some(0), "the token works again");
        Ok(())
    })
}
