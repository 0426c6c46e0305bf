//! Addresses that have no page: pages for people, JSON for programs, and a way on.

use anyhow::Result;
use reqwest::Method;
use service_testkit::{
    server::with_server,
    tab::{Shown, Tab},
};

use crate::support::authorize::asking;

/// What a browser sends when a user opens an address.
const BROWSER_ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

async fn open(tab: &Tab, path: &str) -> Result<Shown> {
    tab.send(tab.request(Method::GET, path).header("accept", BROWSER_ACCEPT)).await
}

#[test]
fn an_unknown_address_is_a_page_for_people_and_json_for_programs_fh_09() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        for path in ["/nowhere", "/account/nothing", "/v1/nothing"] {
            let page = open(&tab, path).await?;
            assert_eq!(page.status, 404, "{path}");
            assert!(page.text.contains("<h1>Page not found</h1>"), "{path}: {}", page.text);
            assert!(page.text.contains("<a class=\"button main\" href=\"/account\">"), "{path}: {}", page.text);
            assert!(!page.text.contains("/nothing"), "the page repeats the address");
            for accept in ["*/*", "application/json", "text/plain, application/*"] {
                let json = tab.send(tab.request(Method::GET, path).header("accept", accept)).await?;
                assert_eq!(json.status, 404, "{path}");
                assert_eq!(json.headers["content-type"], "application/json", "{path} {accept}");
            }
        }
        let sent = tab.send(tab.request(Method::POST, "/login").header("accept", BROWSER_ACCEPT)).await?;
        assert_eq!(sent.status, 404);
        Ok(())
    })
}

#[test]
fn addresses_that_people_try_lead_to_the_page_they_mean_fh_09() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        for (path, page) in [
            ("/login", "/sign-in"),
            ("/signup", "/sign-in"),
            ("/account/", "/account"),
            ("/account/tokens/", "/account/tokens"),
            ("/settings", "/account"),
            ("/login?next=https://evil.test", "/sign-in"),
        ] {
            assert_eq!(open(&tab, path).await?.next()?, page, "{path}");
            assert_eq!(tab.get(path).await?.status, 404, "{path} leads a program elsewhere");
        }
        for path in ["//evil.test/", "/v1/projects/"] {
            assert_eq!(open(&tab, path).await?.status, 404, "{path}");
        }
        // The address of a form, opened: its page. A program is told the methods.
        for (path, page) in [
            ("/sign-out", "/account"),
            ("/invitations/inv_x/accept", "/account"),
            ("/sign-in/flow_x/resend", "/sign-in/flow_x"),
            ("/workspaces/wsp_x/invitations", "/workspaces/wsp_x"),
        ] {
            assert_eq!(open(&tab, path).await?.next()?, page, "{path}");
            assert_eq!(tab.get(path).await?.status, 405, "{path}");
        }
        assert_eq!(open(&tab, "/oauth/token").await?.status, 405);
        Ok(())
    })
}

#[test]
fn every_problem_page_has_a_button_that_leads_on_fh_09() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let framed = tab.request(Method::GET, "/sign-in").header("sec-fetch-dest", "iframe");
        let problems = [
            open(&tab, "/nowhere").await?,
            tab.get(&asking("unknown", &[])).await?,
            tab.send(framed).await?,
            tab.get("/consent/x").await?,
            tab.get("/account/sessions?unknown=1").await?,
            tab.submit("/sign-out", &[]).await?,
        ];
        for (place, page) in problems.iter().enumerate() {
            assert!(page.text.contains("<a class=\"button main\" href="), "{place}: {} {}", page.status, page.text);
        }
        Ok(())
    })
}

#[test]
fn the_icon_is_part_of_the_service_and_cached_fh_09() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let page = open(&tab, "/nowhere").await?;
        assert!(page.text.contains("<link rel=\"icon\" href=\"/assets/icon.svg\""), "{}", page.text);
        assert!(page.headers["content-security-policy"].to_str()?.contains("img-src 'self';"));
        let icon = tab.get("/assets/icon.svg").await?;
        assert_eq!(icon.headers["content-type"], "image/svg+xml");
        assert!(icon.headers["cache-control"].to_str()?.starts_with("public, max-age="));
        assert!(icon.text.starts_with("<svg") && !icon.text.contains("<script"), "{}", icon.text);
        let robots = tab.get("/robots.txt").await?;
        assert!(robots.status == 200 && robots.text.contains("Disallow: /\n"), "{}", robots.text);
        Ok(())
    })
}
