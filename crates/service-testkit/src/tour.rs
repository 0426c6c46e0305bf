//! Every page, one after the other, in a real browser: for whoever looks at them or measures them.

use anyhow::{Context as _, Result};
use service_api::workspaces::Role;
use service_server::flows::{
    clients::{self, Wanted},
    exchange_code::challenge_of,
};

use crate::{browser::Browser, server::TestServer};

const VERIFIER: &str = "a-verifier-of-forty-three-characters-or-more";

/// A public client with this redirect URI.
pub async fn make_client(server: &TestServer, name: &str, redirect_uri: &str) -> Result<String> {
    let wanted = Wanted { name: name.into(), redirect_uris: vec![redirect_uri.into()], ..Wanted::default() };
    Ok(clients::create(&server.app, &wanted).await?.id)
}

/// Where a client sends people.
#[must_use]
pub fn authorize_url(server: &TestServer, client_id: &str, redirect_uri: &str, scope: &str) -> String {
    let challenge = challenge_of(VERIFIER);
    let pairs = [
        ("client_id", client_id),
        ("redirect_uri", redirect_uri),
        ("response_type", "code"),
        ("scope", scope),
        ("state", "some"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let url = reqwest::Url::parse_with_params(&format!("{}/oauth/authorize", server.door.url), pairs);
    url.map(String::from).unwrap_or_default()
}

/// The code that an address was sent.
pub async fn code_for(server: &TestServer, email: &str) -> Result<String> {
    let code = server.mailbox.next_mail_to(email).await?.code().context("the mail holds no code")?;
    server.leaks.register("otp code", &code);
    Ok(code)
}

/// Goes through every page as this person, who has not been here before, and looks at each.
pub async fn tour(
    server: &TestServer,
    browser: &Browser,
    email: &str,
    mut look: impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    let url = &server.door.url;
    let known = make_client(server, "Harbour Planner", "https://planner.example/callback").await?;
    let local = make_client(server, "Terminal Notes", "http://127.0.0.1/callback").await?;
    browser.go(&authorize_url(server, "nobody", "https://planner.example/callback", "read")).await?;
    look("problem", browser).await?;
    browser.go(&format!("{url}/docs")).await?;
    look("manual", browser).await?;
    browser.go(&authorize_url(server, &local, "http://127.0.0.1:7777/callback", "read write")).await?;
    look("sign-in", browser).await?;
    browser.run("document.querySelector('form').noValidate = true").await?;
    browser.type_into("input[name=email]", "not an address").await?;
    browser.click("button[type=submit]").await?;
    browser.wait_for("[role=alert]").await?;
    look("sign-in-wrong", browser).await?;
    browser.go(&authorize_url(server, &local, "http://127.0.0.1:7777/callback", "read write")).await?;
    browser.type_into("input[name=email]", email).await?;
    browser.click("button[type=submit]").await?;
    browser.wait_for("input[name=code]").await?;
    look("code", browser).await?;
    let code = code_for(server, email).await?;
    browser.type_into("input[name=code]", "0000 0000").await?;
    browser.click("button.main").await?;
    browser.wait_for("[role=alert]").await?;
    look("code-wrong", browser).await?;
    browser.type_into("input[name=code]", &code).await?;
    browser.click("button.main").await?;
    browser.wait_for("input[name=space]").await?;
    look("consent-unproven", browser).await?;
    let user = server.sql(&format!("select id from users where email = '{email}'")).await?.context("no user")?;
    let user: service_api::ids::UserId = user.parse::<uuid::Uuid>()?.into();
    for name in ["Harbour works", "Lighthouse restoration"] {
        server.make_workspace(name, &[(user, Role::Owner)]).await?;
    }
    browser.go(&authorize_url(server, &known, "https://planner.example/callback", "projects:read cases:read")).await?;
    browser.wait_for("input[name=space]").await?;
    look("consent", browser).await?;
    browser.go(&format!("{url}/account")).await?;
    look("account-new", browser).await?;
    browser.type_into("input[name=name]", "Build server").await?;
    browser.click("form[action='/account/tokens'] button.main").await?;
    browser.wait_for("input.secret").await?;
    server.leaks.register("access_token", &browser.attribute("input.secret", "value").await?);
    look("token-created", browser).await?;
    server.sign_in("someone-else@acme.test", "read").await.map(drop).or_else(|_| anyhow::Ok(()))?;
    browser.go(&format!("{url}/account")).await?;
    look("account", browser).await
}
