//! The published keys that access tokens are verified with.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use aws_lc_rs::digest;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use reqwest::Method;
use serde_json::{Value, json};
use service_server::flows::rotate_signing_keys;
use service_testkit::server::{Setup, with_server};

/// RFC 7638: the SHA-256 of the required members, in order and without spaces.
fn thumbprint(key: &Value) -> String {
    let text = format!(r#"{{"crv":{},"kty":{},"x":{},"y":{}}}"#, key["crv"], key["kty"], key["x"], key["y"]);
    BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, text.as_bytes()))
}

#[test]
fn only_public_halves_of_keys_are_published_dm_04() -> Result<()> {
    with_server(async |server| {
        for _ in 0..2 {
            rotate_signing_keys::rotate(&server.app).await?;
            server.advance(1);
        }
        let response = server.http.get("/.well-known/jwks.json", None).await?;
        let keys = response.body["keys"].as_array().context("no keys")?;
        assert_eq!(keys.len(), 3);
        assert_eq!(response.body.as_object().map(serde_json::Map::len), Some(1));
        for key in keys {
            let members: BTreeSet<_> = key.as_object().context("no key")?.keys().map(String::as_str).collect();
            assert_eq!(members, BTreeSet::from(["kty", "crv", "x", "y", "alg", "use", "kid"]));
            assert_eq!(
                (&key["kty"], &key["crv"], &key["alg"], &key["use"]),
                (&json!("EC"), &json!("P-256"), &json!("ES256"), &json!("sig"))
            );
            assert_eq!(key["kid"], thumbprint(key));
        }
        let kids: BTreeSet<_> = keys.iter().map(|key| key["kid"].as_str()).collect();
        assert_eq!(kids.len(), keys.len());
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let header = BASE64_URL_SAFE_NO_PAD.decode(ann.access_token.split('.').next().unwrap_or_default())?;
        let header: Value = serde_json::from_slice(&header)?;
        assert!(kids.contains(&header["kid"].as_str()));
        Ok(())
    })
}

#[test]
fn keys_are_not_kept_longer_than_a_new_one_is_announced_dm_05() -> Result<()> {
    for lead in ["1200", "300", "60", "0.5"] {
        Setup::default().set("keys.publish_lead_seconds", lead).run(async |server| {
            let get = server.http.get("/.well-known/jwks.json", None).await?;
            let head = server.http.send(server.http.request(Method::HEAD, "/.well-known/jwks.json")).await?;
            let max_age = get.header("cache-control").and_then(|text| text.strip_prefix("public, max-age="));
            let max_age: f64 = max_age.context("no max-age")?.parse()?;
            assert!(max_age <= lead.parse()?, "{max_age} with a lead of {lead}");
            assert_eq!((get.status.as_u16(), head.status.as_u16(), head.text.as_str()), (200, 200, ""));
            for name in ["content-type", "content-length", "cache-control", "x-content-type-options"] {
                assert_eq!(get.header(name), head.header(name), "{name}");
            }
            assert_eq!(get.headers.len(), head.headers.len());
            Ok(())
        })?;
    }
    Ok(())
}
