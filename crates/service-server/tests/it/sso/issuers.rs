//! Documents of issuers: fetched from allowed places only, once, and used on while their issuer is down.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::future::{join_all, try_join_all};
use serde_json::{Value, json};
use service_server::{
    issuers::{
        error::{IssuerError, ProviderRequest},
        token_endpoint::ProviderSecret,
        trusted_issuer::TrustedIssuer,
    },
    net::{document_fetcher, outbound::FetchError},
    store,
};
use service_testkit::{
    document_host::{certificate, response},
    identity_provider::{DISCOVERY, KEYS, ProviderKey, UnstartedProvider},
    server::{Setup, TestServer, with_server},
};

use crate::support::issuers::{claims, exchange, secret_basic, trust, verify, with_providers};

const JSON: &str = "Content-Type: application/json\r\n";
const HOUR: i64 = 3_600;

async fn metadata_error(server: &TestServer, issuer: &TrustedIssuer) -> Result<IssuerError> {
    server.app.issuers.metadata(issuer).await.err().context("the document was accepted")
}

fn refused(request: ProviderRequest, why: FetchError) -> IssuerError {
    IssuerError::Request { request, why }
}

#[test]
fn a_provider_is_found_by_discovery_over_tls() -> Result<()> {
    let cert = certificate()?;
    let ca = tempfile::NamedTempFile::new()?;
    std::fs::write(ca.path(), cert.cert.pem())?;
    let provider = UnstartedProvider::new()?;
    let setup = Setup::default()
        .set("documents.ca_file", ca.path().to_str().context("no path")?)
        .set("sso.allowed_issuers", &format!("{}=127.0.0.1/32", provider.https_issuer()));
    setup.run(async |server| {
        let provider = provider.start(Some(&cert))?;
        let issuer = trust(server, &provider.issuer).await?;
        let metadata = server.app.issuers.metadata(&issuer).await?;
        assert_eq!(metadata.authorization_endpoint.as_str(), format!("{}/authorize", provider.issuer));
        assert!(metadata.iss_parameter && metadata.supports_auth_method("private_key_jwt"));
        let verified = verify(server, &issuer, &provider.sign(&claims(&provider.issuer))?).await?;
        assert_eq!(verified.claims["sub"], "ann");
        assert_eq!((provider.asked(DISCOVERY), provider.asked(KEYS)), (1, 1));
        // Another certificate than the operator's authority signed.
        let stranger = UnstartedProvider::new()?;
        let refused_issuer = stranger.https_issuer();
        let _stranger = stranger.start(Some(&certificate()?))?;
        assert_eq!(
            metadata_error(server, &trust(server, &refused_issuer).await?).await?,
            refused(ProviderRequest::Discovery, FetchError::NotPublic),
            "what is allowed for one issuer is not allowed for another"
        );
        Ok(())
    })
}

#[test]
fn a_certificate_of_another_authority_is_refused() -> Result<()> {
    let provider = UnstartedProvider::new()?;
    let setup = Setup::default().set("sso.allowed_issuers", &format!("{}=127.0.0.1/32", provider.https_issuer()));
    setup.run(async |server| {
        let provider = provider.start(Some(&certificate()?))?;
        let error = metadata_error(server, &trust(server, &provider.issuer).await?).await?;
        assert_eq!(error, refused(ProviderRequest::Discovery, FetchError::Untrusted));
        assert_eq!(provider.asked(DISCOVERY), 0);
        Ok(())
    })
}

#[test]
fn a_document_of_another_issuer_is_refused_so_02() -> Result<()> {
    with_providers(async |server, [provider, other]| {
        for issuer in [json!(other.issuer), json!(format!("{}/", provider.issuer)), Value::Null] {
            let mut document = provider.discovery();
            document["issuer"] = issuer.clone();
            provider.publish(DISCOVERY, &document);
            server.advance(60);
            let error = metadata_error(server, &trust(server, &provider.issuer).await?).await?;
            assert_eq!(error, IssuerError::IssuerMismatch, "{issuer}");
            assert!(!error.is_outage());
        }
        Ok(())
    })
}

#[test]
fn a_discovery_document_that_redirects_or_is_too_large_is_refused_so_22() -> Result<()> {
    with_providers(async |server, [provider, other]| {
        let issuer = trust(server, &provider.issuer).await?;
        let padded = format!("{}{}", provider.discovery(), " ".repeat(64 * 1_024));
        let endless = format!("HTTP/1.1 200 OK\r\n{JSON}Connection: close\r\n\r\n{padded}").into_bytes();
        let location = format!("Location: {}{DISCOVERY}\r\n{JSON}", other.issuer);
        let body = provider.discovery().to_string();
        for (bytes, why) in [
            (response("302 Found", &location, &body), FetchError::Redirected),
            (response("307 Temporary Redirect", &location, &body), FetchError::Redirected),
            (response("200 OK", JSON, &padded), FetchError::TooLarge),
            (endless, FetchError::TooLarge),
            (response("200 OK", "Content-Type: text/html\r\n", &body), FetchError::MediaType),
            (response("200 OK", &format!("{JSON}Content-Encoding: gzip\r\n"), &body), FetchError::MediaType),
            (response("404 Not Found", JSON, &body), FetchError::Status(404)),
            (response("503 Service Unavailable", JSON, &body), FetchError::Status(503)),
            (b"not HTTP\r\n\r\n".to_vec(), FetchError::NotHttp),
        ] {
            provider.answer(DISCOVERY, bytes);
            server.advance(60);
            let error = metadata_error(server, &issuer).await?;
            assert_eq!(error, refused(ProviderRequest::Discovery, why));
            assert_eq!(error.is_outage(), matches!(why, FetchError::Status(503) | FetchError::NotHttp), "{why:?}");
        }
        assert_eq!(other.connections(), 0, "a redirect was followed");
        Ok(())
    })
}

#[test]
fn a_key_set_that_is_too_large_is_refused_so_21() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        let token = provider.sign(&claims(&provider.issuer))?;
        let good = json!({ "keys": [provider.public_key()] });
        let padded = format!("{good}{}", " ".repeat(300 * 1_024));
        provider.answer(KEYS, response("200 OK", JSON, &padded));
        let error = verify(server, &issuer, &token).await.err().context("300 KiB were accepted")?;
        assert_eq!(error, refused(ProviderRequest::Keys, FetchError::TooLarge));
        server.advance(60);
        provider.publish(KEYS, &json!({ "keys": vec![provider.public_key(); 101] }));
        let error = verify(server, &issuer, &token).await.err().context("101 keys were accepted")?;
        assert!(matches!(error, IssuerError::InvalidResponse { request: ProviderRequest::Keys, .. }), "{error:?}");
        server.advance(60);
        let padded = format!("{good}{}", " ".repeat(200 * 1_024));
        provider.answer(KEYS, response("200 OK", "Content-Type: application/jwk-set+json\r\n", &padded));
        verify(server, &issuer, &token).await?;
        Ok(())
    })
}

#[test]
fn nothing_inside_is_ever_connected_to_so_09() -> Result<()> {
    with_providers(async |server, [provider]| {
        // What is inside: a provider that the operator has not allowed.
        let unstarted = UnstartedProvider::new()?;
        let (plain, secure) = (unstarted.issuer(), unstarted.https_issuer());
        let inside = unstarted.start(None)?;
        let by_name = secure.replace("127.0.0.1", "localhost");
        for (address, why) in [
            (&plain, FetchError::Insecure),
            (&secure, FetchError::NotPublic),
            (&by_name, FetchError::NotPublic),
            (&secure.replace("127.0.0.1", "[::ffff:7f00:1]"), FetchError::NotPublic),
            (&secure.replace("127.0.0.1", "169.254.169.254"), FetchError::NotPublic),
        ] {
            let error = metadata_error(server, &trust(server, address).await?).await?;
            assert_eq!(error, refused(ProviderRequest::Discovery, why), "{address}");
        }
        // A provider that is allowed, but points elsewhere.
        let other_address = secure.replace("127.0.0.1", "127.0.0.2");
        for name in ["jwks_uri", "token_endpoint", "userinfo_endpoint", "authorization_endpoint"] {
            for address in [&other_address, "http://10.0.0.1/x", "http://id.acme.test/x", "https://192.168.1.1/x"] {
                let mut document = provider.discovery();
                document[name] = json!(address);
                provider.publish(DISCOVERY, &document);
                server.advance(60);
                let error = metadata_error(server, &trust(server, &provider.issuer).await?).await?;
                assert_eq!(error, IssuerError::InvalidEndpoint(name), "{address}");
            }
        }
        assert_eq!(inside.connections(), 0, "something inside was connected to");
        Ok(())
    })
}

fn port(issuer: &str) -> Result<&str> {
    issuer.rsplit_once(':').map(|(_, port)| port).context("no port")
}

#[test]
fn an_endpoint_whose_name_leads_inside_is_refused_so_09() -> Result<()> {
    let unstarted = UnstartedProvider::at("127.0.0.9")?;
    let setup = Setup::default().set("sso.allowed_issuers", &format!("{}=127.0.0.9/32", unstarted.issuer()));
    setup.run(async |server| {
        let (provider, inside) = (unstarted.start(None)?, UnstartedProvider::new()?);
        let elsewhere = inside.https_issuer().replace("127.0.0.1", "localhost");
        let inside = inside.start(None)?;
        let issuer = trust(server, &provider.issuer).await?;
        let mut document = provider.discovery();
        for name in ["jwks_uri", "token_endpoint", "userinfo_endpoint"] {
            document[name] = json!(format!("{elsewhere}/x"));
        }
        provider.publish(DISCOVERY, &document);
        let error =
            verify(server, &issuer, &provider.sign(&claims(&provider.issuer))?).await.err().context("verified")?;
        assert_eq!(error, refused(ProviderRequest::Keys, FetchError::NotPublic));
        let error = exchange(server, &issuer, &secret_basic()).await.err().context("exchanged")?;
        assert_eq!(error, refused(ProviderRequest::Token, FetchError::NotPublic));
        let token = ProviderSecret::new("an access token".into());
        let error = server.app.issuers.user_info(&issuer, &token, "ann").await.err().context("answered")?;
        assert_eq!(error, refused(ProviderRequest::UserInfo, FetchError::NotPublic));
        assert_eq!(inside.connections(), 0);
        Ok(())
    })
}

#[test]
fn a_hundred_requests_at_once_fetch_once_so_23() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        let token = provider.sign(&claims(&provider.issuer))?;
        try_join_all((0..100).map(|_| verify(server, &issuer, &token))).await?;
        assert_eq!((provider.asked(DISCOVERY), provider.asked(KEYS)), (1, 1));
        // The next time one fetches, and the others use the old keys meanwhile.
        server.advance(2 * HOUR);
        try_join_all((0..100).map(|_| verify(server, &issuer, &token))).await?;
        assert_eq!((provider.asked(DISCOVERY), provider.asked(KEYS)), (2, 2));
        // A failure counts for all of them, too.
        let other = UnstartedProvider::new()?;
        let issuer = trust(server, &other.issuer()).await?;
        let failed = join_all((0..100).map(|_| server.app.issuers.metadata(&issuer))).await;
        assert!(failed.iter().all(Result::is_err));
        Ok(())
    })
}

#[test]
fn documents_are_fetched_again_when_their_cache_lifetime_is_over() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        let token = provider.sign(&claims(&provider.issuer))?;
        let body = json!({ "keys": [provider.public_key()] }).to_string();
        let mut asked = 0;
        for (max_age, fresh_for) in [("max-age=0", 300), ("public, max-age=7200", 7_200), ("max-age=999999", 86_400)] {
            provider.answer(KEYS, response("200 OK", &format!("{JSON}Cache-Control: {max_age}\r\n"), &body));
            server.advance(86_400);
            verify(server, &issuer, &token).await?;
            asked += 1;
            server.advance(fresh_for - 1);
            verify(server, &issuer, &token).await?;
            assert_eq!(provider.asked(KEYS), asked, "{max_age}");
            server.advance(1);
            verify(server, &issuer, &token).await?;
            asked += 1;
            assert_eq!(provider.asked(KEYS), asked, "{max_age}");
        }
        Ok(())
    })
}

#[test]
fn an_unknown_key_costs_one_fetch_a_minute_so_23() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        verify(server, &issuer, &provider.sign(&claims(&provider.issuer))?).await?;
        let forged = async |number: usize| {
            let stranger = ProviderKey::generate(&format!("unknown-{number}"))?;
            anyhow::Ok(verify(server, &issuer, &stranger.sign(&claims(&provider.issuer))?).await)
        };
        for minute in 1..=3 {
            for round in 0..2 {
                for outcome in join_all((0..20).map(|number| forged(100 * round + number))).await {
                    assert_eq!(outcome?.err(), Some(IssuerError::UnknownKey));
                }
            }
            assert_eq!(provider.asked(KEYS), 1 + minute);
            server.advance(60);
        }
        // The genuine key is not affected.
        verify(server, &issuer, &provider.sign(&claims(&provider.issuer))?).await?;
        assert_eq!((provider.asked(KEYS), provider.asked(DISCOVERY)), (4, 1));
        Ok(())
    })
}

#[test]
fn a_key_that_the_provider_rotated_verifies_at_once_and_the_old_one_no_longer() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        let old = provider.sign(&claims(&provider.issuer))?;
        verify(server, &issuer, &old).await?;
        provider.rotate_key()?;
        verify(server, &issuer, &provider.sign(&claims(&provider.issuer))?).await?;
        assert_eq!(verify(server, &issuer, &old).await.err(), Some(IssuerError::UnknownKey));
        assert_eq!(provider.asked(KEYS), 2);
        Ok(())
    })
}

#[test]
fn known_keys_verify_for_a_day_while_the_issuer_is_down() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        let token = provider.sign(&claims(&provider.issuer))?;
        verify(server, &issuer, &token).await?;
        provider.set_down(true);
        server.advance(HOUR);
        let connections = provider.connections();
        for _ in 0..10 {
            verify(server, &issuer, &token).await?;
        }
        // The discovery document says where the keys are.
        assert_eq!(provider.connections(), connections + 2, "an issuer that is down is tried once a minute");
        server.advance(60);
        verify(server, &issuer, &token).await?;
        assert_eq!(provider.connections(), connections + 4);
        server.advance(24 * HOUR - 61);
        verify(server, &issuer, &token).await?;
        server.advance(1);
        let error = verify(server, &issuer, &token).await.err().context("keys of the day before yesterday")?;
        assert!(error.is_outage(), "{error:?}");
        provider.set_down(false);
        server.advance(10);
        verify(server, &issuer, &token).await?;
        Ok(())
    })
}

#[test]
fn an_issuer_that_does_not_answer_delays_no_other_so_24() -> Result<()> {
    with_providers(async |server, [silent, slow_keys, other]| {
        silent.fall_silent(DISCOVERY);
        slow_keys.fall_silent(KEYS);
        let (silent, other_issuer) = (trust(server, &silent.issuer).await?, trust(server, &other.issuer).await?);
        let with_slow_keys = trust(server, &slow_keys.issuer).await?;
        let token = slow_keys.sign(&claims(&slow_keys.issuer))?;
        let began = Instant::now();
        let waiting = async {
            let metadata = join_all((0..60).map(|_| server.app.issuers.metadata(&silent)));
            let keys = join_all((0..60).map(|_| verify(server, &with_slow_keys, &token)));
            let (metadata, keys) = tokio::join!(metadata, keys);
            let errors: Vec<_> =
                metadata.into_iter().filter_map(Result::err).chain(keys.into_iter().filter_map(Result::err)).collect();
            assert_eq!(errors.len(), 120);
            for error in errors {
                assert!(matches!(error, IssuerError::Request { why: FetchError::TooSlow, .. }), "{error:?}");
                assert!(error.is_outage());
            }
            began.elapsed()
        };
        let others = async {
            // The requests above are on their way now.
            tokio::task::yield_now().await;
            server.app.issuers.metadata(&other_issuer).await?;
            let of_issuer = began.elapsed();
            let url = format!("https://127.0.0.1:{}/client.json", port(&other.issuer)?).parse()?;
            document_fetcher::fetch(&server.app.documents, &url, uuid::Uuid::nil().into()).await.err();
            anyhow::Ok((of_issuer, began.elapsed()))
        };
        let (silent_for, others) = tokio::join!(waiting, others);
        let (of_issuer, of_document) = others?;
        assert!(silent_for < Duration::from_secs(5), "{silent_for:?}");
        assert!(
            of_issuer < Duration::from_secs(1) && of_document < Duration::from_secs(1),
            "{of_issuer:?} {of_document:?}"
        );
        // The next caller learns at once that the issuer does not answer.
        let began = Instant::now();
        assert!(metadata_error(server, &silent).await?.is_outage());
        assert!(began.elapsed() < Duration::from_millis(500));
        Ok(())
    })
}

#[test]
fn an_issuer_that_is_known_to_be_down_keeps_one_caller_waiting() -> Result<()> {
    with_providers(async |server, [silent]| {
        silent.fall_silent(DISCOVERY);
        let issuer = trust(server, &silent.issuer).await?;
        assert!(metadata_error(server, &issuer).await?.is_outage());
        server.advance(10);
        let waited = async || {
            let began = Instant::now();
            let failed = server.app.issuers.metadata(&issuer).await.is_err();
            (failed, began.elapsed() > Duration::from_secs(1))
        };
        let callers = join_all((0..60).map(|_| waited())).await;
        assert!(callers.iter().all(|(failed, _)| *failed));
        assert_eq!(callers.iter().filter(|(_, waited)| *waited).count(), 1);
        Ok(())
    })
}

#[test]
fn the_health_of_an_issuer_is_recorded_once_a_minute() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        let health = async || {
            let db = server.app.database.connect().await?;
            store::trusted_issuers::find_health(&db, issuer.id).await?.context("no issuer")
        };
        let began = server.now();
        server.app.issuers.metadata(&issuer).await?;
        assert_eq!(health().await?.last_success_at, Some(began));
        server.advance(59);
        server.app.issuers.metadata(&issuer).await?;
        assert_eq!(health().await?.last_success_at, Some(began));
        provider.answer(DISCOVERY, response("302 Found", "Location: https://evil.test/\r\n", ""));
        server.advance(HOUR);
        let failed_at = server.now();
        // The old document is used, and the owner sees what is wrong.
        server.app.issuers.metadata(&issuer).await?;
        let seen = health().await?;
        assert_eq!(seen.last_error_at, Some(failed_at));
        let text = seen.last_error.context("no error")?;
        assert!(text.contains("redirect") && !text.contains("evil.test"), "{text}");
        provider.publish(DISCOVERY, &provider.discovery());
        server.advance(60);
        server.app.issuers.metadata(&issuer).await?;
        assert_eq!(health().await?.last_success_at, Some(server.now()));
        let db = server.app.database.connect().await?;
        assert_eq!(store::trusted_issuers::find(&db, issuer.id).await?.map(|found| found.issuer), Some(issuer.issuer));
        assert!(store::trusted_issuers::delete(&db, issuer.id).await?);
        assert!(store::trusted_issuers::find(&db, issuer.id).await?.is_none());
        Ok(())
    })
}

#[test]
fn requests_to_providers_are_counted() -> Result<()> {
    with_server(async |server| {
        let issuer = trust(server, "https://localhost:1").await?;
        let error = metadata_error(server, &issuer).await?;
        assert_eq!(error, refused(ProviderRequest::Discovery, FetchError::NotPublic));
        let metrics = server.ops.get("/metrics", None).await?.text;
        let line = r#"service_provider_requests_total{request="discovery",outcome="forbidden_address"} 1"#;
        assert!(metrics.contains(line), "{metrics}");
        Ok(())
    })
}
