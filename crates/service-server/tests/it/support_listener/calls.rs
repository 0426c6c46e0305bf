//! The calls of the support listener return what the commands print, and record which tool named which operator.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_server::crypto::random;
use service_testkit::server::{Setup, TestServer};

use crate::support::{
    admin::{admin, run},
    authority::Authority,
    cli_tokens,
    forge::public_jwk,
    mail::until,
    otp::ask,
    support_tool::{SupportTool, with_listener},
};

const REASON: [&str; 4] = ["--operator", "olga", "--reason", "ticket 1"];

fn printed(server: &TestServer, arguments: &[&str]) -> Result<Value> {
    let printed = run(server, &[arguments, &REASON[..], &["--json"]].concat())?;
    serde_json::from_str(&printed).with_context(|| printed)
}

/// The result of a call, which must succeed.
async fn called(server: &TestServer, tool: &SupportTool, path: &str, fields: Value) -> Result<Value> {
    let response = tool.call(server, path, &fields).await?;
    ensure!(response.status == 200, "{path}: {} {}", response.status, response.body);
    Ok(response.body)
}

#[test]
fn a_call_returns_what_its_command_prints() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default().on_system_clock(), &authority)?.run(async |server| {
        let (ann, other) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("ann@acme.test", "read write").await?,
        );
        let (_, token) = cli_tokens::make(server, &ann, &json!({ "name": "Build server", "scope": "read" })).await?;
        server.leaks.register("CLI token", &token);
        let tool = SupportTool::register(server, &authority).await?;
        for view in ["find", "show", "sessions", "tokens", "events"] {
            let result = called(server, &tool, &format!("/v1/user/{view}"), json!({ "whom": "ann@acme.test" })).await?;
            assert_eq!(result, printed(server, &["user", view, "ann@acme.test"])?, "user {view}");
        }
        let newest = called(server, &tool, "/v1/user/events", json!({ "whom": "ann@acme.test", "limit": 1 })).await?;
        assert_eq!(newest, printed(server, &["user", "events", "ann@acme.test", "--limit", "1"])?);

        let whom = json!({ "whom": "ann@acme.test", "from": "127.0.0.1" });
        let shown = called(server, &tool, "/v1/limit/show", whom.clone()).await?;
        let names = |shown: &Value| -> Result<Vec<Value>> {
            Ok(shown.as_array().context("no list")?.iter().map(|limit| limit["limit"].clone()).collect())
        };
        let by_command = printed(server, &["limit", "show", "ann@acme.test", "--from", "127.0.0.1"])?;
        assert_eq!(names(&shown)?, names(&by_command)?);
        let reset = called(server, &tool, "/v1/limit/reset", whom).await?;
        assert_eq!(reset, printed(server, &["limit", "reset", "ann@acme.test"])?);

        let revoked = called(server, &tool, "/v1/session/revoke", json!({ "id": other.grant_id })).await?;
        assert_eq!(revoked, json!({ "revoked": other.grant_id, "revokedToo": [], "kept": [] }));
        while server.http.get("/v1/whoami", Some(&other.access_token)).await?.status == 200 {}
        let again = tool.call(server, "/v1/session/revoke", &json!({ "id": other.grant_id })).await?;
        assert_eq!(again.error(), (404, "not_found"));

        server.mailbox.refuse(Some("451 4.3.0 later"));
        assert_eq!(ask(server, "bob@acme.test").await?.status, 201);
        until(server, "select count(*) = 1 and min(attempts) > 0 from outbox").await?;
        server
            .sql("update outbox set next_attempt_at = next_attempt_at + interval '5 minutes' where shard >= 0")
            .await?;
        server.mailbox.refuse(None);
        for (fields, arguments) in
            [(json!({}), vec![]), (json!({ "to": "bob@acme.test" }), vec!["--to", "bob@acme.test"])]
        {
            let listed = called(server, &tool, "/v1/mail/list", fields).await?;
            assert_eq!(listed, printed(server, &[&["mail", "list"], &arguments[..]].concat())?);
        }
        let waiting = called(server, &tool, "/v1/mail/list", json!({ "to": "bob@acme.test" })).await?;
        assert_eq!(
            called(server, &tool, "/v1/mail/resend", json!({ "id": waiting[0]["id"] })).await?,
            json!({ "mails": 1 })
        );
        let code = server.mailbox.next_code_to("bob@acme.test").await?;
        server.leaks.register("otp code", &code);
        for wrong in [json!({}), json!({ "id": "x" }), json!({ "id": waiting[0]["id"], "all": true })] {
            assert_eq!(tool.call(server, "/v1/mail/resend", &wrong).await?.error(), (422, "validation_failed"));
        }
        Ok(())
    })
}

#[test]
fn the_audit_log_names_the_operator_and_the_tool_and_the_user_sees_neither() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default(), &authority)?.run(async |server| {
        let (ann, other) = (server.sign_in("ann@acme.test", "read").await?, server.sign_in("ann@acme.test", "read").await?);
        let tool = SupportTool::register(server, &authority).await?;
        called(server, &tool, "/v1/user/show", json!({ "whom": "ann@acme.test" })).await?;
        server.advance(1);
        assert_eq!(tool.call(server, "/v1/user/show", &json!({ "whom": "eve@acme.test" })).await?.status, 404);
        server.advance(1);
        called(server, &tool, "/v1/session/revoke", json!({ "id": other.grant_id })).await?;
        let events = server
            .sql(
                "select json_agg(json_build_object('event', event, 'details', details, 'request', request_id) order by id)
                   from audit_events where details ? 'operatorClient'",
            )
            .await?;
        let events: Value = serde_json::from_str(&events.context("no events")?)?;
        let names: Vec<_> = events.as_array().context("no list")?.iter().map(|event| event["event"].clone()).collect();
        assert_eq!(names, ["support.viewed", "support.viewed", "session.ended"]);
        assert_eq!(events[1]["details"]["found"], false);
        for event in events.as_array().context("no list")? {
            let details = &event["details"];
            assert_eq!(
                (&details["operator"], &details["operatorReason"], &details["operatorClient"]),
                (&json!("ann.smith"), &json!("ticket 4711"), &json!(tool.id))
            );
            ensure!(event["request"].as_str().is_some_and(|id| id.starts_with("req_")), "{event}");
        }
        let own = server.http.get("/v1/audit-events", Some(&ann.access_token)).await?;
        ensure!(own.text.contains("session.ended"), "{}", own.text);
        for hidden in ["ann.smith", "4711", "supc_", "operator"] {
            ensure!(!own.text.contains(hidden), "{hidden}: {}", own.text);
        }
        Ok(())
    })
}

#[test]
fn operators_create_list_and_revoke_support_clients() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default().on_system_clock(), &authority)?.run(async |server| {
        let folder = tempfile::tempdir()?;
        let file = |name: &str, keys: Value| -> Result<String> {
            let path = folder.path().join(name);
            fs::write(&path, json!({ "keys": keys }).to_string())?;
            Ok(path.display().to_string())
        };
        let key = public_jwk(&random::signing_key()?, "one")?;
        let right = file("right.json", json!([key]))?;
        let create = |name: &str, file: &str| {
            let arguments = ["support-client", "create", "--name", name, "--jwks-file", file];
            admin(server, &[&arguments[..], &REASON[..]].concat())
        };
        let mut private = key.clone();
        private["d"] = "AAAA".into();
        let rsa = json!({ "kty": "RSA", "kid": "r", "n": "AAAA", "e": "AQAB" });
        for (what, name, keys, said) in [
            ("a private key", "Tool", json!([private]), "use public keys only"),
            ("another kind of key", "Tool", json!([rsa]), "use P-256 keys for ES256, or Ed25519 keys for EdDSA"),
            ("no key", "Tool", json!([]), "has no keys"),
            ("no name", " ", json!([key]), "the name is empty"),
        ] {
            let (success, printed) = create(name, &file("wrong.json", keys)?)?;
            ensure!(!success && printed.contains(said), "{what}: {printed}");
        }
        let (success, printed) = admin(server, &["support-client", "create", "--name", "Tool", "--jwks-file", &right])?;
        ensure!(!success && printed.contains("needs --reason"), "{printed}");

        let (success, printed) = create("Helpdesk", &right)?;
        ensure!(success, "{printed}");
        let id = printed.trim().strip_prefix("client_id: ").context("no id")?.to_owned();
        let listed = run(server, &["support-client", "list"])?;
        ensure!(listed.contains(&id) && listed.contains("valid") && listed.contains("Helpdesk"), "{listed}");
        let revoke = [&["support-client", "revoke", &id], &REASON[..]].concat();
        run(server, &revoke)?;
        ensure!(run(server, &["support-client", "list"])?.contains("revoked"), "not listed as revoked");
        let (success, printed) = admin(server, &revoke)?;
        ensure!(!success && printed.contains("not found, or already revoked"), "{printed}");
        let sql = "select string_agg(concat_ws(' ', event, subject, details ->> 'operator'), ', ' order by id)
                     from audit_events where event like 'support_client.%'";
        let expected = format!("support_client.created {id} olga, support_client.revoked {id} olga");
        assert_eq!(server.sql(sql).await?, Some(expected));
        Ok(())
    })
}
