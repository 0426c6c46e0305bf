//! Accounts that are closed.

use anyhow::{Context as _, Result};
use reqwest::Method;
use service_testkit::{
    mailbox::Mail,
    response::TestResponse,
    server::{SignedIn, TestServer},
};

use crate::support::new_sign_ins::ANN;

pub(crate) const DAY: i64 = 86_400;
pub(crate) const PAGE: &str = "/account/delete";
pub(crate) const KEEP: &str = "/keep-account";

/// Closes the account of a user.
pub(crate) async fn delete(server: &TestServer, who: &SignedIn) -> Result<TestResponse> {
    server.http.send(server.http.request(Method::DELETE, "/v1/account").bearer_auth(&who.access_token)).await
}

/// The secret of the link in the next mail to Ann that has one.
pub(crate) async fn next_link(server: &TestServer) -> Result<String> {
    loop {
        let mail = server.mailbox.next_mail_to(ANN).await?;
        if let Some(link) = link_in(server, &mail)? {
            return Ok(link);
        }
    }
}

/// The secret of the link in a mail that keeps an account.
pub(crate) fn link_in(server: &TestServer, mail: &Mail) -> Result<Option<String>> {
    let Some((_, rest)) = mail.text.split_once("/keep-account?token=") else { return Ok(None) };
    let link = rest.split_whitespace().next().context("no link")?.to_owned();
    server.leaks.register("account link", &link);
    Ok(Some(link))
}

/// Whether Ann has an account.
pub(crate) async fn has_account(server: &TestServer) -> Result<bool> {
    let found = server.sql(&format!("select count(*) from users where email = '{ANN}'")).await?;
    Ok(found.as_deref() == Some("1"))
}

/// Whether an account is closed.
pub(crate) async fn is_closed(server: &TestServer) -> Result<bool> {
    Ok(server.sql("select count(*) from account_deletions").await?.as_deref() != Some("0"))
}
