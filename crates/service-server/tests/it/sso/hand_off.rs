//! The way to a provider: a hand-off that fails is told, and hand-offs are limited.

use anyhow::{Context as _, Result};
use reqwest::Method;
use service_testkit::{
    server::{Setup, TestServer},
    tab::{Shown, Tab},
};

use crate::support::{
    provider::{Fault, Provider, ProviderPort},
    sso::{Company, allowing, company, provider_address, sign_in, signed_in_as, user, with_provider},
};

#[test]
fn owners_see_why_users_could_not_be_sent_to_the_provider() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        provider.fail(Fault::Down);
        let tab = Tab::open(server)?;
        assert_eq!(tab.get(&acme.start()).await?.status, 503);
        assert_eq!(acme.refusals(server).await?, "provider_unavailable");
        // One event for each hand-off, also while the failure is remembered and the provider is not asked.
        let requests = provider.requests();
        assert_eq!(tab.get(&acme.start()).await?.status, 503);
        assert_eq!(acme.refusals(server).await?, "provider_unavailable provider_unavailable");
        assert_eq!(provider.requests(), requests);
        let metrics = server.ops.get("/metrics", None).await?.text;
        assert!(metrics.contains("service_sso_sign_ins_total{outcome=\"provider_unavailable\"} 2"), "{metrics}");
        provider.fail(Fault::None);
        server.advance(61);
        sign_in(server, &tab, &acme.start()).await?;
        assert!(signed_in_as(&tab).await?.is_some());
        Ok(())
    })
}

/// Anyone can begin a sign-in that fails. That must not fill the log of a workspace.
#[test]
fn refused_sign_ins_are_recorded_a_hundred_times_an_hour() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.fail(Fault::Down);
        let tab = Tab::open(server)?;
        for _ in 0..102 {
            assert_eq!(tab.get(&acme.start()).await?.status, 503);
        }
        assert_eq!(acme.refusals(server).await?.split(' ').count(), 100);
        server.advance(36);
        assert_eq!(tab.get(&acme.start()).await?.status, 503);
        assert_eq!(acme.refusals(server).await?.split(' ').count(), 101);
        Ok(())
    })
}

/// A browser that was sent to the provider, and the form that sends it there again.
struct Sent {
    tab: Tab,
    path: String,
}

impl Sent {
    async fn begin(tab: Tab, acme: &Company) -> Result<Self> {
        let address = reqwest::Url::parse(&provider_address(&tab.get(&acme.start()).await?)?)?;
        let (_, state) = address.query_pairs().find(|(name, _)| name == "state").context("no state")?;
        let path = format!("/sign-in/{}", state.split('.').next().unwrap_or_default());
        tab.get(&path).await?;
        Ok(Self { tab, path: format!("{path}/sso") })
    }

    /// Asks for a hand-off, from a network.
    async fn again(&self, network: &str) -> Result<Shown> {
        let form = [("csrf", self.tab.csrf()), ("decision", "continue".to_owned())];
        let request = self.tab.request(Method::POST, &self.path).header("sec-fetch-site", "same-origin");
        self.tab.send(request.header("x-forwarded-for", network).form(&form)).await
    }
}

#[track_caller]
fn check_limited(shown: &Shown) {
    assert_eq!(shown.status, 429, "{}", shown.text);
    assert!(shown.text.contains("<h1>") && !shown.text.contains("http-equiv"), "{}", shown.text);
    let after = shown.headers.get("retry-after").and_then(|value| value.to_str().ok()).unwrap_or_default();
    assert!(after.parse::<u32>().is_ok_and(|seconds| seconds > 0), "{after}");
}

/// Runs a test with small limits of what a network and a device begin.
fn with_limits(test: impl AsyncFnOnce(&TestServer, &Provider) -> Result<()>) -> Result<()> {
    let port = ProviderPort::bind()?;
    let setup = Setup::default().set("limits.browsers_per_network", "5+1").set("http.trusted_proxies", "127.0.0.0/8");
    allowing(setup, &[&port]).run(async |server| test(server, &port.serve(server)?).await)
}

#[test]
fn hand_offs_are_limited_by_network() -> Result<()> {
    with_limits(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let ann = Sent::begin(Tab::open(server)?, &acme).await?;
        let mut allowed = 0;
        let limited = loop {
            let shown = ann.again("203.0.113.9").await?;
            if shown.status != 200 {
                break shown;
            }
            allowed += 1;
            assert!(allowed <= 5, "there is no limit");
        };
        check_limited(&limited);
        assert_eq!(allowed, 5);
        assert_eq!(acme.refusals(server).await?, "", "nothing is recorded about a hand-off that was not tried");
        provider_address(&ann.again("198.51.100.7").await?)?;
        check_limited(&ann.again("203.0.113.9").await?);
        Ok(())
    })
}

#[test]
fn hand_offs_of_a_known_device_are_limited_by_device() -> Result<()> {
    with_limits(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let tab = Tab::open(server)?;
        let begun = tab.get("/sign-in").await?;
        tab.sign_in(&server.mailbox, begun.next()?, "eve@other.test").await?;
        tab.device().context("the device is not known")?;
        // Signed out, and still known.
        tab.set_cookie(None);
        let known = Sent::begin(tab, &acme).await?;
        // The first one counts as well. A device takes its limit along to every network.
        for number in 2..=5 {
            provider_address(&known.again(&format!("203.0.{number}.9")).await?)?;
        }
        check_limited(&known.again("198.51.100.7").await?);
        // Other browsers of the network are not concerned.
        let other = Sent::begin(Tab::open(server)?, &acme).await?;
        provider_address(&other.again("198.51.100.7").await?)?;
        Ok(())
    })
}
