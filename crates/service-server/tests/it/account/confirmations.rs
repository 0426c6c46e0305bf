//! What the account pages ask before they revoke something, what they say afterwards, and how they name devices.

use anyhow::{Context as _, Result};
use reqwest::Method;
use service_testkit::{
    server::{TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::authorize::{CALLBACK, asking, code, exchange, go_through, register};

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0 <b>secret-build</b>";

/// Signs in with a browser that names itself.
async fn signed_in(server: &TestServer, agent: &str, email: &str) -> Result<Tab> {
    let tab = Tab::open(server)?;
    let path = tab.get("/sign-in").await?.next()?.to_owned();
    tab.get(&path).await?;
    tab.submit(&path, &[("email", email)]).await?;
    let code = server.mailbox.next_mail_to(email).await?.code().context("no code")?;
    server.leaks.register("otp code", &code);
    let (csrf, code_path) = (tab.csrf(), format!("{path}/code"));
    let form = [("csrf", csrf.as_str()), ("code", code.as_str())];
    tab.send(tab.request(Method::POST, &code_path).header("user-agent", agent).form(&form)).await?;
    Ok(tab)
}

fn link(page: &Shown, prefix: &str) -> Result<String> {
    let found = page.text.split(&format!("href=\"{prefix}")).nth(1).and_then(|rest| rest.split('"').next());
    Ok(format!("{prefix}{}", found.with_context(|| format!("no link to {prefix}: {}", page.text))?))
}

async fn make_token(server: &TestServer, tab: &Tab, name: &str) -> Result<()> {
    tab.get("/account/tokens").await?;
    let wanted = [("name", name), ("space", "personal"), ("read", "true"), ("days", "9")];
    let made = tab.submit("/account/tokens", &wanted).await?;
    let token = made.text.split("SERVICE_TOKEN=").nth(1).and_then(|rest| rest.split('<').next());
    server.leaks.register("access_token", token.context("no token")?);
    Ok(())
}

#[test]
fn revoking_a_token_asks_first_and_says_so_afterwards_fh_10() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in(server, FIREFOX, "ann@acme.test").await?;
        make_token(server, &tab, "Build server").await?;
        let page = tab.get("/account/tokens").await?;
        assert!(page.text.contains("<li>View and search your projects"), "{}", page.text);
        let path = link(&page, "/account/tokens/clit_")?;
        let question = tab.get(&path).await?;
        assert!(question.text.contains("Revoke the token “Build server”?"), "{}", question.text);
        assert!(question.text.contains("<a class=\"button\" href=\"/account/tokens\">Cancel</a>"), "{}", question.text);
        let alive = "select count(*) from cli_tokens where revoked_at is null";
        assert_eq!(server.sql(alive).await?.as_deref(), Some("1"), "asking revokes");
        let done = tab.submit(&path, &[]).await?;
        assert_eq!(server.sql(alive).await?.as_deref(), Some("0"));
        let address = done.next()?.to_owned();
        assert!(!address.contains("Build"), "the message can be read in the address: {address}");
        let said = "role=\"status\">Token “Build server” revoked.</p>";
        assert!(tab.get(&address).await?.text.contains(said), "{}", tab.get(&address).await?.text);
        let stranger = Tab::open(server)?;
        assert_eq!(stranger.get(&path).await?.next()?, "/sign-in");
        Ok(())
    })
}

#[test]
fn a_message_is_the_browsers_own_and_for_a_minute_fh_10() -> Result<()> {
    with_server(async |server| {
        let other = signed_in(server, FIREFOX, "ann@acme.test").await?;
        let tab = signed_in(server, FIREFOX, "ann@acme.test").await?;
        make_token(server, &tab, "ci").await?;
        let path = link(&tab.get("/account/tokens").await?, "/account/tokens/clit_")?;
        let address = tab.submit(&path, &[]).await?.next()?.to_owned();
        let is_said = async |tab: &Tab, address: &str| -> Result<bool> {
            let page = tab.get(address).await?;
            assert_eq!(page.status, 200, "{address}");
            Ok(page.text.contains("role=\"status\""))
        };
        assert!(is_said(&tab, &address).await?);
        // Another person's browser, and another browser of the same person.
        let mallory = signed_in(server, FIREFOX, "mallory@evil.test").await?;
        for tab in [&mallory, &other] {
            assert!(!is_said(tab, &address).await?, "a message of another browser is shown");
        }
        for forged in ["Your+account+was+hacked", "", "AAAA", &"A".repeat(3_000)] {
            assert!(!is_said(&tab, &format!("/account/tokens?done={forged}")).await?, "{forged}");
        }
        let (start, last) = address.split_at(address.len() - 4);
        let swapped: String = last.chars().rev().collect();
        assert!(swapped == last || !is_said(&tab, &format!("{start}{swapped}")).await?, "a changed message is shown");
        server.advance(60);
        assert!(!is_said(&tab, &address).await?, "an old message is shown");
        Ok(())
    })
}

#[test]
fn a_session_that_is_gone_is_said_to_be_gone_fh_10() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in(server, FIREFOX, "ann@acme.test").await?;
        server.advance(61);
        let other = signed_in(server, "curl/8.5.0", "ann@acme.test").await?;
        let page = tab.get("/account/sessions").await?;
        let path = link(&page, "/account/sessions/sess_")?;
        assert!(tab.get(&path).await?.text.contains("Sign out Unknown browser?"));
        let done = tab.submit(&path, &[]).await?;
        assert!(tab.get(done.next()?).await?.text.contains("role=\"status\">Unknown browser signed out.</p>"));
        for gone in [tab.get(&path).await?, tab.submit(&path, &[]).await?] {
            assert!(gone.status == 404 && gone.text.contains("That session has already ended."), "{}", gone.text);
        }
        // The browser itself signs out again.
        let again = other.submit("/sign-out", &[]).await?;
        assert!(again.status == 403 && again.text.contains("You’re already signed out"), "{}", again.text);
        assert!(again.text.contains("href=\"/sign-in\""), "{}", again.text);
        // A session of an app, twice.
        let client = register(server, "Planner", &[CALLBACK]).await?;
        let allowed = go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        server.http.post("/oauth/token", &exchange(&client, &code(&allowed)?)).await?;
        let page = tab.get("/account/sessions").await?;
        let path = link(&page, "/account/sessions/grant_")?;
        assert!(tab.get(&path).await?.text.contains("Sign out Planner?"));
        let done = tab.submit(&path, &[]).await?;
        assert!(tab.get(done.next()?).await?.text.contains("role=\"status\">Planner signed out.</p>"));
        assert_eq!(tab.submit(&path, &[]).await?.status, 404);
        Ok(())
    })
}

#[test]
fn removing_an_app_and_signing_out_everywhere_ask_first_fh_10() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let client = register(server, "Planner", &[CALLBACK]).await?;
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        let path = link(&tab.get("/account/apps").await?, "/account/apps/consent_")?;
        assert!(tab.get(&path).await?.text.contains("Remove access of Planner?"));
        let done = tab.submit(&path, &[]).await?;
        let page = tab.get(done.next()?).await?;
        assert!(page.text.contains("role=\"status\">Access of Planner removed.</p>"), "{}", page.text);
        assert_eq!(tab.get(&path).await?.status, 404);
        let path = link(&tab.get("/account/sessions").await?, "/account/sessions/end-all")?;
        assert!(tab.get(&path).await?.text.contains("Sign out everywhere?"));
        assert_eq!(tab.get("/account").await?.status, 200);
        assert_eq!(tab.submit(&path, &[]).await?.next()?, "/sign-in");
        Ok(())
    })
}

#[test]
fn browsers_are_named_and_moments_told_from_now_fh_10() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in(server, FIREFOX, "ann@acme.test").await?;
        let stored = "select agent || ' ' || signed_in_from from browser_sessions where user_id is not null";
        assert_eq!(server.sql(stored).await?.as_deref(), Some("Firefox/Linux 127.0.0.1"));
        let page = tab.get("/account/sessions").await?;
        for part in [
            "<h3>Firefox on Linux</h3>",
            "less than a minute ago</time> from 127.0.0.1",
            "title=\"15 January 2027, 08:00 UTC\"",
        ] {
            assert!(page.text.contains(part), "{part}: {}", page.text);
        }
        for (seconds, expected) in
            [(180, "3 minutes ago</time>"), (2 * 3_600, "2 hours ago</time>"), (3 * 86_400, "3 days ago</time>")]
        {
            server.advance(seconds);
            let page = tab.get("/account/activity").await?;
            assert!(page.text.contains(expected), "{expected}: {}", page.text);
        }
        let german = tab.request(Method::GET, "/account/sessions").header("accept-language", "de");
        let page = tab.send(german).await?;
        assert!(
            page.text.contains("<h3>Firefox unter Linux</h3>") && page.text.contains("vor 3 Tagen</time>"),
            "{}",
            page.text
        );
        // A new consent replaces the cookie, and keeps what is known of the sign-in.
        let client = register(server, "Planner", &[CALLBACK]).await?;
        let begun = tab.get(&asking(&client, &[])).await?;
        crate::support::authorize::agree(&tab, begun, &[("space", "personal")]).await?;
        assert_eq!(server.sql(stored).await?.as_deref(), Some("Firefox/Linux 127.0.0.1"));
        Ok(())
    })
}
