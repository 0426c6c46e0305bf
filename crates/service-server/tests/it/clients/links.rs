//! The pages that a self-registered client names, on the consent page.

use anyhow::Result;
use serde_json::{Value, json};
use service_testkit::{
    server::{TestServer, with_server},
    tab::Tab,
};

use crate::support::authorize::{CALLBACK, asking};

async fn register(server: &TestServer, changes: Value) -> Result<Value> {
    let mut body = json!({ "client_name": "Planner", "redirect_uris": [CALLBACK] });
    for (name, value) in changes.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    let made = server.http.post("/oauth/register", &body).await?;
    assert_eq!(made.status, 201, "{}", made.text);
    Ok(made.body)
}

/// The consent page for a client, as the user sees it who is signed in with this browser.
async fn consent(server: &TestServer, tab: &Tab, client: &Value, uri: &str) -> Result<String> {
    let id = client["client_id"].as_str().unwrap_or_default();
    let begun = tab.get(&asking(id, &[("redirect_uri", uri)])).await?;
    let path = match begun.next()? {
        path if path.starts_with("/sign-in/") => tab.sign_in(&server.mailbox, path, "ann@acme.test").await?,
        _ => begun,
    };
    Ok(tab.get(path.next()?).await?.text)
}

#[test]
fn the_consent_page_links_to_the_pages_that_an_app_names_fh_11() -> Result<()> {
    with_server(async |server| {
        let links = json!({
            "client_uri": "https://planner.test", "policy_uri": "https://planner.test/privacy?a=1&b=\"",
            "tos_uri": "https://legal.test/terms", "logo_uri": "https://planner.test/logo.png",
        });
        let made = register(server, links.clone()).await?;
        assert_eq!((&made["client_uri"], &made["tos_uri"]), (&json!("https://planner.test/"), &links["tos_uri"]));
        assert!(made.get("logo_uri").is_none(), "{made}");
        assert_eq!(register(server, links).await?["client_id"], made["client_id"], "registering is idempotent");
        let plain = register(server, json!({})).await?;
        assert_ne!(plain["client_id"], made["client_id"], "no one decides about the links of others");

        let tab = Tab::open(server)?;
        let page = consent(server, &tab, &made, CALLBACK).await?;
        let safe = "target=\"_blank\" rel=\"noopener noreferrer nofollow\"";
        for (url, label, host) in [
            ("https://planner.test/", "Website", "planner.test"),
            ("https://planner.test/privacy?a=1&#38;b=%22", "Privacy policy", "planner.test"),
            ("https://legal.test/terms", "Terms of service", "legal.test"),
        ] {
            let link = format!("<a href=\"{url}\" {safe}>{label}</a> (<bdi>{host}</bdi>)");
            assert!(page.contains(&link), "{link}: {page}");
        }
        assert!(page.contains("We haven’t checked them") && !page.contains("logo.png") && !page.contains("<img"));
        let page = consent(server, &tab, &plain, CALLBACK).await?;
        assert!(!page.contains("We haven’t checked them"), "{page}");
        Ok(())
    })
}

#[test]
fn a_link_to_us_to_a_blocked_host_or_to_no_https_page_is_not_shown_fh_11() -> Result<()> {
    with_server(async |server| {
        let made = register(
            server,
            json!({
                "client_uri": "https://service.test/account", "policy_uri": "javascript:alert(1)",
                "tos_uri": "http://planner.test/terms",
            }),
        )
        .await?;
        for name in ["client_uri", "policy_uri", "tos_uri"] {
            assert!(made.get(name).is_none(), "{made}");
        }
        let tab = Tab::open(server)?;
        let page = consent(server, &tab, &made, CALLBACK).await?;
        assert!(!page.contains("We haven’t checked them") && !page.contains("nofollow"), "{page}");

        let links = json!({ "client_uri": "https://evil.test/", "tos_uri": "https://planner.test/terms" });
        let made = register(server, links).await?;
        assert!(consent(server, &tab, &made, CALLBACK).await?.contains("https://evil.test/"));
        crate::support::admin::run(server, &["client", "block-host", "evil.test", "--operator", "olga"])?;
        let page = consent(server, &tab, &made, CALLBACK).await?;
        assert!(!page.contains("evil.test") && page.contains("https://planner.test/terms"), "{page}");
        Ok(())
    })
}

#[test]
fn the_command_is_not_called_an_app_that_we_do_not_know_fh_11() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let uri = "http://127.0.0.1:5000/callback";
        let own = consent(server, &tab, &json!({ "client_id": "service-cli" }), uri).await?;
        assert!(own.contains("Continue only if you just ran <code>service login</code>"), "{own}");
        for of_strangers in ["We can’t verify this app", "Unverified name", "calls itself", "wants to access"] {
            assert!(!own.contains(of_strangers), "{of_strangers}: {own}");
        }
        let stranger = register(server, json!({ "redirect_uris": ["http://127.0.0.1/cb"] })).await?;
        let page = consent(server, &tab, &stranger, "http://127.0.0.1:5000/cb").await?;
        assert!(page.contains("We can’t verify this app") && page.contains("Unverified name"), "{page}");
        Ok(())
    })
}
