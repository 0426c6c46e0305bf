//! Visits every page in a real browser, for screenshots and measurements.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_api::{
    contents::Kind,
    ids::{Id as _, UserId},
    workspaces::Role,
};
use service_rules::{email::Address, space::Space};
use service_server::{
    crypto::{digest::pkce_challenge, random},
    flows::{
        clients::{self, ClientToRegister},
        sign_in::email_key::email_key,
    },
    store::{self, confirmations::Confirmation, invitations::NewInvitation},
};

use crate::{browser::Browser, server::TestServer};

const PROVIDER_SECRET: &str = "a-secret-that-the-provider-shows-once";
/// The button of a question.
const QUESTION: &str = ".card form button.main";
const VERIFIER: &str = "a-verifier-of-forty-three-characters-or-more";

/// Creates a public client with this redirect URI.
pub async fn make_client(server: &TestServer, name: &str, redirect_uri: &str) -> Result<String> {
    let wanted =
        ClientToRegister { name: name.into(), redirect_uris: vec![redirect_uri.into()], ..ClientToRegister::default() };
    Ok(clients::create(&server.app, &wanted).await?.id)
}

/// Returns the authorization URL of a client.
#[must_use]
pub fn authorize_url(server: &TestServer, client_id: &str, redirect_uri: &str, scope: &str) -> String {
    let challenge = pkce_challenge(VERIFIER);
    let pairs = [
        ("client_id", client_id),
        ("redirect_uri", redirect_uri),
        ("response_type", "code"),
        ("scope", scope),
        ("state", "some"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let url = reqwest::Url::parse_with_params(&format!("{}/oauth/authorize", server.http.url), pairs);
    url.map(String::from).unwrap_or_default()
}

/// Returns the code that was sent to an address.
pub async fn code_for(server: &TestServer, email: &str) -> Result<String> {
    let code = server.mailbox.next_code_to(email).await?;
    server.leaks.register("otp code", &code);
    Ok(code)
}

/// Visits every page as a new user, and calls `look` at each.
pub async fn tour(
    server: &TestServer,
    browser: &Browser,
    email: &str,
    mut look: impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    let url = &server.http.url;
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
    browser.wait_for("#problem").await?;
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
    let user: UserId = user.parse::<uuid::Uuid>()?.into();
    for name in ["Harbour works", "Lighthouse restoration"] {
        server.make_workspace(name, &[(user, Role::Owner)]).await?;
    }
    browser.go(&authorize_url(server, &known, "https://planner.example/callback", "projects:read cases:read")).await?;
    browser.wait_for("input[name=space]").await?;
    look("consent", browser).await?;
    let command_line = "http://127.0.0.1:7777/callback";
    browser.go(&authorize_url(server, "service-cli", command_line, "read write")).await?;
    browser.wait_for("input[name=space]").await?;
    look("consent-command-line", browser).await?;
    let body = json!({ "client_name": "Chart Maker", "redirect_uris": ["https://charts.example/callback"] });
    let stranger = server.http.post("/oauth/register", &body).await?.field("client_id").to_owned();
    browser.go(&authorize_url(server, &stranger, "https://charts.example/callback", "read audit:read")).await?;
    browser.wait_for("input[name=space]").await?;
    look("consent-stranger", browser).await?;
    account_tour(server, browser, &local, &mut look).await?;
    confirmation_tour(server, browser, user, &mut look).await?;
    invite(server, user, email).await?;
    workspace_tour(server, browser, &mut look).await?;
    report_tour(server, browser, email, &mut look).await?;
    address_tour(server, browser, email, &mut look).await?;
    leave_tour(server, browser, user, email, &mut look).await
}

/// Visits the pages behind the link in a mail about a new sign-in.
async fn report_tour(
    server: &TestServer,
    browser: &Browser,
    email: &str,
    look: &mut impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    // In the first hour of an account there is no mail.
    server.sql(&format!("update users set created_at = created_at - interval '1 day' where email = '{email}'")).await?;
    server.sign_in(email, "read").await?;
    let path = next_link(server, email, "/sign-in-report?token=").await?;
    browser.go(&format!("{}{path}", server.http.url)).await?;
    look("sign-in-report", browser).await?;
    browser.click(QUESTION).await?;
    browser.wait_for("h1.answered").await?;
    look("sign-in-reported", browser).await
}

/// Visits the pages behind the link that confirms a change of the address.
async fn address_tour(
    server: &TestServer,
    browser: &Browser,
    email: &str,
    look: &mut impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    let url = &server.http.url;
    browser.go(&format!("{url}/account/address")).await?;
    look("account-address", browser).await?;
    browser.type_into("#email", "ann.lee@harbour.example").await?;
    browser.click("form[action='/account/address'] button").await?;
    browser.wait_for("form[action='/account/address/stop']").await?;
    look("account-address-requested", browser).await?;
    let path = next_link(server, email, "/address-change?token=").await?;
    browser.go(&format!("{url}{path}")).await?;
    look("address-change", browser).await?;
    browser.click("form[action='/address-change'] button.main").await?;
    browser.wait_for("h1.answered").await?;
    look("address-change-confirmed", browser).await?;
    browser.go(&format!("{url}{path}")).await?;
    browser.click("form[action='/address-change'] button").await?;
    browser.wait_for("h1.answered").await?;
    look("address-change-stopped", browser).await?;
    browser.go(&format!("{url}{path}")).await?;
    look("address-change-used", browser).await
}

/// Visits the pages of a user who closes the account and then keeps it.
async fn leave_tour(
    server: &TestServer,
    browser: &Browser,
    user: UserId,
    email: &str,
    look: &mut impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    // No workspace needs the user.
    for table in ["members", "memberships"] {
        server.sql(&format!("update {table} set role = 'member' where user_id = '{}'", user.uuid())).await?;
    }
    let url = &server.http.url;
    browser.go(&format!("{url}/account/delete")).await?;
    browser.click("form[action='/account/delete'] button").await?;
    browser.wait_for("h1.answered").await?;
    look("account-closed", browser).await?;
    let path = next_link(server, email, "/keep-account?token=").await?;
    browser.go(&format!("{url}{path}")).await?;
    look("keep-account", browser).await?;
    browser.click(QUESTION).await?;
    browser.wait_for("h1.answered").await?;
    look("account-kept", browser).await?;
    browser.go(&format!("{url}{path}")).await?;
    look("keep-account-used", browser).await
}

/// The path of the next link of this kind that is mailed to a user.
async fn next_link(server: &TestServer, email: &str, start: &str) -> Result<String> {
    loop {
        let mail = server.mailbox.next_mail_to(email).await?;
        let Some((_, token)) = mail.text.split_once(start) else { continue };
        let token = token.split_whitespace().next().unwrap_or_default();
        server.leaks.register("link", token);
        return Ok(format!("{start}{token}"));
    }
}

/// Visits the account pages, empty and with content.
async fn account_tour(
    server: &TestServer,
    browser: &Browser,
    client: &str,
    look: &mut impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    let url = &server.http.url;
    for page in ["apps", "tokens"] {
        browser.go(&format!("{url}/account/{page}")).await?;
        look(&format!("account-{page}-empty"), browser).await?;
    }
    browser.type_into("input[name=name]", "Build server").await?;
    browser.click("form[action='/account/tokens'] button.main").await?;
    browser.wait_for("input.secret").await?;
    server.leaks.register("access_token", &browser.attribute("input.secret", "value").await?);
    look("token-created", browser).await?;
    connect(server, browser, client).await?;
    let redirect_uri = format!("{url}/callback");
    browser.go(&authorize_url(server, client, &redirect_uri, "read write audit:read")).await?;
    browser.wait_for("select[name=expires]").await?;
    look("consent-more", browser).await?;
    browser.go(&format!("{url}/account")).await?;
    look("account", browser).await?;
    passkey_tour(server, browser, look).await?;
    browser.go(&format!("{url}/account/secure")).await?;
    look("account-secure", browser).await?;
    for page in ["data", "delete", "sessions", "apps", "tokens", "workspaces", "activity"] {
        browser.go(&format!("{url}/account/{page}")).await?;
        look(&format!("account-{page}"), browser).await?;
    }
    account_questions(server, browser, look).await
}

/// Visits the pages about passkeys: without any, the one that creates one, with two, and the question before one is removed.
async fn passkey_tour(
    server: &TestServer,
    browser: &Browser,
    look: &mut impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    let security = format!("{}/account/security", server.http.url);
    browser.go(&security).await?;
    browser.wait_for(".none").await?;
    look("account-security-empty", browser).await?;
    browser.click("form[action='/account/security/passkeys/new'] button").await?;
    browser.wait_for("[data-passkey]").await?;
    look("passkey-new", browser).await?;
    let owner =
        server.sql("select user_id from passkey_users order by user_id desc limit 1").await?.context("no user")?;
    let user_id: UserId = owner.parse::<uuid::Uuid>()?.into();
    for name in ["Laptop", "Password manager"] {
        server.make_passkey(user_id, name).await?;
    }
    browser.go(&security).await?;
    browser.wait_for(".entry").await?;
    look("account-security", browser).await?;
    // Recovery codes are for users whose passkeys count. For what follows, the sign-in by code has to be enough.
    let counting = |days: i32| format!("update passkeys set counts_from = counts_from + interval '{days} days'");
    server.sql(&counting(-30)).await?;
    browser.go(&security).await?;
    browser.wait_for("#codes").await?;
    look("account-security-codes", browser).await?;
    browser.click("form[action='/account/security/recovery-codes'] button").await?;
    browser.wait_for("ol code").await?;
    look("recovery-codes", browser).await?;
    // The right code was entered, and the user requires a passkey.
    let again = authorize_url(server, "service-cli", "http://127.0.0.1:7777/callback", "read write");
    browser.go(&format!("{again}&prompt=login")).await?;
    let waiting = "code_user_id = u.id, code_entered_at = f.created_at, email = u.email";
    server.sql(&format!("update sign_in_flows f set {waiting} from users u where u.id = '{owner}'")).await?;
    browser.run("location.reload()").await?;
    browser.wait_for("#lost").await?;
    look("sign-in-passkey", browser).await?;
    server.sql(&counting(30)).await?;
    browser.go(&security).await?;
    question(browser, "a[href^='/account/security/passkeys/']", "account-confirm-passkey", look).await
}

/// Visits the pages that ask before something of the account is revoked, and one that says what was done.
async fn account_questions(
    server: &TestServer,
    browser: &Browser,
    look: &mut impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    server.sql("update cli_tokens set suspected_at = now() where shard >= 0 and name = 'Build server'").await?;
    let account = format!("{}/account", server.http.url);
    for (name, page, link) in [
        ("session", "sessions", "a[href^='/account/sessions/grant_']"),
        ("everywhere", "sessions", "a[href='/account/sessions/end-all']"),
        ("app", "apps", "a[href^='/account/apps/consent_']"),
        ("suspected", "tokens", "a[href='/account/suspected-tokens/revoke']"),
        ("token", "tokens", "a[href^='/account/tokens/clit_']"),
    ] {
        browser.go(&format!("{account}/{page}")).await?;
        question(browser, link, &format!("account-confirm-{name}"), look).await?;
    }
    browser.click(QUESTION).await?;
    browser.wait_for("[role=status]").await?;
    look("account-done", browser).await
}

/// Asks what the link on a page leads to, and looks at the question.
async fn question(
    browser: &Browser,
    link: &str,
    name: &str,
    look: &mut impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    browser.click(link).await?;
    browser.wait_for(QUESTION).await?;
    look(name, browser).await
}

/// Visits the page on which a user confirms a deletion.
async fn confirmation_tour(
    server: &TestServer,
    browser: &Browser,
    user: UserId,
    look: &mut impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    let (now, content) = (server.now(), server.make_project(Space::Personal, user, "Map of the harbour").await?);
    let confirmation = Confirmation {
        id: random::id_in(user.shard(), now)?,
        user_id: user,
        client_id: "service-mcp".into(),
        kind: Kind::Project,
        content_id: content.uuid(),
        workspace_id: None,
        version: 1,
        created_at: now,
        expires_at: now.checked_add(jiff::SignedDuration::from_mins(10))?,
        confirmed: None,
    };
    store::confirmations::insert(&server.app.database.connect().await?, &confirmation, 1).await?;
    browser.go(&format!("{}/confirm/{}", server.http.url, confirmation.id)).await?;
    browser.wait_for("button[value=delete]").await?;
    look("confirmation", browser).await?;
    browser.click("button[value=delete]").await?;
    browser.wait_for("h1.answered").await?;
    look("confirmation-answered", browser).await
}

/// Visits the workspace pages, with a pending invitation.
async fn workspace_tour(
    server: &TestServer,
    browser: &Browser,
    look: &mut impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    let url = &server.http.url;
    browser.go(&format!("{url}/workspaces")).await?;
    look("workspaces", browser).await?;
    browser.click("button[formaction$='/block']").await?;
    browser.wait_for("#blocked").await?;
    look("workspaces-blocked", browser).await?;
    browser.click("#blocked ~ ul button").await?;
    browser.wait_for("#invitations").await?;
    browser.go(&format!("{url}/account")).await?;
    look("account-invited", browser).await?;
    browser.click("form.stack button.main").await?;
    browser.wait_for("#leave").await?;
    look("workspace-member", browser).await?;
    question(browser, "a[href$='/leave']", "workspace-confirm-leave", look).await?;
    browser.go(&format!("{url}/workspaces")).await?;
    browser.click("a.button[href^='/workspaces/wsp_']").await?;
    browser.wait_for("#email").await?;
    browser.type_into("#email", "guest@harbour.example").await?;
    browser.click("form.panel button.main").await?;
    browser.wait_for("a[href$='/revoke']").await?;
    look("workspace", browser).await?;
    let workspace = browser.address().await?;
    question(browser, "a[href$='/remove']", "workspace-confirm-member", look).await?;
    browser.go(&workspace).await?;
    question(browser, "a[href$='/revoke']", "workspace-confirm-invitation", look).await?;
    browser.click(QUESTION).await?;
    browser.wait_for("[role=status]").await?;
    look("workspace-done", browser).await?;
    owner_tour(server, browser, &workspace, look).await
}

/// Visits the pages for owners of a workspace: credentials without any and with one, and activity.
async fn owner_tour(
    server: &TestServer,
    browser: &Browser,
    workspace: &str,
    look: &mut impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    browser.go(&format!("{workspace}/credentials")).await?;
    browser.wait_for(".none").await?;
    look("workspace-credentials-empty", browser).await?;
    browser.go(&format!("{}/account/tokens", server.http.url)).await?;
    browser.type_into("input[name=name]", "Tide table").await?;
    browser.type_into("select[name=space]", "Breakwater").await?;
    browser.click("form[action='/account/tokens'] button.main").await?;
    browser.wait_for("input.secret").await?;
    server.leaks.register("access_token", &browser.attribute("input.secret", "value").await?);
    browser.go(&format!("{workspace}/credentials")).await?;
    browser.wait_for("a[href$='/revoke']").await?;
    look("workspace-credentials", browser).await?;
    question(browser, "a[href$='/revoke']", "workspace-confirm-token", look).await?;
    browser.go(&format!("{workspace}/activity?event=cli_token.created")).await?;
    browser.wait_for(".event").await?;
    look("workspace-activity", browser).await?;
    browser.go(&format!("{workspace}/activity?member=x")).await?;
    browser.wait_for("[role=alert]").await?;
    look("workspace-activity-wrong", browser).await?;
    connection_tour(server, browser, workspace, look).await
}

/// Visits the pages about single sign-on, with a connection that is not set up to its end.
async fn connection_tour(
    server: &TestServer,
    browser: &Browser,
    workspace: &str,
    look: &mut impl AsyncFnMut(&str, &Browser) -> Result<()>,
) -> Result<()> {
    browser.go(&format!("{workspace}/connections")).await?;
    look("connections-empty", browser).await?;
    browser.type_into("#name", "Harbour works").await?;
    browser.type_into("#issuer", "https://login.harbour.example").await?;
    browser.click("form.panel button.main").await?;
    browser.wait_for("#provider[open]").await?;
    look("connection-provider", browser).await?;
    let connection = browser.address().await?;
    browser.type_into("#client_id", "service").await?;
    server.leaks.register("client secret of a provider", PROVIDER_SECRET);
    browser.type_into("#client_secret", PROVIDER_SECRET).await?;
    browser.click("#provider button.main").await?;
    browser.wait_for("#domain[open]").await?;
    look("connection-domain", browser).await?;
    browser.type_into("#new-domain", "harbour.example").await?;
    browser.click("#domain button.main").await?;
    browser.wait_for("#record-1").await?;
    look("connection-record", browser).await?;
    for step in ["try", "on", "settings", "delete"] {
        browser.click(&format!("#{step} summary")).await?;
    }
    look("connection-open", browser).await?;
    question(browser, "a[href*='/remove-domain?']", "connection-confirm-domain", look).await?;
    browser.go(&connection).await?;
    browser.click("#delete summary").await?;
    question(browser, "a[href$='/delete']", "connection-confirm-delete", look).await?;
    browser.go(&format!("{connection}/require")).await?;
    browser.wait_for("#impact").await?;
    look("connection-require", browser).await?;
    browser.go(&format!("{workspace}/connections")).await?;
    browser.wait_for(".entry").await?;
    look("connections", browser).await
}

/// Invites the user of the tour to another user's workspace. The other user is also a member of one of the user's own.
async fn invite(server: &TestServer, user: UserId, email: &str) -> Result<()> {
    let other = server.sql("select id from users where email = 'someone-else@acme.test'").await?;
    let other: UserId = match other {
        Some(id) => id.parse::<uuid::Uuid>()?.into(),
        None => server.sign_in("someone-else@acme.test", "read").await?.user_id,
    };
    let theirs = server.make_workspace("Pilots’ association", &[(other, Role::Owner)]).await?;
    server.make_workspace("Breakwater", &[(user, Role::Owner), (other, Role::Member)]).await?;
    let (app, now) = (&server.app, server.now());
    let address = Address::parse(email).map_err(|_| anyhow::anyhow!("no address"))?;
    let db = app.database.begin().await?;
    let invitation = NewInvitation {
        id: random::id_in(theirs.shard(), now)?,
        workspace_id: theirs,
        email: email_key(app, &db, &address).await?,
        role: Role::Member,
        invited_by: other,
        made_by: "",
        now,
        expires_at: now.checked_add(jiff::SignedDuration::from_hours(7 * 24))?,
    };
    store::invitations::replace(&db, &invitation, now).await?;
    Ok(db.commit().await?)
}

/// Connects an app whose redirect URI is on this machine: the server itself receives the redirect.
async fn connect(server: &TestServer, browser: &Browser, client: &str) -> Result<()> {
    let redirect_uri = format!("{}/callback", server.http.url);
    browser.go(&authorize_url(server, client, &redirect_uri, "read packs:write")).await?;
    browser.click("input[name=space]").await?;
    // The person can choose an end date with the keys; typing in a list selects by its text.
    browser.type_into("select[name=expires]", "In 7").await?;
    browser.click("button[value=allow]").await?;
    let address = reqwest::Url::parse(&browser.wait_for_address("/callback?").await?)?;
    let code = address.query_pairs().find(|(name, _)| name == "code").map(|(_, value)| value.into_owned());
    let code = code.with_context(|| format!("no code at {}", address.path()))?;
    server.leaks.register("authorization code", &code);
    let body = json!({
        "grant_type": "authorization_code", "client_id": client, "code": code, "code_verifier": VERIFIER,
        "redirect_uri": redirect_uri,
    });
    let response = server.http.post("/oauth/token", &body).await?;
    anyhow::ensure!(response.status == 200, "{}", response.text);
    Ok(())
}
