//! Exchanging authorization codes: once, by the right client, with the right verifier, in time.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use service_api::workspaces::Role;
use service_server::flows::operator::Operator;
use service_testkit::{
    response::TestResponse,
    server::{TestServer, with_server},
    tab::Tab,
};

use crate::support::authorize::{CALLBACK, VERIFIER, agree, asking, code, exchange, go_through, register};

/// A client, and a browser in which Ann has agreed to it.
async fn prepared(server: &TestServer) -> Result<(String, Tab)> {
    let client = register(server, "Web app", &[CALLBACK]).await?;
    let tab = Tab::open(server)?;
    go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
    Ok((client, tab))
}

/// Another code for the same client, by the stored consent.
async fn another(tab: &Tab, client: &str) -> Result<String> {
    code(&tab.get(&asking(client, &[])).await?)
}

async fn redeem(server: &TestServer, body: &Value) -> Result<TestResponse> {
    server.http.post("/oauth/token", body).await
}

#[track_caller]
fn check_refused(response: &TestResponse, what: &str) {
    assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_grant"), "{what}: {}", response.text);
}

async fn whoami(server: &TestServer, tokens: &TestResponse) -> Result<u16> {
    Ok(server.http.get("/v1/whoami", Some(tokens.field("access_token"))).await?.status.as_u16())
}

#[test]
fn a_second_use_ends_what_the_first_one_gave_ac_01() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = prepared(server).await?;
        let body = exchange(&client, &another(&tab, &client).await?);
        let tokens = redeem(server, &body).await?;
        assert_eq!(tokens.status, 200, "{}", tokens.text);
        assert_eq!(whoami(server, &tokens).await?, 200);
        check_refused(&redeem(server, &body).await?, "second use");
        assert_eq!(whoami(server, &tokens).await?, 401);
        let refresh = json!({ "grant_type": "refresh_token", "client_id": client, "refresh_token": tokens.field("refresh_token") });
        check_refused(&redeem(server, &refresh).await?, "refresh after the second use");
        assert_eq!(
            server.sql("select count(*) from audit_events where event = 'code.replayed'").await?.as_deref(),
            Some("1")
        );
        Ok(())
    })
}

#[test]
fn only_who_knows_the_verifier_ends_or_burns_anything_ac_03_ac_04() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = prepared(server).await?;
        let body = exchange(&client, &another(&tab, &client).await?);
        let mut wrong = body.clone();
        wrong["code_verifier"] = "another-verifier-of-forty-three-characters-or-more".into();
        check_refused(&redeem(server, &wrong).await?, "wrong verifier");
        let tokens = redeem(server, &body).await?;
        assert_eq!(tokens.status, 200, "a wrong verifier burned the code");
        check_refused(&redeem(server, &wrong).await?, "used, and wrong verifier");
        assert_eq!(whoami(server, &tokens).await?, 200, "a stranger ended the session");
        let body = exchange(&client, &another(&tab, &client).await?);
        wrong["code"] = body["code"].clone();
        for _ in 0..5 {
            check_refused(&redeem(server, &wrong).await?, "guess");
        }
        check_refused(&redeem(server, &body).await?, "after five guesses");
        Ok(())
    })
}

#[test]
fn a_verifier_must_be_one_and_the_right_one_ac_05_ac_06() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = prepared(server).await?;
        let body = exchange(&client, &another(&tab, &client).await?);
        let challenge = service_server::crypto::digest::pkce_challenge(VERIFIER);
        let (short, long) = ("v".repeat(42), "v".repeat(129));
        for (verifier, error) in [
            (Value::Null, "invalid_request"),
            ("".into(), "invalid_request"),
            (short.into(), "invalid_grant"),
            (long.into(), "invalid_grant"),
            (challenge.into(), "invalid_grant"),
        ] {
            let mut changed = body.clone();
            changed["code_verifier"] = verifier.clone();
            if verifier.is_null() {
                changed.as_object_mut().map(|object| object.remove("code_verifier"));
            }
            assert_eq!(redeem(server, &changed).await?.error(), error, "{verifier}");
        }
        server.sql("update authorization_codes set challenge = '', wrong_verifiers = 0").await?;
        check_refused(&redeem(server, &body).await?, "no challenge");
        let mut without = body.clone();
        without.as_object_mut().map(|object| object.remove("code_verifier"));
        assert_eq!(redeem(server, &without).await?.status, 400);
        Ok(())
    })
}

#[test]
fn a_code_is_one_clients_for_one_address_and_one_minute_ac_07_ac_08_ac_09() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = prepared(server).await?;
        let other = register(server, "Other app", &[CALLBACK]).await?;
        let body = exchange(&client, &another(&tab, &client).await?);
        let mut foreign = body.clone();
        foreign["client_id"] = other.clone().into();
        check_refused(&redeem(server, &foreign).await?, "another client");
        let mut elsewhere = body.clone();
        elsewhere["redirect_uri"] = "https://app.test/cb2".into();
        check_refused(&redeem(server, &elsewhere).await?, "another address");
        assert_eq!(redeem(server, &body).await?.status, 200, "a stranger spent the code");
        let body = exchange(&client, &another(&tab, &client).await?);
        server.advance(61);
        foreign["code"] = body["code"].clone();
        check_refused(&redeem(server, &foreign).await?, "another client, too late");
        check_refused(&redeem(server, &body).await?, "too late");
        Ok(())
    })
}

#[test]
fn a_code_ends_with_its_user_their_membership_and_their_consent_ac_10() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = prepared(server).await?;
        let user: service_api::ids::UserId = {
            let tokens = redeem(server, &exchange(&client, &another(&tab, &client).await?)).await?;
            let who = server.http.get("/v1/whoami", Some(tokens.field("access_token"))).await?;
            who.body["user"]["id"].as_str().unwrap_or_default().parse()?
        };
        let acme = server.make_workspace("Acme", &[(user, Role::Member)]).await?;
        let space = acme.to_string();
        let begun = tab.get(&asking(&client, &[("prompt", "consent")])).await?;
        let done = agree(&tab, begun, &[("space", &space)]).await?;
        let body = exchange(&client, &code(&done)?);
        service_server::flows::revocation::remove_member(&server.app, &Operator::default(), user, acme).await?;
        check_refused(&redeem(server, &body).await?, "membership");
        let begun = tab.get(&asking(&client, &[("prompt", "consent")])).await?;
        let body = exchange(&client, &code(&agree(&tab, begun, &[("space", "personal")]).await?)?);
        server.sql("create table kept as table consents; delete from consents").await?;
        check_refused(&redeem(server, &body).await?, "consent");
        server.sql("insert into consents select * from kept").await?;
        server.sql("update users set disabled_at = created_at").await?;
        check_refused(&redeem(server, &body).await?, "user");
        server.sql("update users set disabled_at = null").await?;
        assert_eq!(redeem(server, &body).await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_code_ends_when_its_user_is_signed_out() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = prepared(server).await?;
        let body = exchange(&client, &another(&tab, &client).await?);
        tab.get("/account").await?;
        tab.submit("/sign-out", &[]).await?;
        check_refused(&redeem(server, &body).await?, "signed out");
        Ok(())
    })
}

#[test]
fn a_mistyped_code_costs_no_query_and_says_nothing_ac_11_az_21() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = prepared(server).await?;
        let code = another(&tab, &client).await?;
        ensure!(code.starts_with("svc_ac_") && code.len() == 7 + 43 + 6, "{}", code.len());
        let flipped: String = code
            .chars()
            .map(|c| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
            .collect();
        let (mut bodies, before) = (Vec::new(), server.cluster.logged());
        for wrong in [
            &code[..code.len() - 1],
            &format!("{code}0"),
            &flipped,
            &code.replace("svc_ac_", "svc_rt_"),
            &format!("{}000000", &code[..code.len() - 6]),
        ] {
            let response = redeem(server, &exchange(&client, wrong)).await?;
            check_refused(&response, "mistyped");
            bodies.push(response.text.replace(response.field("request_id"), ""));
        }
        let log = server.cluster.log_since(before)?;
        let mine = log.lines().filter(|line| line.contains(&server.database) && line.contains("authorization_codes"));
        assert_eq!(mine.count(), 0, "a mistyped code was looked for");
        bodies.dedup();
        assert_eq!(bodies.len(), 1);
        let kept = server.sql("select string_agg(encode(digest, 'hex'), ' ') from authorization_codes").await?;
        assert!(kept.is_some_and(|kept| kept.len() >= 64));
        Ok(())
    })
}

#[test]
fn scopes_do_not_grow_and_the_resource_stays_ac_12_ac_13() -> Result<()> {
    with_server(async |server| {
        let (client, tab) = prepared(server).await?;
        let mut body = exchange(&client, &another(&tab, &client).await?);
        body["resource"] = "https://service.test/mcp".into();
        assert_eq!(redeem(server, &body).await?.error(), "invalid_target");
        body["resource"] = "https://service.test/v1".into();
        body["scope"] = "read write".into();
        let response = redeem(server, &body).await?;
        assert_eq!((response.status.as_u16(), response.field("scope")), (200, "read"));
        Ok(())
    })
}

#[test]
fn the_space_that_was_chosen_is_the_tokens_space() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?.to_string();
        let foreign = server.make_workspace("Foreign", &[]).await?.to_string();
        server.advance(61);
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let begun = tab.get(&asking(&client, &[])).await?;
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let path = shown.next()?.to_owned();
        for wrong in [foreign.as_str(), "", "x"] {
            tab.get(&path).await?;
            let refused = tab.submit(&path, &[("decision", "allow"), ("space", wrong)]).await?;
            assert_eq!(refused.status, 400, "{wrong}");
        }
        tab.get(&path).await?;
        let done = tab.submit(&path, &[("decision", "allow"), ("space", &acme)]).await?;
        let tokens = redeem(server, &exchange(&client, &code(&done)?)).await?;
        assert_eq!(tokens.field("workspace_id"), acme);
        let who = server.http.get("/v1/whoami", Some(tokens.field("access_token"))).await?;
        assert_eq!((&who.body["space"]["workspaceId"], &who.body["space"]["because"]), (&acme.into(), &"token".into()));
        // An app that is not ours stays where it was let in, and makes no tokens there.
        let elsewhere =
            server.http.get("/v1/projects?workspaceId=personal", Some(tokens.field("access_token"))).await?;
        assert_eq!((elsewhere.status.as_u16(), elsewhere.error()), (403, "workspace_mismatch"));
        let sessions = server.http.get("/v1/sessions", Some(tokens.field("access_token"))).await?;
        assert_eq!((sessions.status.as_u16(), sessions.error()), (403, "forbidden"));
        Ok(())
    })
}
