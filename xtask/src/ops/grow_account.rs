//! What happens to accounts in the days of the drill `grow`: exports, changes of the address, accounts that are closed, and passkeys
//! that are added, lost and removed.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use service_testkit::authenticator::{self, TestAuthenticator};
use service_testkit::leaks::Leaks;
use service_testkit::server::SignedIn;
use service_testkit::tab::{Shown, Tab};

use super::grow_users::{PasskeyOfDays, UsersOfDays};

/// The user who has a passkey, and loses it again and again.
const FORGETFUL: &str = "dora@acme.test";
/// A first passkey counts after a week.
const DAYS_OF_A_PASSKEY: u32 = 8;

const SECURITY: &str = "/account/security";

/// Makes the account changes of one day.
pub(super) async fn change_accounts(users: &mut UsersOfDays, owner: &SignedIn, day: u32) -> Result<()> {
    users.send(owner, Method::POST, "/v1/account/exports", None).await?;
    // The change is never confirmed.
    let other = json!({ "email": format!("ann{day}@acme.test") });
    users.send(owner, Method::POST, "/v1/account/address-change", Some(other)).await?;
    let leaver = users.sign_in(&format!("leaver{day}@acme.test")).await?;
    users.delete(&leaver, "/v1/account").await?;
    users.passkey = match users.passkey.take() {
        None => Some(add_passkey(users, day).await?),
        Some(passkey) if day >= passkey.added_on + DAYS_OF_A_PASSKEY => {
            lose_passkey(users, passkey).await?;
            None
        }
        kept => kept,
    };
    Ok(())
}

async fn add_passkey(users: &UsersOfDays, day: u32) -> Result<PasskeyOfDays> {
    let (tab, mut authenticator) = (sign_in_by_code(users).await?, TestAuthenticator::new()?);
    tab.get(SECURITY).await?;
    let options = authenticator::options(&tab.submit(&format!("{SECURITY}/passkeys/new"), &[]).await?.text)?;
    let response = authenticator.create(&options)?;
    let added = tab.submit(&format!("{SECURITY}/passkeys"), &[("name", "Laptop"), ("response", &response)]).await?;
    check(&added, "a passkey is added", 303)?;
    Ok(PasskeyOfDays { authenticator, added_on: day })
}

/// Creates recovery codes, and begins to remove all passkeys, which ends a day later.
async fn lose_passkey(users: &UsersOfDays, mut passkey: PasskeyOfDays) -> Result<()> {
    let tab = Tab::at(&users.http.url, &Leaks::default())?;
    let path = tab.get("/sign-in").await?.next()?.to_owned();
    let options: Value = authenticator::options(&tab.get(&path).await?.text)?;
    let response = passkey.authenticator.sign(&options)?;
    check(&tab.submit(&format!("{path}/passkey"), &[("response", &response)]).await?, "a passkey signs in", 303)?;
    tab.get(SECURITY).await?;
    check(&tab.submit(&format!("{SECURITY}/recovery-codes"), &[]).await?, "recovery codes are created", 200)?;
    let tab = sign_in_by_code(users).await?;
    tab.get(SECURITY).await?;
    check(&tab.submit(&format!("{SECURITY}/recovery"), &[]).await?, "a recovery begins", 303)
}

async fn sign_in_by_code(users: &UsersOfDays) -> Result<Tab> {
    let tab = Tab::at(&users.http.url, &Leaks::default())?;
    let path = tab.get("/sign-in").await?.next()?.to_owned();
    tab.sign_in(&users.mailbox, &path, FORGETFUL).await.context("no sign-in by code")?;
    Ok(tab)
}

fn check(shown: &Shown, what: &str, status: u16) -> Result<()> {
    ensure!(shown.status.as_u16() == status, "{what}: {} {}", shown.status, shown.text);
    Ok(())
}
