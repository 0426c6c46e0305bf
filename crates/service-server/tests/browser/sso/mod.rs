//! Single sign-on in a real browser, against an identity provider that others wrote and a real DNS server.

mod set_up;
mod sign_ins;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_testkit::{
    browser::{Browser, Looks},
    dns_server::{DnsServer, Record},
    oidc_provider::{OidcProvider, RelyingParty, UnstartedOidcProvider},
    ports,
    server::{Setup, TestServer},
    tour::code_for,
};

const CLIENT_ID: &str = "service";
const CLIENT_SECRET: &str = "a-secret-that-the-provider-shows-once";
/// Writes the pictures of `docs/sso.md`.
const WRITE: &str = "WRITE_PICTURES";

/// A server, and what a company has: an identity provider, and the DNS of its domain.
struct Rig<'a> {
    server: &'a TestServer,
    provider: OidcProvider,
    dns: &'a DnsServer,
}

/// Runs a test against a server whose name is its address, so that the provider and a browser reach it.
fn run(test: impl AsyncFnOnce(Rig<'_>) -> Result<()>) -> Result<()> {
    let (unstarted, dns) = (UnstartedOidcProvider::new()?, DnsServer::start()?);
    let address = format!("127.0.0.1:{}", ports::free()?);
    Setup::default()
        .on_system_clock()
        .set("http.listen", &address)
        .set("base_url", &format!("http://{address}"))
        .set("limits.otp_sends_per_address", "1000/60")
        .set("sso.allowed_issuers", &format!("{}=127.0.0.0/8 ::1/128", unstarted.issuer))
        .set("dns.servers", &dns.address.to_string())
        .run(async |server| {
            server.leaks.register("client secret of a provider", CLIENT_SECRET);
            test(Rig { server, provider: OidcProvider::start(unstarted).await?, dns: &dns }).await
        })
}

impl Rig<'_> {
    /// Signs in by a code.
    async fn sign_in_by_code(&self, browser: &Browser, email: &str) -> Result<()> {
        browser.go(&format!("{}/sign-in", self.server.http.url)).await?;
        browser.type_into("input[name=email]", email).await?;
        browser.click("button[type=submit]").await?;
        let code = code_for(self.server, email).await?;
        browser.type_into("input[name=code]", &code).await?;
        browser.click("button.main").await?;
        browser.wait_for("form[action='/sign-out']").await
    }

    /// Registers the service at the provider, with the addresses that the page of a connection shows.
    async fn register(&self, browser: &Browser) -> Result<()> {
        let redirect_uri = browser.attribute("#redirect", "value").await?;
        let logout_uri = browser.attribute("#logout", "value").await?;
        let client = RelyingParty {
            id: CLIENT_ID,
            secret: CLIENT_SECRET,
            redirect_uri: &redirect_uri,
            backchannel_logout_uri: Some(&logout_uri),
        };
        self.provider.register(client).await
    }

    /// Adds the TXT record that the page of a connection shows to the DNS of the domain.
    async fn add_record(&self, browser: &Browser) -> Result<()> {
        let value = browser.attribute("#record-1", "value").await?;
        self.dns.serve(&[Record::Txt { name: "acme.test", value: &value }])
    }

    /// Enters an account on the sign-in page of the provider.
    async fn sign_in_at_provider(&self, browser: &Browser, account: &str) -> Result<()> {
        browser.wait_for("#login").await?;
        ensure!(browser.address().await?.starts_with(&self.provider.issuer), "the browser is not at the provider");
        browser.clear("#login").await?;
        browser.type_into("#login", account).await?;
        browser.click("button[type=submit]").await
    }

    /// Enters an address on the sign-in page of the service; its domain leads to the provider.
    async fn begin_sign_in(&self, browser: &Browser, email: &str) -> Result<()> {
        browser.go(&format!("{}/sign-in", self.server.http.url)).await?;
        browser.type_into("input[name=email]", email).await?;
        browser.click("button[type=submit]").await
    }

    /// Waits for the account page of this user.
    async fn wait_for_account(&self, browser: &Browser, email: &str) -> Result<()> {
        browser.wait_for("form[action='/sign-out']").await?;
        let text = browser.text("body").await?;
        ensure!(text.contains(email), "{email} is not signed in: {text}");
        Ok(())
    }

    /// Sets up a connection through the API, as `set_up` does it through the pages. Ann owns the workspace.
    async fn connect(&self, break_glass: bool) -> Result<String> {
        let server = self.server;
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let post = async |path: &str, body: &serde_json::Value| {
            let request = server.http.request(reqwest::Method::POST, path).bearer_auth(&ann.access_token);
            let response = server.http.send(request.json(body)).await?;
            ensure!(response.status.is_success(), "{path}: {}", response.text);
            Ok(response)
        };
        let workspace = post("/v1/workspaces", &json!({ "name": "Acme" })).await?.field("id").to_owned();
        let path = format!("/v1/workspaces/{workspace}");
        let new = json!({
            "name": "Acme", "issuer": self.provider.issuer, "clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET,
        });
        let connection = post(&format!("{path}/connections"), &new).await?;
        let id = connection.field("id").to_owned();
        let client = RelyingParty {
            id: CLIENT_ID,
            secret: CLIENT_SECRET,
            redirect_uri: connection.field("redirectUri"),
            backchannel_logout_uri: Some(connection.field("backchannelLogoutUri")),
        };
        self.provider.register(client).await?;
        let claim = json!({ "domain": "acme.test", "connectionId": id });
        let domain = post(&format!("{path}/domains"), &claim).await?;
        let value = domain.body["record"]["value"].as_str().context("no record")?;
        self.dns.serve(&[Record::Txt { name: "acme.test", value }])?;
        let verified = post(&format!("{path}/domains/acme.test/verify"), &json!({})).await?;
        ensure!(verified.field("status") == "verified", "{}", verified.text);
        // That an owner has to try it first is another test's.
        server.sql("update connections set tried_at = created_at").await?;
        let mut change = json!({ "enabled": true });
        if break_glass {
            change = json!({
                "enabled": true, "required": true, "existing": "keep", "breakGlass": [ann.user_id.to_string()],
            });
        }
        let request = server.http.request(reqwest::Method::PATCH, &format!("{path}/connections/{id}"));
        let changed = server.http.send(request.bearer_auth(&ann.access_token).json(&change)).await?;
        ensure!(changed.status == 200, "{}", changed.text);
        Ok(workspace)
    }
}

/// Looks at every page of a walk: axe finds nothing, and a picture is written if the environment asks for it.
struct Walk {
    /// `None`: the browser runs no scripts, so the pages are not looked at.
    axe: Option<String>,
    pictures: Option<PathBuf>,
}

impl Walk {
    fn new() -> Result<Self> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let axe = std::fs::read_to_string(format!("{root}/target/clients/node_modules/axe-core/axe.min.js"));
        let pictures = std::env::var_os(WRITE).map(|_| PathBuf::from(root).join("docs/pictures"));
        Ok(Self { axe: Some(axe.context("axe-core is missing: run `cargo xtask clients`")?), pictures })
    }

    /// A walk in a browser without scripts.
    const fn without_scripts() -> Self {
        Self { axe: None, pictures: None }
    }

    /// Looks at a page. With a name, it is a step of the documentation.
    async fn look(&self, browser: &Browser, name: &str) -> Result<()> {
        let Some(axe) = &self.axe else { return Ok(()) };
        browser.run(axe).await?;
        let script = "const done = arguments[arguments.length - 1];
                      axe.run().then(result => done(result.violations.map(v => v.id + ': ' + v.help + ' '
                          + v.nodes.map(n => n.html).join(' | '))))";
        let found = browser.run_to_end(script).await?;
        ensure!(found == json!([]), "{name}: {found:#}");
        let wider = browser.run("return document.documentElement.scrollWidth > window.innerWidth").await?;
        ensure!(wider == false, "{name}: the page is wider than its window");
        if let Some(folder) = &self.pictures {
            std::fs::write(folder.join(format!("sso-{name}.png")), browser.picture().await?)?;
        }
        Ok(())
    }
}

/// A browser as wide as a phone.
async fn phone() -> Result<Browser> {
    Browser::open(Looks { phone: true, ..Looks::default() }).await
}

/// The longest time until a page says that a provider does not answer.
const PROVIDER_DOWN_PAGE: Duration = Duration::from_secs(5);
