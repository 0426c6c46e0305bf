//! The space that a token brings along, and what roles and scopes allow there.

use anyhow::Result;
use serde_json::{Value, json};
use service_api::{
    ids::{Id as _, WorkspaceId},
    workspaces::Role,
};
use service_server::{flows::revocation::RevocationTransaction, store};
use service_testkit::{
    response::TestResponse,
    server::{Setup, SignedIn, TestServer, otp_exchange, signed_in, with_server},
};

use crate::support::spaces::{Office, all_readers_refuse, seen};

/// With as many codes to one address as a test likes.
fn with_many_codes() -> Setup {
    Setup::default().set("limits.otp_sends_per_address", "1000/60")
}

/// Ann's answer when she asks for a token that names a space, and the same request without the space.
async fn sign_in_to(server: &TestServer, workspace: &str) -> Result<(TestResponse, Value)> {
    let (otp_id, code) = server.request_code("ann@acme.test").await?;
    let plain = otp_exchange(&otp_id, &code, "read");
    let mut body = plain.clone();
    body["workspace_id"] = workspace.into();
    Ok((server.http.post("/oauth/token", &body).await?, plain))
}

fn workspace(id: WorkspaceId, role: &str, because: &str) -> Value {
    json!({ "scope": "workspace", "workspaceId": id, "role": role, "because": because })
}

fn personal(because: &str) -> Value {
    json!({ "scope": "personal", "because": because })
}

#[test]
fn the_request_decides_then_the_token_then_personal_space() -> Result<()> {
    with_server(async |server| {
        let office = Office::open(server).await?;
        let (first, third) = (office.first, office.third);
        let none = office.ann.access_token.clone();
        let (in_first, in_third) = (office.anns_token_for(server, first)?, office.anns_token_for(server, third)?);
        let (to_first, to_third) = (format!("?workspaceId={first}"), format!("?workspaceId={third}"));
        let own = "Ann's own";
        for (token, query, space, project) in [
            (&none, "", personal("personal"), own),
            (&none, "?workspaceId=personal", personal("query"), own),
            (&none, &to_first, workspace(first, "member", "query"), "Of the first"),
            (&none, &to_third, workspace(third, "viewer", "query"), "Of the third"),
            (&in_first, "", workspace(first, "member", "token"), "Of the first"),
            (&in_first, "?workspaceId=personal", personal("query"), own),
            (&in_first, &to_first, workspace(first, "member", "query"), "Of the first"),
            (&in_first, &to_third, workspace(third, "viewer", "query"), "Of the third"),
            (&in_third, "", workspace(third, "viewer", "token"), "Of the third"),
            (&in_third, &to_first, workspace(first, "member", "query"), "Of the first"),
        ] {
            assert_eq!(seen(server, query, token).await?, (space, vec![project.to_owned()]), "{query}");
        }
        Ok(())
    })
}

#[test]
fn a_sign_in_can_name_a_space_of_its_own() -> Result<()> {
    with_many_codes().run(async |server| {
        let office = Office::open(server).await?;
        let (response, _) = sign_in_to(server, &office.third.to_string()).await?;
        let SignedIn { access_token, .. } = signed_in(&response)?;
        assert_eq!(response.field("workspace_id"), office.third.to_string());
        let expected = (workspace(office.third, "viewer", "token"), vec!["Of the third".to_owned()]);
        assert_eq!(seen(server, "", &access_token).await?, expected);
        Ok(())
    })
}

#[test]
fn a_sign_in_cannot_name_a_space_that_its_user_is_not_in_ws_10() -> Result<()> {
    with_many_codes().run(async |server| {
        let office = Office::open(server).await?;
        let grants = server.sql("select count(*) from grants").await?;
        let mut bodies = Vec::new();
        for workspace in [office.second, office.unknown, office.bob.user_id.uuid().into()] {
            let (response, _) = sign_in_to(server, &workspace.to_string()).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"));
            assert!(response.body.get("access_token").is_none() && response.body.get("refresh_token").is_none());
            bodies.push(response.text.replace(response.field("request_id"), ""));
            assert_eq!(server.sql("select count(*) from grants").await?, grants, "a sign-in was recorded");
        }
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "the answer tells workspaces apart");
        for workspace in ["personal", "", "wsp_", "WSP_01h2xcejqtf2nbrexx3vqjhp41", "%", "x"] {
            let (response, _) = sign_in_to(server, workspace).await?;
            // Empty is the same as left out, as RFC 6749 section 3.2 has it.
            let expected = if workspace.is_empty() { (200, "") } else { (400, "invalid_request") };
            assert_eq!((response.status.as_u16(), response.error()), expected, "{workspace:?}");
        }
        // The refusal says that the code still works, and it does.
        let (_, without) = sign_in_to(server, &office.second.to_string()).await?;
        assert_eq!(server.http.post("/oauth/token", &without).await?.status, 200);
        Ok(())
    })
}

#[test]
fn viewers_read_and_a_changed_role_counts_at_once() -> Result<()> {
    with_server(async |server| {
        let office = Office::open(server).await?;
        let token = office.anns_token_for(server, office.third)?;
        for (role, text) in [(Role::Viewer, "viewer"), (Role::Member, "member"), (Role::Owner, "owner")] {
            let mut transaction = RevocationTransaction::begin(&server.app, server.now()).await?;
            store::memberships::update_role(transaction.db(), office.ann.user_id, office.third, role).await?;
            transaction.announce_role(office.ann.user_id, office.third)?;
            transaction.commit().await?;
            let expected = (workspace(office.third, text, "token"), vec!["Of the third".to_owned()]);
            assert_eq!(seen(server, "", &token).await?, expected, "{role:?}");
        }
        Ok(())
    })
}

#[test]
fn a_token_that_may_only_write_reads_nothing_anywhere_ws_07() -> Result<()> {
    with_server(async |server| {
        let office = Office::open(server).await?;
        server.advance(61);
        let ann = server.sign_in("ann@acme.test", "write").await?;
        // Who may not read does not learn either which workspaces there are.
        let ids = [office.first, office.second, office.third, office.unknown];
        let mut queries = vec![String::new(), "?workspaceId=personal".into()];
        queries.extend(ids.map(|id| format!("?workspaceId={id}")));
        for query in &queries {
            all_readers_refuse(server, query, &ann.access_token, "insufficient_scope").await?;
        }
        Ok(())
    })
}
