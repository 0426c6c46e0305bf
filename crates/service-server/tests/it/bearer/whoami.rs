//! `GET /v1/whoami` answers for exactly the token and the space of its request, although nodes keep responses.

use anyhow::{Context as _, Result};
use service_api::workspaces::Role;
use service_testkit::server::with_server;

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
