//! Signing in through a connection that is set up: again, with another address, after a new key, without the provider, and
//! after the company removed the user.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_testkit::{
    browser::{Browser, Looks},
    oidc_provider::ProviderMode,
    process::Process,
    tour::authorize_url,
};

use crate::{
    Waiting, exchange,
    sso::{PROVIDER_DOWN_PAGE, Rig, Walk, phone, run},
};

/// Signs in as Bob, whose account at the provider is `bob`.
async fn sign_in_bob(rig: &Rig<'_>, browser: &Browser) -> Result<()> {
    rig.begin_sign_in(browser, "bob@acme.test").await?;
    rig.sign_in_at_provider(browser, "bob").await?;
    rig.wait_for_account(browser, "bob@acme.test").await
}

async fn sign_out(browser: &Browser) -> Result<()> {
    browser.click("form[action='/sign-out'] button").await?;
    browser.wait_for("input[name=email]").await
}

async fn users(rig: &Rig<'_>) -> Result<Option<String>> {
    rig.server.sql("select string_agg(email, ' ' order by email) from users").await
}

#[test]
fn the_second_sign_in_finds_the_same_account_whatever_the_address_is_now() -> Result<()> {
    run(async |rig| {
        rig.connect(false).await?;
        let browser = phone().await?;
        sign_in_bob(&rig, &browser).await?;
        sign_out(&browser).await?;
        // The provider still knows its user, so it does not ask again.
        rig.begin_sign_in(&browser, "bob@acme.test").await?;
        rig.wait_for_account(&browser, "bob@acme.test").await?;
        assert_eq!(users(&rig).await?.as_deref(), Some("ann@acme.test bob@acme.test"));
        sign_out(&browser).await?;
        rig.provider.set_claims(&json!({ "sub": "bob", "email": "robert@acme.test" })).await?;
        rig.begin_sign_in(&browser, "robert@acme.test").await?;
        rig.wait_for_account(&browser, "bob@acme.test").await?;
        assert_eq!(users(&rig).await?.as_deref(), Some("ann@acme.test bob@acme.test"));
        Ok(())
    })
}

#[test]
fn an_existing_account_is_linked_once_by_a_code_and_a_new_key_of_the_provider_is_found() -> Result<()> {
    run(async |rig| {
        rig.connect(true).await?;
        let (walk, browser) = (Walk::new()?, phone().await?);
        rig.server.mailbox.clear();
        rig.begin_sign_in(&browser, "ann@acme.test").await?;
        rig.sign_in_at_provider(&browser, "ann").await?;
        browser.wait_for("input[name=code]").await?;
        walk.look(&browser, "12-link").await?;
        let code = service_testkit::tour::code_for(rig.server, "ann@acme.test").await?;
        browser.type_into("input[name=code]", &code).await?;
        browser.click("button.main").await?;
        rig.wait_for_account(&browser, "ann@acme.test").await?;
        sign_out(&browser).await?;
        rig.provider.rotate_keys().await?;
        rig.begin_sign_in(&browser, "ann@acme.test").await?;
        rig.sign_in_at_provider(&browser, "ann").await?;
        rig.wait_for_account(&browser, "ann@acme.test").await?;
        assert_eq!(users(&rig).await?.as_deref(), Some("ann@acme.test"));
        Ok(())
    })
}

#[test]
fn a_user_who_was_removed_at_the_provider_is_signed_out_on_every_node_within_a_second() -> Result<()> {
    run(async |rig| {
        rig.connect(false).await?;
        let server = rig.server;
        let mut settings = server.settings.clone();
        settings.set("http.listen", "127.0.0.1:0");
        let other = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &server.leaks)?;
        let browser = Browser::open(Looks::default()).await?;
        sign_in_bob(&rig, &browser).await?;
        let waiting = Waiting::start().await?;
        browser.go(&authorize_url(server, "service-cli", &waiting.redirect_uri, "read")).await?;
        browser.click("input[name=space]").await?;
        let (response, clicked) = tokio::join!(waiting.response(), browser.click("button[value=allow]"));
        clicked?;
        let token = exchange(server, "service-cli", &waiting, &response?).await?;
        for node in [&server.http, &other.http] {
            ensure!(node.get("/v1/whoami", Some(&token)).await?.status == 200, "the session is not live");
        }
        let began = Instant::now();
        rig.provider.remove_user("bob").await?;
        while other.http.get("/v1/whoami", Some(&token)).await?.status == 200 {
            ensure!(began.elapsed().as_secs() < 5, "the session lives on");
        }
        let took = began.elapsed();
        println!("Signed out on another node after {} ms", took.as_millis());
        ensure!(took.as_millis() <= 1_000, "it took {took:?}");
        browser.go(&format!("{}/account", server.http.url)).await?;
        browser.wait_for("input[name=email]").await?;
        // The provider does not let the user in any more.
        browser.type_into("input[name=email]", "bob@acme.test").await?;
        browser.click("button[type=submit]").await?;
        rig.sign_in_at_provider(&browser, "bob").await?;
        browser.wait_for("#login").await
    })
}

/// Waits for the page about a provider, and asks the browser how long it took, from the click on.
async fn assert_shown_in_time(browser: &Browser) -> Result<()> {
    browser.wait_for(".after code").await?;
    let took = browser.run("return performance.getEntriesByType('navigation')[0].domInteractive").await?;
    let took = Duration::from_secs_f64(took.as_f64().context("the browser did not measure it")? / 1_000.0);
    ensure!(took <= PROVIDER_DOWN_PAGE, "it took {took:?}");
    let page = browser.text("body").await?;
    ensure!(page.contains("Acme isn’t responding"), "{page}");
    Ok(())
}

#[test]
fn a_provider_that_never_answered_is_named_within_five_seconds() -> Result<()> {
    run(async |rig| {
        let (walk, browser) = (Walk::new()?, phone().await?);
        rig.connect(false).await?;
        // Nothing is known of the provider, so the browser is not sent there.
        rig.provider.answer(ProviderMode::Silent, "/").await?;
        rig.begin_sign_in(&browser, "bob@acme.test").await?;
        assert_shown_in_time(&browser).await?;
        walk.look(&browser, "13-provider-down").await?;
        // Users who sign in otherwise do not notice.
        rig.sign_in_by_code(&phone().await?, "carol@other.test").await
    })
}

#[test]
fn a_provider_that_no_longer_answers_is_named_within_five_seconds_and_owners_read_why() -> Result<()> {
    run(async |rig| {
        let (walk, owner, browser) = (Walk::new()?, phone().await?, phone().await?);
        rig.sign_in_by_code(&owner, "ann@acme.test").await?;
        let workspace = rig.connect(false).await?;
        // The provider signs the user in, and then does not answer.
        rig.provider.answer(ProviderMode::Silent, "/token").await?;
        rig.begin_sign_in(&browser, "bob@acme.test").await?;
        rig.sign_in_at_provider(&browser, "bob").await?;
        browser.wait_for_address("/sso/callback/").await?;
        assert_shown_in_time(&browser).await?;
        owner.go(&format!("{}/workspaces/{workspace}/connections", rig.server.http.url)).await?;
        let page = owner.text("body").await?;
        ensure!(page.contains("The provider had a problem:"), "{page}");
        walk.look(&owner, "14-health").await?;
        rig.provider.answer(ProviderMode::Normal, "/").await?;
        rig.begin_sign_in(&browser, "bob@acme.test").await?;
        rig.wait_for_account(&browser, "bob@acme.test").await
    })
}

/// Where the provider sends no logout, a browser has to sign in there again after the hours of the connection.
#[test]
fn a_browser_signs_in_at_the_provider_again_after_the_hours_of_the_connection() -> Result<()> {
    run(async |rig| {
        rig.connect(false).await?;
        let browser = phone().await?;
        sign_in_bob(&rig, &browser).await?;
        let account = format!("{}/account", rig.server.http.url);
        let later = async |hours: u32| {
            let moved = format!("update browser_sessions set expires_at = expires_at - interval '{hours} hours'");
            rig.server.sql(&moved).await?;
            browser.go(&account).await
        };
        later(11).await?;
        rig.wait_for_account(&browser, "bob@acme.test").await?;
        later(1).await?;
        browser.wait_for("input[name=email]").await?;
        sign_out_at_provider(&rig, &browser).await?;
        sign_in_bob(&rig, &browser).await
    })
}

/// The provider forgets the user, so that it asks again.
async fn sign_out_at_provider(rig: &Rig<'_>, browser: &Browser) -> Result<()> {
    browser.go(&rig.provider.issuer).await?;
    browser.forget_cookies().await
}

#[test]
fn a_provider_that_refuses_connections_is_named_at_once() -> Result<()> {
    run(async |rig| {
        let (walk, browser) = (Walk::new()?, phone().await?);
        rig.connect(true).await?;
        rig.provider.answer(ProviderMode::Refusing, "/").await?;
        rig.begin_sign_in(&browser, "bob@acme.test").await?;
        assert_shown_in_time(&browser).await?;
        // A named owner signs in by a code meanwhile.
        browser.click("a[href$='/emergency']").await?;
        browser.wait_for("input[name=email]").await?;
        walk.look(&browser, "15-emergency").await?;
        rig.server.mailbox.clear();
        browser.clear("input[name=email]").await?;
        browser.type_into("input[name=email]", "ann@acme.test").await?;
        browser.click("button[type=submit]").await?;
        let code = service_testkit::tour::code_for(rig.server, "ann@acme.test").await?;
        browser.type_into("input[name=code]", &code).await?;
        browser.click("button.main").await?;
        rig.wait_for_account(&browser, "ann@acme.test").await
    })
}
