//! Changes of email addresses.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer},
    tab::{Shown, Tab},
};

use crate::support::new_sign_ins::ANN;

pub(crate) const PATH: &str = "/v1/account/address-change";
pub(crate) const PAGE: &str = "/account/address";
pub(crate) const LINK: &str = "/address-change";
pub(crate) const NEW: &str = "ann.lee@harbour.test";

/// Requests a change.
pub(crate) async fn change(server: &TestServer, who: &SignedIn, email: &str) -> Result<TestResponse> {
    let request = server.http.request(Method::POST, PATH).bearer_auth(&who.access_token);
    server.http.send(request.json(&json!({ "email": email }))).await
}

/// Stops a change.
pub(crate) async fn stop(server: &TestServer, who: &SignedIn) -> Result<TestResponse> {
    server.http.send(server.http.request(Method::DELETE, PATH).bearer_auth(&who.access_token)).await
}

/// The secrets of the links in the next mails to the current and to the new address.
pub(crate) struct Links {
    pub(crate) current: String,
    pub(crate) new: String,
}

impl Links {
    pub(crate) async fn next(server: &TestServer) -> Result<Self> {
        Ok(Self { current: next_link(server, ANN).await?, new: next_link(server, NEW).await? })
    }

    /// Ann requests a change, and gets the links.
    pub(crate) async fn request(server: &TestServer, ann: &SignedIn) -> Result<Self> {
        let requested = change(server, ann, NEW).await?;
        ensure!(requested.status == 202, "{}", requested.text);
        Self::next(server).await
    }

    /// Both addresses confirm the change.
    pub(crate) async fn confirm(&self, server: &TestServer) -> Result<()> {
        for link in [&self.current, &self.new] {
            let confirmed = answer(&Tab::open(server)?, link, "confirm").await?;
            ensure!(confirmed.status == 200, "{}", confirmed.text);
        }
        Ok(())
    }
}

/// The secret of the link in the next mail that asks an address to confirm a change.
pub(crate) async fn next_link(server: &TestServer, to: &str) -> Result<String> {
    loop {
        let mail = server.mailbox.next_mail_to(to).await?;
        if mail.subject == "Your email address will change" {
            continue;
        }
        let Some((_, rest)) = mail.text.split_once("/address-change?token=") else { continue };
        let link = rest.split_whitespace().next().context("no link")?.to_owned();
        server.leaks.register("address link", &link);
        return Ok(link);
    }
}

/// Opens the page behind a link.
pub(crate) async fn open(tab: &Tab, link: &str) -> Result<Shown> {
    tab.get(&format!("{LINK}?token={link}")).await
}

/// Sends a form of the page behind a link.
pub(crate) async fn answer(tab: &Tab, link: &str, answer: &str) -> Result<Shown> {
    tab.submit(LINK, &[("token", link), ("answer", answer)]).await
}

/// The address of a user.
pub(crate) async fn address_of(server: &TestServer, user: &SignedIn) -> Result<Option<String>> {
    server.sql(&format!("select email from users where id = '{}'", service_api::ids::Id::uuid(user.user_id))).await
}

/// How many changes are requested.
pub(crate) async fn count(server: &TestServer) -> Result<Option<String>> {
    server.sql("select count(*) from address_changes").await
}
