//! Signing in at a company's provider: who is sent there, how, and whose account it is.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::json;
use service_testkit::{settings::BASE_URL, tab::Tab};

use crate::support::{
    authorize::{CALLBACK, agree, asking, code, exchange, register},
    provider::CLIENT_ID,
    sso::{
        at_provider, company, login_options, provider_address, sign_in, sign_in_after_click, signed_in_as, user,
        with_provider, with_two_providers,
    },
};

/// The address of a client's request that chooses a connection.
fn with_connection(address: &str, connection: &str) -> String {
    address.replace("/oauth/authorize?", &format!("/sso/start?connection={connection}&"))
}

#[test]
fn the_first_sign_in_creates_account_and_membership_and_the_second_finds_them() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann-1", "Ann@ACME.test"));
        let tab = Tab::open(server)?;
        let shown = sign_in(server, &tab, &acme.start()).await?;
        assert_eq!(tab.get(shown.next()?).await?.next()?, "/account");
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        let member = "select m.role || ' ' || u.email from members m join users u on u.id = m.user_id
                       where m.workspace_id = (select workspace_id from connections) and m.role <> 'owner'";
        assert_eq!(server.sql(member).await?.as_deref(), Some("member ann@acme.test"));
        // A changed address does not move the account, and the account keeps its own.
        provider.sign_in_as(&user("ann-1", "maria@acme.test"));
        let other = Tab::open(server)?;
        sign_in(server, &other, &acme.start()).await?;
        assert_eq!(signed_in_as(&other).await?.as_deref(), Some("ann@acme.test"));
        assert_eq!(
            server.sql("select count(*) from users where email like '%@acme.test'").await?.as_deref(),
            Some("1")
        );
        let seen = "select email from identities where subject = 'ann-1'";
        assert_eq!(server.sql(seen).await?.as_deref(), Some("maria@acme.test"));
        let events = "select string_agg(event || coalesce(' ' || (details->>'method'), ''), ', ' order by at, event)
                        from audit_events where user_id = (select user_id from identities)";
        let events = server.sql(events).await?.context("no events")?;
        assert!(events.contains("sign_in.succeeded sso") && events.contains("user.created"), "{events}");
        let metrics = server.ops.get("/metrics", None).await?.text;
        assert!(metrics.contains("service_sso_sign_ins_total{outcome=\"signed_in\"} 2"), "{metrics}");
        Ok(())
    })
}

#[test]
fn the_request_to_the_provider_has_everything_that_binds_the_response() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        let shown = tab.get(&acme.start()).await?;
        at_provider(server, &shown).await?;
        let asked = |name| provider.asked(name).unwrap_or_default();
        assert_eq!((asked("response_type").as_str(), asked("scope").as_str()), ("code", "openid email profile"));
        assert_eq!(asked("client_id"), CLIENT_ID);
        assert_eq!(asked("redirect_uri"), format!("{BASE_URL}/sso/callback/{}", acme.connection_id));
        assert_eq!(asked("code_challenge_method"), "S256");
        for name in ["state", "nonce", "code_challenge"] {
            assert!(asked(name).len() >= 43, "{name}");
        }
        assert_eq!(provider.asked("prompt"), None);
        let (first, nonce) = (asked("state"), asked("nonce"));
        at_provider(server, &tab.get(&acme.start()).await?).await?;
        assert!(asked("state") != first && asked("nonce") != nonce, "every request has secrets of its own");
        // What the database knows of them completes no sign-in; the leak scanner searches for them in all tables.
        let policy = shown.headers.get("content-security-policy").context("no policy")?.to_str()?;
        assert!(policy.contains("default-src 'none'") && policy.contains("form-action 'self'"), "{policy}");
        assert!(!shown.text.contains("<script"));
        Ok(())
    })
}

#[test]
fn an_address_on_the_sign_in_page_leads_to_its_company() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        let begun = tab.get("/sign-in").await?;
        let path = begun.next()?.to_owned();
        tab.get(&path).await?;
        let shown = tab.submit(&path, &[("email", "ann@acme.test")]).await?;
        assert!(shown.text.contains("Acme ID"), "{}", shown.text);
        let callback = at_provider(server, &shown).await?;
        assert_eq!(provider.asked("login_hint").as_deref(), Some("ann@acme.test"));
        tab.get(&callback).await?;
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        // Where it is not required, a code is another way.
        let other = Tab::open(server)?;
        let path = other.get("/sign-in").await?.next()?.to_owned();
        other.get(&path).await?;
        other.submit(&path, &[("email", "ann@acme.test")]).await?;
        let page = other.get(&path).await?;
        assert!(page.text.contains("Email me a code instead"), "{}", page.text);
        let sent = other.submit(&format!("{path}/sso"), &[("decision", "code")]).await?;
        let code = server.mailbox.next_code_to("ann@acme.test").await?;
        server.leaks.register("otp code", &code);
        let code_path = sent.next()?.to_owned();
        other.get(&code_path).await?;
        other.submit(&code_path, &[("code", &code)]).await?;
        assert_eq!(signed_in_as(&other).await?.as_deref(), Some("ann@acme.test"));
        // Another address leads elsewhere.
        let third = Tab::open(server)?;
        third.get(&acme.start()).await?;
        let path = third.get("/sign-in").await?.next()?.to_owned();
        third.get(&path).await?;
        third.submit(&path, &[("email", "ann@acme.test")]).await?;
        third.get(&path).await?;
        assert_eq!(third.submit(&format!("{path}/sso"), &[("decision", "other")]).await?.next()?, path);
        assert!(third.get(&path).await?.text.contains("name=\"email\""));
        Ok(())
    })
}

#[test]
fn a_client_of_others_is_named_before_anyone_is_sent_to_the_provider() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let client = register(server, "Planner", &[CALLBACK]).await?;
        let start = with_connection(&asking(&client, &[]), &acme.connection_id.to_string());
        let tab = Tab::open(server)?;
        let path = tab.get(&start).await?.next()?.to_owned();
        let page = tab.get(&path).await?;
        assert!(page.text.contains("Planner") && page.text.contains("app.test"), "{}", page.text);
        assert!(page.text.contains("Continue with <bdi>Acme ID</bdi>"), "{}", page.text);
        assert_eq!(provider.requests(), 0, "nothing was asked of the provider");
        // The click is bound to the browser.
        let foreign = Tab::open(server)?;
        foreign.get("/sign-in").await?;
        let button = format!("{path}/sso");
        let naked = tab.request(Method::POST, &button).form(&[("decision", "continue")]);
        assert_eq!(tab.send(naked).await?.status, 403);
        assert_eq!(foreign.submit(&button, &[("decision", "continue")]).await?.status, 403);
        tab.get(&path).await?;
        let shown = tab.submit(&button, &[("decision", "continue")]).await?;
        let back = tab.get(&at_provider(server, &shown).await?).await?;
        // The consent follows in full.
        let consent = tab.get(back.next()?).await?;
        assert!(consent.next()?.starts_with("/consent/"));
        let done = agree(&tab, consent, &[("space", "personal")]).await?;
        let tokens = server.http.post("/oauth/token", &exchange(&client, &code(&done)?)).await?;
        assert_eq!(tokens.status, 200, "{}", tokens.text);
        Ok(())
    })
}

#[test]
fn another_site_cannot_sign_a_user_in_without_a_click_bw_11() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let tab = Tab::open(server)?;
        for site in ["cross-site", "same-site"] {
            let request = tab.request(Method::GET, &acme.start()).header("sec-fetch-site", site);
            let shown = tab.send(request).await?;
            let page = tab.get(shown.next()?).await?;
            assert!(page.text.contains("Continue with <bdi>Acme ID</bdi>"), "{}", page.text);
        }
        assert_eq!(provider.requests(), 0);
        for site in ["none", "same-origin"] {
            let request = tab.request(Method::GET, &acme.start()).header("sec-fetch-site", site);
            provider_address(&tab.send(request).await?)?;
        }
        // Only a navigation begins a sign-in.
        let fetched = tab.request(Method::GET, &acme.start()).header("sec-fetch-dest", "image");
        assert_eq!(tab.send(fetched).await?.status, 403);
        Ok(())
    })
}

#[test]
fn a_user_who_is_signed_in_through_the_connection_stays_signed_in() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        // A user who is signed in by a code is sent to the provider after a click, without being asked for a password there.
        let begun = tab.get("/sign-in").await?;
        tab.sign_in(&server.mailbox, begun.next()?, "bob@other.test").await?;
        let foreign = tab.send(tab.request(Method::GET, &acme.start()).header("sec-fetch-site", "cross-site")).await?;
        assert!(foreign.next()?.starts_with("/sign-in/"), "another site does not decide who is signed in");
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("bob@other.test"));
        // A link that anyone can send does not decide that either.
        server.advance(1);
        sign_in_after_click(server, &tab, &acme.start()).await?;
        assert_eq!(provider.asked("prompt"), None);
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        let requests = provider.requests();
        assert_eq!(tab.get(&acme.start()).await?.next()?, "/account");
        assert_eq!(provider.requests(), requests);
        Ok(())
    })
}

#[test]
fn a_connection_that_does_not_exist_or_is_not_enabled_begins_nothing() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        acme.change(server, |connection| connection.enabled_at = None).await?;
        let tab = Tab::open(server)?;
        for start in [
            acme.start(),
            "/sso/start".to_owned(),
            "/sso/start?connection=".to_owned(),
            "/sso/start?connection=conn_00000000000000000000000000".to_owned(),
            format!("{}&connection={}", acme.start(), acme.connection_id),
        ] {
            let shown = tab.get(&start).await?;
            assert!(shown.status == 400 && shown.text.contains("isn’t available"), "{start}: {}", shown.text);
            assert_eq!(tab.cookie(), None, "{start}");
        }
        let german = Tab::in_language(server, "de")?;
        assert!(german.get(&acme.start()).await?.text.contains("nicht verfügbar"));
        assert_eq!(provider.requests(), 0);
        Ok(())
    })
}

#[test]
fn a_provider_that_tells_the_address_elsewhere_is_asked_there() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&json!({ "sub": "ann" }));
        provider.tell_in_user_info(&json!({ "email": "ann@acme.test", "email_verified": true }));
        let tab = Tab::open(server)?;
        sign_in(server, &tab, &acme.start()).await?;
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        provider.sign_in_as(&json!({ "sub": "eve" }));
        provider.tell_in_user_info(&json!({ "sub": "ann", "email": "eve@acme.test", "email_verified": true }));
        let refused = sign_in(server, &Tab::open(server)?, &acme.start()).await?;
        assert_eq!(refused.status, 400, "{}", refused.text);
        Ok(())
    })
}

#[test]
fn the_same_subject_at_two_connections_is_two_users_so_05_so_13() -> Result<()> {
    with_two_providers(async |server, one, other| {
        let (acme, bolt) = (company(server, one, "acme.test").await?, company(server, other, "bolt.test").await?);
        one.sign_in_as(&user("7", "ann@acme.test"));
        other.sign_in_as(&user("7", "bob@bolt.test"));
        let (ann, bob) = (Tab::open(server)?, Tab::open(server)?);
        sign_in(server, &ann, &acme.start()).await?;
        sign_in(server, &bob, &bolt.start()).await?;
        assert_eq!(signed_in_as(&ann).await?.as_deref(), Some("ann@acme.test"));
        assert_eq!(signed_in_as(&bob).await?.as_deref(), Some("bob@bolt.test"));
        // Nor does one company's provider decide about an address of the other.
        other.sign_in_as(&user("8", "ann@acme.test"));
        let refused = sign_in(server, &Tab::open(server)?, &bolt.start()).await?;
        assert_eq!(refused.status, 403, "{}", refused.text);
        Ok(())
    })
}

#[test]
fn single_sign_on_is_offered_by_verified_domain_and_never_by_account_lo_02() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        sign_in(server, &Tab::open(server)?, &acme.start()).await?;
        let known = login_options(server, "ann@acme.test").await?;
        let unknown = login_options(server, "unknown@acme.test").await?;
        assert_eq!((known.status.as_u16(), &known.text), (200, &unknown.text));
        let methods = known.body["methods"].as_array().context("no methods")?.clone();
        assert_eq!(methods[0]["type"], "sso");
        assert_eq!(methods[0]["required"], false);
        assert_eq!(methods[0]["displayName"], "Acme ID");
        assert_eq!(methods[1]["type"], "otp");
        // A subdomain, another domain, and a domain that is claimed but not verified are like any other.
        server
            .sql(
                "insert into workspace_domains (workspace_id, domain, shard, connection_id, created_by, created_at)
                 select workspace_id, 'claimed.test', shard, id, created_by, created_at from connections",
            )
            .await?;
        let elsewhere = login_options(server, "ann@elsewhere.test").await?.text;
        for email in ["ann@sub.acme.test", "ann@claimed.test", "ann@acme.test.evil.test"] {
            assert_eq!(login_options(server, email).await?.text, elsewhere, "{email}");
        }
        // Required: nothing else is offered.
        acme.require(server, &[]).await?;
        let required = login_options(server, "ann@acme.test").await?;
        let methods = required.body["methods"].as_array().context("no methods")?;
        assert_eq!((methods.len(), &methods[0]["required"]), (1, &json!(true)), "{}", required.text);
        Ok(())
    })
}

#[test]
fn the_address_of_single_sign_on_is_ours_and_says_nothing_about_the_provider_lo_03() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let options = login_options(server, "ann@acme.test").await?;
        let sso = &options.body["methods"][0];
        assert_eq!(sso["authorizeUrl"], format!("{BASE_URL}/sso/start?connection={}", acme.connection_id));
        assert_eq!(sso["connectionId"], acme.connection_id.to_string());
        let port = provider.issuer.rsplit(':').next().unwrap_or_default();
        for secret in [provider.issuer.as_str(), port, CLIENT_ID, "authorize?"] {
            assert!(!options.text.contains(secret), "{}", options.text);
        }
        assert_eq!(sso.as_object().map(serde_json::Map::len), Some(5));
        Ok(())
    })
}

#[test]
fn a_fresh_sign_in_is_asked_of_the_provider_and_believed_only_if_it_was_one() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let now = server.now().as_second();
        let claims = |auth_time: i64| json!({ "sub": "ann", "email": "ann@acme.test", "auth_time": auth_time });
        provider.sign_in_as(&claims(now - 7_200));
        let tab = Tab::open(server)?;
        sign_in(server, &tab, &acme.start()).await?;
        // Signed in just now, but authenticated two hours ago: a token needs more than that.
        tab.get("/account/tokens").await?;
        let fields = [("name", "Build"), ("read", "true"), ("days", "30"), ("space", "personal")];
        let step_up = tab.submit("/account/tokens", &fields).await?;
        let path = step_up.next()?.to_owned();
        assert!(path.starts_with("/sign-in/"), "{path}");
        tab.get(&path).await?;
        let shown = tab.submit(&path, &[("email", "ann@acme.test")]).await?;
        let callback = at_provider(server, &shown).await?;
        assert_eq!(provider.asked("prompt").as_deref(), Some("login"));
        assert_eq!(provider.asked("max_age").as_deref(), Some("0"));
        let refused = tab.get(&callback).await?;
        assert!(refused.status == 403 && refused.text.contains("sign in again at Acme ID"), "{}", refused.text);
        provider.sign_in_as(&claims(now));
        tab.get(&path).await?;
        let shown = tab.submit(&path, &[("email", "ann@acme.test")]).await?;
        tab.get(&at_provider(server, &shown).await?).await?;
        tab.get("/account/tokens").await?;
        let created = tab.submit("/account/tokens", &fields).await?;
        assert!(created.text.contains("svc_cli_"), "{}: {}", created.status, created.text);
        let token = created.text.split("svc_cli_").nth(1).and_then(|rest| rest.split(['"', '<']).next());
        server.leaks.register("CLI token", &format!("svc_cli_{}", token.unwrap_or_default()));
        Ok(())
    })
}

#[test]
fn a_maximum_age_counts_from_the_authentication_at_the_provider() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let client = register(server, "Planner", &[CALLBACK]).await?;
        // The provider does not say when, and was not told to ask: that is not known to be recent.
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        sign_in(server, &tab, &acme.start()).await?;
        let begun = tab.get(&asking(&client, &[("max_age", "600")])).await?;
        let path = begun.next()?.to_owned();
        assert!(path.starts_with("/sign-in/"), "{path}");
        tab.get(&path).await?;
        tab.submit(&path, &[("email", "ann@acme.test")]).await?;
        tab.get(&path).await?;
        let shown = tab.submit(&format!("{path}/sso"), &[("decision", "continue")]).await?;
        let back = tab.get(&at_provider(server, &shown).await?).await?;
        assert_eq!(provider.asked("prompt").as_deref(), Some("login"));
        // It was told to ask, so the authentication is recent.
        assert!(tab.get(back.next()?).await?.next()?.starts_with("/consent/"));
        Ok(())
    })
}

#[test]
fn a_link_to_a_connection_without_a_domain_needs_a_click() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider_address(&Tab::open(server)?.get(&acme.start()).await?)?;
        // An owner can enable a connection to any provider; only a domain shows whose it is.
        let lost = "update workspace_domains set verified_at = null; delete from routed_domains";
        server.sql(lost).await?;
        let tab = Tab::open(server)?;
        let page = tab.get(tab.get(&acme.start()).await?.next()?).await?;
        assert!(page.text.contains("You’ll sign in at <strong><bdi>127.0.0.1</bdi>"), "{}", page.text);
        Ok(())
    })
}
