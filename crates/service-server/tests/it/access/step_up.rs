//! Actions that need a recent sign-in, and how one is had.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::json;
use service_api::{
    endpoints::{self, Access},
    workspaces::Role,
};
use service_rules::{bearer::Claims, lifetimes};
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, signed_in, with_server},
    tab::Tab,
};

use crate::support::step_up::{auth_time, check_stale};
use crate::support::{
    access::{call_at, claims, signed},
    authorize::{VERIFIER, agree, asking, code, exchange},
    cli_tokens::{make, post},
    refresh::refreshed,
};

#[test]
fn exactly_what_the_table_names_needs_a_recent_sign_in_rv_06() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        server.keep_account(ann.user_id).await?;
        let mut cells = 0;
        for (age, stale) in [(0, false), (lifetimes::RECENT_SIGN_IN, false), (1, true)] {
            server.advance(age);
            let token = signed(server, &Claims { grant: ann.grant_id, ..claims(server, ann.user_id, "read write")? })?;
            for endpoint in endpoints::ALL {
                let recent = match endpoint.access {
                    Access::RecentSignIn(_) | Access::RecentSignInForOwners(_) => true,
                    Access::AnyToken | Access::Bearer(_) | Access::Owner(_) | Access::SignedIn(_) => false,
                    _ => continue,
                };
                let response = call_at(server, endpoint, "", Some(&token)).await?;
                let cell = format!("{} {} stale: {stale}", endpoint.method.as_str(), endpoint.path);
                if recent && stale {
                    check_stale(&response, &cell);
                } else {
                    assert!(!matches!(response.status.as_u16(), 401 | 403 | 405 | 500..), "{cell}: {}", response.text);
                }
                cells += 1;
            }
        }
        println!("{cells} cells of endpoints and ages of sign-ins checked");
        Ok(())
    })
}

async fn change(server: &TestServer, method: Method, path: &str, by: &str, role: &str) -> Result<TestResponse> {
    let body = json!({ "role": role, "email": "zoe@acme.test" });
    let body = if method == Method::PATCH { json!({ "role": role }) } else { body };
    server.http.send(server.http.request(method, path).bearer_auth(by).json(&body)).await
}

#[test]
fn a_stale_session_makes_members_but_no_owners_rv_06() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner), (bob.user_id, Role::Member)]).await?;
        server.advance(lifetimes::RECENT_SIGN_IN + 1);
        let stale = refreshed(server, &ann.refresh_token).await?.access_token;
        let (member, invitations) =
            (format!("/v1/workspaces/{acme}/members/{}", bob.user_id), format!("/v1/workspaces/{acme}/invitations"));
        check_stale(&change(server, Method::PATCH, &member, &stale, "owner").await?, "promoting");
        check_stale(&change(server, Method::POST, &invitations, &stale, "owner").await?, "inviting an owner");
        assert_eq!(change(server, Method::PATCH, &member, &stale, "viewer").await?.status, 200);
        assert_eq!(change(server, Method::POST, &invitations, &stale, "member").await?.status, 201);
        let path = format!("/v1/workspaces/{acme}");
        let delete = |token: &str| server.http.send(server.http.request(Method::DELETE, &path).bearer_auth(token));
        check_stale(&delete(&stale).await?, "deleting");
        let fresh = server.sign_in("ann@acme.test", "read write").await?.access_token;
        assert_eq!(change(server, Method::PATCH, &member, &fresh, "owner").await?.status, 200);
        assert_eq!(delete(&fresh).await?.status, 204);
        Ok(())
    })
}

#[test]
fn refreshing_renews_no_sign_in_and_a_pair_inherits_its_makers_rv_06() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let proved = auth_time(server, &ann).await?;
        assert_eq!(proved, server.now().as_second().to_string());
        server.advance(600);
        let next = refreshed(server, &ann.refresh_token).await?;
        assert_eq!(auth_time(server, &next).await?, proved);
        let (id, _) = make(server, &next, &json!({})).await?;
        let pair = post(server, "/v1/mcp/tokens", &next.access_token, &json!({})).await?;
        let mut pair_answer = pair.clone();
        pair_answer.status = reqwest::StatusCode::OK;
        assert_eq!(auth_time(server, &signed_in(&pair_answer)?).await?, proved);
        server.advance(301);
        let stale = refreshed(server, &next.refresh_token).await?.access_token;
        for (path, body) in [
            ("/v1/cli/tokens".to_owned(), json!({})),
            (format!("/v1/cli/tokens/{id}/rotate"), json!({})),
            ("/v1/mcp/tokens".to_owned(), json!({})),
        ] {
            check_stale(&post(server, &path, &stale, &body).await?, &path);
        }
        // Revoking and signing out never need it.
        let revoke = server.http.request(Method::DELETE, &format!("/v1/cli/tokens/{id}")).bearer_auth(&stale);
        assert_eq!(server.http.send(revoke).await?.status, 204);
        Ok(())
    })
}

const LOOPBACK: &str = "http://127.0.0.1:5000/callback";

/// Signs the command line in through a browser, in which `sign_in` may have to be done; `None`: it need not.
async fn by_browser(server: &TestServer, tab: &Tab, more: &[(&str, &str)], email: &str) -> Result<(bool, SignedIn)> {
    let mut parameters = vec![("redirect_uri", LOOPBACK), ("scope", "read write")];
    parameters.extend_from_slice(more);
    let begun = tab.get(&asking("service-cli", &parameters)).await?;
    let asked = begun.next()?.starts_with("/sign-in/");
    let shown = if asked { tab.sign_in(&server.mailbox, begun.next()?, email).await? } else { begun };
    let done = agree(tab, shown, &[("space", "personal")]).await?;
    let mut body = exchange("service-cli", &code(&done)?);
    body["redirect_uri"] = LOOPBACK.into();
    body["code_verifier"] = VERIFIER.into();
    Ok((asked, signed_in(&server.http.post("/oauth/token", &body).await?)?))
}

#[test]
fn a_browser_lends_the_moment_its_person_signed_in_and_max_age_asks_again_rv_06() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let (asked, first) = by_browser(server, &tab, &[], "ann@acme.test").await?;
        assert!(asked);
        make(server, &first, &json!({})).await?;
        server.advance(lifetimes::RECENT_SIGN_IN + 1);
        // The browser still knows her, so a new grant is no newer sign-in.
        let (asked, second) = by_browser(server, &tab, &[], "ann@acme.test").await?;
        assert!(!asked);
        assert_ne!(second.grant_id, first.grant_id);
        assert_eq!(auth_time(server, &second).await?, auth_time(server, &first).await?);
        check_stale(
            &post(server, "/v1/cli/tokens", &second.access_token, &json!({})).await?,
            "as old as the browser's",
        );
        let step_up = [("max_age", "900"), ("login_hint", "ann@acme.test")];
        let (asked, third) = by_browser(server, &tab, &step_up, "ann@acme.test").await?;
        assert!(asked, "max_age asks for a new sign-in");
        assert_ne!(third.grant_id, second.grant_id);
        make(server, &third, &json!({})).await?;
        // No existing grant is any fresher for it.
        check_stale(&post(server, "/v1/cli/tokens", &second.access_token, &json!({})).await?, "the grant before");
        Ok(())
    })
}

#[test]
fn a_login_hint_of_another_user_is_filled_in_and_asks_for_a_sign_in_rv_06() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        by_browser(server, &tab, &[], "ann@acme.test").await?;
        server.advance(1);
        let hinted = asking("service-cli", &[("redirect_uri", LOOPBACK), ("login_hint", "bob@acme.test")]);
        let begun = tab.get(&hinted).await?;
        let path = begun.next()?.to_owned();
        assert!(path.starts_with("/sign-in/"), "the signed-in user was taken for another user: {path}");
        let page = tab.get(&path).await?;
        assert!(page.text.contains("value=\"bob@acme.test\""), "{}", page.text);
        // A user who signs in as another user after all is not asked again and again.
        let shown = tab.sign_in(&server.mailbox, &path, "zoe@acme.test").await?;
        shown.next()?.starts_with("/consent/").then_some(()).context("asked again")
    })
}
