//! Signing in by a passkey, and what the page says when that does not work.

use anyhow::{Result, ensure};
use serde_json::json;
use service_testkit::{
    browser::{ENTER, Looks, TAB},
    virtual_authenticator::{PLATFORM, SECURITY_KEY},
};

use super::{PROBLEM, SIGN_OUT, USE, run, run_in};

#[test]
fn the_suggestions_of_the_email_field_sign_in_too() -> Result<()> {
    run_in(Looks::default(), async |rig| {
        let _device = rig.browser.plug_in(PLATFORM).await?;
        rig.sign_in_by_code("ann@acme.test").await?;
        rig.add("Laptop").await?;
        rig.go("/account").await?;
        rig.browser.click(SIGN_OUT).await?;
        // The driver's authenticator answers as if the person had chosen the suggestion.
        rig.wait_for_account("ann@acme.test").await?;
        ensure!(rig.sign_ins().await? == 1, "not by the passkey");
        Ok(())
    })
}

#[test]
fn by_keyboard_alone_a_person_signs_in_by_a_passkey() -> Result<()> {
    run(async |rig| {
        let _device = rig.browser.plug_in(PLATFORM).await?;
        rig.sign_in_by_code("ann@acme.test").await?;
        rig.add("Laptop").await?;
        rig.sign_out().await?;
        rig.browser.wait_for(USE).await?;
        for _ in 0..5 {
            rig.browser.press(TAB).await?;
            if rig.browser.focused().await? == "Sign in with a passkey" {
                break;
            }
        }
        ensure!(rig.browser.focused().await? == "Sign in with a passkey", "the button cannot be reached");
        rig.browser.press(ENTER).await?;
        rig.wait_for_account("ann@acme.test").await
    })
}

#[test]
fn a_person_who_cancels_is_told_so_and_signs_in_by_code() -> Result<()> {
    run(async |rig| {
        let device = rig.browser.plug_in(PLATFORM).await?;
        rig.sign_in_by_code("ann@acme.test").await?;
        rig.add("Laptop").await?;
        rig.sign_out().await?;
        device.set_verified(false).await?;
        rig.press().await?;
        let said = rig.browser.wait_for_text(PROBLEM).await?;
        ensure!(said == "No passkey was used. Try again, or sign in with a code.", "{said}");
        ensure!(rig.browser.is_shown(USE).await?, "there is no second try");
        rig.enter_code("ann@acme.test").await?;
        ensure!(rig.sign_ins().await? == 0, "the passkey was used");
        // The next try, with the right finger.
        rig.sign_out().await?;
        rig.press().await?;
        rig.browser.wait_for_text(PROBLEM).await?;
        device.set_verified(true).await?;
        rig.browser.click(USE).await?;
        rig.wait_for_account("ann@acme.test").await
    })
}

#[test]
fn two_accounts_of_one_device_stay_apart() -> Result<()> {
    run(async |rig| {
        for (email, name) in [("ann@acme.test", "Ann’s"), ("bob@acme.test", "Bob’s")] {
            let device = rig.browser.plug_in(PLATFORM).await?;
            rig.sign_in_by_code(email).await?;
            rig.add(name).await?;
            rig.sign_out().await?;
            rig.press().await?;
            rig.wait_for_account(email).await?;
            rig.sign_out().await?;
            device.unplug().await?;
        }
        // One device with both: excluding what one account has does not keep the other from adding its own.
        let device = rig.browser.plug_in(PLATFORM).await?;
        for email in ["cleo@acme.test", "dora@acme.test"] {
            rig.sign_in_by_code(email).await?;
            rig.add("Shared device").await?;
            rig.sign_out().await?;
        }
        ensure!(device.credentials().await?.len() == 2, "the second replaced the first");
        rig.press().await?;
        rig.browser.wait_for(SIGN_OUT).await?;
        let text = rig.browser.text("body").await?;
        let is_signed_in = |email| text.contains(email);
        ensure!(is_signed_in("cleo@acme.test") != is_signed_in("dora@acme.test"), "{text}");
        Ok(())
    })
}

#[test]
fn a_removed_passkey_that_the_device_still_has_is_refused_with_a_sentence() -> Result<()> {
    run(async |rig| {
        let _device = rig.browser.plug_in(PLATFORM).await?;
        rig.sign_in_by_code("ann@acme.test").await?;
        rig.add("Laptop").await?;
        rig.go("/account/security").await?;
        rig.browser.click("a[href^='/account/security/passkeys/']").await?;
        rig.browser.click(".card form button.main").await?;
        let said = rig.browser.text("[role=status]").await?;
        ensure!(said == "Passkey Laptop removed.", "{said}");
        rig.sign_out().await?;
        rig.press().await?;
        let said = rig.browser.wait_for_text(PROBLEM).await?;
        ensure!(said == "That passkey wasn’t accepted. Sign in with a code instead.", "{said}");
        rig.enter_code("ann@acme.test").await
    })
}

#[test]
fn a_copied_security_key_is_refused_and_the_real_one_works_on_pk_28() -> Result<()> {
    run(async |rig| {
        let key = rig.browser.plug_in(SECURITY_KEY).await?;
        rig.sign_in_by_code("ann@acme.test").await?;
        rig.add("Security key").await?;
        for _ in 0..3 {
            rig.sign_out().await?;
            rig.press().await?;
            rig.wait_for_account("ann@acme.test").await?;
        }
        rig.sign_out().await?;
        let original = key.credentials().await?.remove(0);
        key.unplug().await?;
        let mut copied = original.clone();
        copied["signCount"] = json!(1);
        let copy = rig.browser.plug_in(SECURITY_KEY).await?;
        copy.add_credential(&copied).await?;
        rig.press().await?;
        let said = rig.browser.wait_for_text(PROBLEM).await?;
        ensure!(said.contains("another device seems to have a copy of it"), "{said}");
        ensure!(rig.sign_ins().await? == 3, "the copy signs in");
        while rig.server.mailbox.next_mail_to("ann@acme.test").await?.subject != "A copy of your passkey was used" {}
        copy.unplug().await?;
        let real = rig.browser.plug_in(SECURITY_KEY).await?;
        real.add_credential(&original).await?;
        rig.press().await?;
        rig.wait_for_account("ann@acme.test").await
    })
}
