//! `cargo xtask ops roll`: restarts nodes one after the other behind each proxy, while users work.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use service_testkit::postgres::Cluster;
use tokio::time::sleep;

use super::load::{Load, UserTokens};
use super::nodes::{DrillDatabase, Installation};
use super::proxies::{Product, Proxy};
use super::report;
use crate::say_error;

/// How many users share the requests.
const USERS: usize = 30;

/// How long a rollout waits after a node is ready, until the proxy has asked it again.
const SETTLED: Duration = Duration::from_secs(3);

#[derive(clap::Args)]
pub(crate) struct RollOptions {
    /// How many times a node is restarted behind each proxy
    #[arg(long, default_value_t = 8)]
    restarts: usize,
    /// Requests per second, half of them refreshes
    #[arg(long, default_value_t = 150)]
    rate: u32,
    /// Only this proxy; can be repeated
    #[arg(long = "proxy", value_enum)]
    proxies: Vec<Product>,
}

pub(super) async fn run(options: &RollOptions) -> Result<()> {
    let cluster = Cluster::start_quiet()?;
    let mut installation = Installation::start(&DrillDatabase::create(&cluster).await?).await?;
    let mut behind = Vec::new();
    for product in [Product::Haproxy, Product::Nginx, Product::Caddy] {
        if options.proxies.is_empty() || options.proxies.contains(&product) {
            let sessions = installation.sign_in(USERS).await?;
            behind.push(roll_behind(product, &mut installation, sessions, options).await?);
        }
    }
    let passed = behind.iter().all(|proxy| proxy["failed"] == 0 && proxy["forwarded_addresses_ignored"] == 0.0);
    report(&json!({ "drill": "roll", "rate": options.rate, "proxies": behind }), passed)
}

async fn roll_behind(
    product: Product,
    installation: &mut Installation,
    sessions: Vec<UserTokens>,
    options: &RollOptions,
) -> Result<Value> {
    let proxy = Proxy::start(product, installation).await?;
    sleep(SETTLED).await;
    let load = Load::start(&proxy.client, &proxy.url, sessions, options.rate);
    sleep(SETTLED).await;
    for restart in 0..options.restarts {
        say_error(&format!("{product}: restart {} of {}", restart + 1, options.restarts));
        let count = installation.nodes.len();
        if let Some(node) = installation.nodes.get_mut(restart % count) {
            node.stop().await?;
            node.start().await?;
        }
        sleep(SETTLED).await;
    }
    let tally = load.stop().await?;
    let mut ignored = 0.0;
    for node in &installation.nodes {
        ignored += node.metric("service_forwarding_peers_ignored_total").await?;
    }
    Ok(json!({
        "proxy": product.to_string(),
        "restarts": options.restarts,
        "requests": tally.requests(),
        "refreshes": tally.refreshes,
        "failed": tally.failed(),
        "failures": tally.failures,
        "signed_out": tally.signed_out,
        "forwarded_addresses_ignored": ignored,
    }))
}
