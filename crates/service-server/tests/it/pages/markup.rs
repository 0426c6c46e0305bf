//! The pages: no foreign forms, frames, cookies or words.

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use service_testkit::{
    server::{Setup, TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::authorize::{CALLBACK, asking, register};

/// The one script of the pages.
const SCRIPT: &str = include_str!("../../../assets/passkeys.js");

/// A page without its script for passkeys, and what that asks the browser for.
pub(crate) fn without_passkeys(page: &str) -> String {
    let Some((before, rest)) = page.split_once(" data-passkey=\"") else { return page.to_owned() };
    let after = rest.split_once('"').map_or("", |(_, after)| after);
    [before, after].concat().replace(&format!("<script>{SCRIPT}</script>"), "")
}

/// Pages of every kind, with and without a signed-in user.
pub(crate) async fn every_page(server: &TestServer, tab: &Tab) -> Result<Vec<Shown>> {
    let client = register(server, "Web app", &[CALLBACK]).await?;
    let problem = tab.get(&asking("unknown", &[])).await?;
    let begun = tab.get(&asking(&client, &[])).await?;
    let path = begun.next()?.to_owned();
    let address = tab.get(&path).await?;
    let wrong = tab.submit(&path, &[("email", "unknown")]).await?;
    let sent = tab.submit(&path, &[("email", "ann@acme.test")]).await?;
    let code_path = sent.next()?.to_owned();
    let code = server.mailbox.next_mail_to("ann@acme.test").await?.code().context("no code")?;
    server.leaks.register("otp code", &code);
    let code_page = tab.get(&code_path).await?;
    let wrong_code = tab.submit(&code_path, &[("code", "00000000")]).await?;
    let again = tab.submit(&format!("{path}/resend"), &[]).await?;
    let entered = tab.submit(&code_path, &[("code", &code)]).await?;
    let asked = tab.get(entered.next()?).await?;
    let consent = tab.get(asked.next()?).await?;
    let account = tab.get("/account").await?;
    let sessions = tab.get("/account/sessions").await?;
    let apps = tab.get("/account/apps").await?;
    let tokens = tab.get("/account/tokens").await?;
    let workspaces = tab.get("/account/workspaces").await?;
    let activity = tab.get("/account/activity").await?;
    let token = tab
        .submit("/account/tokens", &[("name", "ci"), ("space", "personal"), ("read", "true"), ("days", "9")])
        .await?;
    server.leaks.register(
        "access_token",
        token.text.split("svc_cli_").nth(1).and_then(|rest| rest.split(['"', '<', ' ']).next()).context("no token")?,
    );
    let pages = [
        problem, address, wrong, code_page, wrong_code, again, consent, account, sessions, apps, tokens, workspaces,
        activity, token,
    ];
    for page in &pages {
        assert!(page.text.contains("<h1"), "{}: {}", page.status, page.text);
    }
    Ok(pages.into())
}

#[test]
fn every_page_forbids_frames_scripts_and_storing_bw_02_bw_12() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_context", "1/60").run(async |server| {
        let tab = Tab::open(server)?;
        let pages = every_page(server, &tab).await?;
        let statuses: Vec<_> = pages.iter().map(|page| page.status.as_u16()).collect();
        assert_eq!(statuses, [400, 200, 400, 200, 400, 429, 200, 200, 200, 200, 200, 200, 200, 201]);
        for (place, page) in pages.iter().enumerate() {
            let header = |name: &str| page.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let policy = header("content-security-policy");
            for part in [
                "default-src 'none'",
                "style-src 'self'",
                "frame-ancestors 'none'",
                "base-uri 'none'",
                "form-action 'self'",
            ] {
                assert!(policy.contains(part), "{place}: {policy}");
            }
            assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
            assert_eq!(header("x-frame-options"), "DENY", "{place}");
            assert_eq!(header("referrer-policy"), "no-referrer", "{place}");
            assert_eq!(header("cross-origin-opener-policy"), "same-origin", "{place}");
            assert_eq!(header("cache-control"), "no-store", "{place}");
            assert!(header("strict-transport-security").contains("max-age=63072000"), "{place}");
            for forbidden in ["<script", "style=", "<style", "javascript:", "onclick", "http://", "https://"] {
                let text =
                    without_passkeys(&page.text).replace("https://app.test", "").replace("http://www.w3.org", "");
                let text = text.replace("<code>SERVICE_API_URL=https://service.test</code>", "");
                assert!(!text.contains(forbidden), "{place} has {forbidden}: {text}");
            }
            assert!(page.text.len() < 20_000 - 12_000 + 4_000, "{place}: {} bytes", page.text.len());
        }
        // In the flow, forms lead to the client in the end, which the browser holds against the policy.
        assert!(pages[6].headers["content-security-policy"].to_str()?.contains("form-action 'self' https://app.test;"));
        let stranger = Tab::open(server)?;
        for path in ["/account", "/sign-in", "/"] {
            let shown = stranger.get(path).await?;
            assert!(!shown.text.contains("acme.test"), "{path}");
        }
        let style = tab.get("/assets/style.css").await?;
        assert!(style.status == 200 && style.text.len() < 12_500, "{}", style.text.len());
        Ok(())
    })
}

#[test]
fn the_cookie_is_the_browsers_alone_and_kept_as_a_digest_bw_03() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let shown = tab.get("/sign-in").await?;
        let cookie = shown.headers["set-cookie"].to_str()?.to_owned();
        for part in ["__Host-session=svc_ses_", "; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        assert!(!cookie.contains("Domain"));
        // That it is nowhere in the tables is what every test ends with.
        assert_eq!(server.sql("select octet_length(digest) from browser_sessions").await?.as_deref(), Some("32"));
        Ok(())
    })
}

#[test]
fn the_words_of_strangers_are_only_words_bw_10() -> Result<()> {
    with_server(async |server| {
        let hostile = "\"'&amp; x onload=alert(1)";
        let client = register(server, hostile, &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let begun = tab.get(&asking(&client, &[("state", "<script>alert(1)</script>")])).await?;
        let path = begun.next()?.to_owned();
        let mut pages = vec![tab.get(&path).await?];
        pages.push(tab.submit(&path, &[("email", "\"><script>alert(1)</script>@acme.test")]).await?);
        let shown = tab.sign_in(&server.mailbox, &path, "o'hara+<b>@acme.test").await;
        let path = match shown {
            Ok(shown) => shown.next()?.to_owned(),
            Err(_) => tab.sign_in(&server.mailbox, &path, "o'hara@acme.test").await?.next()?.to_owned(),
        };
        let who: service_api::ids::UserId =
            uuid::Uuid::parse_str(&server.sql("select id from users limit 1").await?.context("no user")?)?.into();
        server.make_workspace("<img src=x onerror=alert(1)>", &[(who, service_api::workspaces::Role::Owner)]).await?;
        pages.push(tab.get(&path).await?);
        tab.submit(&path, &[("decision", "allow"), ("space", "personal")]).await?;
        for path in ["", "/sessions", "/apps", "/tokens", "/workspaces", "/activity"] {
            pages.push(tab.get(&format!("/account{path}")).await?);
        }
        for page in pages {
            let text = without_passkeys(&page.text);
            assert!(!text.contains("<script>") && !text.contains("<img") && !text.contains(hostile), "{}", page.text);
        }
        Ok(())
    })
}

#[test]
fn a_page_runs_the_script_for_passkeys_and_no_other_pk_37() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_context", "1/60").run(async |server| {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, SCRIPT.as_bytes());
        let source = format!("script-src 'sha256-{}'", BASE64_STANDARD.encode(digest));
        for page in every_page(server, &Tab::open(server)?).await? {
            let policy = page.headers.get("content-security-policy").context("no policy")?.to_str()?;
            let scripts = page.text.matches("<script").count();
            assert_eq!(page.text.matches(&format!("<script>{SCRIPT}</script>")).count(), scripts, "{}", page.text);
            let parts: Vec<_> = policy.split("; ").filter(|part| part.starts_with("script-src")).collect();
            assert_eq!(parts, vec![source.as_str(); scripts], "{policy}");
        }
        assert!(SCRIPT.len() <= 3_000, "{} bytes", SCRIPT.len());
        Ok(())
    })
}

#[test]
fn every_response_asks_for_encryption_and_cannot_be_embedded_rv_50() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        // A redirect, a page, a refusal, a stylesheet, and JSON of every kind.
        for path in [
            "/",
            "/sign-in",
            "/consent/x",
            "/assets/style.css",
            "/v1/whoami",
            "/nowhere",
            "/.well-known/jwks.json",
            "/openapi.json",
        ] {
            let shown = tab.get(path).await?;
            let header = |name: &str| shown.headers.get(name).and_then(|value| value.to_str().ok());
            assert_eq!(header("strict-transport-security"), Some("max-age=63072000; includeSubDomains"), "{path}");
            assert_eq!(header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
        }
        Ok(())
    })?;
    // Where the service itself is not encrypted, a browser must not be told that it is.
    Setup::default().set("base_url", "http://127.0.0.1:8080").run(async |server| {
        for path in ["/", "/sign-in", "/v1/whoami"] {
            let shown = Tab::open(server)?.get(path).await?;
            assert!(shown.headers.get("strict-transport-security").is_none(), "{path}");
        }
        Ok(())
    })
}
