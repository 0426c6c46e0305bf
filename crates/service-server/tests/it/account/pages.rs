//! The account pages: what is connected, tokens, and how long a browser is signed in.

use anyhow::{Context as _, Result};
use service_server::flows::operator::Operator;
use service_testkit::{
    server::{TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::authorize::{CALLBACK, agree, asking, code, exchange, go_through, register};

/// The id in the first link of a page whose address begins so.
fn first_id(page: &Shown, prefix: &str) -> Result<String> {
    let found = page.text.split(&format!("href=\"{prefix}")).nth(1).and_then(|rest| rest.split('/').next());
    Ok(found.with_context(|| format!("no link to {prefix}: {}", page.text))?.to_owned())
}

/// Goes through the pages as this person; the app's access token.
async fn connect(server: &TestServer, tab: &Tab, client: &str, email: &str) -> Result<String> {
    let done = go_through(server, tab, &asking(client, &[("prompt", "consent")]), email).await?;
    let tokens = server.http.post("/oauth/token", &exchange(client, &code(&done)?)).await?;
    Ok(tokens.field("access_token").to_owned())
}

#[test]
fn the_account_pages_show_what_is_connected_and_revoke_it() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let access = connect(server, &tab, &client, "ann@acme.test").await?;
        assert_eq!(server.http.get("/v1/whoami", Some(&access)).await?.status, 200);
        let overview = tab.get("/account").await?;
        for expected in ["1 browser", "1 session", "1 app can", "0 active tokens", "0 workspaces", "All activity"] {
            assert!(overview.text.contains(expected), "{expected}: {}", overview.text);
        }
        for path in ["sessions", "apps", "tokens", "workspaces", "activity"] {
            let shown = tab.get(&format!("/account/{path}")).await?;
            let current = format!("href=\"/account/{path}\" aria-current=\"page\"");
            assert!(shown.status == 200 && shown.text.contains(&current), "{path}: {}", shown.text);
            assert_eq!(Tab::open(server)?.get(&format!("/account/{path}")).await?.next()?, "/sign-in");
        }
        let page = tab.get("/account/sessions").await?;
        assert!(page.text.contains("Web app"), "{}", page.text);
        let id = first_id(&page, "/account/sessions/grant_")?;
        let ended = tab.submit(&format!("/account/sessions/grant_{id}/end"), &[]).await?;
        assert!(ended.next()?.starts_with("/account/sessions?done="));
        assert_eq!(server.http.get("/v1/whoami", Some(&access)).await?.status, 401);
        assert!(
            tab.get(&asking(&client, &[])).await?.next()?.starts_with("/consent/"),
            "what was taken back is not asked again"
        );
        let foreign = tab.submit("/account/sessions/grant_00000000000000000000000000/end", &[]).await?;
        assert_eq!(foreign.status, 404);
        Ok(())
    })
}

#[test]
fn tokens_are_made_and_revoked_on_their_page() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        tab.get("/account/tokens").await?;
        let wanted = [("name", "ci"), ("space", "personal"), ("read", "true"), ("days", "9")];
        let made = tab.submit("/account/tokens", &wanted).await?;
        let token = made
            .text
            .split("svc_cli_")
            .nth(1)
            .and_then(|rest| rest.split(['"', '<', ' ']).next())
            .context("no token")?;
        let token = format!("svc_cli_{token}");
        server.leaks.register("access_token", &token);
        assert_eq!(server.http.get("/v1/whoami", Some(&token)).await?.status, 200);
        let page = tab.get("/account/tokens").await?;
        assert!(!page.text.contains(&token), "the secret is shown again");
        let id = first_id(&page, "/account/tokens/")?;
        let revoked = tab.submit(&format!("/account/tokens/{id}/revoke"), &[]).await?;
        assert!(revoked.next()?.starts_with("/account/tokens?done="));
        assert_eq!(server.http.get("/v1/whoami", Some(&token)).await?.status, 401);
        let wrong = tab.submit("/account/tokens", &[("name", ""), ("space", "personal"), ("read", "true")]).await?;
        assert!(wrong.status == 422 && wrong.text.contains("role=\"alert\""), "{}: {}", wrong.status, wrong.text);
        // A user who signed in a while ago has to sign in again before creating a token.
        server.advance(901);
        tab.get("/account/tokens").await?;
        assert!(tab.submit("/account/tokens", &wanted).await?.next()?.starts_with("/sign-in/"));
        Ok(())
    })
}

#[test]
fn the_account_page_lists_every_session_and_signs_out_everywhere_rv_19() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let mut clients = Vec::new();
        for number in 0..12 {
            clients.push(register(server, &format!("App number {number}"), &[CALLBACK]).await?);
        }
        let mut tokens = Vec::new();
        for client in &clients {
            tokens.push(connect(server, &tab, client, "ann@acme.test").await?);
        }
        for _ in 0..30 {
            server.advance(1);
            tokens.push(connect(server, &tab, &clients[0], "ann@acme.test").await?);
        }
        // By client: those with the newest session first, and no more of each than fits.
        let page = tab.get("/account/sessions").await?;
        assert_eq!(page.text.matches("<section").count(), 11, "browsers and ten clients");
        let all = format!("/account/sessions?client={}", clients[0].replace('_', "%5F"));
        assert!(page.text.contains("All 31 sessions") && page.text.contains(&all), "{}", page.text);
        let next = |page: &Shown| -> Result<String> {
            let (before, _) = page.text.split_once("\">Older sessions").context("no next page")?;
            Ok(before.rsplit('"').next().unwrap_or_default().replace("&#38;", "&"))
        };
        let second = tab.get(&next(&page)?).await?;
        assert_eq!(second.text.matches("<section").count(), 2, "{}", second.text);
        for number in 0..12 {
            let name = format!("<bdi>App number {number}</bdi>");
            let times = page.text.matches(&name).count() + second.text.matches(&name).count();
            assert_eq!(times, 1, "{name}");
        }
        let first = tab.get(&all).await?;
        let rest = tab.get(&next(&first)?).await?;
        let count = |page: &Shown| page.text.matches("href=\"/account/sessions/grant_").count();
        assert_eq!((count(&first), count(&rest)), (25, 6));
        assert_eq!(tab.get("/account/sessions?cursor=forged").await?.next()?, "/account/sessions");
        // One button; but it needs a recent sign-in, so a browser left unattended is not enough.
        let other = Tab::open(server)?;
        server.advance(901);
        go_through(server, &other, &asking(&clients[0], &[]), "ann@acme.test").await?;
        tab.get("/account/sessions").await?;
        assert!(tab.submit("/account/sessions/end-all", &[]).await?.next()?.starts_with("/sign-in/"));
        let alive = "select count(*) from grants where revoked_at is null";
        assert_eq!(server.sql(alive).await?.as_deref(), Some("42"));
        other.get("/account/sessions").await?;
        assert_eq!(other.submit("/account/sessions/end-all", &[]).await?.next()?, "/sign-in");
        assert_eq!(server.sql(alive).await?.as_deref(), Some("0"));
        assert_eq!(other.get("/account").await?.next()?, "/sign-in");
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        for token in &tokens {
            assert_eq!(server.http.get("/v1/whoami", Some(token)).await?.status, 401);
        }
        let recorded = "select details ->> 'sessions' from audit_events where event = 'session.all_ended'";
        assert_eq!(server.sql(recorded).await?.as_deref(), Some("42"));
        Ok(())
    })
}

#[test]
fn activity_is_read_page_by_page() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        for _ in 0..20 {
            connect(server, &tab, &client, "ann@acme.test").await?;
        }
        let count = |page: &Shown| page.text.matches("<li class=\"event\"").count();
        let first = tab.get("/account/activity").await?;
        let (before, _) = first.text.split_once("\">Older").context("no next page")?;
        let second = tab.get(before.rsplit('"').next().unwrap_or_default()).await?;
        let total: usize = server
            .sql("select count(*) from audit_events where user_id is not null")
            .await?
            .context("none")?
            .parse()?;
        assert!(count(&first) == 25 && count(&second) == total - 25, "{} {} {total}", count(&first), count(&second));
        assert!(second.text.contains(">Latest<") && !first.text.contains(">Latest<"));
        Ok(())
    })
}

#[test]
fn a_user_disabled_or_signed_out_by_an_operator_is_signed_out_of_every_browser() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let address =
            service_rules::email::Address::parse("ann@acme.test").map_err(|_| anyhow::anyhow!("no address"))?;
        let tab = Tab::open(server)?;
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        assert_eq!(tab.get("/account").await?.status, 200);
        service_server::flows::revocation::sign_out_user(&server.app, &Operator::default(), &address).await?;
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        server.advance(61);
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        service_server::flows::revocation::disable_user(&server.app, &Operator::default(), &address).await?;
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        let begun = tab.get(&asking(&client, &[])).await?;
        assert!(begun.next()?.starts_with("/sign-in/"));
        Ok(())
    })
}

#[test]
fn a_browser_is_signed_in_for_a_month_however_much_it_is_used() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        for _ in 0..4 {
            server.advance(7 * 86_400);
            assert_eq!(tab.get("/account").await?.status, 200);
            let begun = tab.get(&asking(&client, &[("prompt", "consent")])).await?;
            agree(&tab, begun, &[("space", "personal")]).await?;
        }
        server.advance(2 * 86_400);
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        let idle = Tab::open(server)?;
        go_through(server, &idle, &asking(&client, &[]), "bob@acme.test").await?;
        server.advance(14 * 86_400 + 1);
        assert_eq!(idle.get("/account").await?.next()?, "/sign-in");
        Ok(())
    })
}

#[test]
fn other_browsers_are_seen_and_ended() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let (tab, other) = (Tab::open(server)?, Tab::open(server)?);
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        server.advance(61);
        go_through(server, &other, &asking(&client, &[]), "ann@acme.test").await?;
        let page = tab.get("/account/sessions").await?;
        assert!(page.text.contains("This browser"), "{}", page.text);
        let id = first_id(&page, "/account/sessions/sess_")?;
        let ended = tab.submit(&format!("/account/sessions/sess_{id}/end"), &[]).await?;
        assert!(ended.next()?.starts_with("/account/sessions?done="));
        assert_eq!(other.get("/account").await?.next()?, "/sign-in");
        assert_eq!(tab.get("/account").await?.status, 200);
        Ok(())
    })
}
