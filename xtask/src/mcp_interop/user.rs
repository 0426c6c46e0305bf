//! The user of a client: signs in and agrees in Chromium.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    browser::{Browser, Looks},
    server::TestServer,
    tour::code_for,
};

/// How long the way from a client's address back to the client may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Names the page, unless this user already did what it wants.
const PAGE: &str = "
    if (window.isDone) return 'done';
    const has = selector => document.querySelector(selector) !== null;
    if (has('input[name=email]')) return 'email';
    if (has('input[name=code]')) return 'code';
    if (has('button[value=allow]')) return 'consent';
    return 'other';";

/// Chooses the personal space, if none is chosen yet.
const CHOOSE_SPACE: &str = "
    const spaces = [...document.querySelectorAll('input[type=radio][name=space]')];
    if (spaces.length > 0 && !spaces.some(space => space.checked)) spaces[0].click();";

pub(super) struct User<'a> {
    pub(super) server: &'a TestServer,
    browser: Browser,
    pub(super) email: String,
    /// Whether the next consent is for reading only.
    narrows: Cell<bool>,
}

impl<'a> User<'a> {
    /// A user with a new browser, who has never been here, and who may allow reading only at first.
    pub(super) async fn new(server: &'a TestServer, name: &str, narrows: bool) -> Result<Self> {
        let browser = Browser::open(Looks::default()).await?;
        Ok(Self { server, browser, email: format!("{name}@harbour.example"), narrows: Cell::new(narrows) })
    }

    /// Opens the address that a client printed, signs in if need be, and agrees. Returns how many pages asked for consent.
    pub(super) async fn agree(&self, address: &str) -> Result<u32> {
        let (base, browser, began) = (&self.server.http.url, &self.browser, Instant::now());
        let mut consents = 0;
        browser.go(address).await?;
        loop {
            let here = browser.address().await?;
            if !here.starts_with(base.as_str()) {
                ensure!(!here.contains("error="), "the client got no code: {here}");
                return Ok(consents);
            }
            let page = browser.run(PAGE).await?;
            match page.as_str().context("no page")? {
                "email" => {
                    browser.type_into("input[name=email]", &self.email).await?;
                    self.submit("button[type=submit]").await?;
                }
                "code" => {
                    let code = code_for(self.server, &self.email).await?;
                    browser.type_into("input[name=code]", &code).await?;
                    self.submit("button.main").await?;
                }
                "consent" => {
                    browser.run(CHOOSE_SPACE).await?;
                    consents += 1;
                    let button = if self.narrows.take() { "button[value=allow-read]" } else { "button[value=allow]" };
                    self.submit(button).await?;
                }
                _ => {
                    let text = || async { browser.text("body").await.unwrap_or_default() };
                    ensure!(began.elapsed() < TIMEOUT, "the user does not get on at {here}: {}", text().await);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// Presses a button, and remembers on the page that it was pressed.
    async fn submit(&self, button: &str) -> Result<()> {
        self.browser.run("window.isDone = true").await?;
        self.browser.click(button).await
    }
}
