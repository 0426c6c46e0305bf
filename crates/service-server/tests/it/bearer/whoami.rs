//! `GET /v1/whoami` answers for exactly the token and the space of its request, although nodes keep responses.

use anyhow::{Context as _, Result};
use service_api::workspaces::Role;
use service_testkit::server::{Setup, with_server};

#[test]
fn each_token_and_each_space_has_its_own_response() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?;
        server.advance(60);
        // A later token of the same session: only its times differ.
        let refreshed = server.refresh(&ann.refresh_token).await?;
        let tokens = [ann.access_token.as_str(), refreshed.field("access_token"), bob.access_token.as_str()];
        let mut seen = Vec::new();
        for token in tokens {
            let show =
                async |space: &str| server.http.get(&format!("/v1/whoami?workspaceId={space}"), Some(token)).await;
            for space in ["personal".to_owned(), acme.to_string()] {
                seen.push((token, space.clone(), show(&space).await?.body));
            }
        }
        let field = |place: usize, group: &str, name: &str| seen.get(place).map(|(.., body)| body[group][name].clone());
        assert_eq!(field(0, "space", "scope").context("no response")?, "personal");
        assert_eq!(field(1, "space", "workspaceId").context("no response")?, acme.to_string());
        assert_eq!(field(0, "credential", "id"), field(2, "credential", "id"), "another session");
        assert_ne!(field(0, "credential", "expiresAt"), field(2, "credential", "expiresAt"));
        assert_eq!(field(4, "user", "email").context("no response")?, "bob@acme.test");
        // In any order, and from the cache.
        for (token, space, body) in seen.iter().rev().chain(&seen).chain(&seen) {
            let again = server.http.get(&format!("/v1/whoami?workspaceId={space}"), Some(token)).await?;
            // Each error has the id of its request.
            if again.status == 200 {
                assert_eq!(again.body, *body, "{space}");
            } else {
                assert_eq!((again.status.as_u16(), &again.body["error"]), (404, &body["error"]), "{space}");
            }
        }
        Ok(())
    })
}

#[test]
fn an_address_that_a_node_knows_is_shown_while_the_database_is_away() -> Result<()> {
    Setup::default().set("database.deadline_seconds", "1").run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let shown = async || -> Result<(u16, String)> {
            let shown = server.http.get("/v1/whoami", Some(&ann.access_token)).await?;
            Ok((shown.status.as_u16(), shown.body["user"]["email"].as_str().unwrap_or_default().to_owned()))
        };
        let before = (200, "ann@acme.test".to_owned());
        assert_eq!(shown().await?, before);
        // A node reads an address again after a minute.
        server.advance(61);
        let held = server.app.background_database.begin().await?;
        held.execute("lock table users in access exclusive mode", &[]).await?;
        assert_eq!(shown().await?, before);
        drop(held);
        server.sql("update users set email = 'ann.lee@acme.test'").await?;
        assert_eq!(shown().await?, before, "the node tried again at once");
        server.advance(6);
        assert_eq!(shown().await?, (200, "ann.lee@acme.test".to_owned()));
        Ok(())
    })
}
