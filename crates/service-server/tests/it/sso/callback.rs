//! The way back from a provider: nothing but the right response, once, in the right browser, signs a user in.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::{Map, Value, json};
use service_rules::email::Address;
use service_server::flows::{operator::Operator, revocation};
use service_testkit::{
    server::{Setup, TestServer},
    tab::{Shown, Tab},
};

use crate::support::{
    provider::{Fault, Provider, ProviderPort},
    sso::{
        Company, allowing, at_provider, company, sign_in, sign_in_after_click, signed_in_as, user, with_provider,
        with_two_providers,
    },
};

/// Checks that a response signed no user in, and that the page says so.
#[track_caller]
fn check_refused(shown: &Shown, status: u16, what: &str) {
    assert_eq!((shown.status.as_u16(), shown.location.as_deref()), (status, None), "{what}: {}", shown.text);
    assert!(shown.headers.get("set-cookie").is_none(), "{what}");
    assert!(shown.text.contains("<h1>"), "{what}");
}

/// Checks that no user is signed in with a tab, and that no account or identity was made.
async fn check_nothing(server: &TestServer, tab: &Tab, what: &str) -> Result<()> {
    assert_eq!(tab.get("/account").await?.next()?, "/sign-in", "{what}");
    let made =
        "select (select count(*) from identities) || ' ' || (select count(*) from users where email like '%@acme.test')
                || ' ' || (select count(*) from browser_sessions where user_id is not null)";
    assert_eq!(server.sql(made).await?.as_deref(), Some("0 0 0"), "{what}");
    Ok(())
}

/// Signs in with a fault of the provider; what the callback shows.
async fn with_fault(server: &TestServer, provider: &Provider, acme: &Company, fault: Fault) -> Result<(Tab, Shown)> {
    provider.fail(fault);
    let tab = Tab::open(server)?;
    let shown = sign_in(server, &tab, &acme.start()).await?;
    provider.fail(Fault::None);
    Ok((tab, shown))
}

#[test]
fn a_callback_without_its_own_state_or_from_another_browser_opens_no_session_so_01() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let (tab, other) = (Tab::open(server)?, Tab::open(server)?);
        let callback = at_provider(server, &tab.get(&acme.start()).await?).await?;
        let foreign = at_provider(server, &other.get(&acme.start()).await?).await?;
        let path = callback.split('?').next().unwrap_or_default().to_owned();
        let state =
            |callback: &str| callback.split("state=").nth(1).and_then(|rest| rest.split('&').next()).map(str::to_owned);
        let code =
            callback.split("code=").nth(1).and_then(|rest| rest.split('&').next()).context("no code")?.to_owned();
        let (own, foreign_state) = (state(&callback).context("no state")?, state(&foreign).context("no state")?);
        let (flow, secret) = own.split_once('.').context("no secret")?;
        let (other_flow, _) = foreign_state.split_once('.').context("no secret")?;
        for (what, state) in [
            ("none", String::new()),
            ("only the flow", flow.to_owned()),
            ("an empty secret", format!("{flow}.")),
            ("another secret", format!("{flow}.{}", "A".repeat(43))),
            ("another flow", format!("{other_flow}.{secret}")),
            ("of another browser", foreign_state.clone()),
            ("twice", format!("{own}&state={own}")),
        ] {
            let shown = tab.get(&format!("{path}?code={code}&state={state}")).await?;
            check_refused(&shown, 400, what);
        }
        check_refused(&tab.get(&format!("{path}?code={code}")).await?, 400, "no parameter");
        check_refused(&other.get(&callback).await?, 400, "another browser");
        check_refused(&Tab::open(server)?.get(&callback).await?, 400, "a browser without a cookie");
        check_nothing(server, &other, "in the other browser").await?;
        // None of this used up the right one.
        assert_eq!(tab.get(&callback).await?.status, 303);
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        Ok(())
    })
}

#[test]
fn a_response_from_another_issuer_is_refused_so_02() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let (tab, shown) = with_fault(server, provider, &acme, Fault::IssParameter("https://evil.test")).await?;
        check_refused(&shown, 400, "another issuer");
        check_nothing(server, &tab, "another issuer").await?;
        assert_eq!(acme.refusals(server).await?, "other_issuer");
        let (tab, _) = with_fault(server, provider, &acme, Fault::IssParameter("")).await?;
        assert!(signed_in_as(&tab).await?.is_some(), "a provider that announces no parameter may leave it out");
        Ok(())
    })
}

#[test]
fn a_provider_that_announces_the_issuer_parameter_has_to_send_it_so_02() -> Result<()> {
    with_provider(async |server, provider| {
        provider.send_iss();
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        let callback = at_provider(server, &tab.get(&acme.start()).await?).await?;
        let without = callback.split("&iss=").next().unwrap_or_default().to_owned();
        assert_ne!(without, callback);
        check_refused(&tab.get(&without).await?, 400, "no issuer");
        check_nothing(server, &tab, "no issuer").await?;
        assert_eq!(acme.refusals(server).await?, "other_issuer");
        sign_in(server, &tab, &acme.start()).await?;
        assert!(signed_in_as(&tab).await?.is_some());
        Ok(())
    })
}

type Change = fn(&mut Map<String, Value>);

#[test]
fn an_id_token_that_is_wrong_in_any_respect_is_refused_so_03() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let changes: [(&str, Change); 12] = [
            ("another audience", |claims| drop(claims.insert("aud".into(), json!("other")))),
            ("no audience", |claims| drop(claims.insert("aud".into(), Value::Null))),
            ("two audiences", |claims| drop(claims.insert("aud".into(), json!([claims["aud"], "other"])))),
            ("another party", |claims| drop(claims.insert("azp".into(), json!("other")))),
            ("another issuer", |claims| drop(claims.insert("iss".into(), json!("https://evil.test")))),
            ("no issuer", |claims| drop(claims.insert("iss".into(), Value::Null))),
            ("expired", |claims| drop(claims.insert("exp".into(), json!(1_799_999_000)))),
            ("from the future", |claims| drop(claims.insert("iat".into(), json!(1_800_001_000)))),
            ("another nonce", |claims| drop(claims.insert("nonce".into(), json!("another")))),
            ("no nonce", |claims| drop(claims.insert("nonce".into(), Value::Null))),
            ("no subject", |claims| drop(claims.insert("sub".into(), Value::Null))),
            ("a logout token", |claims| drop(claims.insert("events".into(), json!({})))),
        ];
        let faults = changes.map(|(what, change)| (what, Fault::Claims(change))).into_iter().chain([
            ("alg none", Fault::AlgorithmNone),
            ("HS256 under the client secret", Fault::Hs256),
            ("a key that is not published", Fault::UnpublishedKey),
        ]);
        for (what, fault) in faults {
            let (tab, shown) = with_fault(server, provider, &acme, fault).await?;
            check_refused(&shown, 400, what);
            assert!(shown.text.contains("couldn’t verify your sign-in"), "{what}: {}", shown.text);
            check_nothing(server, &tab, what).await?;
        }
        let expected = [["id_token"; 12].join(" "), ["provider_refused"; 3].join(" ")].join(" ");
        assert_eq!(acme.refusals(server).await?, expected);
        let (tab, _) = with_fault(server, provider, &acme, Fault::None).await?;
        assert!(signed_in_as(&tab).await?.is_some(), "the right one signs in");
        Ok(())
    })
}

#[test]
fn a_key_of_another_connection_signs_nothing_here_so_03() -> Result<()> {
    with_two_providers(async |server, one, other| {
        let acme = company(server, one, "acme.test").await?;
        let bolt = company(server, other, "bolt.test").await?;
        other.sign_in_as(&user("bob", "bob@bolt.test"));
        sign_in(server, &Tab::open(server)?, &bolt.start()).await?;
        one.sign_in_as(&user("ann", "ann@acme.test"));
        one.sign_with(&other.key());
        let tab = Tab::open(server)?;
        let shown = sign_in(server, &tab, &acme.start()).await?;
        check_refused(&shown, 400, "a key of another issuer");
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        Ok(())
    })
}

#[test]
fn an_address_that_is_not_verified_or_not_of_the_domains_signs_no_one_in_so_04() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let claims =
            |email: Value, verified: Value| json!({ "sub": "ann", "email": email, "email_verified": verified });
        for (what, claims, text) in [
            ("not verified", claims(json!("ann@acme.test"), json!(false)), "isn’t verified"),
            ("a text", claims(json!("ann@acme.test"), json!("true")), "isn’t verified"),
            ("a number", claims(json!("ann@acme.test"), json!(1)), "isn’t verified"),
            ("another domain", claims(json!("ann@other.test"), json!(true)), "isn’t in a domain"),
            ("a subdomain", claims(json!("ann@sub.acme.test"), json!(true)), "isn’t in a domain"),
            ("no address", claims(Value::Null, json!(true)), "didn’t send us an email address"),
            ("no address at all", json!({ "sub": "ann", "email": "ann" }), "didn’t send us an email address"),
        ] {
            provider.sign_in_as(&claims);
            let tab = Tab::open(server)?;
            let shown = sign_in(server, &tab, &acme.start()).await?;
            check_refused(&shown, 403, what);
            assert!(shown.text.contains(text), "{what}: {}", shown.text);
            check_nothing(server, &tab, what).await?;
        }
        let reasons =
            [["unverified_address"; 3].join(" "), ["foreign_domain"; 2].join(" "), ["no_address"; 2].join(" ")];
        assert_eq!(acme.refusals(server).await?, reasons.join(" "));
        Ok(())
    })
}

#[test]
fn an_address_that_is_no_longer_verified_signs_a_known_user_in_no_longer_so_04() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        sign_in(server, &Tab::open(server)?, &acme.start()).await?;
        for (email, verified) in [
            (json!("ann@acme.test"), json!(false)),
            (json!("ann@acme.test"), json!("true")),
            (json!("ann@acme.test"), json!(1)),
            (json!("maria@acme.test"), json!(false)),
            (Value::Null, json!(false)),
        ] {
            provider.sign_in_as(&json!({ "sub": "ann", "email": email, "email_verified": verified }));
            let tab = Tab::open(server)?;
            let shown = sign_in(server, &tab, &acme.start()).await?;
            check_refused(&shown, 403, "not verified");
            assert!(shown.text.contains("isn’t verified") && shown.text.contains("Verify it there"), "{}", shown.text);
            assert_eq!(tab.get("/account").await?.next()?, "/sign-in", "{email} {verified}");
        }
        assert_eq!(acme.refusals(server).await?, ["unverified_address"; 5].join(" "));
        // Nothing about it is accepted, and so is another address.
        for email in ["ann@acme.test", "maria@acme.test", "ann@elsewhere.test"] {
            provider.sign_in_as(&json!({ "sub": "ann", "email": email }));
            let tab = Tab::open(server)?;
            sign_in(server, &tab, &acme.start()).await?;
            assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"), "{email}");
        }
        Ok(())
    })
}

#[test]
fn a_provider_that_says_nothing_about_an_address_is_believed_inside_its_domains_so_04_so_11() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        // As Entra does: no email_verified.
        provider.sign_in_as(&json!({ "sub": "out", "email": "ann@other.test" }));
        let tab = Tab::open(server)?;
        check_refused(&sign_in(server, &tab, &acme.start()).await?, 403, "outside");
        check_nothing(server, &tab, "outside").await?;
        // Not even for an account that exists, which is neither found nor linked.
        server.sign_in("ann@other.test", "read").await?;
        check_refused(&sign_in(server, &tab, &acme.start()).await?, 403, "outside, with an account");
        assert_eq!(server.sql("select count(*) from identities").await?.as_deref(), Some("0"));
        provider.sign_in_as(&json!({ "sub": "in", "email": "ann@acme.test" }));
        sign_in(server, &tab, &acme.start()).await?;
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        Ok(())
    })
}

#[test]
fn a_disabled_connection_or_user_ends_the_flow_so_06() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        let callback = at_provider(server, &tab.get(&acme.start()).await?).await?;
        acme.change(server, |connection| connection.enabled_at = None).await?;
        check_refused(&tab.get(&callback).await?, 400, "a disabled connection");
        check_nothing(server, &tab, "a disabled connection").await?;
        let now = server.now();
        acme.change(server, |connection| connection.enabled_at = Some(now)).await?;
        sign_in(server, &tab, &acme.start()).await?;
        assert!(signed_in_as(&tab).await?.is_some());
        let address = Address::parse("ann@acme.test")?;
        revocation::disable_user(&server.app, &Operator::default(), &address).await?;
        let other = Tab::open(server)?;
        let shown = sign_in(server, &other, &acme.start()).await?;
        check_refused(&shown, 403, "a disabled user");
        assert!(shown.text.contains("Your account is disabled"), "{}", shown.text);
        assert_eq!(other.get("/account").await?.next()?, "/sign-in");
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in", "the session before is over as well");
        // An account that was never linked is no way around it.
        server.sign_in("bob@acme.test", "read").await?;
        revocation::disable_user(&server.app, &Operator::default(), &Address::parse("bob@acme.test")?).await?;
        provider.sign_in_as(&user("bob", "bob@acme.test"));
        check_refused(&sign_in(server, &other, &acme.start()).await?, 403, "a disabled user, not linked");
        Ok(())
    })
}

#[test]
fn a_flow_of_one_connection_cannot_finish_at_another_so_07_so_14() -> Result<()> {
    with_two_providers(async |server, honest, evil| {
        let acme = company(server, honest, "acme.test").await?;
        let bolt = company(server, evil, "bolt.test").await?;
        honest.sign_in_as(&user("ann", "ann@acme.test"));
        evil.sign_in_as(&user("eve", "eve@bolt.test"));
        let tab = Tab::open(server)?;
        let callback = at_provider(server, &tab.get(&acme.start()).await?).await?;
        let (own, foreign) = (acme.connection_id.to_string(), bolt.connection_id.to_string());
        let elsewhere = callback.replace(&own, &foreign);
        check_refused(&tab.get(&elsewhere).await?, 400, "a response of Acme at Bolt");
        // A mix-up: the evil provider sends the browser on to the honest one, with its own state. The code of the honest
        // provider arrives where the evil one's was awaited, and is not sent to the evil one.
        let hand_off = tab.get(&bolt.start()).await?;
        let stolen = at_provider(server, &hand_off).await?;
        let state = stolen.split("state=").nth(1).and_then(|rest| rest.split('&').next()).context("no state")?;
        let code = callback.split("code=").nth(1).and_then(|rest| rest.split('&').next()).context("no code")?;
        let (honest_before, evil_before) = (honest.requests(), evil.requests());
        let mixed = format!("/sso/callback/{own}?code={code}&state={state}");
        check_refused(&tab.get(&mixed).await?, 400, "a state of Bolt at Acme");
        assert_eq!((honest.requests(), evil.requests()), (honest_before, evil_before), "no code left the service");
        // Where the evil provider's own callback gets the honest code, the evil token endpoint learns of it, and its answer
        // is about its own users only.
        let shown = tab.get(&format!("/sso/callback/{foreign}?code={code}&state={state}")).await?;
        check_refused(&shown, 400, "a code of Acme at Bolt");
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        // And if it accepts the code, and says in a token of its own that the user is one of Acme.
        evil.fail(Fault::AnyCode);
        evil.sign_in_as(&user("ann", "ann@acme.test"));
        let stolen = at_provider(server, &tab.get(&bolt.start()).await?).await?;
        let state = stolen.split("state=").nth(1).and_then(|rest| rest.split('&').next()).context("no state")?;
        let shown = tab.get(&format!("/sso/callback/{foreign}?code={code}&state={state}")).await?;
        check_refused(&shown, 403, "a code of Acme at Bolt, with a token of Bolt");
        check_nothing(server, &tab, "a token of Bolt about a user of Acme").await?;
        assert_eq!(bolt.refusals(server).await?, "provider_refused foreign_domain");
        assert_eq!(acme.refusals(server).await?, "");
        Ok(())
    })
}

#[test]
fn a_callback_works_once_so_08() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        let callback = at_provider(server, &tab.get(&acme.start()).await?).await?;
        let before = tab.cookie();
        assert_eq!(tab.get(&callback).await?.status, 303);
        let after = tab.cookie();
        assert_ne!(before, after, "the cookie changes with the sign-in");
        let requests = provider.requests();
        check_refused(&tab.get(&callback).await?, 400, "a second time");
        tab.set_cookie(before);
        check_refused(&tab.get(&callback).await?, 400, "with the cookie from before");
        tab.set_cookie(after);
        assert_eq!(provider.requests(), requests, "nothing was asked of the provider again");
        assert!(signed_in_as(&tab).await?.is_some(), "the session goes on");
        // Of ten at once, one signs in.
        let tab = Tab::open(server)?;
        let callback = at_provider(server, &tab.get(&acme.start()).await?).await?;
        let many = (0..10).map(|_| tab.send(tab.request(Method::GET, &callback)));
        let shown = futures_util::future::try_join_all(many).await?;
        let signed_in = shown.iter().filter(|shown| shown.status == 303).count();
        assert_eq!(signed_in, 1);
        // A callback that failed at the provider is used up as well.
        let tab = Tab::open(server)?;
        let callback = at_provider(server, &tab.get(&acme.start()).await?).await?;
        provider.fail(Fault::Down);
        check_refused(&tab.get(&callback).await?, 503, "the provider is down");
        provider.fail(Fault::None);
        check_refused(&tab.get(&callback).await?, 400, "again");
        Ok(())
    })
}

#[test]
fn providers_at_internal_addresses_are_not_connected_to_so_09() -> Result<()> {
    let (listed, internal) = (ProviderPort::bind()?, ProviderPort::bind()?);
    allowing(Setup::default(), &[&listed]).run(async |server| {
        let provider = internal.serve(server)?;
        let acme = company(server, &provider, "acme.test").await?;
        let shown = Tab::open(server)?.get(&acme.start()).await?;
        check_refused_start(&shown);
        assert_eq!(provider.requests(), 0, "a connection was made");
        // Exactly the issuer that the operator allows, not another one on the same machine.
        let other = listed.serve(server)?;
        other.sign_in_as(&user("ann", "ann@bolt.test"));
        let bolt = company(server, &other, "bolt.test").await?;
        sign_in(server, &Tab::open(server)?, &bolt.start()).await.map(drop)
    })
}

#[track_caller]
fn check_refused_start(shown: &Shown) {
    assert!(matches!(shown.status.as_u16(), 400 | 503) && shown.location.is_none(), "{}", shown.text);
    assert!(!shown.text.contains("http-equiv"), "{}", shown.text);
}

#[test]
fn a_failing_provider_never_signs_a_user_in_so_10() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        for (what, fault, status, text) in [
            ("cancelled", Fault::AuthorizationError("access_denied"), 400, "didn’t sign you in"),
            ("an error in HTML", Fault::AuthorizationError("<b>x</b>"), 400, "didn’t sign you in"),
            ("a refused code", Fault::TokenError(400, "invalid_grant"), 400, "couldn’t verify"),
            ("a refused client", Fault::TokenError(401, "invalid_client"), 400, "couldn’t verify"),
            ("a busy provider", Fault::TokenError(503, "busy"), 503, "isn’t responding"),
            ("something else", Fault::Gibberish, 400, "couldn’t verify"),
        ] {
            let (tab, shown) = with_fault(server, provider, &acme, fault).await?;
            check_refused(&shown, status, what);
            assert!(shown.text.contains(text), "{what}: {}", shown.text);
            assert!(!shown.text.contains("<b>x</b>") && !shown.text.contains("&lt;b&gt;No"), "{what}: {}", shown.text);
            assert!(shown.text.contains("Try again"), "{what}");
            check_nothing(server, &tab, what).await?;
        }
        let reasons =
            "provider_error provider_error provider_refused provider_refused provider_unavailable provider_refused";
        assert_eq!(acme.refusals(server).await?, reasons);
        let german = Tab::in_language(server, "de")?;
        provider.fail(Fault::AuthorizationError("access_denied"));
        let shown = sign_in(server, &german, &acme.start()).await?;
        assert!(shown.text.contains("nicht angemeldet"), "{}", shown.text);
        Ok(())
    })
}

#[test]
fn a_provider_that_does_not_answer_is_told_within_five_seconds_so_10() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        provider.fail(Fault::BlackHole);
        let began = Instant::now();
        let shown = tab.get(&acme.start()).await?;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        check_unavailable(&shown);
        provider.fail(Fault::None);
        server.advance(61);
        let callback = at_provider(server, &tab.get(&acme.start()).await?).await?;
        provider.fail(Fault::BlackHole);
        let began = Instant::now();
        let shown = tab.get(&callback).await?;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        check_unavailable(&shown);
        // Other sign-ins go on meanwhile.
        server.sign_in("bob@other.test", "read").await?;
        // The link on the page tries again.
        provider.fail(Fault::None);
        let again = shown.text.split("href=\"/sign-in/").nth(1).and_then(|rest| rest.split('"').next());
        let path = format!("/sign-in/{}", again.context("no link")?);
        tab.get(&path).await?;
        let shown = tab.submit(&format!("{path}/sso"), &[("decision", "continue")]).await?;
        tab.get(&at_provider(server, &shown).await?).await?;
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        Ok(())
    })
}

#[track_caller]
fn check_unavailable(shown: &Shown) {
    assert_eq!(shown.status, 503, "{}", shown.text);
    assert!(shown.text.contains("Acme ID isn’t responding") && shown.text.contains("Try again"), "{}", shown.text);
    assert!(shown.headers.get("retry-after").is_some());
}

#[test]
fn a_domain_that_moved_takes_no_identities_along_so_15() -> Result<()> {
    with_two_providers(async |server, old, new| {
        let before = company(server, old, "acme.test").await?;
        old.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        sign_in(server, &tab, &before.start()).await?;
        assert!(signed_in_as(&tab).await?.is_some());
        let after = company(server, new, "bolt.test").await?;
        after.take_domain(server, "acme.test").await?;
        // The old company's provider no longer signs in to accounts of the domain, although it knows their identities.
        let other = Tab::open(server)?;
        let refused = sign_in_after_click(server, &other, &before.start()).await?;
        check_refused(&refused, 403, "the old connection");
        assert_eq!(other.get("/account").await?.next()?, "/sign-in");
        // Nor does the same subject at the new one: the owner of the mailbox has to link the account.
        new.sign_in_as(&user("ann", "ann@acme.test"));
        let shown = sign_in(server, &other, &after.start()).await?;
        assert!(shown.next()?.ends_with("/link"), "{:?}", shown.location);
        assert_eq!(other.get("/account").await?.next()?, "/sign-in");
        Ok(())
    })
}

#[test]
fn a_provider_can_rotate_its_keys() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        sign_in(server, &Tab::open(server)?, &acme.start()).await?;
        provider.rotate("second")?;
        server.advance(61);
        let tab = Tab::open(server)?;
        sign_in(server, &tab, &acme.start()).await?;
        assert!(signed_in_as(&tab).await?.is_some());
        Ok(())
    })
}
