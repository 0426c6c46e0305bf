//! The pages in a real browser: Debian's Chromium. `cargo xtask clients` installs what these need beside it.

mod passkeys;
mod sso;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_testkit::{
    browser::{Browser, ENTER, Looks, SPACE, TAB},
    server::{Setup, TestServer},
    tour::{authorize_url, code_for, make_client, tour},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

const VERIFIER: &str = "a-verifier-of-forty-three-characters-or-more";

/// What a program does that waits for its answer on the person's own machine.
struct Waiting {
    redirect_uri: String,
    listener: TcpListener,
}

impl Waiting {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let redirect_uri = format!("http://127.0.0.1:{}/callback", listener.local_addr()?.port());
        Ok(Self { redirect_uri, listener })
    }

    /// The address that the browser asked for.
    async fn response(&self) -> Result<reqwest::Url> {
        let (mut stream, _) = self.listener.accept().await?;
        let mut head = vec![0; 8_192];
        let length = stream.read(&mut head).await?;
        let head = String::from_utf8_lossy(&head[..length]).into_owned();
        let body = "<!doctype html><title>Done</title><p id=done>You can close this window.";
        let response = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(response.as_bytes()).await?;
        let path = head.split(' ').nth(1).context("no request")?;
        Ok(reqwest::Url::parse(&format!("http://127.0.0.1{path}"))?)
    }
}

fn parameter(url: &reqwest::Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

/// Tokens for the code in an answer.
async fn exchange(server: &TestServer, client: &str, waiting: &Waiting, response: &reqwest::Url) -> Result<String> {
    let code = parameter(response, "code").with_context(|| format!("no code in {response}"))?;
    server.leaks.register("authorization code", &code);
    let body = json!({
        "grant_type": "authorization_code", "client_id": client, "code": code, "code_verifier": VERIFIER,
        "redirect_uri": waiting.redirect_uri,
    });
    let tokens = server.http.post("/oauth/token", &body).await?;
    ensure!(tokens.status == 200, "{}", tokens.text);
    Ok(tokens.field("access_token").to_owned())
}

/// Signs in by code, agrees to reading for a week, lands at the program, takes the access back on the account page, and the
/// token is dead.
async fn through(server: &TestServer, looks: Looks) -> Result<()> {
    let waiting = Waiting::start().await?;
    let client = make_client(server, "Terminal Notes", "http://127.0.0.1/callback").await?;
    let browser = Browser::open(looks).await?;
    browser.go(&authorize_url(server, &client, &waiting.redirect_uri, "read write")).await?;
    browser.type_into("input[name=email]", "ann@acme.test").await?;
    browser.click("button[type=submit]").await?;
    let code = code_for(server, "ann@acme.test").await?;
    browser.type_into("input[name=code]", &format!("{} {}", &code[..4], &code[4..])).await?;
    browser.click("button.main").await?;
    browser.wait_for("button[value=allow]").await?;
    ensure!(browser.text("body").await?.contains("127.0.0.1"), "the page does not say where one is sent");
    browser.click("input[name=space]").await?;
    browser.type_into("select[name=expires]", "In 7").await?;
    let (response, clicked) = tokio::join!(waiting.response(), browser.click("button[value=allow-read]"));
    clicked?;
    let response = response?;
    browser.wait_for("#done").await?;
    ensure!(browser.address().await?.starts_with(&waiting.redirect_uri), "the policy of the page kept the browser");
    let token = exchange(server, &client, &waiting, &response).await?;
    let who = server.http.get("/v1/whoami", Some(&token)).await?;
    ensure!(who.status == 200 && who.body["credential"]["scopes"] == json!(["read"]), "{}", who.text);
    let days = "select round(extract(epoch from expires_at - created_at) / 86400)::text from grants";
    ensure!(server.sql(days).await?.as_deref() == Some("7"), "the end date was not taken");
    browser.go(&format!("{}/account/apps", server.http.url)).await?;
    ensure!(browser.text("body").await?.contains("Terminal Notes"), "the app is not listed");
    browser.click("a[href^='/account/apps/consent_']").await?;
    browser.click("form[action^='/account/apps/consent_'] button").await?;
    browser.wait_for("[role=status]").await?;
    let began = std::time::Instant::now();
    while server.http.get("/v1/whoami", Some(&token)).await?.status == 200 {
        ensure!(began.elapsed().as_secs() < 5, "the token lives on");
    }
    if looks.phone {
        let wider = browser.run("return document.documentElement.scrollWidth > window.innerWidth").await?;
        ensure!(wider == false, "the page is wider than a phone");
    }
    Ok(())
}

fn run(test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
    Setup::default().on_system_clock().set("limits.otp_sends_per_address", "1000/60").run(test)
}

#[test]
fn a_person_signs_in_lands_at_the_app_and_takes_its_access_back() -> Result<()> {
    run(async |server| through(server, Looks::default()).await)
}

#[test]
fn without_scripts_everything_works() -> Result<()> {
    run(async |server| through(server, Looks { without_scripts: true, ..Looks::default() }).await)
}

#[test]
fn on_a_phone_everything_works() -> Result<()> {
    run(async |server| through(server, Looks { phone: true, ..Looks::default() }).await)
}

#[test]
fn by_keyboard_alone_everything_works() -> Result<()> {
    run(async |server| {
        let waiting = Waiting::start().await?;
        let client = make_client(server, "Terminal Notes", "http://127.0.0.1/callback").await?;
        let browser = Browser::open(Looks::default()).await?;
        browser.go(&authorize_url(server, &client, &waiting.redirect_uri, "read")).await?;
        browser.wait_for("input[name=email]").await?;
        browser.press(&format!("ann@acme.test{ENTER}")).await?;
        let code = code_for(server, "ann@acme.test").await?;
        browser.wait_for("input[name=code]").await?;
        browser.press(&format!("{code}{ENTER}")).await?;
        browser.wait_for("button[value=allow]").await?;
        for _ in 0..20 {
            browser.press(TAB).await?;
            if browser.focused().await? == "space" {
                browser.press(SPACE).await?;
            }
            if browser.focused().await? == "Allow" {
                break;
            }
        }
        ensure!(browser.focused().await? == "Allow", "the button cannot be reached");
        let (response, pressed) = tokio::join!(waiting.response(), browser.press(ENTER));
        pressed?;
        exchange(server, &client, &waiting, &response?).await.map(drop)
    })
}

/// Serves one page on another site, with a link.
async fn link_elsewhere(href: &str) -> Result<(String, tokio::task::JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    // To a browser this name and the server's address are two sites.
    let page = format!("http://localhost:{}/", listener.local_addr()?.port());
    let body = format!("<!doctype html><title>Elsewhere</title><a id=link href=\"{href}\">Sign in</a>");
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 8_192];
            drop(stream.read(&mut head).await);
            let response = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            drop(stream.write_all(response.as_bytes()).await);
        }
    });
    Ok((page, serving))
}

#[test]
fn a_link_on_another_site_brings_the_device_along_rv_08() -> Result<()> {
    let setup = Setup::default().on_system_clock().set("limits.browsers_per_network", "3+1");
    setup.run(async |server| {
        let sign_in = format!("{}/sign-in", server.http.url);
        let browser = Browser::open(Looks::default()).await?;
        browser.go(&sign_in).await?;
        browser.type_into("input[name=email]", "ann@acme.test").await?;
        browser.click("button[type=submit]").await?;
        let code = code_for(server, "ann@acme.test").await?;
        browser.type_into("input[name=code]", &code).await?;
        browser.click("button.main").await?;
        browser.wait_for("form[action='/sign-out'] button").await?;
        browser.click("form[action='/sign-out'] button").await?;
        // Strangers use up the limit of the network.
        let began = std::time::Instant::now();
        while server.http.get("/sign-in", None).await?.status != 429 {
            ensure!(began.elapsed().as_secs() < 20, "the network has no limit");
        }
        let (page, serving) = link_elsewhere(&sign_in).await?;
        browser.go(&page).await?;
        browser.click("#link").await?;
        browser.wait_for("input[name=email]").await.context("the device did not come along")?;
        serving.abort();
        Ok(())
    })
}

#[test]
fn every_page_is_accessible() -> Result<()> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clients/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(root).context("axe-core is missing: run `cargo xtask clients`")?;
    for (number, looks) in [
        Looks::default(),
        Looks { dark: true, ..Looks::default() },
        Looks { phone: true, language: Some("de"), ..Looks::default() },
    ]
    .into_iter()
    .enumerate()
    {
        run(async |server| {
            let browser = Browser::open(looks).await?;
            let mut pages = 0;
            let email = format!("ann{number}@acme.test");
            let look = async |name: &str, browser: &Browser| {
                browser.run(&axe).await?;
                let script = "const done = arguments[arguments.length - 1];
                              axe.run().then(result => done(result.violations.map(v => v.id + ': ' + v.help + ' '
                                  + v.nodes.map(n => n.html).join(' | '))))";
                let found = browser.run_to_end(script).await?;
                pages += 1;
                ensure!(found == json!([]), "{name} ({looks:?}): {found:#}");
                Ok(())
            };
            tour(server, &browser, &email, look).await?;
            println!("axe-core finds nothing on {pages} pages ({looks:?})");
            Ok(())
        })?;
    }
    Ok(())
}
