//! Signing keys: rotation without a failed request, and retirement that every node follows.

use std::{
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use futures_util::future::{join_all, try_join_all};
use service_server::flows::rotate_signing_keys::{self, RetireKeyError};
use service_testkit::{
    process::{self, Process},
    server::{Setup, TestServer, otp_exchange, request_code, signed_in, with_server},
};

const SERVICED: &str = env!("CARGO_BIN_EXE_serviced");

/// How long keys rotate under load; every two seconds in a minute unless told otherwise.
const ROTATIONS: u64 = 30;

#[test]
fn keys_rotate_under_load_and_no_valid_token_is_refused() -> Result<()> {
    let setup = Setup::default()
        .on_system_clock()
        .set("keys.publish_lead_seconds", "1")
        .set("limits.otp_sends_per_address", "100000/60");
    setup.run(async |server| {
        let nodes: Vec<_> = (0..3)
            .map(|_| Process::start(Path::new(SERVICED), &server.settings, &server.leaks))
            .collect::<Result<_>>()?;
        let (stop, checked) = (AtomicBool::new(false), AtomicU64::new(0));
        let signing_in = (0..3).map(|place| sign_in_and_use(server, &nodes, place, &stop, &checked));
        let (used, rotated) = tokio::join!(try_join_all(signing_in), rotate(server, &stop));
        let key_ids: std::collections::BTreeSet<_> = used?.into_iter().flatten().collect();
        rotated?;
        let checked = checked.load(Ordering::Relaxed);
        println!("{checked} uses of tokens signed by {} keys, over three processes", key_ids.len());
        assert!(key_ids.len() >= 20, "only {} keys came to sign", key_ids.len());
        assert!(checked >= 500, "only {checked} uses");
        for node in &nodes {
            server.leaks.assert_clean("a process's log", &node.log());
        }
        Ok(())
    })
}

/// Lets a new key follow every two seconds, by the operator's own command.
async fn rotate(server: &TestServer, stop: &AtomicBool) -> Result<()> {
    let mut ticks = tokio::time::interval(Duration::from_secs(2));
    for _ in 0..ROTATIONS {
        ticks.tick().await;
        let mut command = process::command(Path::new(SERVICED), &server.settings, "keys rotate");
        let status = tokio::process::Command::from({
            command.stdout(Stdio::null());
            command
        })
        .status()
        .await?;
        anyhow::ensure!(status.success(), "a key could not be rotated");
    }
    stop.store(true, Ordering::Relaxed);
    Ok(())
}

/// Signs in on one node again and again, and uses each token at once on all three, and all of them again at the end.
async fn sign_in_and_use(
    server: &TestServer,
    nodes: &[Process],
    place: usize,
    stop: &AtomicBool,
    checked: &AtomicU64,
) -> Result<Vec<String>> {
    let (mut key_ids, mut tokens) = (Vec::new(), Vec::new());
    let email = format!("ann{place}@acme.test");
    while !stop.load(Ordering::Relaxed) {
        let http = &nodes[place].http;
        let (otp_id, code) = request_code(http, &server.mailbox, &server.leaks, &email).await?;
        let token = signed_in(&http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read")).await?)?.access_token;
        key_ids.push(token.split('.').next().context("no header")?.to_owned());
        use_everywhere(nodes, &token, checked).await?;
        tokens.push(token);
    }
    for token in &tokens {
        use_everywhere(nodes, token, checked).await?;
    }
    Ok(key_ids)
}

async fn use_everywhere(nodes: &[Process], token: &str, checked: &AtomicU64) -> Result<()> {
    for response in join_all(nodes.iter().map(|node| node.http.get("/v1/whoami", Some(token)))).await {
        let response = response?;
        anyhow::ensure!(response.status == 200, "a valid token was refused: {}", response.text);
        checked.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[test]
fn what_a_retired_key_signed_is_refused_on_every_node() -> Result<()> {
    let setup = Setup::default().on_system_clock().set("keys.publish_lead_seconds", "0.001");
    setup.run(async |server| {
        let node = Process::start(Path::new(SERVICED), &server.settings, &server.leaks)?;
        let ann = server.sign_in("ann@acme.test", "read").await?;
        assert_eq!(node.http.get("/v1/whoami", Some(&ann.access_token)).await?.status, 200);
        let kid = server.sql("select kid from signing_keys").await?.context("no key")?;

        let alone = rotate_signing_keys::retire(&server.app, &kid).await;
        assert!(matches!(alone, Err(RetireKeyError::StillNeeded)), "the only key was retired: {alone:?}");
        rotate_signing_keys::rotate(&server.app).await?;
        let unknown = rotate_signing_keys::retire(&server.app, "unknown").await;
        assert!(matches!(unknown, Err(RetireKeyError::Unknown)), "{unknown:?}");
        rotate_signing_keys::retire(&server.app, &kid).await?;

        assert_eq!(server.http.get("/v1/whoami", Some(&ann.access_token)).await?.status, 401);
        let began = Instant::now();
        while node.http.get("/v1/whoami", Some(&ann.access_token)).await?.status == 200 {
            assert!(began.elapsed() < Duration::from_secs(5), "a node went on accepting a retired key");
        }
        let ben = server.sign_in("ben@acme.test", "read").await?;
        assert_eq!(node.http.get("/v1/whoami", Some(&ben.access_token)).await?.status, 200);
        Ok(())
    })
}

#[test]
fn nodes_that_start_on_an_empty_database_make_one_key() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        server.sql("delete from signing_keys").await?;
        let starting = (0..3).map(|_| {
            let (settings, leaks) = (server.settings.clone(), server.leaks.clone());
            tokio::task::spawn_blocking(move || Process::start(Path::new(SERVICED), &settings, &leaks))
        });
        let started = try_join_all(starting).await?;
        for node in &started {
            assert!(node.is_ok(), "a node did not start: {:#}", node.as_ref().err().unwrap());
        }
        assert_eq!(server.sql("select count(*) from signing_keys").await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn a_new_key_is_published_before_it_signs_and_an_old_one_until_its_tokens_are_dead() -> Result<()> {
    with_server(async |server| {
        let published = async || -> Result<Vec<String>> {
            let keys = server.http.get("/.well-known/jwks.json", None).await?;
            let keys = keys.body["keys"].as_array().context("no keys")?.clone();
            Ok(keys.iter().map(|key| key["kid"].as_str().unwrap_or_default().to_owned()).collect())
        };
        let signer = async |email| -> Result<String> {
            let token = server.sign_in(email, "read").await?.access_token;
            let header = token.split('.').next().context("no header")?.to_owned();
            let bytes = base64::Engine::decode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, header)?;
            Ok(serde_json::from_slice::<serde_json::Value>(&bytes)?["kid"].as_str().unwrap_or_default().to_owned())
        };
        let first = signer("ann@acme.test").await?;
        let second = rotate_signing_keys::rotate(&server.app).await?;
        assert_eq!(published().await?.len(), 2, "the new key is not published");
        assert_eq!(signer("ben@acme.test").await?, first, "the new key signed before its time");

        server.advance(1_200);
        assert_eq!(signer("cay@acme.test").await?, second, "the new key does not sign");
        assert!(published().await?.contains(&first), "tokens of the old key are still alive");

        server.advance(7_200);
        assert_eq!(published().await?, [second], "the old key is still published");
        Ok(())
    })
}

async fn published(server: &TestServer) -> Result<Vec<String>> {
    server.app.reload_signing_keys().await?;
    let keys = server.http.get("/.well-known/jwks.json", None).await?;
    let keys = keys.body["keys"].as_array().context("no keys")?.clone();
    Ok(keys.iter().map(|key| key["kid"].as_str().unwrap_or_default().to_owned()).collect())
}

/// An attacker who can write to the table but has no root key cannot add a signing key.
#[test]
fn a_row_that_an_attacker_wrote_is_not_a_key_rv_36() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let own = published(server).await?;
        let pkcs8 = service_server::crypto::random::signing_key()?;
        let forged = service_server::tokens::signing_keys::generate(&server.app.root_keys)?;
        let insert = |kid: &str, jwk: &serde_json::Value| {
            format!(
                "insert into signing_keys (kid, sealed, jwk, created_at, active_at, version, mac_key, mac)
                 select '{kid}', sealed, '{jwk}', created_at, active_at, version, mac_key, mac from signing_keys limit 1"
            )
        };
        server.sql(&insert(&forged.kid, &forged.jwk)).await?;
        let stranger = crate::support::forge::public_jwk(&pkcs8, "stranger")?;
        server.sql(&insert("stranger", &stranger)).await?;
        assert_eq!(published(server).await?, own, "a row without our MAC is published");
        assert_eq!(server.http.get("/v1/whoami", Some(&ann.access_token)).await?.status, 200);
        // Nor does a changed schedule count: such a key is not used at all.
        let second = rotate_signing_keys::rotate(&server.app).await?;
        server.sql(&format!("update signing_keys set retired_at = '2040-01-01Z' where kid = '{}'", own[0])).await?;
        assert_eq!(published(server).await?, [second]);
        Ok(())
    })
}

#[test]
fn a_key_that_was_retired_by_hand_does_not_come_back_rv_36() -> Result<()> {
    with_server(async |server| {
        let first = published(server).await?.remove(0);
        rotate_signing_keys::rotate(&server.app).await?;
        server.advance(1_201);
        server.sql("create table kept as select * from signing_keys").await?;
        rotate_signing_keys::retire(&server.app, &first).await?;
        let sealed = format!("select octet_length(sealed) from signing_keys where kid = '{first}'");
        assert_eq!(server.sql(&sealed).await?.as_deref(), Some("0"), "the private half is still there");
        let without = published(server).await?;
        assert!(!without.contains(&first));
        // Every row as it was, with the MAC that it had.
        server.sql("delete from signing_keys; insert into signing_keys select * from kept").await?;
        assert!(!published(server).await?.contains(&first), "an older row of a retired key counts");
        server.sql("drop table kept").await.map(drop)
    })
}

#[test]
fn a_new_root_key_takes_the_rows_of_keys_over_rv_36() -> Result<()> {
    with_server(async |server| {
        let own = server.settings.get("secrets.root_keys").context("no root key")?.to_owned();
        let new = service_testkit::settings::Settings::random_root_key()?;
        server.leaks.register("root key", &new);
        let mut settings = server.settings.clone();
        settings.set("secrets.root_keys", &format!("2:{new},{own}"));
        let clock = server.app.clock.clone();
        let running = service_server::server::Server::start(service_testkit::server::config(&settings)?, clock).await?;
        assert_eq!(server.sql("select distinct mac_key from signing_keys").await?.as_deref(), Some("2"));
        rotate_signing_keys::rotate(&running.app).await?;
        running.stop().await;
        Ok(())
    })
}
