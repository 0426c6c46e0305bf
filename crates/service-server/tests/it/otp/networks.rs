//! Which network a request for a code is counted by: the peer's, or what proxies that are trusted say.

use std::path::Path;

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use service_testkit::{
    process::Process,
    server::{Setup, TestServer},
    settings::Settings,
};

use crate::support::{
    devices::Caller,
    otp::{assert_limited, count},
};

/// Asks from behind these hops, for an address of its own; whether a code was sent.
async fn ask_via(server: &TestServer, hops: &[&str]) -> Result<bool> {
    let mut request = server.http.request(Method::POST, "/v1/otp-tokens");
    for line in hops {
        request = request.header("X-Forwarded-For", *line);
    }
    let email = format!("person{}@acme.test", count(server, "otps").await?);
    let response = server.http.send(request.json(&json!({ "email": email }))).await?;
    if response.status != 201 {
        assert_limited(&response, "otp-network", 1, 3_600);
    }
    Ok(response.status == 201)
}

#[test]
fn a_stranger_cannot_name_the_network_it_is_counted_by_ot_13() -> Result<()> {
    for trusted in ["", "10.0.0.0/8"] {
        let setup = Setup::default().set("limits.otp_sends_per_network", "1+1").set("http.trusted_proxies", trusted);
        setup.run(async |server| {
            assert!(ask_via(server, &["203.0.113.9"]).await?);
            for hops in [&[][..], &["1.2.3.4"], &["a"], &["10.0.0.1"], &["2001:db8::1"], &["1.2.3.4", "5.6.7.8"]] {
                assert!(!ask_via(server, hops).await?, "{hops:?}");
            }
            let seen = "audit_events where event = 'otp.requested' and address = '127.0.0.0/24'";
            assert_eq!(count(server, seen).await?, 1);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_trusted_proxy_is_believed_hop_by_hop_ot_13() -> Result<()> {
    let setup = Setup::default().set("limits.otp_sends_per_network", "1+1");
    setup.set("http.trusted_proxies", "127.0.0.1/32, 10.0.0.0/8").run(async |server| {
        let hops: [(&[&str], bool); 17] = [
            (&["203.0.113.9"], true),
            (&["203.0.113.9"], false),
            (&["198.51.100.7, 203.0.113.9"], false),
            (&["198.51.100.7", "203.0.113.9"], false),
            (&["203.0.113.9, 10.1.2.3"], false),
            (&["203.0.113.9", "10.1.2.3, 127.0.0.1"], false),
            (&["::ffff:203.0.113.9"], false),
            (&["198.51.100.7"], true),
            // What cannot be read counts for the hop that sent it.
            (&["a"], true),
            (&[], false),
            (&["192.0.2.1, b"], false),
            (&["192.0.2.1:4711"], false),
            (&["192.0.2.1"], true),
            // An IPv6 customer is a /64.
            (&["2001:db8:1:2:3:4:5:6"], true),
            (&["2001:db8:1:2::1"], false),
            (&["2001:db8:1:2:ffff::"], false),
            (&["2001:db8:1:3::1"], true),
        ];
        for (hops, sent) in hops {
            assert_eq!(ask_via(server, hops).await?, sent, "{hops:?}");
        }
        Ok(())
    })
}

/// Requests codes from these addresses, each for another user; returns how many were sent.
async fn sent_from(server: &TestServer, addresses: impl Iterator<Item = String>) -> Result<u32> {
    let mut sent = 0;
    for address in addresses {
        let email = format!("person{}@acme.test", count(server, "otps").await?);
        let response = Caller::at(server, &address).ask(&email).await?;
        sent += u32::from(response.status == 201);
    }
    Ok(sent)
}

#[test]
fn many_small_networks_of_one_customer_are_limited_together_rv_09() -> Result<()> {
    let trusting = || Setup::default().set("http.trusted_proxies", "127.0.0.1/32");
    trusting().set("limits.otp_sends_per_network", "1+1").run(async |server| {
        // A /56 has four times the rate of a /64, a /48 sixteen times; an IPv4 /24 eight times that of an address.
        assert_eq!(sent_from(server, (0..20).map(|n| format!("2001:db8:1:{n:x}::1"))).await?, 4);
        assert_eq!(sent_from(server, (0..20).map(|n| format!("2001:db8:1:{n:x}00::1"))).await?, 12);
        assert_eq!(sent_from(server, (0..5).map(|n| format!("2001:db8:2:{n:x}00::1"))).await?, 5);
        assert_eq!(sent_from(server, (0..20).map(|n| format!("203.0.113.{n}"))).await?, 8);
        assert_eq!(sent_from(server, (0..3).map(|n| format!("203.0.114.{n}"))).await?, 3);
        Ok(())
    })?;
    let rates = "32:2+1, 24:3+1, 64:2+1, 56:3+1, 48:5+1";
    trusting().set("limits.otp_sends_per_network", rates).run(async |server| {
        assert_eq!(sent_from(server, (0..9).map(|_| "2001:db8:1:1::1".to_owned())).await?, 2);
        // What was refused has used up nothing of the wider networks.
        assert_eq!(sent_from(server, (0..9).map(|n| format!("2001:db8:1:{n:x}::1"))).await?, 1);
        assert_eq!(sent_from(server, (1..9).map(|n| format!("2001:db8:1:{n:x}00::1"))).await?, 2);
        assert_eq!(sent_from(server, (0..9).map(|n| format!("203.0.113.{n}"))).await?, 3);
        Ok(())
    })
}

/// A number of the internal listener's.
async fn metric(server: &TestServer, name: &str) -> Result<f64> {
    let metrics = server.ops.get("/metrics", None).await?.text;
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    Ok(line.unwrap_or_default().parse()?)
}

#[test]
fn all_codes_together_have_a_budget_with_an_alarm_that_known_devices_pass_rv_09() -> Result<()> {
    let setup = Setup::default().set("limits.otp_sends", "10+60").set("http.trusted_proxies", "127.0.0.1/32");
    setup.run(async |server| {
        let mut known = Caller::at(server, "198.51.100.7");
        known.sign_in("ann@acme.test").await?;
        let sent = sent_from(server, (0..12).map(|n| format!("203.{n}.113.9"))).await?;
        assert_eq!(sent, 9);
        let refused = Caller::at(server, "192.0.2.1").ask("ann@acme.test").await?;
        assert_eq!(assert_limited(&refused, "otp-sends", 60, 3_600), 60);
        assert_eq!(count(server, "otps where address = 'ann@acme.test' and consumed_at is null").await?, 0);
        known.sign_in("ann@acme.test").await?;
        assert!(metric(server, "service_otp_sends_refused_total").await? >= 4.0);
        assert!(metric(server, "service_otp_sends_used_ratio").await? > 0.99);
        server.advance(60);
        assert_eq!(sent_from(server, ["192.0.2.1".to_owned()].into_iter()).await?, 1);
        Ok(())
    })
}

/// A node of its own with another setting than the server under test.
fn start_with(server: &TestServer, key: &str, value: &str) -> Result<Process> {
    let mut settings = server.settings.clone();
    settings.set(key, value);
    Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &server.leaks)
}

#[test]
fn limits_go_on_while_a_root_key_is_replaced_rv_35() -> Result<()> {
    let setup = Setup::default().on_system_clock().set("limits.otp_sends_per_address", "2/86400");
    setup.run(async |server| {
        for _ in 0..2 {
            server.request_code("ann@acme.test").await?;
        }
        let old = server.settings.get("secrets.root_keys").unwrap_or_default().to_owned();
        let new = format!("2:{}", Settings::random_root_key()?);
        for keys in [format!("{old},{new}"), format!("{new},{old}")] {
            let node = start_with(server, "secrets.root_keys", &keys)?;
            let response = node.http.post("/v1/otp-tokens", &json!({ "email": "ann@acme.test" })).await?;
            assert_limited(&response, "otp-address", 2, 86_400);
        }
        Ok(())
    })
}

#[test]
fn a_private_peer_that_forwards_and_is_not_trusted_is_warned_of_once_rv_38() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let mut nodes = [
            start_with(server, "http.trusted_proxies", "")?,
            start_with(server, "http.trusted_proxies", "127.0.0.1/32")?,
        ];
        for (node, warnings) in nodes.iter_mut().zip([1, 0]) {
            for _ in 0..3 {
                let request =
                    node.http.request(Method::POST, "/v1/login-options").header("X-Forwarded-For", "203.0.113.9");
                let response = node.http.send(request.json(&json!({ "email": "ann@acme.test" }))).await?;
                assert_eq!(response.status, 200);
            }
            assert_eq!(node.http.post("/v1/login-options", &json!({ "email": "a@acme.test" })).await?.status, 200);
            let metrics = node.ops.get("/metrics", None).await?.text;
            let counted = format!("service_forwarding_peers_ignored_total {}", 3 * warnings);
            assert!(metrics.contains(&counted), "{metrics}");
            // What it logged is whole once it has ended.
            assert_eq!(node.terminate()?, Some(0));
            let log = String::from_utf8(node.log())?;
            assert_eq!(log.matches("forwards addresses, which are ignored").count(), warnings, "{log}");
        }
        Ok(())
    })
}
