//! Pages and names with the brand of an operator.

use std::{cell::RefCell, fs};

use anyhow::{Context as _, Result};
use serde_json::json;
use service_testkit::{
    server::{Setup, with_server},
    tab::Tab,
};

use crate::support::{
    authorize::asking,
    workspaces::{make, send},
};

const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"/>";

fn acme() -> Setup {
    Setup::default()
        .set("brand.name", "Acme & Co.")
        .set("brand.color", "#ffcc00")
        .set("brand.support_email", "help@acme.test")
        .set("brand.privacy_url", "https://www.acme.test/{language}/privacy")
        .set("brand.terms_url", "https://www.acme.test/terms")
}

/// What follows this in a page, up to the next quotation mark.
fn attribute<'a>(page: &'a str, before: &str) -> Result<&'a str> {
    let rest = page.split_once(before).with_context(|| format!("no {before} in {page}"))?.1;
    rest.split('"').next().context("no end")
}

#[test]
fn pages_show_the_operators_name_color_and_links_in_the_readers_language_fh_13() -> Result<()> {
    let sheets = RefCell::new(Vec::new());
    acme().run(async |server| {
        for (language, title, link, label) in [
            ("en", "Sign in to Acme &#38; Co.", "https://www.acme.test/en/privacy", ">Privacy<"),
            ("de", "Bei Acme &#38; Co. anmelden", "https://www.acme.test/de/privacy", ">Datenschutz<"),
        ] {
            let tab = Tab::in_language(server, language)?;
            let begun = tab.get("/sign-in").await?;
            let page = tab.get(begun.next()?).await?.text;
            let lang = format!("<html lang=\"{language}\">");
            for said in [&*lang, title, "<span>Acme &#38; Co.</span>", link, label, "mailto:help@acme.test"] {
                assert!(page.contains(said), "{said}: {page}");
            }
            assert!(page.contains("https://www.acme.test/terms") && !page.contains("Service"), "{page}");
        }
        let tab = Tab::open(server)?;
        let unknown = tab.get(&asking("unknown", &[])).await?;
        assert!(unknown.status == 400 && unknown.text.contains("<span>Acme &#38; Co.</span>"), "{}", unknown.text);
        let sheet = attribute(&unknown.text, "rel=\"stylesheet\" href=\"")?.to_owned();
        let style = tab.get(&sheet).await?;
        // The default color is overridden, for light pages by one that can be read on them.
        let (light, dark) = style.text.rsplit_once(":root { --accent").context("no color")?;
        assert!(light.ends_with("@media (prefers-color-scheme: dark) { ") && dark.starts_with(": #ffcc00;"), "{dark}");
        assert!(light.contains("--accent: #0b6355;") && !light.contains("#ffcc00"), "{light}");
        assert!(unknown.headers["content-security-policy"].to_str()?.contains("style-src 'self'; img-src 'self';"));
        sheets.borrow_mut().push(sheet);
        Ok(())
    })?;
    Setup::default().set("brand.color", "#0000ff").run(async |server| {
        let page = Tab::open(server)?.get(&asking("unknown", &[])).await?.text;
        let sheet = attribute(&page, "rel=\"stylesheet\" href=\"")?;
        assert_ne!(sheets.borrow()[0], sheet, "another color has another address");
        Ok(())
    })
}

#[test]
fn the_logo_is_shown_and_runs_nothing_fh_13() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("logo.svg");
    fs::write(&path, SVG)?;
    Setup::default().set("brand.logo", path.to_str().context("no text")?).run(async |server| {
        // It was read at the start.
        fs::remove_file(&path)?;
        let tab = Tab::open(server)?;
        let page = tab.get(&asking("unknown", &[])).await?;
        let source = attribute(&page.text, "<img class=\"logo\" src=\"")?;
        let logo = tab.get(source).await?;
        let header = |name: &str| logo.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        assert_eq!((logo.status.as_u16(), logo.text.as_str()), (200, SVG));
        assert_eq!((header("content-type"), header("x-content-type-options")), ("image/svg+xml", "nosniff"));
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none';") && policy.ends_with("; sandbox"), "{policy}");
        assert!(!policy.contains("script-src"), "{policy}");
        assert_eq!(header("cache-control"), "public, max-age=3600");
        Ok(())
    })
}

#[test]
fn without_a_brand_there_is_no_logo_and_no_link_fh_13() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let page = tab.get(&asking("unknown", &[])).await?;
        assert!(page.text.contains("<span>Service</span>"), "{}", page.text);
        assert!(!page.text.contains("<img") && !page.text.contains("<nav"), "{}", page.text);
        assert_eq!(tab.get("/assets/logo").await?.status, 404);
        Ok(())
    })
}

#[test]
fn no_app_workspace_or_token_is_called_like_the_service_fh_13() -> Result<()> {
    acme().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let workspace = make(server, &ann, "Harbour").await?;
        for (method, path) in [
            ("POST", "/v1/workspaces".to_owned()),
            ("PATCH", format!("/v1/workspaces/{workspace}")),
            ("POST", "/v1/cli/tokens".to_owned()),
        ] {
            let refused = send(server, method, &path, &ann, Some(&json!({ "name": "ACME  Co" }))).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (422, "validation_failed"), "{path}");
        }
        assert!(crate::support::admin::run(server, &["client", "create", "Acme & Co"]).is_err());

        let body = json!({ "client_name": "Acme & Co.", "redirect_uris": ["https://evil.test/cb"] });
        let made = server.http.post("/oauth/register", &body).await?;
        assert_eq!((made.status.as_u16(), made.field("client_name")), (201, "evil.test"), "{}", made.text);
        // It may have registered before the service got this name.
        server.sql("update clients set name = 'Acme & Co.' where kind = 'dynamic'").await?;
        server.advance(61);
        let tab = Tab::open(server)?;
        let begun = tab.get(&asking(made.field("client_id"), &[("redirect_uri", "https://evil.test/cb")])).await?;
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let page = tab.get(shown.next()?).await?.text;
        let main = page.split_once("<main>").context("no page")?.1;
        assert!(main.contains("evil.test") && !main.contains("<bdi>Acme"), "{main}");

        let begun = tab.get(&asking("service-cli", &[("redirect_uri", "http://127.0.0.1:5000/callback")])).await?;
        let own = tab.get(begun.next()?).await?.text;
        assert!(own.contains("Sign in to <bdi>Acme &#38; Co. command line</bdi>"), "{own}");
        let listed = send(server, "GET", "/v1/sessions", &ann, None).await?;
        assert_eq!(listed.body["data"][0]["client"]["name"], "Acme & Co. command line");
        Ok(())
    })
}
