//! A company's identity provider as others wrote it: npm's `oidc-provider` on loopback, with pages on which users sign in.
//! `clients/oidc-provider.mjs` configures it, and `cargo xtask clients` installs it.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use reqwest::Client;
use serde_json::{Value, json};

use crate::ports;

/// How long a command to the provider may take. Removing a user waits for the receivers of back-channel logout.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// How the provider answers.
#[derive(Clone, Copy, Debug)]
pub enum ProviderMode {
    Normal,
    /// Accepts connections, and never answers.
    Silent,
    /// Closes every connection.
    Refusing,
    /// Answers everything with this status.
    Status(u16),
}

/// A client of the provider.
#[derive(Clone, Copy, Debug)]
pub struct RelyingParty<'a> {
    pub id: &'a str,
    pub secret: &'a str,
    pub redirect_uri: &'a str,
    pub backchannel_logout_uri: Option<&'a str>,
}

/// A provider that does not run yet. Settings of a server can name its issuer already.
pub struct UnstartedOidcProvider {
    /// To a browser, the name in it is another site than the address of the servers under test.
    pub issuer: String,
    port: u16,
}

impl UnstartedOidcProvider {
    pub fn new() -> Result<Self> {
        let port = ports::free()?;
        Ok(Self { issuer: format!("http://localhost:{port}"), port })
    }
}

/// A running provider, which stops when it is dropped. It has the accounts `ann` and `bob` at `acme.test`.
pub struct OidcProvider {
    pub issuer: String,
    admin: String,
    child: Child,
    client: Client,
}

impl Drop for OidcProvider {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl OidcProvider {
    pub async fn start(unstarted: UnstartedOidcProvider) -> Result<Self> {
        let installed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clients"));
        let mut child = Command::new(installed.join("node_modules/.bin/node"))
            .arg(installed.join("oidc-provider.mjs"))
            .env("HOST", "localhost")
            .env("PORT", unstarted.port.to_string())
            // It ends when its input does, also if this process is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("the identity provider does not run: run `cargo xtask clients`")?;
        let mut output = BufReader::new(child.stdout.take().context("it says nothing")?);
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            output.read_line(&mut line).map(|_| line)
        });
        let said: Value = serde_json::from_str(&line.await??).context("the identity provider did not start")?;
        let admin = said["admin"].as_str().context("the identity provider has no admin address")?.to_owned();
        let client = Client::builder().no_proxy().timeout(COMMAND_TIMEOUT).build()?;
        Ok(Self { issuer: unstarted.issuer, admin, child, client })
    }

    /// Registers a client, or changes the one with this id.
    pub async fn register(&self, client: RelyingParty<'_>) -> Result<()> {
        let body = json!({
            "client_id": client.id, "client_secret": client.secret, "redirect_uri": client.redirect_uri,
            "backchannel_logout_uri": client.backchannel_logout_uri,
        });
        self.command("/clients", &body).await.map(drop)
    }

    /// Changes claims of an account, or creates it; a claim that is null is left out. `sub` names the account.
    pub async fn set_claims(&self, claims: &Value) -> Result<()> {
        self.command("/accounts", claims).await.map(drop)
    }

    /// Removes a user: clients get a logout token, and the user cannot sign in any more.
    pub async fn remove_user(&self, sub: &str) -> Result<()> {
        self.command("/remove-user", &json!({ "sub": sub })).await.map(drop)
    }

    /// Signs with a new key from now on. The former key is no longer published.
    pub async fn rotate_keys(&self) -> Result<()> {
        self.command("/rotate-keys", &json!({})).await.map(drop)
    }

    /// Answers like this from now on, at every path that begins with `path`.
    pub async fn answer(&self, mode: ProviderMode, path: &str) -> Result<()> {
        let how = match mode {
            ProviderMode::Normal => "normally".to_owned(),
            ProviderMode::Silent => "never".to_owned(),
            ProviderMode::Refusing => "refuse".to_owned(),
            ProviderMode::Status(status) => status.to_string(),
        };
        self.command("/answer", &json!({ "how": how, "path": path })).await.map(drop)
    }

    /// Returns how often each path was requested since the last call.
    pub async fn requests(&self) -> Result<Value> {
        self.command("/requests", &json!({})).await
    }

    async fn command(&self, path: &str, body: &Value) -> Result<Value> {
        let response = self.client.post(format!("{}{path}", self.admin)).json(body).send().await?;
        let (status, text) = (response.status(), response.text().await?);
        ensure!(status.is_success(), "{path}: {status}: {text}");
        Ok(serde_json::from_str(&text)?)
    }
}
