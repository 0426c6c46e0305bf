//! An MCP client that slept: its own access token has expired, and is still enough to name its grant.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_rules::{bearer::Claims, lifetimes, signing::later};
use service_server::{flows::rotate_signing_keys, store, tokens::signing_keys};
use service_testkit::{
    server::{SignedIn, TestServer, with_server},
    settings::BASE_URL,
};

use crate::support::{
    access::{claims, signed},
    cli_tokens::{check, post},
    forge::Forge,
    mcp_tokens::{pair, refresh, taken},
    refresh::check_refused,
};

const DAY: i64 = 86_400;

async fn with_pair(server: &TestServer) -> Result<(SignedIn, SignedIn)> {
    let ann = server.sign_in("ann@acme.test", "read write").await?;
    let mcp = pair(server, &ann, &json!({})).await?;
    Ok((ann, mcp))
}

#[test]
fn a_pair_that_slept_refreshes_with_its_own_expired_token_rv_01() -> Result<()> {
    with_server(async |server| {
        let (ann, mcp) = with_pair(server).await?;
        server.advance(lifetimes::ACCESS_TOKEN_MCP + lifetimes::CLOCK_SKEW + 1);
        let next = taken(&refresh(server, &mcp.access_token, &mcp.refresh_token).await?)?;
        server.advance(20 * DAY);
        let later = taken(&refresh(server, &next.access_token, &next.refresh_token).await?)?;
        // It opens nothing else, and a session's own token stays strict.
        check(&server.http.get("/v1/whoami", Some(&next.access_token)).await?, 401, "invalid_token");
        let expired = refresh(server, &ann.access_token, &later.refresh_token).await?;
        check(&expired, 401, "invalid_token");
        assert_eq!(expired.body["details"]["reason"], "expired");
        Ok(())
    })
}

#[test]
fn the_expired_token_of_another_pair_refreshes_nothing_rv_01() -> Result<()> {
    with_server(async |server| {
        let (ann, mcp) = with_pair(server).await?;
        let other = pair(server, &ann, &json!({})).await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let bobs = pair(server, &bob, &json!({})).await?;
        server.advance(2 * DAY);
        for bearer in [&other.access_token, &bobs.access_token] {
            check_refused(&refresh(server, bearer, &mcp.refresh_token).await?, None);
        }
        // Signed by us, for MCP, expired, of this user: but not by this grant.
        let made_up = claims(server, ann.user_id, "read")?;
        let made_up =
            Claims { aud: format!("{BASE_URL}/mcp"), iat: made_up.iat - DAY, exp: made_up.iat - DAY, ..made_up };
        check_refused(&refresh(server, &signed(server, &made_up)?, &mcp.refresh_token).await?, None);
        taken(&refresh(server, &mcp.access_token, &mcp.refresh_token).await?).map(drop)
    })
}

#[test]
fn a_revoked_pair_is_refused_whether_its_token_has_expired_or_not_rv_01() -> Result<()> {
    with_server(async |server| {
        let (ann, mcp) = with_pair(server).await?;
        let path = format!("/v1/sessions/{}", mcp.grant_id);
        let request = server.http.request(Method::DELETE, &path).bearer_auth(&ann.access_token);
        assert_eq!(server.http.send(request).await?.status, 204);
        check(&refresh(server, &mcp.access_token, &mcp.refresh_token).await?, 401, "invalid_token");
        // When no node remembers the revocation any more, the grant's own row does.
        server.advance(2 * DAY);
        server.sql("delete from revocations").await?;
        let refused = refresh(server, &mcp.access_token, &mcp.refresh_token).await?;
        assert!(matches!(refused.status.as_u16(), 400 | 401), "{}", refused.text);
        assert_eq!(refused.body["details"]["reason"], "revoked_by_user");
        check(
            &post(server, "/v1/mcp/tokens/refresh", "garbage", &json!({ "refresh_token": "x" })).await?,
            401,
            "invalid_token",
        );
        Ok(())
    })
}

/// Lets another key follow, and time pass until the first one is retired; returns the first one's id.
async fn followed(server: &TestServer) -> Result<String> {
    let first = Forge::of(server).await?.kid;
    rotate_signing_keys::rotate(&server.app).await?;
    server.advance(DAY);
    server.app.reload_signing_keys().await?;
    let published = server.http.get("/.well-known/jwks.json", None).await?;
    assert!(!published.text.contains(&first), "a retired key is published");
    Ok(first)
}

#[test]
fn the_token_of_a_key_that_was_followed_still_names_its_pair_rv_01() -> Result<()> {
    with_server(async |server| {
        let (_, mcp) = with_pair(server).await?;
        followed(server).await?;
        let bearer = mcp.access_token.clone();
        check(&server.http.get("/v1/whoami", Some(&bearer)).await?, 401, "invalid_token");
        let next = taken(&refresh(server, &bearer, &mcp.refresh_token).await?)?;
        // Housekeeping forgets the private half after a month, the public half after a year.
        server.advance(25 * DAY);
        taken(&refresh(server, &next.access_token, &next.refresh_token).await?).map(drop)
    })
}

#[test]
fn housekeeping_keeps_public_halves_for_a_year_and_private_ones_for_a_month_rv_01() -> Result<()> {
    with_server(async |server| {
        let (_, mcp) = with_pair(server).await?;
        let first = followed(server).await?;
        let age = async |days: i64| -> Result<()> {
            let db = server.app.database.connect().await?;
            let keys = store::signing_keys::list(&db).await?;
            let mut key = keys.into_iter().find(|key| key.kid == first).context("no such key")?;
            key.schedule.retired_at = key.schedule.retired_at.map(|at| later(at, -days * DAY));
            key.version += 1;
            signing_keys::authenticate(&server.app.root_keys, &mut key);
            ensure!(store::signing_keys::update(&db, &key, key.version - 1).await?, "the key was not changed");
            Ok(())
        };
        let erase = async || {
            let before = later(server.now(), -lifetimes::RETIRED_PRIVATE_KEY);
            rotate_signing_keys::erase_private_keys(&server.app, before).await
        };
        let halves = format!("select length(sealed) > 0 from signing_keys where kid = '{first}'");
        // The rows are made older instead of the clock being turned, which housekeeping would not believe.
        age(29).await?;
        erase().await?;
        assert_eq!(server.sql(&halves).await?.as_deref(), Some("t"));
        age(2).await?;
        erase().await?;
        assert_eq!(server.sql(&halves).await?.as_deref(), Some("f"));
        server.app.reload_signing_keys().await?;
        taken(&refresh(server, &mcp.access_token, &mcp.refresh_token).await?).map(drop)
    })
}

#[test]
fn the_token_of_a_key_that_was_retired_by_hand_names_nothing_rv_01() -> Result<()> {
    with_server(async |server| {
        let (_, mcp) = with_pair(server).await?;
        let first = followed(server).await?;
        rotate_signing_keys::retire(&server.app, &first).await?;
        check(&refresh(server, &mcp.access_token, &mcp.refresh_token).await?, 401, "invalid_token");
        // Also when no node remembers the revocation of the key any more.
        server.advance(DAY);
        server.sql("delete from revocations").await?;
        server.app.reload_signing_keys().await?;
        check(&refresh(server, &mcp.access_token, &mcp.refresh_token).await?, 401, "invalid_token");
        Ok(())
    })
}
