//! Sign-ins of a company's users: to the command line through the company, and by code on the pages.

use anyhow::Result;
use serde_json::json;
use service_api::oauth::SERVICE_CLI;
use service_testkit::{
    server::{SignedIn, TestServer, signed_in},
    tab::{Shown, Tab},
};

use crate::support::{
    authorize::{CALLBACK, VERIFIER, agree, asking, code, exchange},
    sso::{Company, at_provider},
};

const LOOPBACK: &str = "http://127.0.0.1:7777/callback";

/// Signs in to the command line through a connection.
pub(crate) async fn command_line(server: &TestServer, acme: &Company, tab: &Tab) -> Result<SignedIn> {
    let asked = asking(SERVICE_CLI, &[("redirect_uri", LOOPBACK), ("scope", "read write")]);
    let start = asked.replace("/oauth/authorize?", &format!("{}&", acme.start()));
    let begun = tab.get(&start).await?;
    let shown = if begun.status == 200 {
        let back = tab.get(&at_provider(server, &begun).await?).await?;
        tab.get(back.next()?).await?
    } else {
        begun
    };
    let done = agree(tab, shown, &[("space", "personal")]).await?;
    let body = json!({
        "grant_type": "authorization_code", "client_id": SERVICE_CLI, "code": code(&done)?,
        "redirect_uri": LOOPBACK, "code_verifier": VERIFIER,
    });
    signed_in(&server.http.post("/oauth/token", &body).await?)
}

/// Lets an app have access to the account that a tab is signed in to.
pub(crate) async fn authorize_app(server: &TestServer, tab: &Tab, client: &str) -> Result<SignedIn> {
    let done =
        agree(tab, tab.get(&asking(client, &[("redirect_uri", CALLBACK)])).await?, &[("space", "personal")]).await?;
    signed_in(&server.http.post("/oauth/token", &exchange(client, &code(&done)?)).await?)
}

/// Requests a code on the page at `path`, also where the page offers the company first. Returns the page that takes the code.
pub(crate) async fn request_code(tab: &Tab, path: &str, email: &str) -> Result<String> {
    tab.get(path).await?;
    let sent = tab.submit(path, &[("email", email)]).await?;
    if let Some(code_path) = sent.location {
        return Ok(code_path);
    }
    tab.get(path).await?;
    Ok(tab.submit(&format!("{path}/sso"), &[("decision", "code")]).await?.next()?.to_owned())
}

/// Signs in to the account pages by code. Returns the answer to the code.
pub(crate) async fn sign_in_by_code(server: &TestServer, tab: &Tab, email: &str) -> Result<Shown> {
    let path = tab.get("/sign-in").await?.next()?.to_owned();
    let code_path = request_code(tab, &path, email).await?;
    enter_code(server, tab, &code_path, email).await
}

/// Enters the code that was mailed last.
pub(crate) async fn enter_code(server: &TestServer, tab: &Tab, code_path: &str, email: &str) -> Result<Shown> {
    let code = server.mailbox.next_code_to(email).await?;
    server.leaks.register("otp code", &code);
    tab.get(code_path).await?;
    tab.submit(code_path, &[("code", &code)]).await
}
