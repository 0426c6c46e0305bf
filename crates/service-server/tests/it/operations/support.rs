//! The commands with which operators help users: what each shows and changes, and what the audit log records of it.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_api::workspaces::Role;
use service_testkit::server::{Setup, SignedIn, TestServer};

use crate::support::{
    admin::{admin, run, with_reason},
    cli_tokens,
    mail::until,
    otp::ask,
};

/// Runs a command with `--json`; returns what it printed.
fn json(server: &TestServer, arguments: &[&str]) -> Result<Value> {
    let printed = run(server, &[&with_reason(arguments)[..], &["--json"]].concat())?;
    serde_json::from_str(&printed).with_context(|| printed)
}

/// The events with this name that operators caused: the affected user, the subject and the details.
async fn events(server: &TestServer, name: &str) -> Result<Vec<Value>> {
    let sql = format!(
        "select coalesce(json_agg(json_build_object('user', user_id, 'subject', subject, 'details', details) order by id), '[]')
           from audit_events where event = '{name}' and details ? 'operator'"
    );
    Ok(serde_json::from_str(&server.sql(&sql).await?.context("no row")?)?)
}

async fn create_token(server: &TestServer, user: &SignedIn) -> Result<(String, String)> {
    let (id, token) = cli_tokens::make(server, user, &json!({ "name": "Build server", "scope": "read" })).await?;
    server.leaks.register("CLI token", &token);
    Ok((id, token))
}

#[test]
fn every_look_at_an_account_names_its_operator_and_a_reason() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (token_id, _) = create_token(server, &ann).await?;
        let user_id = ann.user_id.to_string();
        let commands: [&[&str]; 5] = [
            &["user", "find", "ann@acme.test"],
            &["user", "show", &user_id],
            &["user", "sessions", "ann@acme.test"],
            &["user", "tokens", &token_id],
            &["user", "events", "ann@acme.test"],
        ];
        for command in commands {
            let (success, printed) = admin(server, command)?;
            ensure!(!success && printed.contains("needs --reason"), "{command:?}: {printed}");
        }
        ensure!(events(server, "support.viewed").await?.is_empty(), "a refused command was recorded");
        for command in commands {
            let printed = run(server, &with_reason(command))?;
            server.leaks.assert_clean("support", printed.as_bytes());
        }
        let recorded = events(server, "support.viewed").await?;
        let viewed: Vec<_> = recorded.iter().map(|event| event["details"]["viewed"].clone()).collect();
        assert_eq!(viewed, ["user", "account", "sessions", "cli tokens", "events"]);
        for event in recorded {
            // The user does not read that an operator looks into an abuse.
            assert_eq!((&event["user"], &event["subject"]), (&Value::Null, &json!(user_id)));
            let details = &event["details"];
            assert_eq!((&details["operator"], &details["operatorReason"]), (&json!("olga"), &json!("ticket 4711")));
        }
        Ok(())
    })
}

#[test]
fn an_account_is_found_by_what_a_log_names_and_shown_without_addresses() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (token_id, _) = create_token(server, &ann).await?;
        let user_id = ann.user_id.to_string();
        let sessions = json(server, &["user", "sessions", "ann@acme.test"])?;
        let session_id = sessions["data"][0]["id"].as_str().context("no session")?.to_owned();
        assert_eq!(sessions["data"][0]["lastUsedFrom"], "127.0.0.0/24");
        for whom in ["ANN@acme.test", &user_id, &session_id, &token_id] {
            let found = json(server, &["user", "find", whom])?;
            assert_eq!((&found["id"], &found["email"]), (&json!(user_id), &json!("ann@acme.test")), "{whom}");
        }
        let shown = json(server, &["user", "show", "ann@acme.test"])?;
        assert_eq!(
            (&shown["sessions"], &shown["cliTokens"], &shown["disabled"]),
            (&json!(1), &json!(1), &json!(false))
        );
        ensure!(shown["lastSignInAt"].is_string(), "{shown}");
        let tokens = json(server, &["user", "tokens", "ann@acme.test"])?;
        assert_eq!((&tokens[0]["id"], &tokens[0]["status"]), (&json!(token_id), &json!("active")));
        let listed = json(server, &["user", "events", "ann@acme.test"])?;
        let listed = listed.as_array().context("no list")?;
        ensure!(listed.iter().any(|event| event["event"] == "cli_token.created"), "{listed:?}");
        ensure!(listed.iter().all(|event| event["address"] != "127.0.0.1"), "{listed:?}");

        for (whom, answer) in
            [("bob@acme.test", "user not found"), ("4711", "4711 is not an email address, nor the ID")]
        {
            let (success, printed) = admin(server, &with_reason(&["user", "show", whom]))?;
            ensure!(!success && printed.contains(answer), "{printed}");
        }
        // An operator who tries addresses is seen.
        let recorded = events(server, "support.viewed").await?;
        let last = recorded.last().context("no event")?;
        ensure!(last["details"]["found"] == false && last["subject"].is_null(), "{last}");
        Ok(())
    })
}

#[test]
fn what_a_stolen_session_made_is_revoked_also_after_it_signed_out() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let workspace = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?;
        let body = json!({ "name": "Build server", "workspaceId": workspace });
        let (token_id, token) = cli_tokens::make(server, &ann, &body).await?;
        server.leaks.register("CLI token", &token);
        let signed_out = json!({ "token": ann.refresh_token, "client_id": "service-cli" });
        assert_eq!(server.http.post("/oauth/revoke", &signed_out).await?.status, 200);
        let id = ann.grant_id.to_string();
        assert_eq!(json(server, &["session", "revoke", &id])?["revokedToo"], json!([token_id]));
        while server.http.get("/v1/whoami", Some(&token)).await?.status == 200 {}

        // The owners of a workspace see that one of its tokens was revoked.
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        server.add_member(workspace, bob.user_id, Role::Owner).await?;
        let path = format!("/v1/audit-events?workspaceId={workspace}");
        let seen = server.http.get(&path, Some(&bob.access_token)).await?;
        ensure!(seen.text.contains("cli_token.revoked") && !seen.text.contains("olga"), "{}", seen.text);
        Ok(())
    })
}

#[test]
fn a_session_that_an_operator_revokes_takes_what_it_made_along() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let other = server.sign_in("ann@acme.test", "read").await?;
        let (token_id, token) = create_token(server, &ann).await?;
        let sessions = json(server, &["user", "sessions", "ann@acme.test"])?;
        let oldest = sessions["data"].as_array().and_then(|list| list.last()).context("no session")?;
        let session_id = oldest["id"].as_str().context("no id")?.to_owned();

        let revoked = json(server, &["session", "revoke", &session_id])?;
        assert_eq!(revoked, json!({ "revoked": session_id, "revokedToo": [token_id], "kept": [] }));
        for refused in [&ann.access_token, &token] {
            while server.http.get("/v1/whoami?workspaceId=personal", Some(refused)).await?.status == 200 {}
            let response = server.http.get("/v1/whoami?workspaceId=personal", Some(refused)).await?;
            assert_eq!(response.body["details"]["reason"], "revoked_by_admin", "{}", response.text);
        }
        assert_eq!(server.http.get("/v1/whoami?workspaceId=personal", Some(&other.access_token)).await?.status, 200);
        assert_eq!(events(server, "session.ended").await?.len(), 1);
        assert_eq!(events(server, "cli_token.revoked").await?.len(), 1);

        // The user reads what happened, and not which operator did it.
        let own = server.http.get("/v1/audit-events", Some(&other.access_token)).await?;
        let ended = own.body["data"].as_array().context("no events")?.iter().find(|e| e["event"] == "session.ended");
        ensure!(ended.is_some() && !own.text.contains("olga") && !own.text.contains("4711"), "{}", own.text);

        for id in [&session_id, "grant_01m955vw00fjqrz47smcqrkmzz"] {
            let (success, printed) = admin(server, &with_reason(&["session", "revoke", id]))?;
            ensure!(!success && printed.contains("was not found, or is revoked already"), "{printed}");
        }
        Ok(())
    })
}

#[test]
fn an_operator_sees_a_limit_that_is_reached_and_opens_it() -> Result<()> {
    let setup = Setup::default().on_system_clock().set("limits.otp_sends_per_address", "2/3600");
    setup.set("limits.otp_sends_per_address_and_network", "2/3600").run(async |server| {
        let status = async || Ok::<_, anyhow::Error>(ask(server, "ann@acme.test").await?.status.as_u16());
        assert_eq!([status().await?, status().await?, status().await?], [201, 201, 429]);
        let whom = ["ann@acme.test", "--from", "127.0.0.1"];
        let state = |shown: &Value, name: &str| -> Result<Value> {
            let listed = shown.as_array().and_then(|list| list.iter().find(|limit| limit["limit"] == name));
            listed.cloned().with_context(|| shown.to_string())
        };
        let shown = json(server, &[&["limit", "show"], &whom[..]].concat())?;
        for name in ["otp-address", "otp-address-network"] {
            let reached = state(&shown, name)?;
            ensure!(reached["used"] == 1.0 && reached["retryAfter"].as_u64() > Some(3_000), "{reached}");
        }
        ensure!(state(&shown, "otp-network")?["retryAfter"].is_null(), "{shown}");
        json(server, &[&["limit", "reset"], &whom[..]].concat())?;
        assert_eq!(status().await?, 201);
        let recorded = events(server, "limit.reset").await?;
        ensure!(recorded.len() == 1 && recorded[0]["details"]["operatorReason"] == "ticket 4711", "{recorded:?}");
        ensure!(!format!("{recorded:?}").contains("ann@acme.test"), "{recorded:?}");
        ensure!(recorded[0]["details"]["operatorLimited"][0] == "127.0.0.0/24", "{recorded:?}");

        let network = json(server, &["limit", "show", "127.0.0.1"])?;
        ensure!(state(&network, "otp-network")?["network"] == "127.0.0.1/32", "{network}");
        let (success, printed) = admin(server, &with_reason(&["limit", "show", "4711"]))?;
        ensure!(!success && printed.contains("neither an email address nor a network address"), "{printed}");
        Ok(())
    })
}

#[test]
fn mail_that_waits_is_listed_without_its_text_and_sent_again() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        // A reply of the kind that lets a node try again later.
        server.mailbox.refuse(Some("451 4.3.0 later"));
        for address in ["ann@acme.test", "bob@other.test"] {
            assert_eq!(ask(server, address).await?.status, 201);
        }
        until(server, "select count(*) = 2 and min(attempts) > 0 from outbox").await?;
        server
            .sql("update outbox set next_attempt_at = next_attempt_at + interval '5 minutes' where shard >= 0")
            .await?;
        server.mailbox.refuse(None);
        let waiting = json(server, &["mail", "list", "--to", "ann@acme.test"])?;
        assert_eq!((&waiting[0]["to"], &waiting[0]["kind"]), (&json!("ann@acme.test"), &json!("sign-in code")));
        assert_eq!(waiting.as_array().map(Vec::len), Some(1));
        let all = json(server, &["mail", "list"])?.to_string();
        ensure!(all.contains("…@other.test") && all.contains("…@acme.test"), "{all}");
        ensure!(!all.contains("ann") && !all.contains("bob"), "{all}");

        let id = waiting[0]["id"].as_str().context("no id")?;
        assert_eq!(json(server, &["mail", "resend", id])?, json!({ "mails": 1 }));
        let code = server.mailbox.next_code_to("ann@acme.test").await?;
        server.leaks.register("otp code", &code);
        until(server, "select count(*) = 1 from outbox").await?;
        assert_eq!(json(server, &["mail", "resend", "--all"])?, json!({ "mails": 1 }));
        let code = server.mailbox.next_code_to("bob@other.test").await?;
        server.leaks.register("otp code", &code);
        assert_eq!(events(server, "mail.resent").await?.len(), 2);
        let (success, printed) = admin(server, &with_reason(&["mail", "resend", id]))?;
        ensure!(!success && printed.contains("no such mail waits"), "{printed}");
        Ok(())
    })
}
