//! Which network a request for a code is counted by: the peer's, or what proxies that are trusted say.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use service_testkit::server::{Setup, TestServer};

use crate::{otp::count, otp_limits::assert_limited};

/// Asks from behind these hops, for an address of its own; whether a code was sent.
async fn ask_via(server: &TestServer, hops: &[&str]) -> Result<bool> {
    let mut request = server.door.request(Method::POST, "/v1/otp-tokens");
    for line in hops {
        request = request.header("X-Forwarded-For", *line);
    }
    let email = format!("person{}@acme.test", count(server, "otps").await?);
    let answer = server.door.send(request.json(&json!({ "email": email }))).await?;
    if answer.status != 201 {
        assert_limited(&answer, "otp-network", 1, 3_600);
    }
    Ok(answer.status == 201)
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
            let seen = "audit_events where event = 'otp.requested' and address = '127.0.0.1'";
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
