//! The pages that ask an authenticator for something.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use service_testkit::{
    authenticator::{self, TestAuthenticator},
    server::TestServer,
    tab::{Shown, Tab},
};

use crate::support::sso_sign_ins::sign_in_by_code;

pub(crate) const SECURITY: &str = "/account/security";
pub(crate) const NEW: &str = "/account/security/passkeys/new";
pub(crate) const ADD: &str = "/account/security/passkeys";

/// What the pages say about a passkey that is not accepted, on the sign-in page.
pub(crate) const REFUSED: &str = "That passkey wasn’t accepted. Sign in with a code instead.";

/// What a page asks the browser for. The challenge must stay out of logs and tables.
pub(crate) fn options(server: &TestServer, page: &Shown) -> Result<Value> {
    ensure!(page.status == 200, "{}: {}", page.status, page.text);
    let options = authenticator::options(&page.text)?;
    server.leaks.register("passkey challenge", options["challenge"].as_str().context("no challenge")?);
    Ok(options)
}

/// A sign-in that a browser has begun.
pub(crate) struct Begun {
    /// The address of the page.
    pub(crate) path: String,
    pub(crate) options: Value,
}

/// Opens the sign-in page.
pub(crate) async fn begin(server: &TestServer, tab: &Tab) -> Result<Begun> {
    let path = tab.get("/sign-in").await?.next()?.to_owned();
    let options = options(server, &tab.get(&path).await?)?;
    Ok(Begun { path, options })
}

impl Begun {
    /// Sends what an authenticator signed.
    pub(crate) async fn send(&self, tab: &Tab, response: &str) -> Result<Shown> {
        tab.submit(&format!("{}/passkey", self.path), &[("response", response)]).await
    }
}

/// Opens the sign-in page, and lets an authenticator sign. Returns the answer.
pub(crate) async fn sign_in(server: &TestServer, tab: &Tab, authenticator: &mut TestAuthenticator) -> Result<Shown> {
    let begun = begin(server, tab).await?;
    let response = authenticator.sign(&begun.options)?;
    begun.send(tab, &response).await
}

/// A browser in which a user has just signed in by code.
pub(crate) async fn signed_in_tab(server: &TestServer, email: &str) -> Result<Tab> {
    let tab = Tab::open(server)?;
    let entered = sign_in_by_code(server, &tab, email).await?;
    ensure!(entered.status == 303, "{}: {}", entered.status, entered.text);
    Ok(tab)
}

/// Opens the page that creates a passkey; returns what it asks for.
pub(crate) async fn ask_for_new(server: &TestServer, tab: &Tab) -> Result<Value> {
    tab.get(SECURITY).await?;
    options(server, &tab.submit(NEW, &[]).await?)
}

/// Adds a passkey. Returns the answer.
pub(crate) async fn add(
    server: &TestServer,
    tab: &Tab,
    authenticator: &mut TestAuthenticator,
    name: &str,
) -> Result<Shown> {
    let options = ask_for_new(server, tab).await?;
    let response = authenticator.create(&options)?;
    tab.submit(ADD, &[("name", name), ("response", &response)]).await
}

/// A browser of a user with a passkey, which is returned too.
pub(crate) async fn user_with_passkey(server: &TestServer, email: &str) -> Result<(Tab, TestAuthenticator)> {
    let (tab, mut authenticator) = (signed_in_tab(server, email).await?, TestAuthenticator::new()?);
    let added = add(server, &tab, &mut authenticator, "Laptop").await?;
    ensure!(added.status == 303, "{}: {}", added.status, added.text);
    Ok((tab, authenticator))
}

/// The access token of a user with a passkey that counts.
pub(crate) async fn token_by_passkey(server: &TestServer, email: &str) -> Result<String> {
    let signed_in = server.sign_in(email, "read write").await?;
    server.make_passkey(signed_in.user_id, "Laptop").await?;
    server.sql("update passkeys set counts_from = created_at - interval '1 day'").await?;
    Ok(signed_in.access_token)
}

/// The addresses of the pages that ask before a listed passkey is removed, the newest passkey first.
pub(crate) async fn remove_paths(tab: &Tab) -> Result<Vec<String>> {
    let page = tab.get(SECURITY).await?;
    let links = page.text.split("href=\"/account/security/passkeys/").skip(1);
    Ok(links.filter_map(|rest| rest.split('"').next()).map(|end| format!("{ADD}/{end}")).collect())
}

/// Whether no user is signed in with a browser.
pub(crate) async fn is_signed_out(tab: &Tab) -> Result<bool> {
    Ok(tab.get("/account").await?.location.as_deref() == Some("/sign-in"))
}

/// Fails unless a passkey was refused with this sentence, and no user is signed in.
pub(crate) async fn check_refused(tab: &Tab, shown: &Shown, sentence: &str) -> Result<()> {
    ensure!(shown.status == 400 && shown.text.contains(sentence), "{}: {}", shown.status, shown.text);
    ensure!(is_signed_out(tab).await?, "the browser is signed in");
    Ok(())
}

/// How many audit events of this name there are.
pub(crate) async fn events(server: &TestServer, name: &str) -> Result<i64> {
    let counted = server.sql(&format!("select count(*) from audit_events where event = '{name}'")).await?;
    Ok(counted.context("nothing was counted")?.parse()?)
}
