//! A real browser: Debian's Chromium, driven over its driver's protocol.

use std::{
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
const PATIENCE: Duration = Duration::from_secs(15);
/// The key of an element in the driver's answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";
pub const SPACE: &str = " ";

/// How a test wants its browser.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    /// As wide as a phone.
    pub phone: bool,
    pub dark: bool,
    pub without_scripts: bool,
}

/// One window. It ends when it is dropped.
pub struct Browser {
    client: Client,
    session: String,
    driver: Child,
    /// Deleted with it.
    profile: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Chromium ends with its driver.
        drop(self.driver.kill());
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
            .spawn()
            .context("chromedriver does not run; Debian has it in chromium-driver")?;
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(60)).build()?;
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
            ensure!(began.elapsed() < PATIENCE, "chromedriver does not answer");
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
        json!({ "capabilities": { "alwaysMatch": { "browserName": "chrome", "goog:chromeOptions": {
            "args": arguments,
            "prefs": { "profile.managed_default_content_settings.javascript": scripts },
        } } } })
    }

    /// Makes it as wide as wanted, and light or dark.
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

    async fn call(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let request = self.client.request(method.clone(), format!("{}{path}", self.session));
        let request = if method == Method::GET { request } else { request.json(body) };
        let answer: Value = request.send().await?.json().await?;
        match answer["value"]["error"].as_str() {
            Some(error) => bail!("{path}: {error}: {}", answer["value"]["message"].as_str().unwrap_or_default()),
            None => Ok(answer["value"].clone()),
        }
    }

    pub async fn go(&self, url: &str) -> Result<()> {
        self.call(Method::POST, "/url", &json!({ "url": url })).await.map(drop)
    }

    pub async fn address(&self) -> Result<String> {
        Ok(self.call(Method::GET, "/url", &Value::Null).await?.as_str().unwrap_or_default().to_owned())
    }

    /// The element that a CSS selector finds, once it is there.
    async fn find(&self, selector: &str) -> Result<String> {
        let began = Instant::now();
        loop {
            let wanted = json!({ "using": "css selector", "value": selector });
            match self.call(Method::POST, "/element", &wanted).await {
                Ok(found) => return Ok(found[ELEMENT].as_str().context("no element")?.to_owned()),
                Err(error) if began.elapsed() > PATIENCE => {
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

    /// Presses keys, whatever has the focus.
    pub async fn press(&self, keys: &str) -> Result<()> {
        let each = keys.chars().flat_map(|key| {
            let key = key.to_string();
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        });
        let actions = json!({ "actions": [{ "type": "key", "id": "keys", "actions": each.collect::<Vec<_>>() }] });
        self.call(Method::POST, "/actions", &actions).await.map(drop)
    }

    /// The text of the element that has the focus, or its name if it has none.
    pub async fn focused(&self) -> Result<String> {
        let found = self.call(Method::GET, "/element/active", &Value::Null).await?;
        let element = found[ELEMENT].as_str().context("nothing has the focus")?;
        let text = self.call(Method::GET, &format!("/element/{element}/text"), &Value::Null).await?;
        let name = self.call(Method::GET, &format!("/element/{element}/attribute/name"), &Value::Null).await?;
        let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(if of(&text).is_empty() { of(&name) } else { of(&text) })
    }

    pub async fn text(&self, selector: &str) -> Result<String> {
        let element = self.find(selector).await?;
        let text = self.call(Method::GET, &format!("/element/{element}/text"), &Value::Null).await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    pub async fn attribute(&self, selector: &str, name: &str) -> Result<String> {
        let element = self.find(selector).await?;
        let value = self.call(Method::GET, &format!("/element/{element}/attribute/{name}"), &Value::Null).await?;
        Ok(value.as_str().unwrap_or_default().to_owned())
    }

    pub async fn source(&self) -> Result<String> {
        Ok(self.call(Method::GET, "/source", &Value::Null).await?.as_str().unwrap_or_default().to_owned())
    }

    /// Runs a script of the test's own, outside of the page's policy.
    pub async fn run(&self, script: &str) -> Result<Value> {
        self.call(Method::POST, "/execute/sync", &json!({ "script": script, "args": [] })).await
    }

    /// The same for one that calls back.
    pub async fn run_to_end(&self, script: &str) -> Result<Value> {
        self.call(Method::POST, "/execute/async", &json!({ "script": script, "args": [] })).await
    }

    /// The whole page as a picture.
    pub async fn picture(&self) -> Result<Vec<u8>> {
        let size = self.developer("Page.getLayoutMetrics", json!({})).await?;
        let (width, height) = (&size["cssContentSize"]["width"], &size["cssContentSize"]["height"]);
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let wanted = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let taken = self.developer("Page.captureScreenshot", wanted).await?;
        Ok(BASE64_STANDARD.decode(taken["data"].as_str().context("no picture")?)?)
    }
}
