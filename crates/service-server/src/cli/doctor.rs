//! `serviced doctor`: checks what a node needs, and says what to do about each problem.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use service_rules::Timestamp;
use url::Url;

use crate::{
    app::App,
    cli::output::say,
    clock::{Clock, MAX_CLOCK_DIFFERENCE},
    config::Config,
    database::{self, migrations},
    flows::operations::check_root_keys,
    net::{
        outbound::{AcceptedResponse, AllowedNetworks, Outbound, OutboundRequest, PlainHttp},
        server_tls, tls,
    },
    tasks::mailer,
};

const METADATA_PATH: &str = "/.well-known/oauth-authorization-server";
const METADATA: AcceptedResponse = AcceptedResponse {
    statuses: &[200],
    media_types: &["application/json"],
    max_bytes: 64 * 1_024,
    timeout: Duration::from_secs(10),
};

/// Runs all checks; fails if one of them does.
pub(crate) async fn run(config: Config, warnings: &[String]) -> anyhow::Result<()> {
    say("✓ The configuration is valid.");
    for warning in warnings {
        say(&format!("– {warning}"));
    }
    let app = App::new(config, Clock::System)?;
    let mut failed = 0;
    let mut show = |what: &str, checked: anyhow::Result<()>, advice: &str| match checked {
        Ok(()) => say(&format!("✓ {what}")),
        Err(error) => {
            failed += 1;
            say(&format!("✗ {what}: {error:#}. {advice}"));
        }
    };
    let settings = &app.config.database;
    let reached = database::connect(settings).await.map(drop);
    let is_reached = reached.is_ok();
    show("Database", reached, "Check database.url, and that PostgreSQL runs and lets this machine in.");
    if is_reached {
        show("Schema", migrations::check(settings).await, "Run `serviced migrate` as the owner of the schema.");
        show("Database role", migrations::check_role(settings).await, "Create a role as docs/operating.md shows.");
        show("Durability", migrations::check_durability(settings).await, "Change the setting of PostgreSQL.");
        show("Clock", check_clock(&app).await, "Synchronize the clocks of this machine and of the database, by NTP.");
        show("Root keys", check_root_keys::check(&app).await, "Give every root key that is in use, the newest first.");
    }
    show(
        "Mail server",
        check_mail(&app.config).await,
        "Check the settings mail.*, then try `serviced mail test ADDRESS`.",
    );
    if let Some(support) = &app.config.support {
        let files = server_tls::read(&support.files).map(drop);
        show(
            "Support listener",
            files,
            "Check the files of the settings support.*: a node does not start without them.",
        );
    }
    let advice = "Check DNS, the proxy and its certificate. Before the first node runs, this is expected.";
    show("Public URL", check_base_url(&app.config).await, advice);
    ensure!(failed == 0, "{failed} of the checks failed");
    Ok(())
}

async fn check_clock(app: &App) -> anyhow::Result<()> {
    let client = database::connect(&app.config.database).await?;
    let now = app.clock.now();
    let there: Timestamp = client.query_one(r"select clock_timestamp()", &[]).await?.try_get(0)?;
    let allowed = MAX_CLOCK_DIFFERENCE.as_secs();
    ensure!(!app.clock.is_off(now, there), "it differs from the database's by more than {allowed} seconds");
    Ok(())
}

/// Opens a connection to each mail server, as for sending a mail, with TLS and the password.
async fn check_mail(config: &Config) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    for (_, server) in config.mail.servers() {
        let name = format!("{}:{}", server.host, server.port);
        let transport = mailer::transport(server)?;
        match tokio::time::timeout(mailer::SMTP_SEND_TIMEOUT, transport.test_connection()).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => problems.push(format!("{name} closed the connection")),
            Ok(Err(error)) => problems.push(format!("{name}: {:#}", anyhow::Error::from(error))),
            Err(_) => problems.push(format!("{name} did not answer in time")),
        }
    }
    ensure!(problems.is_empty(), "{}", problems.join("; "));
    Ok(())
}

/// Whether the public URL leads to this service.
async fn check_base_url(config: &Config) -> anyhow::Result<()> {
    let url = Url::parse(&format!("{}{METADATA_PATH}", config.base_url))?;
    let networks = ["0.0.0.0/0".parse()?, "::/0".parse()?];
    let allowed = AllowedNetworks { networks: &networks, plain_http: PlainHttp::Loopback };
    let outbound = Outbound::new(tls::client(config.documents.ca_file.as_deref(), None)?);
    let request = OutboundRequest { url: &url, body: None, authorization: None, allowed, accepted: METADATA };
    let response = outbound.send(&request).await.with_context(|| format!("{url} is no use"))?;
    let document: serde_json::Value = serde_json::from_slice(&response.body)?;
    ensure!(document["issuer"] == *config.base_url, "{url} is another service's");
    Ok(())
}
