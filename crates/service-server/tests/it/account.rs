//! The account page: what is connected, tokens, and how long a browser is signed in.

use anyhow::{Context as _, Result};
use service_testkit::{server::with_server, tab::Tab};

use crate::authorize::{CALLBACK, agree, asking, code, go_through, register};

#[test]
fn the_account_page_shows_what_is_connected_and_ends_it() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let done = go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        let tokens = server.door.post("/oauth/token", &crate::authorize::exchange(&client, &code(&done)?)).await?;
        let access = tokens.field("access_token").to_owned();
        assert_eq!(server.door.get("/v1/whoami", Some(&access)).await?.status, 200);
        let page = tab.get("/account").await?;
        assert!(page.text.contains("Web app"), "{}", page.text);
        let id = page
            .text
            .split("/account/sessions/")
            .nth(1)
            .and_then(|rest| rest.split('/').next())
            .context("no session")?
            .to_owned();
        assert_eq!(tab.submit(&format!("/account/sessions/{id}/end"), &[]).await?.next()?, "/account");
        assert_eq!(server.door.get("/v1/whoami", Some(&access)).await?.status, 401);
        assert!(
            tab.get(&asking(&client, &[])).await?.next()?.starts_with("/consent/"),
            "what was taken back is not asked again"
        );
        let made = tab
            .submit("/account/tokens", &[("name", "ci"), ("space", "personal"), ("read", "true"), ("days", "9")])
            .await?;
        let token = made
            .text
            .split("svc_cli_")
            .nth(1)
            .and_then(|rest| rest.split(['"', '<', ' ']).next())
            .context("no token")?;
        let token = format!("svc_cli_{token}");
        server.leaks.register("access_token", &token);
        assert_eq!(server.door.get("/v1/whoami", Some(&token)).await?.status, 200);
        let page = tab.get("/account").await?;
        assert!(!page.text.contains(&token), "the secret is shown again");
        let id = page
            .text
            .split("/account/tokens/")
            .nth(1)
            .and_then(|rest| rest.split('/').next())
            .context("no token listed")?
            .to_owned();
        tab.submit(&format!("/account/tokens/{id}/revoke"), &[]).await?;
        assert_eq!(server.door.get("/v1/whoami", Some(&token)).await?.status, 401);
        // Whoever signed in a while ago proves again who they are before making a token.
        server.advance(901);
        tab.get("/account").await?;
        let again = tab
            .submit("/account/tokens", &[("name", "ci"), ("space", "personal"), ("read", "true"), ("days", "9")])
            .await?;
        assert!(again.next()?.starts_with("/sign-in/"));
        let foreign = tab.submit("/account/sessions/grant_00000000000000000000000000/end", &[]).await?;
        assert_eq!(foreign.status, 404);
        Ok(())
    })
}

#[test]
fn whoever_is_disabled_or_signed_out_by_an_operator_is_out_of_every_browser() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let address =
            service_rules::email::Address::parse("ann@acme.test").map_err(|_| anyhow::anyhow!("no address"))?;
        let tab = Tab::open(server)?;
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        assert_eq!(tab.get("/account").await?.status, 200);
        service_server::flows::end_access::sign_out_user(&server.app, &address)
            .await?
            .map_err(|_| anyhow::anyhow!("nobody"))?;
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        server.advance(61);
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        service_server::flows::end_access::disable_user(&server.app, &address)
            .await?
            .map_err(|_| anyhow::anyhow!("nobody"))?;
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
        let page = tab.get("/account").await?;
        assert!(page.text.contains("This browser"), "{}", page.text);
        let id = page
            .text
            .split("/account/sessions/sess_")
            .nth(1)
            .and_then(|rest| rest.split('/').next())
            .context("not listed")?;
        assert_eq!(tab.submit(&format!("/account/sessions/sess_{id}/end"), &[]).await?.next()?, "/account");
        assert_eq!(other.get("/account").await?.next()?, "/sign-in");
        assert_eq!(tab.get("/account").await?.status, 200);
        Ok(())
    })
}
