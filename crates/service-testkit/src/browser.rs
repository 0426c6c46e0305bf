//! A real browser: Debian's Chromium, driven over its driver's protocol.

use std::{
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::ports;

/// How long something may take to appear.
const WAIT_TIMEOUT: Duration = Duration::from_secs(15);
/// The key of an element in the driver's responses.
const ELEMENT_KEY: &str = "element-6066-11e4-a52e-4f735466cecf";

pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";
pub const SPACE: &str = " ";

/// The appearance of a browser.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    /// As wide as a phone.
    pub phone: bool,
    pub dark: bool,
    pub without_scripts: bool,
    /// The language that it prefers; English if it names none.
    pub language: Option<&'static str>,
}

/// One window, which closes when it is dropped.
pub struct Browser {
    client: Client,
    session: String,
    driver: Child,
    /// Deleted with the browser.
    profile: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Chromium outlives its driver, so the whole process group has to go.
        let group = format!("-{}", self.driver.id());
        drop(Command::new("kill").args(["-KILL", "--", &group]).status());
        drop(self.driver.wait());
    }
}

impl Browser {
    pub async fn open(looks: Looks) -> Result<Self> {
        let port = ports::free()?;
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("chromedriver does not run; Debian has it in chromium-driver")?;
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(190)).build()?;
        let profile = tempfile::tempdir()?;
        let base = format!("http://127.0.0.1:{port}");
        let mut browser = Self { client, session: base.clone(), driver, profile };
        browser.wait_for_driver(&base).await?;
        let capabilities = browser.capabilities(looks);
        let made = browser.call(Method::POST, "/session", &capabilities).await?;
        let id = made["sessionId"].as_str().context("no session")?;
        browser.session = format!("{base}/session/{id}");
        browser.dress(looks).await?;
        Ok(browser)
    }

    async fn wait_for_driver(&self, base: &str) -> Result<()> {
        let began = Instant::now();
        while self.client.get(format!("{base}/status")).send().await.is_err() {
            ensure!(began.elapsed() < WAIT_TIMEOUT, "chromedriver does not answer");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn capabilities(&self, looks: Looks) -> Value {
        let profile = self.profile.path().display();
        let mut arguments: Vec<String> = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1200,900",
            "--hide-scrollbars",
        ]
        .map(String::from)
        .into();
        arguments.push(format!("--user-data-dir={profile}"));
        let scripts = if looks.without_scripts { 2 } else { 1 };
        let language = looks.language.unwrap_or("en");
        arguments.push(format!("--accept-lang={language}"));
        let options = json!({
            "args": arguments,
            "prefs": {
                "profile.managed_default_content_settings.javascript": scripts,
                "intl.accept_languages": language,
            },
        });
        // axe takes long on the manual, the longest page, beside other browsers.
        let timeouts = json!({ "script": 180_000 });
        let wanted = json!({ "browserName": "chrome", "timeouts": timeouts, "goog:chromeOptions": options });
        json!({ "capabilities": { "alwaysMatch": wanted } })
    }

    /// Sets the width and the colour scheme.
    pub async fn dress(&self, looks: Looks) -> Result<()> {
        let (width, height) = if looks.phone { (360, 740) } else { (1200, 900) };
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": looks.phone });
        self.developer("Emulation.setDeviceMetricsOverride", metrics).await?;
        let scheme = if looks.dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.developer("Emulation.setEmulatedMedia", json!({ "features": features })).await.map(drop)
    }

    async fn developer(&self, command: &str, parameters: Value) -> Result<Value> {
        self.call(Method::POST, "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters })).await
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let request = self.client.request(method.clone(), format!("{}{path}", self.session));
        let request = if method == Method::GET { request } else { request.json(body) };
        let response: Value = request.send().await?.json().await?;
        match response["value"]["error"].as_str() {
            Some(error) => bail!("{path}: {error}: {}", response["value"]["message"].as_str().unwrap_or_default()),
            None => Ok(response["value"].clone()),
        }
    }

    pub async fn go(&self, url: &str) -> Result<()> {
        self.call(Method::POST, "/url", &json!({ "url": url })).await.map(drop)
    }

    pub async fn address(&self) -> Result<String> {
        Ok(self.call(Method::GET, "/url", &Value::Null).await?.as_str().unwrap_or_default().to_owned())
    }

    /// Returns the address of the page, as soon as it contains `part`.
    pub async fn wait_for_address(&self, part: &str) -> Result<String> {
        let began = Instant::now();
        loop {
            let address = self.address().await?;
            if address.contains(part) {
                return Ok(address);
            }
            ensure!(began.elapsed() < WAIT_TIMEOUT, "no {part} in {address}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the element of a CSS selector, as soon as it exists.
    async fn find(&self, selector: &str) -> Result<String> {
        let began = Instant::now();
        loop {
            let wanted = json!({ "using": "css selector", "value": selector });
            match self.call(Method::POST, "/element", &wanted).await {
                Ok(found) => return Ok(found[ELEMENT_KEY].as_str().context("no element")?.to_owned()),
                Err(error) if began.elapsed() > WAIT_TIMEOUT => {
                    bail!("{error}, at {}: {}", self.address().await?, self.source().await?)
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    pub async fn wait_for(&self, selector: &str) -> Result<()> {
        self.find(selector).await.map(drop)
    }

    pub async fn click(&self, selector: &str) -> Result<()> {
        let element = self.find(selector).await?;
        self.call(Method::POST, &format!("/element/{element}/click"), &json!({})).await.map(drop)
    }

    pub async fn type_into(&self, selector: &str, text: &str) -> Result<()> {
        let element = self.find(selector).await?;
        self.call(Method::POST, &format!("/element/{element}/value"), &json!({ "text": text })).await.map(drop)
    }

    /// Deletes the cookies of the site that is shown.
    pub async fn forget_cookies(&self) -> Result<()> {
        self.call(Method::DELETE, "/cookie", &json!({})).await.map(drop)
    }

    /// Removes what is in a field.
    pub async fn clear(&self, selector: &str) -> Result<()> {
        let element = self.find(selector).await?;
        self.call(Method::POST, &format!("/element/{element}/clear"), &json!({})).await.map(drop)
    }

    /// Sends keys to the focused element.
    pub async fn press(&self, keys: &str) -> Result<()> {
        let each = keys.chars().flat_map(|key| {
            let key = key.to_string();
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        });
        let actions = json!({ "actions": [{ "type": "key", "id": "keys", "actions": each.collect::<Vec<_>>() }] });
        self.call(Method::POST, "/actions", &actions).await.map(drop)
    }

    /// Returns the text of the focused element, or its name if it has no text.
    pub async fn focused(&self) -> Result<String> {
        let found = self.call(Method::GET, "/element/active", &Value::Null).await?;
        let element = found[ELEMENT_KEY].as_str().context("nothing has the focus")?;
        let text = self.call(Method::GET, &format!("/element/{element}/text"), &Value::Null).await?;
        let name = self.call(Method::GET, &format!("/element/{element}/attribute/name"), &Value::Null).await?;
        let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(if of(&text).is_empty() { of(&name) } else { of(&text) })
    }

    /// Whether an element exists and is shown.
    pub async fn is_shown(&self, selector: &str) -> Result<bool> {
        let element = self.find(selector).await?;
        let shown = self.call(Method::GET, &format!("/element/{element}/displayed"), &Value::Null).await?;
        Ok(shown == true)
    }

    /// Returns the text of an element, as soon as it has one.
    pub async fn wait_for_text(&self, selector: &str) -> Result<String> {
        let began = Instant::now();
        loop {
            let text = self.text(selector).await?;
            if !text.is_empty() {
                return Ok(text);
            }
            ensure!(began.elapsed() < WAIT_TIMEOUT, "{selector} stays empty");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Runs a script of the test in every page from now on, before the page's own.
    pub async fn run_in_new_pages(&self, script: &str) -> Result<()> {
        self.developer("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script })).await.map(drop)
    }

    /// Returns the text of an element. If another page comes before it is read, that page is the one that counts.
    pub async fn text(&self, selector: &str) -> Result<String> {
        let began = Instant::now();
        loop {
            let element = self.find(selector).await?;
            match self.call(Method::GET, &format!("/element/{element}/text"), &Value::Null).await {
                Ok(text) => return Ok(text.as_str().unwrap_or_default().to_owned()),
                Err(error) if began.elapsed() > WAIT_TIMEOUT || !error.to_string().contains("stale element") => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }

    pub async fn attribute(&self, selector: &str, name: &str) -> Result<String> {
        let element = self.find(selector).await?;
        let value = self.call(Method::GET, &format!("/element/{element}/attribute/{name}"), &Value::Null).await?;
        Ok(value.as_str().unwrap_or_default().to_owned())
    }

    /// Lets the next calls act on what a frame of the page shows.
    pub async fn enter_frame(&self, selector: &str) -> Result<()> {
        let element = self.find(selector).await?;
        self.call(Method::POST, "/frame", &json!({ "id": { ELEMENT_KEY: element } })).await.map(drop)
    }

    pub async fn source(&self) -> Result<String> {
        Ok(self.call(Method::GET, "/source", &Value::Null).await?.as_str().unwrap_or_default().to_owned())
    }

    /// Runs a script of the test, to which the page's content security policy does not apply.
    pub async fn run(&self, script: &str) -> Result<Value> {
        self.call(Method::POST, "/execute/sync", &json!({ "script": script, "args": [] })).await
    }

    /// Runs a script of the test that ends with a callback.
    pub async fn run_to_end(&self, script: &str) -> Result<Value> {
        self.call(Method::POST, "/execute/async", &json!({ "script": script, "args": [] })).await
    }

    /// Takes a screenshot of the whole page.
    pub async fn picture(&self) -> Result<Vec<u8>> {
        let size = self.developer("Page.getLayoutMetrics", json!({})).await?;
        let (width, height) = (&size["cssContentSize"]["width"], &size["cssContentSize"]["height"]);
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let wanted = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let taken = self.developer("Page.captureScreenshot", wanted).await?;
        Ok(BASE64_STANDARD.decode(taken["data"].as_str().context("no picture")?)?)
    }
}
