//! Tests of `service login` with Chromium.

#[path = "../it/machine.rs"]
#[expect(dead_code, reason = "the tests in `it` use the rest")]
mod machine;
#[path = "../it/pty.rs"]
#[expect(dead_code, reason = "the tests in `it` use the rest")]
mod pty;

use anyhow::{Result, ensure};
use service_testkit::{
    browser::{Browser, Looks},
    tour::code_for,
};

use self::{
    machine::{EMAIL, run},
    pty::Pty,
};

#[test]
fn chromium_signs_in_and_keeps_no_code_in_its_url() -> Result<()> {
    run(async |server, machine| {
        let mut pty = Pty::start(machine, "login --store file", &[("SERVICE_BROWSER", "true")])?;
        pty.expect("/oauth/authorize?").await?;
        let query = pty.expect("\r\n").await?;
        let browser = Browser::open(Looks::default()).await?;
        browser.go(&format!("{}/oauth/authorize?{}", machine.url, query.trim())).await?;
        browser.type_into("input[name=email]", EMAIL).await?;
        browser.click("button[type=submit]").await?;
        browser.wait_for("input[name=code]").await?;
        browser.type_into("input[name=code]", &code_for(server, EMAIL).await?).await?;
        browser.click("button.main").await?;
        browser.wait_for("button[value=allow]").await?;
        // Any program can start this sign-in, so one click is not enough: the user also chooses a space.
        browser.click("input[name=space]").await?;
        // The browser loads the last page until the command has finished, so the test waits for both.
        let (clicked, signed_in) =
            tokio::join!(browser.click("button[value=allow]"), pty.expect("Signed in as ana@acme.test"));
        clicked?;
        signed_in?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        let address = browser.address().await?;
        ensure!(address.contains("/done") && !address.contains("code="), "{address}");
        assert_eq!(browser.text("h1").await?, "Signed in");
        let who = machine.run(&["whoami"]).await?;
        ensure!(who.code == Some(0) && who.stdout.starts_with(EMAIL), "{who:?}");
        Ok(())
    })
}
