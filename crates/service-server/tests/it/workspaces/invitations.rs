//! Invitations wait for a decision of the invited user, and tell the workspace nothing but that.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, with_server},
};

use crate::support::workspaces::{accept_all, invite, join, make, members, send};

async fn decide(server: &TestServer, who: &SignedIn, id: &str, decision: &str) -> Result<TestResponse> {
    send(server, "POST", &format!("/v1/invitations/{id}/{decision}"), who, None).await
}

async fn received(server: &TestServer, who: &SignedIn) -> Result<Vec<Value>> {
    let response = send(server, "GET", "/v1/invitations", who, None).await?;
    Ok(response.body["data"].as_array().with_context(|| response.text.clone())?.clone())
}

/// What the workspace sees of its invitations.
async fn pending(server: &TestServer, owner: &SignedIn, workspace: &str) -> Result<Value> {
    let response = send(server, "GET", &format!("/v1/workspaces/{workspace}/invitations"), owner, None).await?;
    ensure!(response.status == 200, "{}", response.text);
    Ok(response.body["data"].clone())
}

async fn events(server: &TestServer, owner: &SignedIn, workspace: &str) -> Result<Vec<Value>> {
    let path = format!("/v1/audit-events?workspaceId={workspace}&limit=100");
    let response = send(server, "GET", &path, owner, None).await?;
    Ok(response.body["data"].as_array().with_context(|| response.text.clone())?.clone())
}

#[test]
fn signing_in_joins_nothing_and_tells_the_workspace_nothing_rv_02() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        let invitation = invite(server, &ann, &id, "bob@acme.test", "owner").await?;
        let mail = server.mailbox.next_mail_to("bob@acme.test").await?;
        assert!(mail.text.contains("https://service.test/workspaces"), "{}", mail.text);
        let before = (pending(server, &ann, &id).await?, events(server, &ann, &id).await?);
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        server.advance(61);
        let bob_again = server.sign_in("bob@acme.test", "read write").await?;
        assert_eq!((pending(server, &ann, &id).await?, events(server, &ann, &id).await?), before);
        assert_eq!(members(server, &ann, &id).await?.len(), 1);
        assert_eq!(send(server, "GET", &format!("/v1/workspaces/{id}"), &bob, None).await?.status, 404);
        let waiting = received(server, &bob).await?;
        assert_eq!(waiting.len(), 1, "{waiting:?}");
        for (name, expected) in [
            ("id", invitation.as_str()),
            ("workspaceId", &id),
            ("workspaceName", "Harbour"),
            ("email", "bob@acme.test"),
            ("role", "owner"),
            ("invitedBy", "ann@acme.test"),
        ] {
            assert_eq!(waiting[0][name], expected, "{name}");
        }
        let joined = decide(server, &bob, &invitation, "accept").await?;
        assert_eq!((joined.status.as_u16(), joined.field("id"), joined.field("role")), (200, &*id, "owner"));
        // The first answer may have been lost.
        assert_eq!(decide(server, &bob_again, &invitation, "accept").await?.text, joined.text);
        assert_eq!(members(server, &ann, &id).await?.len(), 2);
        assert_eq!(pending(server, &ann, &id).await?, json!([]));
        assert_eq!(received(server, &bob).await?, Vec::<Value>::new());
        let told = events(server, &ann, &id).await?;
        let told: Vec<_> = told.iter().filter(|event| event["event"] == "member.joined").collect();
        assert_eq!(told.len(), 1, "joined twice");
        assert!(told[0].get("address").is_none(), "{}", told[0]);
        let stored =
            "select count(coalesce(address, sealed_address::text)) from audit_events where event = 'member.joined'";
        assert_eq!(server.sql(stored).await?.as_deref(), Some("0"), "where a member joined from is kept");
        // Who has left cannot come back by what was used.
        let own = format!("/v1/workspaces/{id}/members/{}", bob.user_id);
        assert_eq!(send(server, "DELETE", &own, &bob, None).await?.status, 204);
        assert_eq!(decide(server, &bob, &invitation, "accept").await?.status, 404);
        Ok(())
    })
}

#[test]
fn a_sender_is_refused_by_their_own_limit_and_never_by_that_of_others() -> Result<()> {
    with_server(async |server| {
        let senders = ["ann@acme.test", "bob@acme.test", "cid@acme.test"];
        let mut responses = Vec::new();
        for sender in senders {
            let who = server.sign_in(sender, "read write").await?;
            let id = make(server, &who, "Harbour").await?;
            // Another role each time: the same invitation again would send no mail.
            for role in ["member", "viewer", "member", "viewer", "member"] {
                responses.push(invited_again(server, &who, &id, "dee@acme.test", role).await?);
            }
            let path = format!("/v1/workspaces/{id}/invitations");
            let sixth = send(server, "POST", &path, &who, Some(&json!({ "email": "dee@acme.test" }))).await?;
            assert_eq!((sixth.status.as_u16(), sixth.error()), (429, "rate_limited"), "{}", sixth.text);
            assert!(sixth.header("ratelimit-policy").is_some_and(|policy| policy.contains("invitations-user-address")));
            // Others are still invited.
            invite(server, &who, &id, "eli@acme.test", "member").await?;
        }
        assert!(responses.windows(2).all(|two| two[0] == two[1]), "{responses:?}");
        // Two senders' mails are sent; the third's wait until the next sign-in.
        let due = "select count(*) from outbox where drop_at > next_attempt_at or attempts > 0";
        let never = server.sql("select count(*) from outbox where attempts = 0 and drop_at <= next_attempt_at").await?;
        assert_eq!(never.as_deref(), Some("5"), "{:?} mails are due", server.sql(due).await?);
        for _ in 0..10 {
            server.mailbox.next_mail_to("dee@acme.test").await?;
        }
        let told = |mail: &&service_testkit::mailbox::Mail| {
            mail.subject.contains("invited") && mail.to.contains(&"dee@acme.test".to_owned())
        };
        assert_eq!(server.mailbox.mails().iter().filter(told).count(), 10);
        let dee = server.sign_in("dee@acme.test", "read write").await?;
        let waiting = received(server, &dee).await?;
        let mut from: Vec<_> = waiting.iter().map(|one| one["invitedBy"].as_str().unwrap_or_default()).collect();
        from.sort_unstable();
        assert_eq!(from, senders);
        Ok(())
    })
}

/// The answer to an invitation, without what differs between any two.
async fn invited_again(
    server: &TestServer,
    ann: &SignedIn,
    workspace: &str,
    person: &str,
    role: &str,
) -> Result<(String, String)> {
    let path = format!("/v1/workspaces/{workspace}/invitations");
    let invited = send(server, "POST", &path, ann, Some(&json!({ "email": person, "role": role }))).await?;
    ensure!(invited.status == 201, "{}", invited.text);
    let mut text = invited.text.replace(person, "").replace(role, "");
    for field in ["id", "createdAt", "expiresAt"] {
        text = text.replace(invited.field(field), "");
    }
    Ok((text, format!("{:?} {:?}", invited.header("content-type"), invited.header("cache-control"))))
}

#[test]
fn declined_blocked_and_without_an_account_look_the_same_to_the_workspace_rv_02() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        let people = ["declines@acme.test", "blocks@acme.test", "unknown@acme.test"];
        let mut ids = Vec::new();
        for person in people {
            ids.push(invite(server, &ann, &id, person, "member").await?);
            server.mailbox.next_mail_to(person).await?;
        }
        let declining = server.sign_in(people[0], "read write").await?;
        let blocking = server.sign_in(people[1], "read write").await?;
        let before = (pending(server, &ann, &id).await?, events(server, &ann, &id).await?);
        for _ in 0..2 {
            assert_eq!(decide(server, &declining, &ids[0], "decline").await?.status, 204);
            let blocked = decide(server, &blocking, &ids[1], "block").await?;
            assert_eq!((blocked.status.as_u16(), blocked.field("name")), (200, "Harbour"), "{}", blocked.text);
        }
        assert_eq!(
            (pending(server, &ann, &id).await?, events(server, &ann, &id).await?),
            before,
            "the workspace sees it"
        );
        for (who, invitation) in [(&declining, &ids[0]), (&blocking, &ids[1])] {
            assert_eq!(received(server, who).await?, Vec::<Value>::new());
            assert_eq!(decide(server, who, invitation, "accept").await?.status, 404);
        }
        // Asked again, all three get the same answer, and the one who blocks gets no mail.
        let mut responses = Vec::new();
        for person in people {
            responses.push(invited_again(server, &ann, &id, person, "viewer").await?);
        }
        assert!(responses.windows(2).all(|two| two[0] == two[1]), "{responses:?}");
        server.mailbox.next_mail_to(people[0]).await?;
        server.mailbox.next_mail_to(people[2]).await?;
        let never = server.sql("select count(*) from outbox where attempts = 0 and drop_at <= next_attempt_at").await?;
        assert_eq!(never.as_deref(), Some("1"), "the mail to the user who blocks the workspace is due");
        let mails = server.mailbox.mails();
        let told =
            mails.iter().filter(|mail| mail.subject.contains("invited") && mail.to.contains(&people[1].to_owned()));
        assert_eq!(told.count(), 1, "the user who blocks the workspace was sent another mail");
        assert_eq!(received(server, &declining).await?.len(), 1, "declining once is not blocking");
        assert_eq!(received(server, &blocking).await?, Vec::<Value>::new());
        assert_eq!(pending(server, &ann, &id).await?.as_array().map(Vec::len), Some(3));
        let blocked = send(server, "GET", "/v1/blocked-workspaces", &blocking, None).await?;
        assert_eq!(
            (blocked.body["data"][0]["workspaceId"].as_str(), blocked.body["data"][1].is_null()),
            (Some(&*id), true)
        );
        for _ in 0..2 {
            let path = format!("/v1/blocked-workspaces/{id}");
            assert_eq!(send(server, "DELETE", &path, &blocking, None).await?.status, 204);
        }
        assert_eq!(accept_all(server, &blocking).await?, 1, "a lifted block still hides the invitation");
        Ok(())
    })
}

#[test]
fn only_the_addressee_decides_and_only_by_a_session_rv_02() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        let invitation = invite(server, &ann, &id, "bob@acme.test", "member").await?;
        server.mailbox.next_mail_to("bob@acme.test").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let eve = server.sign_in("eve@acme.test", "read write").await?;
        for decision in ["accept", "decline", "block"] {
            for who in [&eve, &ann] {
                let foreign = decide(server, who, &invitation, decision).await?;
                let unknown = decide(server, who, "inv_00000000000000000000000000", decision).await?;
                let essence = |response: &TestResponse| {
                    (response.status, response.text.replace(response.field("request_id"), ""))
                };
                assert_eq!((foreign.status.as_u16(), essence(&foreign)), (404, essence(&unknown)), "{decision}");
            }
        }
        assert_eq!(received(server, &eve).await?, Vec::<Value>::new());
        let scopes = json!({ "scopes": ["read", "write"] });
        let (_, token) = crate::support::cli_tokens::make(server, &bob, &scopes).await?;
        let automation = SignedIn { access_token: token, ..server_side(&bob) };
        for path in ["accept", "decline", "block"].map(|decision| format!("/v1/invitations/{invitation}/{decision}")) {
            let refused = send(server, "POST", &path, &automation, None).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (403, "forbidden"), "{path}");
        }
        assert_eq!(send(server, "GET", "/v1/invitations", &automation, None).await?.error(), "forbidden");
        let second = make(server, &ann, "Second").await?;
        invite(server, &ann, &second, "bob@acme.test", "viewer").await?;
        assert_eq!(accept_all(server, &bob).await?, 2);
        Ok(())
    })
}

fn server_side(who: &SignedIn) -> SignedIn {
    SignedIn {
        access_token: String::new(),
        refresh_token: who.refresh_token.clone(),
        user_id: who.user_id,
        grant_id: who.grant_id,
    }
}

#[test]
fn a_hundred_workspaces_are_the_limit_when_accepting_rv_02() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        let invitation = invite(server, &ann, &id, "bob@acme.test", "member").await?;
        let uuid = service_api::ids::Id::uuid(bob.user_id);
        server
            .sql(&format!(
                "insert into memberships (user_id, workspace_id, shard, role, created_at)
                 select '{uuid}', gen_random_uuid(), shard_of('{uuid}'), 'member', now() from generate_series(1, 100)"
            ))
            .await?;
        let full = decide(server, &bob, &invitation, "accept").await?;
        assert_eq!((full.status.as_u16(), full.error()), (409, "conflict"));
        let one = format!("(select ctid from memberships where user_id = '{uuid}' limit 1)");
        server.sql(&format!("update memberships set ended_at = now() where ctid = {one}")).await?;
        assert_eq!(decide(server, &bob, &invitation, "accept").await?.status, 200, "the invitation was used up");
        Ok(())
    })
}

#[test]
fn owners_read_no_network_address_but_their_own_rv_02() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        invite(server, &ann, &id, "bob@acme.test", "owner").await?;
        let bob = join(server, "bob@acme.test").await?;
        let renamed =
            send(server, "PATCH", &format!("/v1/workspaces/{id}"), &bob, Some(&json!({ "name": "Dock" }))).await?;
        assert_eq!(renamed.status, 200);
        for (reader, other) in [(&ann, &bob), (&bob, &ann)] {
            let told = events(server, reader, &id).await?;
            let (own, foreign): (Vec<_>, Vec<_>) =
                told.iter().partition(|event| event["userId"] == reader.user_id.to_string());
            assert!(!own.is_empty() && foreign.iter().any(|event| event["userId"] == other.user_id.to_string()));
            assert!(foreign.iter().all(|event| event.get("address").is_none()), "{foreign:?}");
            assert!(own.iter().any(|event| event["address"] == "127.0.0.1"), "{own:?}");
        }
        let mine = send(server, "GET", "/v1/audit-events?event=invitation.accepted", &bob, None).await?;
        assert_eq!(mine.body["data"][0]["address"], "127.0.0.1", "the user does not see where it came from");
        Ok(())
    })
}

#[test]
fn an_invitation_of_a_disabled_owner_admits_no_user_rv_13() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        let invitation = invite(server, &ann, &id, "bob@acme.test", "member").await?;
        assert_eq!(received(server, &bob).await?.len(), 1);
        // Whichever way the account was disabled: the invitation is judged when it is accepted.
        server.sql("update users set disabled_at = now() where email = 'ann@acme.test'").await?;
        assert_eq!(received(server, &bob).await?, Vec::<Value>::new());
        assert_eq!(decide(server, &bob, &invitation, "accept").await?.status, 404);
        server.sql("update users set disabled_at = null where email = 'ann@acme.test'").await?;
        crate::support::admin::run(server, &["user", "disable", "ann@acme.test"])?;
        crate::support::admin::run(server, &["user", "enable", "ann@acme.test"])?;
        assert_eq!(received(server, &bob).await?, Vec::<Value>::new(), "enabling brought it back");
        assert_eq!(decide(server, &bob, &invitation, "accept").await?.status, 404);
        Ok(())
    })
}

#[test]
fn a_disabled_owner_is_no_owner_who_stays_rv_49() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        invite(server, &ann, &id, "bob@acme.test", "owner").await?;
        let bob = join(server, "bob@acme.test").await?;
        crate::support::admin::run(server, &["user", "disable", "bob@acme.test"])?;
        let own = format!("/v1/workspaces/{id}/members/{}", ann.user_id);
        for (method, body) in [("DELETE", None), ("PATCH", Some(json!({ "role": "member" })))] {
            let refused = send(server, method, &own, &ann, body.as_ref()).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (409, "conflict"), "{method}");
        }
        let other = format!("/v1/workspaces/{id}/members/{}", bob.user_id);
        assert_eq!(send(server, "DELETE", &other, &ann, None).await?.status, 204, "a disabled owner cannot be removed");
        Ok(())
    })
}

#[test]
fn a_user_has_no_more_invitations_waiting_than_can_be_revoked_at_once_rv_05() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        invite(server, &ann, &id, "bob@acme.test", "member").await?;
        // Each id in the shard of its workspace, which the last of the three parts keeps.
        let more = "create temporary table more as
                      select 'guest' || n || '@acme.test' as address,
                             overlay(gen_random_uuid()::text placing substr(id::text, 15, 4) from 15)::uuid as new_id
                        from invitations, generate_series(2, 200) n;
                    insert into invitations (workspace_id, address, id, shard, role, invited_by, created_at, expires_at, made_by)
                    select i.workspace_id, more.address, new_id, shard, role, invited_by, created_at, expires_at, made_by
                      from invitations i, more;
                    insert into sent_invitations (user_id, id, shard, workspace_id, address, made_by, created_at, expires_at)
                    select user_id, new_id, shard, workspace_id, more.address, made_by, created_at, expires_at
                      from sent_invitations, more";
        server.sql(more).await?;
        let path = format!("/v1/workspaces/{id}/invitations");
        let body = json!({ "email": "carl@acme.test", "role": "member" });
        let refused = send(server, "POST", &path, &ann, Some(&body)).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (429, "rate_limited"), "{}", refused.text);
        // All of them go with the session that sent them.
        let next = server.refresh(&ann.refresh_token).await?.field("refresh_token").to_owned();
        server.refresh(&next).await?;
        server.advance(3_600);
        assert_eq!(server.refresh(&ann.refresh_token).await?.status, 400);
        assert_eq!(server.sql("select count(*) from invitations").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn who_reports_a_token_does_not_tell_its_owner_where_they_are_rv_02() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let body = json!({ "name": "deploy" });
        let made = send(server, "POST", "/v1/cli/tokens", &ann, Some(&body)).await?;
        let token = made.field("access_token").to_owned();
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let kept = json!({ "name": "Notes", "type": "context", "text": token, "scope": "personal" });
        assert_eq!(send(server, "POST", "/v1/packs", &bob, Some(&kept)).await?.status, 422);
        server.http.post("/v1/token-leaks", &json!({ "tokens": [token] })).await?;
        let seen = send(server, "GET", "/v1/audit-events?limit=100", &ann, None).await?;
        let seen = seen.body["data"].as_array().context("no events")?;
        for name in ["token.exposed", "token.leaked"] {
            let event = seen.iter().find(|event| event["event"] == name).with_context(|| format!("no {name}"))?;
            assert!(event.get("address").is_none(), "{event}");
        }
        Ok(())
    })
}

#[test]
fn a_repeated_invitation_is_the_same_one_and_mails_once_fh_22() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        let path = format!("/v1/workspaces/{id}/invitations");
        let body = json!({ "email": "bob@acme.test", "role": "member" });
        let ask = async || send(server, "POST", &path, &ann, Some(&body)).await;
        let (first, second) = tokio::try_join!(ask(), ask())?;
        assert_eq!((first.status.as_u16(), second.status.as_u16(), &second.text), (201, 201, &first.text));
        let told = events(server, &ann, &id).await?;
        assert_eq!(told.iter().filter(|event| event["event"] == "member.invited").count(), 1);
        server.mailbox.next_mail_to("bob@acme.test").await?;
        // Declining it is not told by a new one.
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        assert_eq!(decide(server, &bob, first.field("id"), "decline").await?.status, 204);
        assert_eq!(ask().await?.text, first.text);
        // Another role, or ten minutes, make another.
        let viewer = json!({ "email": "bob@acme.test", "role": "viewer" });
        let other = send(server, "POST", &path, &ann, Some(&viewer)).await?;
        assert!(other.status == 201 && other.field("id") != first.field("id"), "{}", other.text);
        server.mailbox.next_mail_to("bob@acme.test").await?;
        server.advance(601);
        let later = send(server, "POST", &path, &ann, Some(&viewer)).await?;
        assert!(later.status == 201 && later.field("id") != other.field("id"), "{}", later.text);
        server.mailbox.next_mail_to("bob@acme.test").await?;
        let mails = server.mailbox.mails();
        assert_eq!(mails.iter().filter(|mail| mail.subject.contains("invited")).count(), 3, "one for each invitation");
        Ok(())
    })
}
