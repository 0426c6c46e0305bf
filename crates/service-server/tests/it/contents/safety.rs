//! Content among many hands: changes at once, creates sent twice, credentials, and the database's own fence.

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use reqwest::Method;
use serde_json::{Value, json};
use service_testkit::server::{SignedIn, with_server};

use crate::support::contents::{make, send};

#[test]
fn of_two_editors_the_second_is_told_and_nothing_is_lost() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (id, made) = make(server, "/v1/projects", &ann, &json!({ "name": "A", "description": "a" })).await?;
        let tag = made.header("etag").context("no tag")?.to_owned();
        let patch = async |body: Value, tag: &str| {
            let request =
                server.http.request(Method::PATCH, &format!("/v1/projects/{id}")).bearer_auth(&ann.access_token);
            server.http.send(request.header("if-match", tag).json(&body)).await
        };
        assert_eq!(patch(json!({ "name": "First" }), &tag).await?.status, 200);
        let second = patch(json!({ "name": "Second" }), &tag).await?;
        assert_eq!((second.status.as_u16(), second.error()), (412, "precondition_failed"));
        let now = send(server, "GET", &format!("/v1/projects/{id}"), &ann, None).await?;
        assert_eq!((now.field("name"), now.field("description"), now.header("etag")), ("First", "a", Some("\"2\"")));
        for wrong in ["2", "\"2", "\"1\", 2", ""] {
            assert_eq!(patch(json!({ "name": "Third" }), wrong).await?.status, 400, "{wrong}");
        }
        // Tags that were never given out, and weak ones, name no version.
        for other in ["\"x\"", "W/\"2\"", "\"1\", \"3\""] {
            assert_eq!(patch(json!({ "name": "Third" }), other).await?.status, 412, "{other}");
        }
        assert_eq!(patch(json!({ "name": "First" }), "\"1\", \"2\"").await?.status, 200);
        assert_eq!(patch(json!({ "name": "Third" }), "*").await?.status, 200);
        // Many at once, each changing what it read: every success is stored, and every other writer gets a conflict.
        let tag = "\"3\"";
        let all = try_join_all((0..50).map(|number| patch(json!({ "description": format!("{number}") }), tag))).await?;
        assert_eq!(all.iter().filter(|response| response.status == 200).count(), 1);
        assert_eq!(all.iter().filter(|response| response.status == 412).count(), 49);
        let request = server.http.request(Method::DELETE, &format!("/v1/projects/{id}")).bearer_auth(&ann.access_token);
        assert_eq!(server.http.send(request.header("if-match", "\"1\"")).await?.status, 412);
        Ok(())
    })
}

#[test]
fn a_create_sent_a_hundred_times_with_one_key_makes_one() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        let create = async |who: &SignedIn, name: &str, key: &str| {
            let request = server.http.request(Method::POST, "/v1/packs").bearer_auth(&who.access_token);
            server
                .http
                .send(request.header("idempotency-key", key).json(&json!({ "name": name, "type": "context" })))
                .await
        };
        let responses = try_join_all((0..100).map(|_| create(&ann, "Tides", "k1"))).await?;
        for response in &responses {
            assert_eq!((response.status.as_u16(), &response.text), (201, &responses[0].text));
        }
        assert_eq!(server.sql("select count(*) from contents").await?.as_deref(), Some("1"));
        assert_eq!(create(&ann, "Winds", "k1").await?.error(), "conflict");
        assert_ne!(create(&bob, "Tides", "k1").await?.field("id"), responses[0].field("id"), "another caller's key");
        assert_eq!(create(&ann, "Tides", "k2").await?.status, 201);
        Ok(())
    })
}

#[test]
fn no_credential_is_kept_in_content() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (_, token) = crate::support::cli_tokens::make(server, &ann, &json!({ "scopes": ["read"] })).await?;
        let wrapped = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, format!("token={token}"));
        for (path, body, field) in [
            ("/v1/projects", json!({ "name": format!("My {token}") }), "name"),
            (
                "/v1/packs",
                json!({ "name": "A", "type": "context", "text": format!("use {} here", ann.refresh_token) }),
                "text",
            ),
            (
                "/v1/playbooks",
                json!({ "name": "A", "definition": { "env": [{ "SERVICE_TOKEN": token }] } }),
                "definition",
            ),
            ("/v1/cases", json!({ "name": "A", "inputs": { "wrapped": wrapped } }), "inputs"),
            ("/v1/records", json!({ "name": "A", "data": { token.clone(): 1 } }), "data"),
        ] {
            let response = send(server, "POST", path, &ann, Some(&body)).await?;
            assert_eq!(
                (response.status.as_u16(), response.error()),
                (422, "credential_in_content"),
                "{path}: {}",
                response.text
            );
            assert!(response.body["details"]["fields"][field].is_string(), "{}", response.text);
        }
        assert_eq!(server.sql("select count(*) from contents").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn the_owner_of_a_credential_that_works_is_told_where_it_was() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        let (id, token) =
            crate::support::cli_tokens::make(server, &ann, &json!({ "scopes": ["read"], "name": "deploy" })).await?;
        server.mailbox.next_mail_to("ann@acme.test").await?;
        let offer = async |secret: &str| {
            let body = json!({ "name": "Notes", "inputs": { "env": secret } });
            send(server, "POST", "/v1/cases", &bob, Some(&body)).await
        };
        // Another user sends it: the owner gets one mail, however often it is sent.
        for _ in 0..3 {
            assert_eq!(offer(&token).await?.error(), "credential_in_content");
        }
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        assert!(mail.text.contains("the token deploy (") && !mail.text.contains(&token), "{}", mail.text);
        for secret in [&ann.refresh_token, &ann.access_token] {
            assert_eq!(offer(secret).await?.error(), "credential_in_content");
        }
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        assert!(mail.text.contains("a session ("), "{}", mail.text);
        let told = server.sql("select count(*) from audit_events where event = 'token.exposed'").await?;
        assert_eq!(told.as_deref(), Some("2"), "one for the token and one for the session");
        // A revoked one is refused too, without a mail; likewise one that was never issued.
        send(server, "DELETE", &format!("/v1/cli/tokens/{id}"), &ann, None).await?;
        server.advance(7_200);
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let body = json!({ "name": format!("Use {token}") });
        assert_eq!(send(server, "POST", "/v1/projects", &bob, Some(&body)).await?.error(), "credential_in_content");
        assert_eq!(server.sql("select count(*) from audit_events where event = 'token.exposed'").await?, told);
        // And in a change.
        let (id, _) = make(server, "/v1/projects", &bob, &json!({ "name": "A" })).await?;
        let body = json!({ "description": bob.refresh_token });
        let refused = send(server, "PATCH", &format!("/v1/projects/{id}"), &bob, Some(&body)).await?;
        assert_eq!(refused.error(), "credential_in_content");
        server.mailbox.next_mail_to("bob@acme.test").await.map(drop)
    })
}

/// The application's check is not there: what remains is the database's own, for the role that servers connect as.
#[test]
fn without_our_own_checks_the_database_still_hides_other_spaces_ws_12() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        for who in [&ann, &bob] {
            make(server, "/v1/projects", who, &json!({ "name": "Secret" })).await?;
        }
        let space = |user: &SignedIn| service_api::ids::Id::uuid(user.user_id).to_string();
        let as_role = async |entered: Option<String>, statement: &str| {
            let enter = entered.map(|id| format!("set service.spaces = '{id}';")).unwrap_or_default();
            server.sql(&format!("set role serviced; {enter} {statement}")).await
        };
        let count = "select count(*) from contents";
        assert_eq!(as_role(None, count).await?.as_deref(), Some("0"), "who has said nothing sees something");
        assert_eq!(as_role(Some(space(&ann)), count).await?.as_deref(), Some("1"));
        let others = format!("{count} where space_id = '{}'", space(&bob));
        assert_eq!(as_role(Some(space(&ann)), &others).await?.as_deref(), Some("0"), "another's space is seen");
        let changed = "with changed as (update contents set version = 9 returning 1) select count(*) from changed";
        assert_eq!(as_role(Some(space(&ann)), changed).await?.as_deref(), Some("1"), "more than one's own is changed");
        let moved = format!("update contents set space_id = '{}'", space(&bob));
        assert!(as_role(Some(space(&ann)), &moved).await.is_err(), "content is pushed into another's space");
        Ok(())
    })
}

/// A role that was granted everything there is to grant, which is more than a service's role has.
#[test]
fn the_search_index_serves_the_spaces_entered_and_no_other_ws_12_rv_07() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        for who in [&ann, &bob] {
            make(server, "/v1/packs", who, &json!({ "name": "Secret harbour", "type": "context" })).await?;
        }
        let space = |user: &SignedIn| service_api::ids::Id::uuid(user.user_id).to_string();
        let role = format!("reader_of_{}", server.database);
        let grants = format!(
            "create role {role}; grant usage on schema public to {role};
             grant all on all tables in schema public to {role}; grant all on all functions in schema public to {role}"
        );
        server.sql(&grants).await?;
        let as_role = async |entered: &str, statement: &str| {
            server.sql(&format!("set role {role}; set service.spaces = '{entered}'; {statement}")).await
        };
        let found = "select count(*) from find_packs('context', 'harbour')";
        let stranger = format!("create role stranger_of_{0}; set role stranger_of_{0}; {found}", server.database);
        assert!(server.sql(&stranger).await.is_err(), "a role that was granted nothing searches");
        assert_eq!(as_role("", found).await?.as_deref(), Some("0"), "who has entered nothing finds something");
        assert_eq!(as_role(&space(&ann), found).await?.as_deref(), Some("1"));
        let others = format!("{found} where space_id = '{}'", space(&bob));
        assert_eq!(as_role(&space(&ann), &others).await?.as_deref(), Some("0"), "another's space is searched");
        // Past the functions there is nothing to be had, whatever was granted.
        assert_eq!(as_role(&space(&ann), "select count(*) from pack_search").await?.as_deref(), Some("0"));
        let changed = "with changed as (update pack_search set name = '' returning 1) select count(*) from changed";
        assert_eq!(as_role(&space(&ann), changed).await?.as_deref(), Some("0"));
        let added = "insert into pack_search (space_id, pack_id, shard, pack_type, name, words)
                     select space_id, gen_random_uuid(), shard, 'context', 'a', '' from contents";
        assert!(as_role(&space(&ann), added).await.is_err(), "a row is added by hand");
        // Nothing of another's space is indexed, and what is indexed says what the pack says.
        let pack = server.sql(&format!("select id from contents where space_id = '{}'", space(&bob))).await?;
        let pack = pack.context("no pack")?;
        server.sql("delete from pack_search").await?;
        as_role(&space(&ann), &format!("select index_pack('{}', '{pack}')", space(&bob))).await?;
        assert_eq!(server.sql("select count(*) from pack_search").await?.as_deref(), Some("0"), "pushed elsewhere");
        // A table of the caller's own, in front of ours on the search path, is not what the functions read.
        let shadow = format!("create temporary table pack_search as select * from public.pack_search; {found}");
        assert_eq!(as_role(&space(&bob), &shadow).await?.as_deref(), Some("0"));
        as_role(&space(&bob), &format!("select index_pack('{}', '{pack}')", space(&bob))).await?;
        assert_eq!(as_role(&space(&bob), found).await?.as_deref(), Some("1"));
        server.sql(&format!("drop owned by {role}; drop role {role}")).await.map(drop)
    })
}
