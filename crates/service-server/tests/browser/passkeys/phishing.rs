//! A phishing site between a person and the service: it gets codes, but no passkey.

use anyhow::{Result, ensure};
use service_testkit::{
    tour::code_for,
    virtual_authenticator::{PLATFORM, SECURITY_KEY},
};

use super::{PROBLEM, Rig, SIGN_OUT, USE, phishing_proxy::PhishingProxy, run};

/// Presses the button for passkeys on a phishing site. Returns what the page says.
async fn press_at(rig: &Rig<'_>, site: &PhishingProxy) -> Result<String> {
    rig.browser.go(&format!("{}/sign-in", site.url)).await?;
    rig.browser.wait_for(USE).await?;
    let address = rig.browser.address().await?;
    ensure!(address.starts_with(&site.url), "the browser is at {address}");
    rig.browser.click(USE).await?;
    rig.browser.wait_for_text(PROBLEM).await
}

/// Enters an address and the code that is sent to it, on the page that is open.
async fn enter_code(rig: &Rig<'_>, email: &str) -> Result<()> {
    rig.browser.type_into("input[name=email]", email).await?;
    rig.browser.click("form:not([action$='/passkey']) button[type=submit]").await?;
    let code = code_for(rig.server, email).await?;
    rig.browser.type_into("input[name=code]", &code).await?;
    rig.browser.click("button.main").await
}

/// The error of a request for a passkey at a phishing site.
async fn error_at(rig: &Rig<'_>) -> Result<String> {
    let script = "const done = arguments[arguments.length - 1];
        const rpId = JSON.parse(document.querySelector('[data-passkey]').dataset.passkey).rpId;
        navigator.credentials.get({ publicKey: { challenge: new Uint8Array(32), rpId, timeout: 1000 } })
            .then(() => done('signed'), (error) => done(error.name))";
    Ok(rig.browser.run_to_end(script).await?.as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_phishing_site_gets_codes_but_never_a_passkey_pk_36() -> Result<()> {
    run(async |rig| {
        let device = rig.browser.plug_in(PLATFORM).await?;
        rig.sign_in_by_code("ann@acme.test").await?;
        rig.add("Laptop").await?;
        rig.sign_out().await?;
        for (host, own_relying_party, refused_by) in [
            ("127.0.0.1", false, "SecurityError"),
            ("login.localhost", false, "SecurityError"),
            ("login.localhost", true, "NotAllowedError"),
        ] {
            let site = PhishingProxy::start(&rig.url, host, own_relying_party).await?;
            let impatient = "const get = CredentialsContainer.prototype.get;
                CredentialsContainer.prototype.get = function (options) {
                    options.publicKey.timeout = 1000;
                    return get.call(this, options);
                }";
            rig.browser.run_in_new_pages(impatient).await?;
            let said = press_at(rig, &site).await?;
            ensure!(said == "No passkey was used. Try again, or sign in with a code.", "{host}: {said}");
            let error = error_at(rig).await?;
            ensure!(error == refused_by, "{host}: {error}");
            ensure!(rig.sign_ins().await? == 0, "{host}: the passkey was phished");
            // The site works: a code that is entered there signs its owner in.
            let email = format!("victim{own_relying_party}@{host}.test").replace("127.0.0.1", "ip");
            enter_code(rig, &email).await?;
            rig.browser.wait_for(SIGN_OUT).await?;
            ensure!(rig.browser.address().await?.starts_with(&site.url), "{host}: it was not phished");
            // The cookie has to be gone before the next site, which may have the same host.
            rig.browser.click(SIGN_OUT).await?;
            rig.browser.wait_for("input[name=email]").await?;
        }
        // The same passkey, at the real site.
        ensure!(device.credentials().await?.len() == 1, "the device lost its passkey");
        rig.press().await?;
        rig.wait_for_account("ann@acme.test").await?;
        ensure!(rig.sign_ins().await? == 1, "not by the passkey");
        Ok(())
    })
}

#[test]
fn a_phishing_site_gets_no_one_who_requires_a_passkey_pk_57() -> Result<()> {
    run(async |rig| {
        let device = rig.browser.plug_in(PLATFORM).await?;
        rig.sign_in_by_code("ann@acme.test").await?;
        rig.add("Laptop").await?;
        rig.sign_out().await?;
        rig.server.sql("update users set requires_passkey = true").await?;
        rig.server.sql("delete from recent_hits").await?;
        let site = PhishingProxy::start(&rig.url, "login.localhost", false).await?;
        rig.browser.go(&format!("{}/sign-in", site.url)).await?;
        enter_code(rig, "ann@acme.test").await?;
        // The site has the code, and with it the page that asks for the passkey.
        rig.browser.wait_for("#lost").await?;
        ensure!(rig.browser.address().await?.starts_with(&site.url), "the browser left the site");
        let error = error_at(rig).await?;
        ensure!(error == "SecurityError", "{error}");
        rig.browser.go(&format!("{}/account", site.url)).await?;
        rig.browser.wait_for("input[name=email]").await?;
        let signed_in = rig.server.sql("select count(*) from browser_sessions where user_id is not null").await?;
        ensure!(signed_in.as_deref() == Some("0"), "{signed_in:?}");
        // At the real site the same passkey signs in.
        ensure!(device.credentials().await?.len() == 1, "the device lost its passkey");
        rig.press().await?;
        rig.wait_for_account("ann@acme.test").await
    })
}

#[test]
fn no_passkey_is_made_at_a_phishing_site() -> Result<()> {
    run(async |rig| {
        let key = rig.browser.plug_in(SECURITY_KEY).await?;
        let site = PhishingProxy::start(&rig.url, "login.localhost", false).await?;
        rig.browser.go(&format!("{}/sign-in", site.url)).await?;
        enter_code(rig, "ann@acme.test").await?;
        rig.browser.wait_for(SIGN_OUT).await?;
        rig.browser.go(&format!("{}/account/security", site.url)).await?;
        rig.browser.click("form[action='/account/security/passkeys/new'] button").await?;
        rig.browser.click(super::CREATE).await?;
        let said = rig.browser.wait_for_text(PROBLEM).await?;
        ensure!(said.starts_with("No passkey was created."), "{said}");
        ensure!(key.credentials().await?.is_empty(), "a passkey of the service was made");
        ensure!(rig.server.sql("select count(*) from passkeys").await?.as_deref() == Some("0"), "a passkey was stored");
        Ok(())
    })
}
