//! Tokens of issuers: believed only with a key of the same issuer, and requested without a secret getting elsewhere.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use aws_lc_rs::{
    hmac,
    rand::SystemRandom,
    rsa::KeySize,
    signature::{
        ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
        RsaEncoding, RsaKeyPair,
    },
};
use futures_util::future::join_all;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, jwk::Jwk};
use serde_json::{Value, json};
use service_api::token::ClientSecret;
use service_server::{
    issuers::{
        client_key::ClientKey,
        error::{IssuerError, ProviderRequest},
        keys::SUPPORTED_ALGORITHMS,
        token_endpoint::{ProviderCredential, ProviderSecret},
        trusted_issuer::TrustedIssuer,
    },
    net::outbound::FetchError,
    store::trusted_issuers::SIGN_IN,
};
use service_testkit::{
    document_host::response,
    identity_provider::{DISCOVERY, KEYS, ProviderKey, TOKEN, USER_INFO, encode},
    server::TestServer,
};

use crate::support::issuers::{
    CLIENT_SECRET, CODE, VERIFIER, claims, exchange, secret_basic, trust, verify, with_providers,
};

const JSON: &str = "Content-Type: application/json\r\n";

fn message(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(header.to_string()), encode(claims.to_string()))
}

fn rsa_jwk(pair: &RsaKeyPair, kid: &str) -> Value {
    let public = pair.public_key();
    let (n, e) = (public.modulus().big_endian_without_leading_zero(), public.exponent());
    json!({ "kty": "RSA", "kid": kid, "n": encode(n), "e": encode(e.big_endian_without_leading_zero()) })
}

fn sign_rsa(pair: &RsaKeyPair, padding: &'static dyn RsaEncoding, message: &str) -> Result<String> {
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(padding, &SystemRandom::new(), message.as_bytes(), &mut signature).map_err(|_| anyhow!("not signed"))?;
    Ok(format!("{message}.{}", encode(signature)))
}

async fn check_refused(server: &TestServer, issuer: &TrustedIssuer, token: &str, expected: IssuerError) {
    let outcome = verify(server, issuer, token).await;
    assert_eq!(outcome.err(), Some(expected), "{:?}", token.split('.').next());
}

#[test]
fn every_supported_algorithm_verifies_with_pasted_keys_and_nothing_is_fetched() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        let claims = claims(&provider.issuer);
        let rsa = RsaKeyPair::generate(KeySize::Rsa2048)?;
        let p384 = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING)?;
        let ed = Ed25519KeyPair::generate()?;
        let point = p384.public_key().as_ref();
        let (x, y) = (encode(&point[1..49]), encode(&point[49..]));
        let set = json!({ "keys": [
            rsa_jwk(&rsa, "rsa"),
            { "kty": "EC", "crv": "P-384", "kid": "p384", "x": x, "y": y },
            { "kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": encode(ed.public_key()) },
            provider.public_key(),
        ] });
        let header = |algorithm: &str, kid: &str| json!({ "alg": algorithm, "kid": kid });
        let (es384, eddsa) = (message(&header("ES384", "p384"), &claims), message(&header("EdDSA", "ed"), &claims));
        let signature = p384.sign(&SystemRandom::new(), es384.as_bytes())?;
        let tokens = [
            sign_rsa(&rsa, &RSA_PKCS1_SHA256, &message(&header("RS256", "rsa"), &claims))?,
            sign_rsa(&rsa, &RSA_PSS_SHA256, &message(&header("PS256", "rsa"), &claims))?,
            provider.sign(&claims)?,
            format!("{es384}.{}", encode(signature)),
            format!("{eddsa}.{}", encode(ed.sign(eddsa.as_bytes()))),
        ];
        for (algorithm, token) in SUPPORTED_ALGORITHMS.into_iter().zip(&tokens) {
            let only = TrustedIssuer { jwks: Some(set.clone()), algorithms: vec![algorithm.into()], ..issuer.clone() };
            for other in &tokens {
                match verify(server, &only, other).await {
                    Ok(verified) => assert_eq!((other, &verified.claims["sub"]), (token, &json!("ann"))),
                    Err(error) => assert_eq!((other != token, error), (true, IssuerError::Algorithm)),
                }
            }
            let cut = TrustedIssuer { jwks: Some(json!({ "keys": [] })), ..only.clone() };
            check_refused(server, &cut, token, IssuerError::NoUsableKeys).await;
        }
        assert_eq!(provider.connections(), 0, "pasted keys are never fetched");
        Ok(())
    })
}

#[test]
fn a_token_without_a_signature_of_its_issuer_is_refused_so_03() -> Result<()> {
    with_providers(async |server, [provider, other]| {
        let all = SUPPORTED_ALGORITHMS.map(str::to_owned).to_vec();
        let issuer = TrustedIssuer { algorithms: all, ..trust(server, &provider.issuer).await? };
        let claims = claims(&provider.issuer);
        let genuine = provider.sign(&claims)?;
        verify(server, &issuer, &genuine).await?;
        // The other issuer is known to this node as well, for another workspace.
        let theirs = crate::support::issuers::claims(&other.issuer);
        verify(server, &trust(server, &other.issuer).await?, &other.sign(&theirs)?).await?;
        let connections = other.connections();
        // No signature at all, in every spelling.
        for algorithm in ["none", "None", "NONE", "nOnE", ""] {
            for signature in ["", "AA"] {
                let token = format!("{}.{signature}", message(&json!({ "alg": algorithm, "kid": "key-1" }), &claims));
                check_refused(server, &issuer, &token, IssuerError::Algorithm).await;
            }
        }
        // The public key as a shared secret, in every form in which it is published.
        let public = provider.public_key();
        let header = json!({ "alg": "HS256", "kid": "key-1" });
        let allowing = TrustedIssuer { algorithms: vec!["HS256".into(), "none".into()], ..issuer.clone() };
        for secret in [public.to_string(), public["x"].as_str().context("no x")?.to_owned(), String::new()] {
            let message = message(&header, &claims);
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), message.as_bytes());
            let token = format!("{message}.{}", encode(tag));
            check_refused(server, &issuer, &token, IssuerError::Algorithm).await;
            check_refused(server, &allowing, &token, IssuerError::Algorithm).await;
        }
        // A key of another issuer under the same id, with claims that name either issuer.
        for name in [&provider.issuer, &other.issuer] {
            let token = other.sign(&crate::support::issuers::claims(name))?;
            check_refused(server, &issuer, &token, IssuerError::Signature).await;
        }
        assert_eq!(other.connections(), connections, "a token selected its issuer");
        // A key that the token brings along.
        let own = ProviderKey::generate("own")?;
        for header in [
            json!({ "alg": "ES256", "jwk": own.public() }),
            json!({ "alg": "ES256", "kid": "own", "jku": format!("{}{KEYS}", other.issuer) }),
            json!({ "alg": "ES256", "kid": "key-1", "jwk": own.public() }),
        ] {
            let outcome = verify(server, &issuer, &own.sign_with(&header, &claims)?).await;
            assert!(matches!(outcome, Err(IssuerError::Signature | IssuerError::UnknownKey)), "{header}");
        }
        assert_eq!(other.connections(), connections, "a token selected its keys");
        Ok(())
    })
}

#[test]
fn a_token_that_was_changed_is_refused_so_03() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        let claims = claims(&provider.issuer);
        let genuine = provider.sign(&claims)?;
        let (signed, signature) = genuine.rsplit_once('.').context("no JWT")?;
        let (header, payload) = signed.split_once('.').context("no JWT")?;
        let other_payload = encode(json!({ "iss": provider.issuer, "sub": "bob", "aud": "service" }).to_string());
        check_refused(server, &issuer, &format!("{header}.{other_payload}.{signature}"), IssuerError::Signature).await;
        check_refused(server, &issuer, &format!("{header}.{payload}.{}", encode([1; 64])), IssuerError::Signature)
            .await;
        check_refused(server, &issuer, &format!("{header}.{payload}."), IssuerError::Signature).await;
        for malformed in ["", "a.b", "a.b.c", "..", signed, &genuine.replace('.', " "), &"x".repeat(60_000)] {
            check_refused(server, &issuer, malformed, IssuerError::MalformedToken).await;
        }
        // An algorithm that does not belong to the type of the key.
        let all = TrustedIssuer { algorithms: SUPPORTED_ALGORITHMS.map(str::to_owned).to_vec(), ..issuer.clone() };
        for algorithm in ["RS256", "PS256", "ES384", "EdDSA"] {
            let token = provider.sign_with(&json!({ "alg": algorithm, "kid": "key-1" }), &claims)?;
            check_refused(server, &issuer, &token, IssuerError::Algorithm).await;
            check_refused(server, &all, &token, IssuerError::Signature).await;
        }
        let critical = json!({ "alg": "ES256", "kid": "key-1", "crit": ["b64"], "b64": false });
        check_refused(server, &issuer, &provider.sign_with(&critical, &claims)?, IssuerError::MalformedToken).await;
        // Claims that two parsers could read differently.
        let twice = format!(r#"{{"sub":"ann","sub":"bob","iss":"{}"}}"#, provider.issuer);
        let encoded = format!("{header}.{}", encode(&twice));
        let outcome = verify(server, &issuer, &format!("{encoded}.{signature}")).await;
        assert_eq!(outcome.err(), Some(IssuerError::Signature));
        Ok(())
    })
}

#[test]
fn keys_that_are_weak_or_for_something_else_are_never_used_so_03() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        let token = provider.sign(&claims(&provider.issuer))?;
        let good = provider.public_key();
        let with = |name: &str, value: Value| {
            let mut key = good.clone();
            key[name] = value;
            key
        };
        for wrong in [
            with("use", json!("enc")),
            with("key_ops", json!(["encrypt"])),
            with("alg", json!("ES384")),
            with("alg", json!("HS256")),
            with("crv", json!("P-384")),
            with("crv", json!("secp256k1")),
            with("x", json!("AA")),
            with("y", Value::Null),
            with("kty", json!("oct")),
            with("d", json!("AA")),
            json!({ "kty": "oct", "kid": "key-1", "k": encode(b"secret") }),
            json!({ "kty": "RSA", "kid": "key-1", "n": encode([0xff; 128]), "e": "AQAB" }),
            json!("a key"),
        ] {
            let pasted = TrustedIssuer { jwks: Some(json!({ "keys": [wrong] })), ..issuer.clone() };
            check_refused(server, &pasted, &token, IssuerError::NoUsableKeys).await;
            // Beside a good key it does no harm.
            let pasted = TrustedIssuer { jwks: Some(json!({ "keys": [wrong, good] })), ..issuer.clone() };
            verify(server, &pasted, &token).await?;
        }
        // Without an id, only a single key is used.
        let unnamed = provider.sign_with(&json!({ "alg": "ES256" }), &claims(&provider.issuer))?;
        let other = ProviderKey::generate("other")?.public();
        let single = TrustedIssuer { jwks: Some(json!({ "keys": [good] })), ..issuer.clone() };
        verify(server, &single, &unnamed).await?;
        let several = TrustedIssuer { jwks: Some(json!({ "keys": [good, other] })), ..issuer.clone() };
        check_refused(server, &several, &unnamed, IssuerError::UnknownKey).await;
        Ok(())
    })
}

#[test]
fn an_issuer_is_trusted_only_for_its_purposes() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        let token = provider.sign(&claims(&provider.issuer))?;
        for purposes in [vec![], vec!["machines".to_owned()], vec!["sign_in_later".to_owned()]] {
            let other = TrustedIssuer { purposes, ..issuer.clone() };
            check_refused(server, &other, &token, IssuerError::Purpose).await;
            let pasted = json!({ "keys": [provider.public_key()] });
            check_refused(server, &TrustedIssuer { jwks: Some(pasted), ..other }, &token, IssuerError::Purpose).await;
        }
        assert_eq!(provider.asked(KEYS), 0, "nothing was fetched");
        let both = TrustedIssuer { purposes: vec!["machines".into(), SIGN_IN.into()], ..issuer };
        verify(server, &both, &token).await?;
        Ok(())
    })
}

/// The form of a request to the token endpoint.
fn form(request: &str) -> Result<Vec<(String, String)>> {
    let body = request.split_once("\r\n\r\n").context("no body")?.1;
    Ok(url::form_urlencoded::parse(body.as_bytes()).into_owned().collect())
}

#[test]
fn a_code_is_exchanged_with_each_kind_of_client_authentication() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        let (id_token, access_token) = (provider.sign(&claims(&provider.issuer))?, "canary-access-token-of-ann");
        server.leaks.register("ID token", &id_token);
        server.leaks.register("access token of a provider", access_token);
        provider.publish(TOKEN, &json!({ "id_token": id_token, "access_token": access_token, "token_type": "Bearer" }));
        provider.publish(USER_INFO, &json!({ "sub": "ann", "email": "ann@acme.test" }));
        let secret = ClientSecret::new(CLIENT_SECRET.to_owned());
        let key = ClientKey::from_pkcs8(ClientKey::generate()?.to_pkcs8().to_vec().into())?;
        let mut sent = Vec::new();
        for credential in
            [secret_basic(), ProviderCredential::SecretPost(&secret), ProviderCredential::PrivateKey(&key)]
        {
            let tokens = exchange(server, &issuer, &credential).await?;
            assert_eq!(format!("{tokens:?}").matches("ProviderSecret(…)").count(), 2, "{tokens:?}");
            let verified = server.app.issuers.verify(&issuer, SIGN_IN, &tokens.id_token).await?;
            assert_eq!(verified.claims["sub"], "ann");
            let token = tokens.access_token.context("no access token")?;
            let info = server.app.issuers.user_info(&issuer, &token, "ann").await?;
            assert_eq!(info.claims["email"], "ann@acme.test");
            let other = server.app.issuers.user_info(&issuer, &token, "bob").await;
            assert_eq!(other.err(), Some(IssuerError::OtherSubject));
            sent.push(provider.received(TOKEN).pop().context("no request")?);
        }
        let [basic, post, signed] = &sent[..] else { anyhow::bail!("other requests") };
        let common = [
            ("grant_type", "authorization_code"),
            ("code", CODE),
            ("redirect_uri", "https://service.test/sso/callback/1"),
            ("code_verifier", VERIFIER),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(form(basic)?, common);
        let encoded = "service%3A1:canary%2Bclient+secret%2Fof+the%3Aprovider";
        let header = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, encoded);
        assert!(basic.to_lowercase().contains(&format!("authorization: basic {header}\r\n").to_lowercase()), "{basic}");
        assert!(!post.to_lowercase().contains("authorization:") && !signed.to_lowercase().contains("authorization:"));
        assert_eq!(form(post)?[4..], [pair("client_id", "service:1"), pair("client_secret", CLIENT_SECRET)]);
        check_assertion(&form(signed)?, &key, &format!("{}{TOKEN}", provider.issuer), server)?;
        assert!(provider.received(USER_INFO).iter().all(|request| request.contains(&format!("Bearer {access_token}"))));
        Ok(())
    })
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Checks the assertion as the provider would, with the public key that it was given.
fn check_assertion(form: &[(String, String)], key: &ClientKey, audience: &str, server: &TestServer) -> Result<()> {
    let [client_id, assertion_type, (name, assertion)] = &form[4..] else { anyhow::bail!("{} fields", form.len()) };
    assert_eq!(*client_id, pair("client_id", "service:1"));
    assert_eq!(assertion_type.1, "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    assert_eq!(name, "client_assertion");
    let jwk: Jwk = serde_json::from_value(key.public_jwk()?)?;
    assert!(!key.public_jwk()?.to_string().contains("\"d\""));
    let mut validation = Validation::new(Algorithm::ES256);
    validation.validate_exp = false;
    validation.set_audience(&[audience]);
    let decoded = jsonwebtoken::decode::<Value>(assertion, &DecodingKey::from_jwk(&jwk)?, &validation)?;
    assert_eq!(decoded.header.kid, jwk.common.key_id);
    let (claims, now) = (decoded.claims, server.now().as_second());
    assert_eq!((&claims["iss"], &claims["sub"]), (&json!("service:1"), &json!("service:1")));
    assert_eq!((&claims["iat"], &claims["exp"]), (&json!(now), &json!(now + 60)));
    assert!(claims["jti"].as_str().is_some_and(|id| id.len() >= 32));
    Ok(())
}

#[test]
fn a_refusal_of_the_token_endpoint_says_whose_fault_it_is() -> Result<()> {
    with_providers(async |server, [provider]| {
        let issuer = trust(server, &provider.issuer).await?;
        let request = ProviderRequest::Token;
        let location = "Location: https://evil.test/\r\n";
        for (bytes, expected, is_outage) in [
            (response("401 Unauthorized", JSON, r#"{"error":"invalid_client"}"#), IssuerError::ClientRefused, false),
            (response("400 Bad Request", JSON, r#"{"error":"invalid_grant"}"#), IssuerError::CodeRefused, false),
            (response("400 Bad Request", JSON, r#"{"error":"CANARY"}"#), IssuerError::TokenRefused, false),
            (
                response("307 Temporary Redirect", location, ""),
                IssuerError::Request { request, why: FetchError::Redirected },
                false,
            ),
            (
                response("500 Internal Server Error", JSON, "{}"),
                IssuerError::Request { request, why: FetchError::Status(500) },
                true,
            ),
            (
                response("200 OK", JSON, &" ".repeat(65 * 1_024)),
                IssuerError::Request { request, why: FetchError::TooLarge },
                false,
            ),
        ] {
            provider.answer(TOKEN, bytes);
            let error = exchange(server, &issuer, &secret_basic()).await.err().context("tokens were issued")?;
            assert_eq!((error, error.is_outage()), (expected, is_outage));
            assert!(!error.to_string().contains("CANARY"));
        }
        provider.publish(TOKEN, &json!({ "access_token": "x" }));
        let error = exchange(server, &issuer, &secret_basic()).await.err().context("no ID token is needed")?;
        assert!(matches!(error, IssuerError::InvalidResponse { .. }), "{error:?}");
        let last = server.sql("select last_error from trusted_issuers").await?.context("no error")?;
        assert!(last.contains("client ID, or the client secret or key"), "{last}");
        assert_eq!(provider.asked(DISCOVERY), 1);
        Ok(())
    })
}

#[test]
fn a_token_endpoint_that_does_not_answer_delays_no_other_so_24() -> Result<()> {
    with_providers(async |server, [silent, other]| {
        let (silent_issuer, other_issuer) = (trust(server, &silent.issuer).await?, trust(server, &other.issuer).await?);
        silent.fall_silent(TOKEN);
        other.publish(TOKEN, &json!({ "id_token": other.sign(&claims(&other.issuer))? }));
        server.app.issuers.metadata(&silent_issuer).await?;
        let began = Instant::now();
        let credential = secret_basic();
        let waiting = async {
            let all = join_all((0..60).map(|_| exchange(server, &silent_issuer, &credential))).await;
            (all, began.elapsed())
        };
        let quick = async {
            for _ in 0..20 {
                exchange(server, &other_issuer, &credential).await?;
            }
            anyhow::Ok(began.elapsed())
        };
        let ((all, silent_for), quick) = tokio::join!(waiting, quick);
        let count = |wanted: fn(&IssuerError) -> bool| {
            all.iter().filter_map(|one| one.as_ref().err()).filter(|e| wanted(e)).count()
        };
        assert_eq!(count(|error| *error == IssuerError::Busy), 44, "16 requests to one issuer run at once");
        assert_eq!(count(|error| error.is_outage()), 60);
        assert_eq!(silent.asked(TOKEN), 16);
        assert!(silent_for < Duration::from_secs(5), "{silent_for:?}");
        assert!(quick? < Duration::from_secs(2), "another provider was delayed");
        let token = ProviderSecret::new("x".into());
        silent.fall_silent(USER_INFO);
        let error = server.app.issuers.user_info(&silent_issuer, &token, "ann").await.err();
        assert!(error.is_some_and(IssuerError::is_outage), "{error:?}");
        Ok(())
    })
}
