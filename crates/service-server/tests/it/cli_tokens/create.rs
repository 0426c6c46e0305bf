//! Tokens for automation: never more than their maker, bound to one space, seen by their owner, dead when told.

use crate::support::cli_tokens::{PATH, check, make, post, whoami};
use anyhow::Result;
use futures_util::future::try_join_all;
use reqwest::Method;
use serde_json::json;
use service_api::workspaces::Role;
use service_rules::{lifetimes, space::Space};
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, with_server},
};

#[test]
fn a_token_is_made_shown_once_and_works_in_its_space() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?;
        server.make_project(Space::Workspace(acme), ann.user_id, "Website").await?;
        let body = json!({ "name": "deploy", "workspaceId": acme, "scopes": ["projects:read"], "expiresInDays": 7 });
        let response = post(server, PATH, &ann.access_token, &body).await?;
        assert_eq!(response.status, 201, "{}", response.text);
        let (id, token) = (response.field("id"), response.field("access_token"));
        assert!(id.starts_with("clit_") && token.starts_with("svc_cli_"));
        assert_eq!((response.field("token_type"), response.field("scope")), ("Bearer", "projects:read"));
        assert_eq!((response.field("name"), response.field("workspaceId")), ("deploy", acme.to_string().as_str()));
        assert_eq!(response.body["expires_in"], 7 * 86_400);
        assert_eq!(response.field("hint"), format!("…{}", &token[token.len() - 4..]));
        assert_eq!(response.header("cache-control"), Some("no-store"));

        let projects = server.http.get("/v1/projects", Some(token)).await?;
        assert_eq!(projects.body["data"][0]["name"], "Website");
        assert_eq!(projects.header("service-token-expires"), Some(response.field("expiresAt")));
        let who = whoami(server, token).await?.body;
        assert_eq!((&who["credential"]["kind"], &who["credential"]["id"]), (&"cli_token".into(), &id.into()));
        assert_eq!(
            (&who["space"]["workspaceId"], &who["space"]["because"]),
            (&acme.to_string().into(), &"token".into())
        );
        assert_eq!(whoami(server, &ann.access_token).await?.header("service-token-expires"), None);

        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        assert_eq!(mail.subject, "New CLI token created");
        assert!(mail.text.contains("deploy") && mail.text.contains("View your projects"), "{}", mail.text);
        Ok(())
    })
}

#[test]
fn only_a_user_session_creates_cli_tokens_cl_01() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        check(&server.http.post(PATH, &json!({})).await?, 401, "missing_token");
        let (id, token) = make(server, &ann, &json!({ "scopes": ["read", "write"] })).await?;
        check(&post(server, PATH, &token, &json!({})).await?, 403, "forbidden");
        check(&post(server, &format!("{PATH}/{id}/rotate"), &token, &json!({})).await?, 403, "forbidden");
        for path in [PATH, "/v1/sessions"] {
            check(&server.http.get(path, Some(&token)).await?, 403, "forbidden");
        }
        check(&post(server, "/v1/sessions/revoke-others", &token, &json!({})).await?, 403, "forbidden");
        assert_eq!(whoami(server, &ann.access_token).await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_token_for_a_foreign_workspace_and_one_for_none_are_refused_alike_cl_02() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "write").await?, server.sign_in("bob@acme.test", "write").await?);
        let theirs = server.make_workspace("Theirs", &[(bob.user_id, Role::Owner)]).await?.to_string();
        let essence = |response: &TestResponse| response.text.replace(response.field("request_id"), "");
        let mut told = Vec::new();
        for workspace in [theirs.as_str(), "wsp_00000000000000000000000000"] {
            let response =
                post(server, PATH, &ann.access_token, &json!({ "workspaceId": workspace, "scopes": ["write"] }))
                    .await?;
            check(&response, 404, "not_found");
            told.push(essence(&response));
        }
        assert_eq!(told[0], told[1]);
        for wrong in ["", "x", "user_00000000000000000000000000", "PERSONAL"] {
            let response =
                post(server, PATH, &ann.access_token, &json!({ "workspaceId": wrong, "scopes": ["write"] })).await?;
            check(&response, 422, "validation_failed");
            assert!(response.body["details"]["fields"]["workspaceId"].is_string());
        }
        Ok(())
    })
}

#[test]
fn a_cli_token_has_no_more_rights_than_its_creator_cl_03() -> Result<()> {
    with_server(async |server| {
        for (number, (has, asks, allowed)) in [
            ("read", json!(["read"]), false),
            ("read tokens:write", json!(["write"]), false),
            ("read tokens:write", json!(["read", "projects:write"]), false),
            ("projects:read tokens:write", json!(["read"]), false),
            ("tokens:write", json!(null), false),
            ("read tokens:write", json!(["read"]), true),
            ("read tokens:write", json!(["projects:read", "unheard:of"]), true),
            ("read write", json!(["read", "write"]), true),
        ]
        .into_iter()
        .enumerate()
        {
            let ann = server.sign_in(&format!("ann{number}@acme.test"), has).await?;
            let body = if asks.is_null() { json!({}) } else { json!({ "scopes": asks }) };
            let response = post(server, PATH, &ann.access_token, &body).await?;
            if allowed {
                assert_eq!(response.status, 201, "{has} {asks}: {}", response.text);
            } else {
                check(&response, 403, "insufficient_scope");
                assert!(response.header("www-authenticate").is_some_and(|text| text.contains("insufficient_scope")));
            }
        }
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        check(
            &post(server, PATH, &ann.access_token, &json!({ "scopes": ["unheard:of"] })).await?,
            400,
            "invalid_scope",
        );
        // Nor time: the session that makes it ends in a year, a day sooner with each day.
        server.advance(86_400);
        let ann = crate::support::refresh::refreshed(server, &ann.refresh_token).await?;
        crate::support::step_up::freshen(server, &ann).await?;
        for days in [0, -1, 365, 366, 367, i64::MAX] {
            let response = post(server, PATH, &ann.access_token, &json!({ "expiresInDays": days })).await?;
            check(&response, 422, "validation_failed");
            assert!(response.body["details"]["fields"]["expiresInDays"].is_string());
        }
        let longest = post(server, PATH, &ann.access_token, &json!({ "expiresInDays": 364 })).await?;
        assert_eq!(longest.status, 201, "{}", longest.text);
        let usual = post(server, PATH, &ann.access_token, &json!({})).await?;
        assert_eq!((usual.body["expires_in"].as_i64(), usual.field("scope")), (Some(90 * 86_400), "read"));
        for (field, value) in [("name", json!("")), ("name", json!("a\nb")), ("name", json!("x".repeat(101)))] {
            check(&post(server, PATH, &ann.access_token, &json!({ field: value })).await?, 422, "validation_failed");
        }
        for unknown in [json!({ "Scopes": ["write"] }), json!({ "id": "clit_1" }), json!({ "userId": "x" })] {
            check(&post(server, PATH, &ann.access_token, &unknown).await?, 400, "invalid_request");
        }
        Ok(())
    })
}

#[test]
fn one_key_makes_one_token_cl_12() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        let with_key = async |session: &SignedIn, key: &str| {
            let request = server.http.request(Method::POST, PATH).bearer_auth(&session.access_token);
            server.http.send(request.header("idempotency-key", key).json(&json!({}))).await
        };
        let responses = try_join_all((0..20).map(|_| with_key(&ann, "build-7"))).await?;
        let made: Vec<_> = responses.iter().filter(|response| response.status == 201).collect();
        assert_eq!(made.len(), 1, "{} were made", made.len());
        for response in responses.iter().filter(|response| response.status != 201) {
            check(response, 409, "conflict");
        }
        let bobs = with_key(&bob, "build-7").await?;
        assert!(bobs.status == 201 && bobs.field("access_token") != made[0].field("access_token"));
        assert_eq!(with_key(&ann, "build-8").await?.status, 201);
        for wrong in ["", &"x".repeat(256)] {
            check(&with_key(&ann, wrong).await?, 400, "invalid_request");
        }
        Ok(())
    })
}

#[test]
fn a_hundred_live_tokens_are_enough() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        for _ in 0..96 {
            make(server, &ann, &json!({})).await?;
        }
        let body = json!({ "expiresInDays": 1 });
        let last = try_join_all((0..10).map(|_| post(server, PATH, &ann.access_token, &body))).await?;
        assert_eq!(last.iter().filter(|response| response.status == 201).count(), 4);
        for response in last.iter().filter(|response| response.status != 201) {
            check(response, 409, "conflict");
        }
        server.advance(lifetimes::ACCESS_TOKEN.max(86_400));
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        make(server, &ann, &json!({})).await.map(drop)
    })
}
