//! Passkeys in a real browser, with authenticators that its driver makes up.

mod adding;
mod frames;
mod phishing;
mod phishing_proxy;
mod sign_ins;

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    browser::{Browser, Looks},
    server::{Setup, TestServer},
};

/// The button that creates a passkey.
const CREATE: &str = "form[action='/account/security/passkeys'] button.main";
/// The button that signs in by a passkey.
const USE: &str = "[data-passkey] button";
/// What went wrong with a passkey.
const PROBLEM: &str = "[data-passkey] .wrong";
const SIGN_OUT: &str = "form[action='/sign-out'] button";

/// Leaves the suggestions of the email field out, so that only the button asks for a passkey.
const ONLY_BY_BUTTON: &str = "PublicKeyCredential.isConditionalMediationAvailable = async () => false";

/// A server with a host name, and a browser.
struct Rig<'a> {
    server: &'a TestServer,
    browser: Browser,
    /// The server's address, by its name.
    url: String,
}

/// Runs a test in a browser that asks for a passkey only when its button is pressed.
fn run(test: impl AsyncFnOnce(&Rig<'_>) -> Result<()>) -> Result<()> {
    run_in(Looks::default(), async |rig| {
        rig.browser.run_in_new_pages(ONLY_BY_BUTTON).await?;
        test(rig).await
    })
}

fn run_in(looks: Looks, test: impl AsyncFnOnce(&Rig<'_>) -> Result<()>) -> Result<()> {
    let setup = Setup::default().on_system_clock().set("limits.otp_sends_per_address", "1000/60").at_localhost()?;
    setup.run(async |server| {
        let url = server.app.config.base_url.clone();
        test(&Rig { server, browser: Browser::open(looks).await?, url }).await
    })
}

impl Rig<'_> {
    async fn go(&self, path: &str) -> Result<()> {
        self.browser.go(&format!("{}{path}", self.url)).await
    }

    /// Enters an address on the sign-in page that is shown, and the code.
    async fn enter_code(&self, email: &str) -> Result<()> {
        self.browser.type_into("input[name=email]", email).await?;
        self.browser.click("form:not([action$='/passkey']) button[type=submit]").await?;
        // Mails about passkeys may wait before it.
        let code = self.server.mailbox.next_code_to(email).await?;
        self.server.leaks.register("otp code", &code);
        self.browser.type_into("input[name=code]", &code).await?;
        self.browser.click("button.main").await?;
        self.browser.wait_for(SIGN_OUT).await
    }

    async fn sign_in_by_code(&self, email: &str) -> Result<()> {
        self.go("/sign-in").await?;
        self.enter_code(email).await
    }

    async fn sign_out(&self) -> Result<()> {
        self.go("/account").await?;
        self.browser.click(SIGN_OUT).await?;
        self.browser.wait_for("input[name=email]").await
    }

    /// Opens the page that creates a passkey, and presses its button.
    async fn create(&self, name: &str) -> Result<()> {
        self.go("/account/security").await?;
        self.browser.click("form[action='/account/security/passkeys/new'] button").await?;
        self.browser.clear("#name").await?;
        self.browser.type_into("#name", name).await?;
        self.browser.click(CREATE).await
    }

    /// Adds a passkey.
    async fn add(&self, name: &str) -> Result<()> {
        self.create(name).await?;
        let said = self.browser.text("[role=status]").await?;
        ensure!(said == format!("Passkey {name} added."), "{said}");
        Ok(())
    }

    /// Opens the sign-in page, and presses the button for passkeys.
    async fn press(&self) -> Result<()> {
        self.go("/sign-in").await?;
        self.browser.click(USE).await
    }

    /// Waits for the account page of this user.
    async fn wait_for_account(&self, email: &str) -> Result<()> {
        self.browser.wait_for(SIGN_OUT).await?;
        let text = self.browser.text("body").await?;
        ensure!(text.contains(email), "{email} is not signed in: {text}");
        Ok(())
    }

    /// How many sign-ins by a passkey there were.
    async fn sign_ins(&self) -> Result<i64> {
        let counted = "select count(*) from audit_events where details->>'method' = 'passkey'";
        Ok(self.server.sql(counted).await?.context("nothing was counted")?.parse()?)
    }
}
