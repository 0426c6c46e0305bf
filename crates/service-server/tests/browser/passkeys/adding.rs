//! Adding a passkey, and where no passkey is made.

use anyhow::{Result, ensure};
use service_testkit::{
    browser::Looks,
    virtual_authenticator::{AuthenticatorKind, PLATFORM, SECURITY_KEY},
};

use super::{PROBLEM, SIGN_OUT, USE, run, run_in};

const PASSKEYS: &str = "select count(*) from passkeys";

#[test]
fn a_person_adds_a_passkey_signs_out_and_signs_in_by_it() -> Result<()> {
    run(async |rig| {
        let device = rig.browser.plug_in(PLATFORM).await?;
        rig.sign_in_by_code("ann@acme.test").await?;
        rig.add("Laptop").await?;
        let credentials = device.credentials().await?;
        ensure!(credentials.len() == 1 && credentials[0]["isResidentCredential"] == true, "{credentials:?}");
        ensure!(credentials[0]["rpId"] == "localhost", "{credentials:?}");
        rig.sign_out().await?;
        rig.press().await?;
        rig.wait_for_account("ann@acme.test").await?;
        ensure!(rig.sign_ins().await? == 1, "not by the passkey");
        rig.go("/account/security").await?;
        let text = rig.browser.text("main").await?;
        ensure!(text.contains("Laptop") && text.contains("less than a minute ago"), "{text}");
        Ok(())
    })
}

#[test]
fn a_security_key_with_a_pin_is_a_passkey_too() -> Result<()> {
    run(async |rig| {
        let _key = rig.browser.plug_in(SECURITY_KEY).await?;
        rig.sign_in_by_code("ann@acme.test").await?;
        rig.add("Security key").await?;
        rig.sign_out().await?;
        rig.press().await?;
        rig.wait_for_account("ann@acme.test").await
    })
}

#[test]
fn an_authenticator_makes_one_passkey_for_an_account() -> Result<()> {
    run(async |rig| {
        let device = rig.browser.plug_in(PLATFORM).await?;
        rig.sign_in_by_code("ann@acme.test").await?;
        rig.add("Laptop").await?;
        rig.create("Laptop again").await?;
        let said = rig.browser.wait_for_text(PROBLEM).await?;
        ensure!(said.starts_with("This device or password manager already has a passkey"), "{said}");
        ensure!(device.credentials().await?.len() == 1, "there are two");
        Ok(())
    })
}

#[test]
fn without_verification_of_its_user_no_passkey_is_made() -> Result<()> {
    let none = AuthenticatorKind { verifies_users: false, is_verified: false, ..SECURITY_KEY };
    for kind in [
        none,
        AuthenticatorKind { is_verified: false, ..PLATFORM },
        AuthenticatorKind { holds_passkeys: false, ..SECURITY_KEY },
    ] {
        run(async |rig| {
            let device = rig.browser.plug_in(kind).await?;
            // A browser that waits for another authenticator gives up after a second here, instead of five minutes.
            let impatient = "const create = CredentialsContainer.prototype.create;
                CredentialsContainer.prototype.create = function (options) {
                    options.publicKey.timeout = 1000;
                    return create.call(this, options);
                }";
            rig.browser.run_in_new_pages(impatient).await?;
            rig.sign_in_by_code("ann@acme.test").await?;
            rig.create("Laptop").await?;
            let said = rig.browser.wait_for_text(PROBLEM).await?;
            ensure!(said.starts_with("No passkey was created."), "{kind:?}: {said}");
            ensure!(device.credentials().await?.is_empty(), "{kind:?}");
            ensure!(rig.server.sql(PASSKEYS).await?.as_deref() == Some("0"), "{kind:?}");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn without_scripts_the_pages_offer_no_passkey_and_the_code_works() -> Result<()> {
    run_in(Looks { without_scripts: true, ..Looks::default() }, async |rig| {
        rig.go("/sign-in").await?;
        ensure!(!rig.browser.is_shown(USE).await?, "the button is shown");
        rig.enter_code("ann@acme.test").await?;
        rig.browser.wait_for(SIGN_OUT).await?;
        rig.go("/account/security").await?;
        rig.browser.click("form[action='/account/security/passkeys/new'] button").await?;
        let text = rig.browser.text("#no-passkeys").await?;
        ensure!(text.contains("scripts are turned off"), "{text}");
        ensure!(!rig.browser.is_shown("#name").await?, "the form is shown");
        Ok(())
    })
}
