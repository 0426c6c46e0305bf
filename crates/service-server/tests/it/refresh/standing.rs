//! Refreshing when something else has changed: the user, the client, the workspace, the database, the root key.

use anyhow::{Context as _, Result};
use service_api::{
    ids::{Id as _, UserId},
    workspaces::Role,
};
use service_rules::email::Address;
use service_server::flows::{operator::Operator, revocation};
use service_testkit::{
    server::{Setup, SignedIn, TestServer, otp_exchange, refresh_body, signed_in, with_server},
    settings::Settings,
};

use crate::support::refresh::{check_refused, column, refreshed};

/// Signs Ann in for a workspace that she owns.
async fn sign_in_for_workspace(server: &TestServer) -> Result<(SignedIn, service_api::ids::WorkspaceId)> {
    let ann = server.sign_in("ann@acme.test", "read").await?;
    let workspace = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?;
    server.advance(61);
    let (otp_id, code) = server.request_code("ann@acme.test").await?;
    let mut body = otp_exchange(&otp_id, &code, "read");
    body["workspace_id"] = workspace.to_string().into();
    Ok((signed_in(&server.http.post("/oauth/token", &body).await?)?, workspace))
}

async fn user_is_disabled(server: &TestServer, id: UserId, disabled: bool) -> Result<()> {
    let at = if disabled { "'2026-01-01Z'" } else { "null" };
    server.sql(&format!("update users set disabled_at = {at} where id = '{}'", id.uuid())).await.map(drop)
}

#[test]
fn a_refresh_ends_with_the_user_rf_10() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        // By the row alone, and it comes back with it.
        user_is_disabled(server, ann.user_id, true).await?;
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("user_disabled"));
        user_is_disabled(server, ann.user_id, false).await?;
        let ann = refreshed(server, &ann.refresh_token).await?;
        // By the operator, for good.
        let address = Address::parse("ann@acme.test").ok().context("no address")?;
        revocation::disable_user(&server.app, &Operator::default(), &address).await?;
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("user_disabled"));
        revocation::enable_user(&server.app, &Operator::default(), &address).await?;
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("user_disabled"));
        server.advance(61);
        let again = server.sign_in("ann@acme.test", "read").await?;
        refreshed(server, &again.refresh_token).await.map(drop)
    })
}

#[test]
fn a_disabled_client_refreshes_nothing_and_loses_nothing_rf_10_tk_11() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        server.sql("update clients set disabled_at = '2026-01-01Z' where id = 'service-cli'").await?;
        let response = server.refresh(&ann.refresh_token).await?;
        assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_client"));
        server.sql("update clients set disabled_at = null where id = 'service-cli'").await?;
        refreshed(server, &ann.refresh_token).await.map(drop)
    })
}

#[test]
fn a_refresh_ends_with_the_membership_and_never_falls_to_personal_space_rf_10() -> Result<()> {
    with_server(async |server| {
        let (ann, workspace) = sign_in_for_workspace(server).await?;
        let next = server.refresh(&ann.refresh_token).await?;
        assert_eq!(next.field("workspace_id"), workspace.to_string());
        let next = signed_in(&next)?;
        revocation::remove_member(&server.app, &Operator::default(), ann.user_id, workspace).await?;
        check_refused(&server.refresh(&next.refresh_token).await?, Some("workspace_removed"));
        // Back in it, the old session stays ended.
        server.sql("update memberships set ended_at = null").await?;
        check_refused(&server.refresh(&next.refresh_token).await?, Some("workspace_removed"));
        Ok(())
    })
}

#[test]
fn a_refresh_ends_with_the_workspace_rf_10() -> Result<()> {
    with_server(async |server| {
        let (ann, workspace) = sign_in_for_workspace(server).await?;
        // By the rows alone.
        server.sql("update memberships set ended_at = created_at").await?;
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("workspace_removed"));
        server.sql("update memberships set ended_at = null").await?;
        let next = refreshed(server, &ann.refresh_token).await?;
        revocation::delete_workspace(&server.app, &Operator::default(), workspace).await?;
        check_refused(&server.refresh(&next.refresh_token).await?, Some("workspace_removed"));
        Ok(())
    })
}

#[test]
fn audience_and_workspace_stay_those_of_the_grant_rf_14() -> Result<()> {
    with_server(async |server| {
        let (ann, workspace) = sign_in_for_workspace(server).await?;
        let ask = async |name: &str, value: &str| {
            let mut body = refresh_body(&ann.refresh_token);
            body[name] = value.into();
            server.http.post("/oauth/token", &body).await
        };
        let before = column(server, ann.grant_id, "grants.*::text || xmin::text").await?;
        for resource in ["https://service.test/mcp", "https://evil.test", "https://service.test/v1//", "x"] {
            let response = ask("resource", resource).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_target"), "{resource}");
        }
        for other in ["personal", "wsp_00000000000000000000000000", "x"] {
            let response = ask("workspace_id", other).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"), "{other}");
        }
        assert_eq!(column(server, ann.grant_id, "grants.*::text || xmin::text").await?, before);
        assert_eq!(ask("resource", "https://service.test/v1").await?.status, 200);
        let same = ask("workspace_id", &workspace.to_string()).await?;
        let next = signed_in(&same)?;
        assert_eq!(server.http.get("/v1/whoami", Some(&next.access_token)).await?.status, 200);
        let plain = server.refresh(&next.refresh_token).await?;
        assert_eq!(plain.field("workspace_id"), workspace.to_string());
        Ok(())
    })
}

/// A storage error on the write that ends a grant must not be told as if it had been ended (fosite, CVE-2020-15223).
#[test]
fn if_ending_a_grant_cannot_be_written_the_answer_is_503_rf_13() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let second = refreshed(server, &ann.refresh_token).await?;
        let third = refreshed(server, &second.refresh_token).await?;
        for table in ["revocations", "audit_events", "outbox", "grants"] {
            let held = server.app.database.begin().await?;
            held.execute(&format!("lock table {table} in share mode"), &[]).await?;
            let response = server.refresh(&ann.refresh_token).await?;
            assert_eq!((response.status.as_u16(), response.error()), (503, "temporarily_unavailable"), "{table}");
            assert!(response.header("retry-after").is_some());
            drop(held);
            assert_eq!(column(server, ann.grant_id, "revoked_at").await?, None, "{table}");
        }
        assert_eq!(server.http.get("/v1/whoami", Some(&third.access_token)).await?.status, 200);
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("replayed"));
        Ok(())
    })
}

#[test]
fn a_rotation_that_the_database_lost_is_believed_and_recorded() -> Result<()> {
    with_server(async |server| {
        let first = server.sign_in("ann@acme.test", "read").await?;
        let second = refreshed(server, &first.refresh_token).await?;
        let saved = column(server, first.grant_id, "base || ',' || issued").await?.context("no row")?;
        let third = refreshed(server, &second.refresh_token).await?;
        let fourth = refreshed(server, &third.refresh_token).await?;
        // As after a failover: the row of two rotations ago.
        let (base, issued) = saved.split_once(',').context("no row")?;
        let restore =
            format!("update grants set base = {base}, issued = {issued} where id = '{}'", first.grant_id.uuid());
        server.sql(&restore).await?;
        let fifth = refreshed(server, &fourth.refresh_token).await?;
        let events =
            server.sql("select details->>'presented' from audit_events where event = 'refresh.fast_forwarded'");
        assert_eq!(events.await?.as_deref(), Some("4"));
        // What the client has moved on from is a replay again.
        let sixth = refreshed(server, &fifth.refresh_token).await?;
        check_refused(&server.refresh(&third.refresh_token).await?, Some("replayed"));
        check_refused(&server.refresh(&sixth.refresh_token).await?, Some("replayed"));
        Ok(())
    })
}

#[test]
fn what_a_restore_brought_back_to_life_ends_with_the_epoch() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read").await?;
        let path = format!("/v1/sessions/{}", ann.grant_id);
        let request = server.http.request(reqwest::Method::DELETE, &path).bearer_auth(&ann.access_token);
        assert_eq!(server.http.send(request).await?.status, 204);
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("revoked_by_user"));
        // The database of before the revocation, as a backup has it; only its operator knows that it is old.
        server.sql("update grants set revoked_at = null, revoked_because = null").await?;
        server.sql("delete from revocations").await?;
        revocation::bump_epoch(&server.app, &Operator::default()).await?;
        for session in [&ann, &bob] {
            check_refused(&server.refresh(&session.refresh_token).await?, Some("revoked_by_admin"));
            assert_eq!(server.http.get("/v1/whoami", Some(&session.access_token)).await?.status, 401);
        }
        // Who signs in at the same moment gets no session that is over already.
        let (otp_id, code) = server.request_code("eve@acme.test").await?;
        let early = server.exchange(&otp_id, &code, "read").await?;
        assert_eq!((early.status.as_u16(), early.error()), (503, "temporarily_unavailable"));
        server.advance(61);
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200);
        let again = server.sign_in("ann@acme.test", "read").await?;
        assert_eq!(server.http.get("/v1/whoami", Some(&again.access_token)).await?.status, 200);
        refreshed(server, &again.refresh_token).await.map(drop)
    })
}

#[test]
fn a_new_root_key_takes_over_and_every_token_goes_on() -> Result<()> {
    let old = format!("1:{}", Settings::random_root_key()?);
    let new = format!("2:{}", Settings::random_root_key()?);
    Setup::default().set("secrets.root_keys", &old).run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let first = refreshed(server, &ann.refresh_token).await?;
        let other = async |keys: &str| {
            let mut settings = server.settings.clone();
            settings.set("secrets.root_keys", keys);
            let config = service_testkit::server::config(&settings)?;
            let running = service_server::server::Server::start(config, server.app.clock.clone()).await?;
            let http = service_testkit::response::TestClient::new(
                format!("http://{}", running.address),
                server.leaks.clone(),
            )?;
            anyhow::Ok((running, http))
        };
        let (running, http) = other(&format!("{new},{old}")).await?;
        // A lost answer is repeated byte for byte, although another key is in use by now.
        let repeated = signed_in(&http.post("/oauth/token", &refresh_body(&ann.refresh_token)).await?)?;
        assert_eq!(repeated.refresh_token, first.refresh_token);
        let second = signed_in(&http.post("/oauth/token", &refresh_body(&first.refresh_token)).await?)?;
        // A node that does not have the new key yet cannot know; it must not say that the token is worthless.
        let response = server.refresh(&second.refresh_token).await?;
        assert_eq!((response.status.as_u16(), response.error()), (503, "temporarily_unavailable"));
        signed_in(&http.post("/oauth/token", &refresh_body(&second.refresh_token)).await?)?;
        running.stop().await;
        // Without the old key its tokens are strangers'.
        server.sql("delete from signing_keys").await?;
        let (running, http) = other(&new).await?;
        check_refused(&http.post("/oauth/token", &refresh_body(&ann.refresh_token)).await?, None);
        running.stop().await;
        Ok(())
    })
}
