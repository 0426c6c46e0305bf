//! Tests of `service invitation`, and of the members of a workspace.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_api::{ids::UserId, workspaces::Role};
use service_testkit::server::{SignedIn, TestServer};

use crate::machine::{EMAIL, Machine, run};

/// Invites the user of the machine to a workspace of another user. An invitation for the same role would send no second mail.
async fn invite(server: &TestServer, owner: &SignedIn, workspace: &str, role: &str) -> Result<String> {
    let path = format!("/v1/workspaces/{workspace}/invitations");
    let request = server.http.request(reqwest::Method::POST, &path).bearer_auth(&owner.access_token);
    let invited = server.http.send(request.json(&json!({ "email": EMAIL, "role": role }))).await?;
    server.mailbox.next_mail_to(EMAIL).await?;
    Ok(invited.field("id").to_owned())
}

async fn object(machine: &Machine, arguments: &[&str]) -> Result<Value> {
    let ran = machine.run(&[arguments, &["--json"]].concat()).await?;
    serde_json::from_str(&ran.stdout).with_context(|| format!("{ran:?}"))
}

#[test]
fn invitations_are_seen_accepted_declined_and_blocked_rv_02() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        assert_eq!(machine.show(&["invitation", "list"]).await?, "E| No pending invitations.\nexit 0");
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let harbour = server.make_workspace("Harbour", &[(bob.user_id, Role::Owner)]).await?.to_string();
        let id = invite(server, &bob, &harbour, "member").await?;
        let listed = machine.run(&["invitation", "list"]).await?;
        assert!(listed.stdout.starts_with(&format!("{id}\tHarbour\tmember\tbob@acme.test\t")), "{listed:?}");
        assert_eq!(object(machine, &["invitation", "list"]).await?["invitations"][0]["id"], id.as_str());
        assert_eq!(object(machine, &["invitation", "decline", &id]).await?, json!({ "declined": { "id": id } }));
        let gone = machine.show(&["invitation", "accept", "inv_nope", "--yes"]).await?;
        let expected = "E| error: Invitation inv_nope not found.\nE| next: service invitation list\nexit 6";
        assert_eq!(gone, expected);
        let id = invite(server, &bob, &harbour, "viewer").await?;
        let blocked = object(machine, &["invitation", "block", &id]).await?;
        assert_eq!(blocked["blocked"]["workspaceId"], harbour.as_str());
        assert_eq!(object(machine, &["invitation", "blocked"]).await?["blocked"][0]["name"], "Harbour");
        let unblocked = object(machine, &["invitation", "unblock", &harbour]).await?;
        assert_eq!(unblocked, json!({ "unblocked": { "workspaceId": harbour } }));
        let expected = "E| error: Use --yes to accept an invitation without a prompt.\nexit 2";
        assert_eq!(machine.show(&["invitation", "accept", &id]).await?, expected);
        let joined = machine.run(&["invitation", "accept", &id, "--yes"]).await?;
        assert_eq!(joined.code, Some(0), "{joined:?}");
        assert!(joined.stderr.contains(&format!("You joined Harbour ({harbour}).")), "{joined:?}");
        Ok(())
    })
}

#[test]
fn members_are_listed_invited_and_removed_and_leave_rv_02() -> Result<()> {
    run(async |server, machine| {
        let acme = crate::token::sign_in_with_workspace(server, machine).await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let ana: UserId = machine.sign_in()?["user"]["id"].as_str().context("no user")?.parse()?;
        let personal = machine.show(&["workspace", "members"]).await?;
        let expected = "\
E| error: Your personal space has no members.
E| next: Choose a workspace with --workspace-id <id>
exit 2";
        assert_eq!(personal, expected);
        let at = ["--workspace-id", acme.as_str()];
        let with = |arguments: &[&'static str]| [arguments, &["--workspace-id"]].concat();
        let members = machine.run(&[&["workspace", "members"][..], &at].concat()).await?;
        assert!(members.stdout.starts_with(&format!("{ana}\t{EMAIL}\towner\t")), "{members:?}");
        let invite = [&with(&["workspace", "invite", "bob@acme.test", "--role", "viewer"])[..], &[&acme]].concat();
        let invited = object(machine, &invite).await?;
        assert_eq!((&invited["invitation"]["role"], &invited["workspace"]["id"]), (&json!("viewer"), &json!(acme)));
        let id = invited["invitation"]["id"].as_str().context("no invitation")?;
        let path = format!("/v1/invitations/{id}/accept");
        let request = server.http.request(reqwest::Method::POST, &path).bearer_auth(&bob.access_token);
        assert_eq!(server.http.send(request).await?.status, 200);
        let alone = [&with(&["workspace", "leave", "--yes"])[..], &[&acme]].concat();
        let last = machine.run(&alone).await?;
        assert_eq!(last.code, Some(1), "the last owner left: {last:?}");
        let remove = [&with(&["workspace", "remove", "bob@acme.test", "--yes"])[..], &[&acme]].concat();
        assert_eq!(object(machine, &remove).await?["removed"]["userId"], bob.user_id.to_string());
        let again = machine.run(&remove).await?;
        assert_eq!(again.code, Some(6), "{again:?}");
        let harbour =
            server.make_workspace("Harbour", &[(bob.user_id, Role::Owner), (ana, Role::Member)]).await?.to_string();
        let leave = [&with(&["workspace", "leave", "--yes"])[..], &[&harbour]].concat();
        assert_eq!(object(machine, &leave).await?["left"]["id"], harbour.as_str());
        assert_eq!(machine.run(&leave).await?.code, Some(6));
        Ok(())
    })
}
