//! A provider signs a user out: once, for its own users, and for the sessions of its connection only.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_api::oauth::SERVICE_CLI;
use service_testkit::{
    response::TestResponse,
    server::{Setup, SignedIn, TestServer, signed_in},
    tab::Tab,
};

use crate::support::{
    authorize::{VERIFIER, agree, asking, code},
    cli_tokens,
    provider::{CLIENT_ID, Provider, ProviderPort, SigningKey},
    sso::{Company, allowing, at_provider, company, signed_in_as, user, with_provider, with_two_providers},
};

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
const LOOPBACK: &str = "http://127.0.0.1:7777/callback";

/// A logout token of the provider, with these claims changed; null removes one.
fn logout_token(server: &TestServer, provider: &Provider, key: &SigningKey, change: &Value) -> Result<String> {
    let now = server.now().as_second();
    let mut claims = json!({
        "iss": provider.issuer, "aud": CLIENT_ID, "sub": "ann", "iat": now, "exp": now + 120, "jti": "1",
        "events": { EVENT: {} },
    });
    let claims = claims.as_object_mut().context("no object")?;
    claims.extend(change.as_object().cloned().unwrap_or_default());
    claims.retain(|_, value| !value.is_null());
    key.sign("logout+jwt", &Value::Object(claims.clone()))
}

async fn post(server: &TestServer, acme: &Company, token: &str) -> Result<TestResponse> {
    let path = format!("/sso/backchannel-logout/{}", acme.connection_id);
    server.http.post_form(&path, &format!("logout_token={token}")).await
}

/// A user with a browser, a session of the command line, and a CLI token.
async fn user_with_sessions(server: &TestServer, acme: &Company) -> Result<(Tab, SignedIn, String)> {
    let tab = Tab::open(server)?;
    let asked = asking(SERVICE_CLI, &[("redirect_uri", LOOPBACK), ("scope", "read write")]);
    let begun = tab.get(&asked.replace("/oauth/authorize?", &format!("{}&", acme.start()))).await?;
    let back = tab.get(&at_provider(server, &begun).await?).await?;
    let done = agree(&tab, tab.get(back.next()?).await?, &[("space", "personal")]).await?;
    let body = json!({
        "grant_type": "authorization_code", "client_id": SERVICE_CLI, "code": code(&done)?,
        "redirect_uri": LOOPBACK, "code_verifier": VERIFIER,
    });
    let session = signed_in(&server.http.post("/oauth/token", &body).await?)?;
    let (_, token) = cli_tokens::make(server, &session, &json!({ "scopes": ["read"] })).await?;
    Ok((tab, session, token))
}

fn fresh(server: &TestServer, subject: &str) -> Value {
    json!({ "sub": subject, "email": format!("{subject}@acme.test"), "auth_time": server.now().as_second() })
}

#[test]
fn a_logout_token_ends_the_sessions_of_its_user_and_no_others() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&fresh(server, "ann"));
        let (tab, ann, token) = user_with_sessions(server, &acme).await?;
        provider.sign_in_as(&fresh(server, "bob"));
        let (other, bob, _) = user_with_sessions(server, &acme).await?;
        // A session by code is not the provider's to end.
        let by_code = server.sign_in("ann@acme.test", "read").await?;
        let sent = post(server, &acme, &logout_token(server, provider, &provider.key(), &json!({}))?).await?;
        assert_eq!((sent.status.as_u16(), sent.text.as_str()), (200, ""), "{}", sent.text);
        assert_eq!(sent.header("cache-control"), Some("no-store"));
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        let refused = server.http.get("/v1/whoami", Some(&ann.access_token)).await?;
        assert_eq!((refused.status.as_u16(), &refused.body["details"]["reason"]), (401, &json!("sso_signed_out")));
        let refresh = server.refresh(&ann.refresh_token).await?;
        assert_eq!(refresh.body["details"]["reason"], "sso_signed_out", "{}", refresh.text);
        assert_eq!(cli_tokens::whoami(server, &token).await?.status, 200, "a CLI token has its own life");
        assert_eq!(server.http.get("/v1/whoami", Some(&by_code.access_token)).await?.status, 200);
        assert_eq!(signed_in_as(&other).await?.as_deref(), Some("bob@acme.test"));
        assert_eq!(server.refresh(&bob.refresh_token).await?.status, 200);
        let events = "select details->>'sessions' from audit_events where event = 'sso.logged_out'";
        assert_eq!(server.sql(events).await?.as_deref(), Some("1"));
        let metrics = server.ops.get("/metrics", None).await?.text;
        assert!(metrics.contains("service_sso_logouts_total{outcome=\"signed_out\"} 1"), "{metrics}");
        Ok(())
    })
}

#[test]
fn a_logout_token_counts_once_and_an_unknown_user_is_no_error() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let token = logout_token(server, provider, &provider.key(), &json!({}))?;
        assert_eq!(post(server, &acme, &token).await?.status, 200, "no such user here");
        provider.sign_in_as(&fresh(server, "ann"));
        let (tab, ..) = user_with_sessions(server, &acme).await?;
        let again = post(server, &acme, &token).await?;
        assert_eq!((again.status.as_u16(), again.error()), (400, "invalid_request"), "{}", again.text);
        assert!(signed_in_as(&tab).await?.is_some(), "a replayed token signs no user out");
        Ok(())
    })
}

#[test]
fn a_wrong_logout_token_ends_nothing() -> Result<()> {
    with_two_providers(async |server, provider, stranger| {
        let acme = company(server, provider, "acme.test").await?;
        let bolt = company(server, stranger, "bolt.test").await?;
        provider.sign_in_as(&fresh(server, "ann"));
        let (tab, ..) = user_with_sessions(server, &acme).await?;
        let (key, now) = (provider.key(), server.now().as_second());
        let changes = [
            ("another issuer", json!({ "iss": stranger.issuer })),
            ("another audience", json!({ "aud": "other" })),
            ("expired", json!({ "exp": now - 61 })),
            ("old", json!({ "iat": now - 3_600 })),
            ("without id", json!({ "jti": null })),
            ("with a nonce", json!({ "nonce": "x" })),
            ("without event", json!({ "events": null })),
            ("another event", json!({ "events": { "http://evil.test": {} } })),
            ("without user", json!({ "sub": null })),
            ("of a session only", json!({ "sub": null, "sid": "s1" })),
        ];
        for (what, change) in changes {
            let response = post(server, &acme, &logout_token(server, provider, &key, &change)?).await?;
            assert_eq!(
                (response.status.as_u16(), response.error()),
                (400, "invalid_request"),
                "{what}: {}",
                response.text
            );
        }
        let foreign = logout_token(server, provider, &stranger.key(), &json!({ "jti": "2" }))?;
        assert_eq!(post(server, &acme, &foreign).await?.status, 400, "a key of another provider");
        let forged = logout_token(server, provider, &SigningKey::draw("first")?, &json!({ "jti": "3" }))?;
        assert_eq!(post(server, &acme, &forged).await?.status, 400, "a key that no provider has");
        let right = logout_token(server, provider, &key, &json!({ "jti": "4" }))?;
        assert_eq!(post(server, &bolt, &right).await?.status, 400, "at another connection");
        for (path, body) in [
            ("/sso/backchannel-logout/conn_00000000000000000000000000".to_owned(), format!("logout_token={right}")),
            ("/sso/backchannel-logout/x".to_owned(), format!("logout_token={right}")),
            (format!("/sso/backchannel-logout/{}", acme.connection_id), String::new()),
            (format!("/sso/backchannel-logout/{}", acme.connection_id), "logout_token=x".into()),
            (
                format!("/sso/backchannel-logout/{}", acme.connection_id),
                format!("logout_token={right}&logout_token={right}"),
            ),
        ] {
            assert_eq!(server.http.post_form(&path, &body).await?.status, 400, "{path}");
        }
        assert!(signed_in_as(&tab).await?.is_some());
        assert_eq!(post(server, &acme, &right).await?.status, 200, "the right one was not used up");
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        Ok(())
    })
}

#[test]
fn too_many_logout_tokens_from_one_network_are_refused() -> Result<()> {
    let port = ProviderPort::bind()?;
    let setup = Setup::default().set("limits.logouts_per_network", "2+1");
    allowing(setup, &[&port]).run(async |server| {
        let provider = port.serve(server)?;
        let acme = company(server, &provider, "acme.test").await?;
        for number in 0..3 {
            let token = logout_token(server, &provider, &provider.key(), &json!({ "jti": number.to_string() }))?;
            let status = post(server, &acme, &token).await?.status.as_u16();
            assert_eq!(status, if number < 2 { 200 } else { 429 }, "{number}");
        }
        Ok(())
    })
}

#[test]
fn a_user_who_was_signed_out_signs_in_again() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        crate::support::sso::sign_in(server, &tab, &acme.start()).await?;
        post(server, &acme, &logout_token(server, provider, &provider.key(), &json!({}))?).await?;
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        crate::support::sso::sign_in(server, &Tab::open(server)?, &acme.start()).await?;
        let again = Tab::open(server)?;
        crate::support::sso::sign_in(server, &again, &acme.start()).await?;
        assert!(signed_in_as(&again).await?.is_some());
        Ok(())
    })
}

/// Anyone can create connections to providers that do not answer, and anyone can send logout tokens for them.
#[test]
fn no_provider_is_asked_for_a_connection_that_was_never_tried() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let token = logout_token(server, provider, &provider.key(), &json!({}))?;
        acme.change(server, |connection| connection.tried_at = None).await?;
        assert_eq!(post(server, &acme, &token).await?.status, 400);
        assert_eq!(provider.requests(), 0);
        let now = server.now();
        acme.change(server, |connection| connection.tried_at = Some(now)).await?;
        assert_eq!(post(server, &acme, &token).await?.status, 200);
        assert!(provider.requests() > 0);
        Ok(())
    })
}
