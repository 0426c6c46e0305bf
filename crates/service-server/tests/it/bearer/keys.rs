//! Which key signed a token: unknown ones cost next to nothing, retired ones open nothing.

use std::time::Instant;

use anyhow::{Context as _, Result};
use futures_util::future::join_all;
use service_rules::bearer::Claims;
use service_server::{crypto::random, flows::rotate_signing_keys};
use service_testkit::server::{Setup, SignedIn, TestServer, with_server};

use crate::support::{
    access::{claims, signed},
    bearer::{accepted, list_projects, refused, statements_with},
    forge::{Forge, encode},
};

/// No look at the keys in the background, so that each one in PostgreSQL's log is a request's.
fn without_background() -> Setup {
    Setup::default().set("keys.refresh_every_seconds", "29")
}

#[test]
fn a_malformed_key_id_is_refused_without_looking_br_10() -> Result<()> {
    without_background().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let forge = Forge::of(server).await?;
        let draft = forge.draft(server, &ann)?;
        accepted(server, &forge.sign(&draft)?, "the genuine token").await?;
        let before = server.cluster.logged();
        let (member, kid) = (format!("\"kid\":\"{}\"", forge.kid), forge.kid.as_str());
        let (short, long, padded) = (&kid[..42], format!("{kid}A"), format!("{kid}="));
        for wrong in [
            "",
            "../../etc/passwd",
            "/dev/zero",
            "' or '1'='1",
            "'; drop table signing_keys; --",
            "%",
            "\\u0000",
            short,
            &long,
            &padded,
            &"k".repeat(5_000),
        ] {
            let draft = draft.header_edit(kid, wrong)?;
            refused(server, &forge.sign(&draft)?, &format!("kid {wrong:.20}")).await?;
        }
        for wrong in [
            String::new(),
            "\"kid\":null".into(),
            "\"kid\":1".into(),
            format!("\"kid\":[\"{kid}\"]"),
            format!("\"kid\":{{\"kid\":\"{kid}\"}}"),
            format!("\"KID\":\"{kid}\""),
        ] {
            let header = draft.header.replace(&member, &wrong).replace(",,", ",");
            assert_ne!(header, draft.header);
            refused(server, &forge.sign(&draft.with_header(&header))?, &wrong).await?;
        }
        assert!(statements_with(server, before, "signing_keys")? <= 1, "malformed key ids are looked up");
        accepted(server, &forge.sign(&draft)?, "the genuine token").await
    })
}

/// A token that names an unknown key.
fn of_unknown_key(server: &TestServer, user: &SignedIn) -> Result<String> {
    let forge = Forge::stranger(&encode(random::bytes::<32>()?))?;
    forge.sign(&forge.draft(server, user)?)
}

#[test]
fn a_flood_of_unknown_key_ids_is_a_handful_of_queries_br_10() -> Result<()> {
    without_background().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let flood = (0..100).map(|_| of_unknown_key(server, &ann)).collect::<Result<Vec<_>>>()?;
        for round in ["new", "known to be unknown"] {
            // On a slow machine the copy of the table would be too old by now, and few requests may wait for another.
            server.app.reload_signing_keys().await?;
            let (before, began) = (server.cluster.logged(), Instant::now());
            let forged = join_all(flood.iter().map(|token| refused(server, token, round)));
            // Good tokens, also ones never seen before, do not wait behind the flood.
            let good =
                (0..20).map(|_| signed(server, &claims(server, ann.user_id, "read")?)).collect::<Result<Vec<_>>>()?;
            let genuine = join_all(good.iter().map(|token| accepted(server, token, "a good token")));
            let (forged, genuine) = futures_util::future::join(forged, genuine).await;
            forged.into_iter().chain(genuine).collect::<Result<Vec<_>>>()?;
            let queries = statements_with(server, before, "from signing_keys")?;
            // A key might be so new that this node has not seen it, so one request reads the table, at most five times a second.
            let most = 2 + usize::try_from(began.elapsed().as_millis())? / 200;
            let expected = if round == "new" { 0..=most } else { 0..=0 };
            assert!(expected.contains(&queries), "{queries} queries for 100 {round} key ids");
        }
        Ok(())
    })
}

#[test]
fn a_made_up_key_id_is_refused_at_once_rv_32() -> Result<()> {
    without_background().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let flood = (0..30).map(|_| of_unknown_key(server, &ann)).collect::<Result<Vec<_>>>()?;
        server.app.reload_signing_keys().await?;
        let (before, began) = (server.cluster.logged(), Instant::now());
        for token in &flood {
            refused(server, token, "a made-up key id").await?;
        }
        // One that waits for the table takes a fifth of a second and more.
        assert!(began.elapsed().as_millis() < 900, "30 refusals took {:?}", began.elapsed());
        assert_eq!(statements_with(server, before, "from signing_keys")?, 0);
        Ok(())
    })
}

#[test]
fn few_requests_wait_for_the_table_of_keys_rv_32() -> Result<()> {
    // A key may sign a moment after it was published, so that no copy of the table is young enough.
    let setup = without_background().set("keys.publish_lead_seconds", "0.001").set("database.deadline_seconds", "4");
    setup.run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let flood = (0..40).map(|_| of_unknown_key(server, &ann)).collect::<Result<Vec<_>>>()?;
        let held = server.app.background_database.begin().await?;
        held.execute("lock table signing_keys in access exclusive mode", &[]).await?;
        let forged = join_all(flood.iter().map(|token| list_projects(server, token)));
        let mut held = Some(held);
        let released = async {
            while server.app.in_flight.available_permits() != 512 - 16 {
                tokio::task::yield_now().await;
            }
            drop(held.take());
        };
        let (responses, ()) = futures_util::future::join(forged, released).await;
        let statuses =
            responses.into_iter().map(|response| Ok(response?.status.as_u16())).collect::<Result<Vec<_>>>()?;
        let count = |status| statuses.iter().filter(|other| **other == status).count();
        assert_eq!((count(401), count(503)), (16, 24), "{statuses:?}");
        Ok(())
    })
}

/// Two keys that both may sign; returns the id of the older.
async fn two_keys(server: &TestServer) -> Result<String> {
    let older = Forge::of(server).await?.kid;
    rotate_signing_keys::rotate(&server.app).await?;
    server.advance(1_201);
    Ok(older)
}

#[test]
fn what_a_retired_key_signed_opens_nothing_br_10_br_19() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let lasting = |scope| -> Result<Claims> {
            let claims = claims(server, ann.user_id, scope)?;
            Ok(Claims { exp: claims.iat + 3_600, ..claims })
        };
        let (seen, unseen) = (signed(server, &lasting("read")?)?, signed(server, &lasting("read write")?)?);
        let older = two_keys(server).await?;
        let successor = signed(server, &lasting("read")?)?;
        accepted(server, &seen, "a token of the older key").await?;
        accepted(server, &successor, "a token of the younger key").await?;

        rotate_signing_keys::retire(&server.app, &older).await?;
        refused(server, &seen, "a token of a retired key, remembered as verified").await?;
        refused(server, &unseen, "a token of a retired key, never seen before").await?;
        refused(server, &seen, "the same again").await?;
        let whoami = server.http.get("/v1/whoami", Some(&seen)).await?;
        assert_eq!(whoami.status, 401, "another endpoint still takes it");
        accepted(server, &successor, "a token of the younger key").await?;
        let published = server.http.get("/.well-known/jwks.json", None).await?;
        let published = published.body["keys"].as_array().context("no keys")?;
        assert!(published.len() == 1 && published.iter().all(|key| key["kid"] != older.as_str()));
        Ok(())
    })
}

#[test]
fn a_key_that_was_followed_retires_by_itself_br_10_br_19() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let claims = claims(server, ann.user_id, "read")?;
        // Made early for a time in which it is young enough to be accepted.
        let token = signed(server, &Claims { iat: claims.iat + 5_400, exp: claims.iat + 9_000, ..claims })?;
        two_keys(server).await?;
        server.advance(7_198);
        accepted(server, &token, "a token of the followed key, a second before its end").await?;
        server.advance(1);
        refused(server, &token, "a token of the followed key, at its end").await
    })
}

#[test]
fn the_last_key_cannot_be_retired_br_19() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let only = Forge::of(server).await?.kid;
        let retired = rotate_signing_keys::retire(&server.app, &only).await;
        assert!(matches!(retired, Err(rotate_signing_keys::RetireKeyError::StillNeeded)), "{retired:?}");
        accepted(server, &ann.access_token, "a token of the only key").await
    })
}

#[test]
fn what_a_token_opens_is_decided_anew_each_time_br_20() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let narrow = signed(server, &claims(server, ann.user_id, "packs:read")?)?;
        let other = signed(server, &claims(server, ann.user_id, "tokens:read")?)?;
        // Remembered first as one that opens, and first as one that does not.
        for (token, order) in [(&narrow, ["/v1/whoami", "/v1/projects"]), (&other, ["/v1/projects", "/v1/whoami"])] {
            for path in order.iter().chain(&order) {
                let response = server.http.get(path, Some(token)).await?;
                let (status, error) = if *path == "/v1/whoami" { (200, "") } else { (403, "insufficient_scope") };
                assert_eq!((response.status.as_u16(), response.error()), (status, error), "{path}");
            }
        }
        // A wider token beside it lends it nothing.
        accepted(server, &ann.access_token, "the wider token").await?;
        assert_eq!(list_projects(server, &narrow).await?.status, 403);
        Ok(())
    })
}

#[test]
fn a_token_that_was_remembered_expires_all_the_same_br_20() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        accepted(server, &ann.access_token, "a fresh token").await?;
        server.advance(930);
        accepted(server, &ann.access_token, "a token within the skew").await?;
        server.advance(1);
        for path in ["/v1/projects", "/v1/whoami"] {
            let response = server.http.get(path, Some(&ann.access_token)).await?;
            assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_token"), "{path}");
            assert_eq!(response.body["details"]["reason"], "expired", "{path}");
        }
        Ok(())
    })
}

#[test]
fn a_token_is_remembered_by_all_of_its_text_br_20() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "read").await?, server.sign_in("bob@acme.test", "read").await?);
        accepted(server, &ann.access_token, "Ann's token").await?;
        accepted(server, &bob.access_token, "Bob's token").await?;
        let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
        let (a, b) = (parts(&ann.access_token), parts(&bob.access_token));
        refused(server, &format!("{}.{}.{}", a[0], a[1], b[2]), "Bob's signature under Ann's claims").await?;
        refused(server, &format!("{}.{}.{}", a[0], b[1], a[2]), "Ann's signature under Bob's claims").await?;
        refused(server, &ann.access_token.to_lowercase(), "the token in lower case").await?;
        let whoami = server.http.get("/v1/whoami", Some(&ann.access_token)).await?;
        assert_eq!(whoami.body["user"]["email"], "ann@acme.test");
        Ok(())
    })
}
