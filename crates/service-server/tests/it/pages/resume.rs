//! Coming back to a sign-in after closing its page.

use anyhow::{Context as _, Result};
use service_testkit::{
    server::{Setup, TestServer},
    tab::{Shown, Tab},
};

use crate::pages::markup::without_passkeys;

const ANN: &str = "ann@acme.test";

/// Begins a sign-in; returns its path.
async fn begin(tab: &Tab) -> Result<String> {
    let path = tab.get("/sign-in").await?.next()?.to_owned();
    tab.get(&path).await?;
    Ok(path)
}

/// A browser that Ann signed in with and out of, so that it is a known device.
async fn known_browser(server: &TestServer) -> Result<Tab> {
    let tab = Tab::open(server)?;
    let path = begin(&tab).await?;
    tab.sign_in(&server.mailbox, &path, ANN).await?;
    tab.get("/account").await?;
    tab.submit("/sign-out", &[]).await?;
    server.advance(61);
    Ok(tab)
}

async fn code(server: &TestServer) -> Result<String> {
    let code = server.mailbox.next_mail_to(ANN).await?.code().context("no code")?;
    server.leaks.register("otp code", &code);
    Ok(code)
}

/// A page without what names the request and the address.
fn without_address(page: &Shown, path: &str, address: &str) -> String {
    without_passkeys(&page.text).replace(path, "<path>").replace(address, "<address>")
}

fn setup() -> Setup {
    Setup::default().set("limits.otp_sends_per_context", "1/60").set("limits.otp_sends_per_address_and_network", "1/60")
}

#[test]
fn a_code_can_be_entered_after_the_page_was_closed_fh_07() -> Result<()> {
    setup().run(async |server| {
        let tab = known_browser(server).await?;
        let closed = begin(&tab).await?;
        assert_eq!(tab.submit(&closed, &[("email", ANN)]).await?.next()?, format!("{closed}/code"));
        let code = code(server).await?;
        let path = begin(&tab).await?;
        assert_ne!(path, closed);
        let again = tab.submit(&path, &[("email", " ANN@acme.test")]).await?;
        assert_eq!(again.status, 429, "{}", again.text);
        assert!(again.text.contains("We’ve already sent you a code."), "{}", again.text);
        assert!(again.text.contains(&format!("<a href=\"{path}/code\">Enter the code</a>")), "{}", again.text);
        let page = tab.get(&format!("{path}/code")).await?;
        assert!(page.status == 200 && page.text.contains(ANN), "{}", page.text);
        // A wrong code counts as everywhere: the code has five attempts, however many pages it is entered on.
        for at in [&path, &closed, &path, &closed] {
            assert_eq!(tab.submit(&format!("{at}/code"), &[("code", "00000000")]).await?.status, 400);
        }
        assert_eq!(tab.submit(&format!("{path}/code"), &[("code", &code)]).await?.status, 303);
        assert_eq!(tab.get("/account").await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_code_that_no_longer_works_is_not_offered_fh_07() -> Result<()> {
    setup().set("limits.otp_sends_per_device", "2/3600").run(async |server| {
        let tab = known_browser(server).await?;
        let closed = begin(&tab).await?;
        tab.submit(&closed, &[("email", ANN)]).await?;
        code(server).await?;
        for _ in 0..5 {
            tab.submit(&format!("{closed}/code"), &[("code", "00000000")]).await?;
        }
        let path = begin(&tab).await?;
        let used_up = tab.submit(&path, &[("email", ANN)]).await?;
        assert!(used_up.status == 429 && !used_up.text.contains("already sent"), "{}", used_up.text);
        server.advance(61);
        tab.submit(&path, &[("email", ANN)]).await?;
        code(server).await?;
        server.advance(601);
        let path = begin(&tab).await?;
        let expired = tab.submit(&path, &[("email", ANN)]).await?;
        assert!(expired.status == 429 && !expired.text.contains("already sent"), "{}", expired.text);
        Ok(())
    })
}

#[test]
fn another_browser_learns_nothing_of_a_code_that_was_sent_fh_07() -> Result<()> {
    setup().run(async |server| {
        let tab = known_browser(server).await?;
        let closed = begin(&tab).await?;
        tab.submit(&closed, &[("email", ANN)]).await?;
        code(server).await?;
        // These use up the limits of both addresses for unknown devices.
        let stranger = Tab::open(server)?;
        for address in [ANN, "zoe@acme.test"] {
            let path = begin(&stranger).await?;
            assert_eq!(stranger.submit(&path, &[("email", address)]).await?.next()?, format!("{path}/code"));
        }
        let other = Tab::open(server)?;
        let mut pages = Vec::new();
        for address in [ANN, "zoe@acme.test"] {
            let path = begin(&other).await?;
            let page = other.submit(&path, &[("email", address)]).await?;
            assert!(page.status == 429 && !page.text.contains("already sent"), "{}", page.text);
            pages.push(without_address(&page, &path, address));
            assert_eq!(other.get(&format!("{closed}/code")).await?.status, 403, "the page of another browser");
            assert_ne!(other.get(&format!("{path}/code")).await?.status, 200, "a page without a code of its own");
        }
        assert_eq!(pages[0], pages[1]);
        Ok(())
    })
}
